/* health: serves the page for GET /healthz, which shows whether a server is healthy, its round, and
 * whether the other server is connected.
 *
 *     {"role":"aggregator","healthy":true,"csp":true,"phase":"collecting","round":3,
 *      "rounds":40,"task":"...","name":"notes","paused":false,"arrived":3,"need":5,"most":10,
 *      "deadline_at":1790000000,"last_round":2,"last_outcome":"released",
 *      "perplexity":41.5,"perplexity_round":2,...}
 *     {"role":"csp","healthy":true,"aggregator":false,"phase":"signed","round":3,
 *      "rounds":40,"task":"...","name":"notes","paused":false}
 *
 * The status is 200 if the server is healthy, 503 if not. AS is healthy while the link to CSP is
 * up, since no round begins or ends without CSP, once the task is over, and while it has none. CSP
 * is healthy while it runs; it waits for AS to dial, and the page shows whether AS is connected.
 * Neither is healthy while its database does not answer ("database_away_since":1790000000); the
 * page then shows what was true before.
 * The page shows only public facts (the task, its round) and nothing about a single client; it
 * leaves out the number of arrived updates if the task does not publish counts. The
 * setting `health` is a loopback address (net/local_http.h explains why), or empty for no page.
 * Threads: any thread may call health_write.   Secrets: none. */
#ifndef ROLES_HEALTH_H
#define ROLES_HEALTH_H

#include "config/address.h"
#include "config/settings.h"
#include "net/local_http.h"
#include "protocol/task.h"
#include "report/server_view.h"

/* Serves these pages, /healthz among them; *out is NULL if the setting is empty. */
sefl_status health_start(local_http **out, const host_port *a, const local_page *pages,
                         size_t pages_n, void *ctx, sefl_log *log) SEFL_MUST_CHECK;

/* Checks the value of the setting `health`: empty, or a loopback address. */
sefl_status health_check(const host_port *a, const settings *s) SEFL_MUST_CHECK;

#define HEALTH_NO_TASK "no task" /* a phase of both servers */

/* Sets what the task says: facts, claim, need, counts, values. */
void health_task(server_view *v, const task *t);
/* Sets that the database does not answer since then; 0 changes nothing. */
void health_away(server_view *v, uint64_t since);

/* Appends the page and sets *status to 200 or 503. */
sefl_status health_write(sefl_buf *out, unsigned *status, const server_view *v) SEFL_MUST_CHECK;

/* What a reader of a page learns (`sefl status`). A number that the page does not have is 0, or NAN
 * if it is a double; a missing text is "". */
typedef struct health_facts {
    char role[16], phase[160], name[80], task[65], why[128], last_outcome[16];
    bool healthy, peer_is_there, paused, pausing, ending;
    bool hides_count; /* the number of updates must stay unknown: no round closes because of it */
    bool has_arrived, has_queue;
    uint64_t round, rounds, arrived, need, most, closes_at, waits, left_out, extensions,
        deadline_at, last_round, queued;
    uint64_t perplexity_round, control, database_away_since;
    double perplexity, epsilon_server, epsilon_others, epsilon_target;
} health_facts;

/* Reads a page, at most HEALTH_MAX bytes. Skips members that it does not know and cuts long texts;
 * texts may contain any UTF-8. SEFL_EPROTO if it is not a page. */
enum { HEALTH_MAX = 65536 };
sefl_status health_read(health_facts *out, sefl_span page) SEFL_MUST_CHECK;

#endif

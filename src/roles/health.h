/* health: serves the page for GET /healthz, which shows whether a server is healthy, its round, and
 * whether the other server is connected.
 *
 *     {"role":"aggregator","healthy":true,"csp":true,"phase":"collecting","round":3,
 *      "rounds":40,"task":"..."}
 *     {"role":"csp","healthy":true,"aggregator":false,"phase":"signed","round":3,
 *      "rounds":40,"task":"..."}
 *
 * The status is 200 if the server is healthy, 503 if not. AS is healthy while the link to CSP is
 * up, since no round begins or ends without CSP, once the task is over, and while it has none. CSP
 * is healthy while it runs; it waits for AS to dial, and the page shows whether AS is connected.
 * The page shows only public facts (the task, its round) and nothing about a single client. The
 * setting `health` is a loopback address (net/local_http.h explains why), or empty for no page.
 * Threads: any thread may call health_write.   Secrets: none. */
#ifndef ROLES_HEALTH_H
#define ROLES_HEALTH_H

#include "config/address.h"
#include "config/settings.h"
#include "net/local_http.h"
#include "protocol/task.h"

/* Serves these pages, /healthz among them; *out is NULL if the setting is empty. */
sefl_status health_start(local_http **out, const host_port *a, const local_page *pages,
                         size_t pages_n, void *ctx, sefl_log *log) SEFL_MUST_CHECK;

/* Checks the value of the setting `health`: empty, or a loopback address. */
sefl_status health_check(const host_port *a, const settings *s) SEFL_MUST_CHECK;

typedef struct health_news {
    const char *role, *peer; /* our role and the other server's */
    bool healthy, peer_is_there;
    const char *phase;
    uint64_t round;   /* 0: none yet */
    const task *task; /* NULL: no task now */
} health_news;

#define HEALTH_NO_TASK "no task" /* a phase of both servers */

/* Appends the page and sets *status to 200 or 503. */
sefl_status health_write(sefl_buf *out, unsigned *status, const health_news *n) SEFL_MUST_CHECK;

#endif

/* server_view: what a server knows about itself and its run now. The server collects it once; the
 * web page, /healthz with status.json (roles/health.h) and /metrics (roles/monitor.h) each write
 * their part of it.
 *
 *     server_view s = server_view_none();               // every number is NAN (unknown)
 *     s.role = "aggregator", s.round = 3, s.arrived = 17;
 *     SEFL_TRY(server_view_write(&out, &s));           // {"role":"aggregator","round":{...},...}
 *
 * server_view_write is the page's writer: one object of at most STATE_BYTES. It omits what is
 * unknown. docs/OPERATING.md lists the members. All numbers are about the
 * run or a round as a whole; the only names are those of sites that a round waits for, or not.
 * Threads: any; these are plain values.   Secrets: none. */
#ifndef REPORT_SERVER_VIEW_H
#define REPORT_SERVER_VIEW_H

#include "report/run_log.h"

#include <stdbool.h>

enum { STATE_BYTES = 64 << 10 };

typedef enum view_known { VIEW_UNKNOWN, VIEW_NO, VIEW_YES } view_known;

static inline view_known view_yes(bool yes)
{
    return yes ? VIEW_YES : VIEW_NO;
}

/* Sites that the open round waits for, or does not wait for any more. */
enum { VIEW_SITES = 8, VIEW_SITE_NAME = 65 };
typedef struct view_site {
    char name[VIEW_SITE_NAME];
    bool asked;      /* it has asked for news of this round */
    bool revoked;    /* its certificate is */
    uint32_t missed; /* latest rounds without an update of it */
} view_site;
typedef struct view_sites {
    view_site at[VIEW_SITES];
    uint32_t named, all; /* in `at`; in all */
} view_sites;

typedef struct server_view {
    const char *role, *phase; /* phase may be NULL */
    const char *peer;         /* the role of the other server; NULL: none */
    bool peer_is_there;       /* it is connected */
    const char *crypto;       /* a simulation's: clear or full; NULL: none */
    view_known healthy, paused, ending;
    bool pausing;         /* once this round is over */
    const char *why;      /* why it is paused or over, or not healthy; NULL: it is not */
    const char *trouble;  /* what fails now: the page then says that it is not healthy */
    double database_away; /* its database does not answer since then, Unix time */
    uint64_t control;     /* id of the operator's order that it obeys (roles/control.h); 0: none */
    bool has_queue;       /* it has a folder of tasks, ... */
    uint64_t queued;      /* ... and these wait in it */

    run_facts facts;   /* the task; !known: none */
    double need;       /* clients without which a round is skipped */
    double values;     /* for which a round needs noise shares; 0: none */
    bool shows_count;  /* the task publishes how many take part */
    bool hides_count;  /* ... or no round may close because of it (agg_may_close) */
    run_line measured; /* AS: the latest round of this process with a perplexity; round 0: none */
    run_line latest;   /* AS: the latest round of this process; round 0: none */

    uint64_t round;                            /* the current one; 0: none */
    bool open;                                 /* it collects updates; the next three are known */
    double closes_at, extensions, deadline_at; /* closes_at 0: at its deadline */
    double arrived, most, asked, refused, late, opened_at;
    bool collects, sites; /* `waits` is known; `left` is */
    view_sites waits, left;

    double rounds_left, seconds_left; /* until the projected end */

    view_known claimed; /* differential privacy; the next four only if YES */
    double epsilon_server, epsilon_others, epsilon_target, delta;
    double rounds_to_target; /* rounds that the budget still allows */

    view_known csp; /* connected */
    double csp_since;
    char csp_error[160]; /* "": none */

    view_known making; /* noise shares; the next two only if known */
    double rounds_ready, lanes;

    view_known ledgers_agree; /* CSP: at the last comparison */
    double ledger_rounds;     /* charged rounds of this task */
    char ledgers_compared[160];

    run_line last;                    /* round 0: none */
    run_totals totals;                /* rounds 0: none */
    bool model, report, ledger, grid; /* which of them the page offers */
} server_view;

server_view server_view_none(void);
/* Takes the totals, the last round and the facts from a run's log, and projects the end of the task
 * from the duration of its last rounds. Keeps facts that are already known. */
void server_view_log(server_view *s, const run_view *v);
sefl_status server_view_write(sefl_buf *out, const server_view *s) SEFL_MUST_CHECK;

#endif

/* state: what the page shows about a run now, as one JSON object of at most STATE_BYTES.
 *
 *     server_view s = server_view_none();               // every number is NAN (unknown)
 *     s.role = "aggregator", s.round = 3, s.arrived = 17;
 *     SEFL_TRY(server_view_write(&out, &s));           // {"role":"aggregator","round":{...},...}
 *
 * The writer omits what is unknown. docs/OPERATING.md lists the members. All numbers are about the
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
    const char *crypto;       /* a simulation's: clear or full; NULL: none */
    view_known healthy, paused, ending;
    const char *why;      /* why it is not healthy; NULL: its log says why */
    double database_away; /* its database does not answer since then, Unix time */
    run_facts facts;      /* the task; !known: none */
    double need;          /* clients without which a round is skipped */

    uint64_t round; /* the current one; 0: none */
    double arrived, most, asked, refused, late, opened_at, deadline_at;
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

/* state: what the page shows about a run now, as one JSON object of at most STATE_BYTES.
 *
 *     page_state s = page_state_none();               // every number is NAN (unknown)
 *     s.role = "aggregator", s.round = 3, s.arrived = 17;
 *     SEFL_TRY(page_state_write(&out, &s));           // {"role":"aggregator","round":{...},...}
 *
 * The writer omits what is unknown. docs/OPERATING.md lists the members. All numbers are about the
 * run or a round as a whole; the only names are those of sites that a round waits for, or not.
 * Threads: any; these are plain values.   Secrets: none. */
#ifndef PAGE_STATE_H
#define PAGE_STATE_H

#include "page/tail.h"

#include <stdbool.h>

enum { STATE_BYTES = 64 << 10 };

typedef enum page_known { PAGE_UNKNOWN, PAGE_NO, PAGE_YES } page_known;

static inline page_known page_yes(bool yes)
{
    return yes ? PAGE_YES : PAGE_NO;
}

/* Sites that the open round waits for, or does not wait for any more. */
enum { PAGE_SITES = 8, PAGE_SITE_NAME = 65 };
typedef struct page_site {
    char name[PAGE_SITE_NAME];
    bool asked;      /* it has asked for news of this round */
    bool revoked;    /* its certificate is */
    uint32_t missed; /* latest rounds without an update of it */
} page_site;
typedef struct page_sites {
    page_site at[PAGE_SITES];
    uint32_t named, all; /* in `at`; in all */
} page_sites;

typedef struct page_state {
    const char *role, *phase; /* phase may be NULL */
    const char *crypto;       /* a simulation's: clear or full; NULL: none */
    page_known healthy, paused, ending;
    const char *why;      /* why it is not healthy; NULL: its log says why */
    double database_away; /* its database does not answer since then, Unix time */
    run_facts facts;      /* the task; !known: none */
    double need;          /* clients without which a round is skipped */

    uint64_t round; /* the current one; 0: none */
    double arrived, most, asked, refused, late, opened_at, deadline_at;
    bool collects, sites; /* `waits` is known; `left` is */
    page_sites waits, left;

    double rounds_left, seconds_left; /* until the projected end */

    page_known claimed; /* differential privacy; the next four only if YES */
    double epsilon_server, epsilon_others, epsilon_target, delta;
    double rounds_to_target; /* rounds that the budget still allows */

    page_known csp; /* connected */
    double csp_since;
    char csp_error[160]; /* "": none */

    page_known making; /* noise shares; the next two only if known */
    double rounds_ready, lanes;

    page_known ledgers_agree; /* CSP: at the last comparison */
    double ledger_rounds;     /* charged rounds of this task */
    char ledgers_compared[160];

    run_line last;                    /* round 0: none */
    run_totals totals;                /* rounds 0: none */
    bool model, report, ledger, grid; /* which of them the page offers */
} page_state;

page_state page_state_none(void);
/* Takes the totals, the last round and the facts from a run's log, and projects the end of the task
 * from the duration of its last rounds. Keeps facts that are already known. */
void page_state_tail(page_state *s, const tail_view *v);
sefl_status page_state_write(sefl_buf *out, const page_state *s) SEFL_MUST_CHECK;

#endif

/* turnout: which clients took part in which round, for the AS operator's page.
 *
 *     SEFL_TRY(turnout_new(&t, journal, &task, log));            // with what earlier runs recorded
 *     turnout_open(t, 3);                                        // round 3 accepts uploads
 *     turnout_fetched(t, 3, client, name);                       // it downloaded the model
 *     turnout_upload(t, 3, client, name, INGEST_LATE, why);      // how its upload ended
 *     turnout_close(t, 3, TURNOUT_RELEASED);                     // the round is over: durable
 *     SEFL_TRY(turnout_grid(t, &out, &ask));                     // JSON for the page
 *     turnout_look(t, 3, list, &m);                              // whom does the round wait for?
 *
 * A cell is one letter: `a` arrived and counted, `l` late (or the round had enough clients), `d`
 * dropped (it fetched the model and sent nothing in time), `r` refused, `x` counted out by CSP's
 * verdict, `.` did not take part, and a space if nothing is known.
 *
 * The journal has one row per round and per client (store/journal/attendance.h). A round's row is
 * written when the round ends, and again when the next one ends if somebody was late in between. So
 * one round costs one or two small writes on the driver's thread, and an upload costs a lookup in
 * memory. A crash loses only who was late, refused or dropped in the open round; arrivals are
 * restored from the journal's uploads. The latest TURNOUT_ROUNDS rounds are kept. If the journal
 * cannot be read, AS passes NULL, which every function but turnout_grid accepts. Several processes
 * of one AS pass journals of their own (agg_page.c). Threads: any; calls lock internally. Memory:
 * about 160 bytes per client, and at most TURNOUT_CLIENTS clients; others are not shown. Secrets:
 * none, but who takes part is only for the operator of AS. */
#ifndef ROLES_AGGREGATOR_TURNOUT_H
#define ROLES_AGGREGATOR_TURNOUT_H

#include "page/page.h"
#include "report/server_view.h"
#include "roles/aggregator/ingest.h"
#include "store/journal/journal.h"
#include "trust/trust.h"

enum { TURNOUT_ROUNDS = 1000, TURNOUT_CLIENTS = 100000, TURNOUT_REASONS = 200 };
enum { TURNOUT_MISSED = 2 }; /* rounds in a row that a client misses before no round waits for it */

typedef struct turnout turnout;

/* Loads the records of this journal's task, which must outlive *out. */
sefl_status turnout_new(turnout **out, journal *j, const task *of, sefl_log *log) SEFL_MUST_CHECK;
void turnout_free(turnout *t);

/* The round begins, or goes on after a restart. Does nothing for a round that is open already. */
void turnout_open(turnout *t, uint64_t round);
/* The client has asked for news and learned that this round is open. True: the round did not wait
 * for it, and does now. */
bool turnout_told(turnout *t, uint64_t round, const uint8_t client[32], const char *name);
void turnout_fetched(turnout *t, uint64_t round, const uint8_t client[32], const char *name);
void turnout_upload(turnout *t, uint64_t round, const uint8_t client[32], const char *name,
                    ingest_end end, const char *why);
/* CSP counted this client out. */
void turnout_counted_out(turnout *t, uint64_t round, const uint8_t client[32], const char *why);
/* AS refused the connection of this client, if it is known, while the round was open. */
void turnout_barred(turnout *t, const uint8_t client[32], const char *why);

typedef enum turnout_end {
    TURNOUT_RELEASED,
    TURNOUT_SKIPPED,
    TURNOUT_CUT /* skipped before its deadline: by the operator, or CSP lost its key */
} turnout_end;
/* The round is over; a failed write is logged. No client has missed a round that was cut short, nor
 * one in which it has no turn (rounds.separation), nor any under sampling. */
void turnout_close(turnout *t, uint64_t round, turnout_end end);

typedef struct turnout_counts {
    uint32_t asked; /* clients that fetched the model or uploaded */
    uint32_t arrived, late, dropped, refused;
} turnout_counts;
/* Counts the clients of the open or the last round; zeros for any other. */
turnout_counts turnout_now(turnout *t, uint64_t round);

/* Whom the open round waits for. */
typedef struct turnout_missing {
    uint32_t expected; /* clients whose update the round has, or can count on */
    view_sites waits;  /* the latter */
    view_sites left;   /* clients that it does not wait for */
} turnout_missing;
/* A round does not wait for a client that the list (NULL: none) revokes, nor for one that has used
 * up rounds.max_per_client, nor for one whose turn it is not (rounds.separation), nor for one that
 * has missed two rounds in a row and has not asked for news of this one. Nor for one that asks and
 * asked in the two that it missed: for such a client a round waits again after it has missed 4, 8,
 * 16 ... of them. Sites that AS has not seen in this task count until two rounds are over that were
 * not cut short: those that the list names, if only listed clients may connect; otherwise as many
 * as are missing from the task's enrolled clients. Under sampling, nobody but the client knows
 * whether it was drawn, so `waits` is empty. Round 0 is the latest one; all is zero for any other
 * that is not open. */
void turnout_look(turnout *t, uint64_t round, const trust *list, turnout_missing *out);

/* Appends the object of /grid.json (page/page.h). */
sefl_status turnout_grid(turnout *t, sefl_buf *out, const page_grid_ask *ask) SEFL_MUST_CHECK;

#endif

/* shared: the tables of a round that several aggregators collect together in one PostgreSQL
 * database. roles/aggregator/share.h describes the whole design; this module has its statements.
 *
 *     SEFL_TRY(shared_open(j, &me));                  // my number; creates the tables once
 *     SEFL_TRY(shared_put(j, &rule, me, &update));    // the upload counts, or the reason
 *     SEFL_TRY(shared_freeze(j, round, lease_ms));    // the leader: one part per process
 *     SEFL_TRY(shared_part_take(j, round, me, lease_ms, &part, &found));
 *     SEFL_TRY(shared_part_done(j, &part, me, hash));
 *
 * Rules that the statements enforce, whatever a process believes
 *   1. An upload's row, its place and its slot become durable in one statement, which also holds
 *      the round's row against a change: no row enters a round that is not collecting.
 *   2. A round has at most `most` rows. A process gets slots in advance (quota.granted) and uses
 *      one per row (quota.used). A process that finds no slot takes back the unused slots of all
 *      others, so a dead process never wastes any.
 *   3. The uploads of one process in one round have the places 1, 2, 3, ...: `used` is their
 *      number, and the sum of all `used` is the number of rows of the round.
 *   4. A client has one row per round, and a body occurs once per task.
 *   5. A part is done once: the first result that is stored stays.
 *
 * If the journal has a guard (lease.h), each of these writes checks it, as those of journal.h do.
 * Threads: as in journal.h.   Secrets: none. */
#ifndef STORE_JOURNAL_SHARED_H
#define STORE_JOURNAL_SHARED_H

#include "store/journal/journal.h"

/* Creates what is missing, and draws a number for this process that no other process ever had. The
 * number names the process's folder of bodies and its rows. */
sefl_status shared_open(journal *j, uint64_t *me) SEFL_MUST_CHECK;

/* ---- uploads --------------------------------------------------------------------------------- */

typedef struct shared_rule {
    unsigned collecting; /* the state of a round's row that accepts uploads */
    uint64_t most;       /* maximum number of uploads of a round */
    uint64_t ahead;      /* number of slots that a process gets at once, at least 1 */
} shared_rule;

/* Records an update whose body is durable. SEFL_EEXIST: this client has one in this round, or the
 * task has this body; SEFL_ESTATE: the round does not accept uploads; SEFL_ERANGE: it is full.
 * After any other failure the row may be there. */
sefl_status shared_put(journal *j, const shared_rule *r, uint64_t me,
                       const journal_update *u) SEFL_MUST_CHECK;

/* What the store knows about a client and a body, in one query. */
typedef struct shared_known {
    bool have;        /* an update of this client in this round: */
    uint8_t body[32]; /* its body, */
    uint64_t bytes;   /* and its size */
    uint64_t rounds;  /* as journal_client_rounds, */
    uint64_t last;    /* which also gives the latest of them */
    bool copied;      /* the task has this body, from another client or round */
} shared_known;
sefl_status shared_know(journal *j, uint64_t round, const uint8_t client[32],
                        const uint8_t body[32], shared_known *out) SEFL_MUST_CHECK;

/* Sets *out to the number of uploads of a round. */
sefl_status shared_count(journal *j, uint64_t round, uint32_t *out) SEFL_MUST_CHECK;
/* Calls fn for each process that has uploads in the round. */
typedef sefl_status shared_holder_fn(void *ctx, uint64_t holder, uint64_t uploads);
sefl_status shared_holders(journal *j, uint64_t round, shared_holder_fn *fn,
                           void *ctx) SEFL_MUST_CHECK;
/* Calls fn for the uploads of one process after place `after`, in order; holder 0: those of all
 * processes, sorted by client. */
typedef sefl_status shared_upload_fn(void *ctx, uint64_t holder, const uint8_t client[32],
                                     const uint8_t body[32]);
sefl_status shared_uploads(journal *j, uint64_t round, uint64_t holder, uint64_t after,
                           shared_upload_fn *fn, void *ctx) SEFL_MUST_CHECK;

/* ---- partial sums ---------------------------------------------------------------------------- */

typedef struct shared_part {
    uint64_t round, holder; /* the sum of the uploads that this process took */
    uint64_t uploads;
    uint64_t maker; /* the process that made it, which names the file; 0: not done */
    uint64_t failures;
    uint8_t hash[SHA256_BYTES];
} shared_part;

/* The leader, once the round is closed: one part per process with uploads, at first leased to that
 * process. Repeating it changes nothing. */
sefl_status shared_freeze(journal *j, uint64_t round, uint64_t lease_ms) SEFL_MUST_CHECK;
/* Leases a part that is not done: our own, or one whose lease has expired. */
sefl_status shared_part_take(journal *j, uint64_t round, uint64_t me, uint64_t lease_ms,
                             shared_part *out, bool *found) SEFL_MUST_CHECK;
/* Extends the lease; *still is false if the part is done or leased to another process. */
sefl_status shared_part_renew(journal *j, const shared_part *p, uint64_t me, uint64_t lease_ms,
                              bool *still) SEFL_MUST_CHECK;
/* The file is durable. Does nothing if the part is done already. */
sefl_status shared_part_done(journal *j, const shared_part *p, uint64_t me,
                             const uint8_t hash[SHA256_BYTES]) SEFL_MUST_CHECK;
/* A body is unreadable here: counts that, and lets any process try next. */
sefl_status shared_part_failed(journal *j, const shared_part *p, uint64_t me) SEFL_MUST_CHECK;
/* The file of a done part is unreadable: it has to be made again. */
sefl_status shared_part_again(journal *j, const shared_part *p) SEFL_MUST_CHECK;
typedef sefl_status shared_part_fn(void *ctx, const shared_part *p);
sefl_status shared_parts(journal *j, uint64_t round, shared_part_fn *fn, void *ctx) SEFL_MUST_CHECK;
/* Forgets the parts and slots of every round up to this one. */
sefl_status shared_forget(journal *j, uint64_t round) SEFL_MUST_CHECK;

/* ---- questions to the leader ----------------------------------------------------------------- */

/* A request that only the leader can answer, because it has the link to CSP. */
sefl_status shared_ask(journal *j, unsigned kind, sefl_span bytes, uint64_t wait_ms,
                       uint64_t *id) SEFL_MUST_CHECK;
/* *done: the leader has answered; deletes the request then. */
sefl_status shared_answered(journal *j, uint64_t id, bool *done, unsigned *status,
                            sefl_buf *answer) SEFL_MUST_CHECK;
/* The leader: takes the oldest unanswered request after `after`; *id is 0 if there is none. */
sefl_status shared_asked(journal *j, uint64_t after, uint64_t *id, unsigned *kind,
                         sefl_buf *bytes) SEFL_MUST_CHECK;
sefl_status shared_answer(journal *j, uint64_t id, unsigned status,
                          sefl_span answer) SEFL_MUST_CHECK;

#endif

/* attendance: three tables of a journal's database: which clients took part in which round.
 * roles/aggregator/turnout.h decides what it means; this module has its statements.
 *
 *     attendee(task, number, client, name)            the clients, by their number from 0
 *     attendance(task, round, ended, fates)           one letter per client, by its number
 *     attendance_why(task, round, client, why)        reasons
 *
 * A round is one row: a row per client would make 10,000 inserts of each release (40 ms, and 60
 * rounds of them took 600 ms to count).
 * Threads: as in journal.h.   Secrets: none. */
#ifndef STORE_JOURNAL_ATTENDANCE_H
#define STORE_JOURNAL_ATTENDANCE_H

#include "store/journal/journal.h"

/* Adds a client; SEFL_EEXIST if its number is taken. */
sefl_status attendance_client_put(journal *j, uint64_t number, const uint8_t client[32],
                                  const char *name) SEFL_MUST_CHECK;
/* Calls fn for each client of the task, by number. */
typedef sefl_status attendance_client_fn(void *ctx, uint64_t number, const uint8_t client[32],
                                         const char *name);
sefl_status attendance_clients(journal *j, attendance_client_fn *fn, void *ctx) SEFL_MUST_CHECK;

typedef struct attendance {
    uint64_t round;
    unsigned ended;  /* the caller's own number */
    sefl_span fates; /* letters; valid until the function that gets them returns */
} attendance;

/* Inserts or replaces a round, and deletes its reasons. */
sefl_status attendance_put(journal *j, const attendance *a) SEFL_MUST_CHECK;
sefl_status attendance_why_put(journal *j, uint64_t round, uint64_t client,
                               const char *why) SEFL_MUST_CHECK;
/* Deletes every round up to this one. */
sefl_status attendance_forget(journal *j, uint64_t round) SEFL_MUST_CHECK;

/* Call fn for the rounds from .. to in order, and for their reasons. The journal is locked
 * meanwhile. */
typedef sefl_status attendance_fn(void *ctx, const attendance *a);
sefl_status attendance_rounds(journal *j, uint64_t from, uint64_t to, attendance_fn *fn,
                              void *ctx) SEFL_MUST_CHECK;
typedef sefl_status attendance_why_fn(void *ctx, uint64_t round, uint64_t client, sefl_span why);
sefl_status attendance_whys(journal *j, uint64_t from, uint64_t to, attendance_why_fn *fn,
                            void *ctx) SEFL_MUST_CHECK;

#endif

/* history: a server's memory of earlier rounds, for correlated noise (mpc/noise/noise_filter.h).
 *
 * Each server stores one record HISTORY per round:
 *
 *     id 32 of the reveal (protocol/link.h), then 8 bytes per value, little-endian
 *
 * A round may take back noise of the b rounds before it. Both servers must leave out the same ones:
 * AS's statement lists the rounds whose record AS has, with their ids; CSP answers GO with those
 * that it has too, under the same id. A record that is missing, damaged or of another reveal is
 * left out, never replaced: leaving out is safe (docs/PRIVACY.md, section 11).
 *
 *     SEFL_TRY(history_load(&h, t, round, &fresh, get, ctx));   // what is there
 *     history_only(&h, lags);                                   // what both have
 *     SEFL_TRY(history_begin(&h, t, id));                       // what to take back
 *     ... = history_memory(&h) ...                              // becomes the new record
 *     history_take(&fresh, &h, round, attempt);                 // the reveal is done
 *     history_clear(&h);
 *
 * Losing a record is safe, so neither server stores it between the close of a round and its
 * release: the new record is `fresh` in memory, CSP stores it after its reply has left, and AS
 * while it waits for the uploads of the next round. A process that dies before leaves the round
 * out. AS lists a record only after it is stored: if AS dies after CSP's reply, it needs the
 * record again. The next reveal takes the record out of `fresh`, and writes the new one into the
 * memory of the oldest one, so that b = 1 needs only 8 bytes per value. If the reveal fails, the
 * next attempt reads the records from the store and leaves out what it does not find there.
 *
 * A record outlives the wipe of its round's other secrets. A server wipes it when round r + b is
 * over, at once if the round is skipped or blocked, and at the end of the task.
 * Secret: the records.   Threads: one owner. */
#ifndef SUM_HISTORY_H
#define SUM_HISTORY_H

#include "base/buf.h"
#include "mpc/noise/online.h"
#include "protocol/task.h"

/* The record of the latest round, in memory, until the next reveal takes it over. */
typedef struct history_fresh {
    uint64_t round; /* 0: none */
    uint64_t attempt;
    bool stored; /* or CSP has tried to */
    sefl_buf record;
} history_fresh;

typedef struct history {
    uint8_t lags;              /* bit j: past[j] is the record of round r - 1 - j */
    sefl_buf past[NOISE_LAGS]; /* records; history_begin moves the oldest to keep */
    sefl_buf keep;             /* the record of this round */
} history;

/* Appends the record of a round to out; SEFL_ENOTFOUND if there is none, SEFL_ECRYPTO if it is
 * damaged. */
typedef sefl_status history_get(void *ctx, uint64_t round, sefl_buf *out);

/* Loads the records that the task's filter uses in this round and that are there, in place of those
 * in h: takes that of `fresh` (may be NULL) if it is stored, and calls `get` for others. Does
 * nothing if the task has no filter. Fails without memory, and if the store cannot be read now: a
 * lost connection to a database must cost neither noise that should be taken back nor, after CSP's
 * reply, the round. */
sefl_status history_load(history *h, const task *t, uint64_t round, history_fresh *fresh,
                         history_get *get, void *ctx) SEFL_MUST_CHECK;
/* Returns the id in the record of lag j + 1, which is there. */
const uint8_t *history_id(const history *h, unsigned j);
/* Wipes the records that are not in lags. */
void history_only(history *h, uint8_t lags);
/* Computes what this round takes back, in place of the records. Does nothing if the task has no
 * filter, and the second time. */
sefl_status history_begin(history *h, const task *t, const uint8_t id[NOISE_ID]) SEFL_MUST_CHECK;
/* Returns the memory for a reply (mode.h), valid until h changes; NULL without a filter. */
uint8_t *history_memory(const history *h);
/* Wipes h. */
void history_clear(history *h);

/* Moves h->keep to f, in place of an older record; does nothing if h has none. */
void history_take(history_fresh *f, history *h, uint64_t round, uint64_t attempt);
/* Wipes f. */
void history_drop(history_fresh *f);

/* The records that a server keeps after a round: from .. to. from > to: none. */
typedef struct history_range {
    uint64_t from, to;
} history_range;

/* After this round; released: its own record stays. */
history_range history_after(const task *t, uint64_t round, bool released);
/* Wipes f if its round is not in the range. */
void history_limit(history_fresh *f, history_range keep);

#endif

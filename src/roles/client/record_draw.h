/* record_draw: which of a client's records take part in a round.
 *
 *     privacy.record_rate = 1   the records take turns: each round uses the next records_max of
 *                               them, cyclically. Everybody can compute which.
 *     privacy.record_rate < 1   the client draws each candidate with that probability, with coins
 *                               that only it knows (docs/PRIVACY.md, section 4, has the proof).
 *
 *     record_draw d;
 *     SEFL_TRY(record_draw_make(&d, t, round, text->docs, seed));
 *     for (size_t i = 0; i < d.n; i++)
 *         if (record_draw_has(&d, i)) ...record record_draw_at(&d, i) of the text...
 *     record_draw_clear(&d);
 *
 * Candidates. All records, if a client with so many of them draws more than records_max with a
 * probability of at most DP_RECORDS_RARE (privacy/plan.h). A larger text takes turns: each round
 * has the next candidates, cyclically. So the candidates depend only on the task, the round and the
 * number of records.
 *
 * Too many. If more than records_max records are drawn, the round uses none of them, and the client
 * uploads zeros. Leaving out only some would let one record displace another, and the amplified
 * bound would not hold; leaving out all costs no privacy.
 *
 * The seed is drawn once per round and durable before the first attempt (store.h), so no round has
 * two draws, whatever fails. Coin i is word i of the stream prg(seed, "record draw") and decides
 * about candidate i alone: the draw of a record does not depend on what others contain, nor on
 * their coins.
 * Secret: seed, the draw. Not constant-time (it runs on the owner's machine).   Threads: any. */
#ifndef ROLES_CLIENT_RECORD_DRAW_H
#define ROLES_CLIENT_RECORD_DRAW_H

#include "protocol/task.h"

enum { RECORD_DRAW_SEED = 32 };

typedef struct record_draw {
    size_t n;        /* candidates */
    size_t from;     /* the first one's number in the text */
    size_t docs;     /* records of the text */
    size_t count;    /* records that the round uses; 0 if too many were drawn */
    uint64_t *drawn; /* one bit per candidate; NULL: the round uses all candidates */
} record_draw;

/* seed: RECORD_DRAW_SEED bytes, or NULL if the task's record_rate is 1. docs >= 1, round >= 1. */
sefl_status record_draw_make(record_draw *out, const task *t, uint64_t round, size_t docs,
                             const uint8_t *seed) SEFL_MUST_CHECK;
void record_draw_clear(record_draw *d);

/* The second half of record_draw_make, for tests: flips the coins of the d->n candidates. */
sefl_status record_draw_flip(record_draw *d, double rate, uint32_t records_max,
                             const uint8_t seed[RECORD_DRAW_SEED]) SEFL_MUST_CHECK;

/* True if the round uses candidate i. */
bool record_draw_has(const record_draw *d, size_t i);

/* Returns the number of candidate i in the text. */
size_t record_draw_at(const record_draw *d, size_t i);

/* Returns the number of candidates of a text with this many records. */
size_t record_draw_candidates(const task *t, size_t docs);

/* Returns the mean number of records that a round uses. */
double record_draw_mean(const task *t, size_t docs);

#endif

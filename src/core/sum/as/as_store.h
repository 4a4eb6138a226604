/* as_store: the port to AS's durable state.
 *
 * The driver of the rounds (sum/as_rounds.h) and the reveal (sum/as_link.h) write each fact to the
 * store before anything depends on it. A store keeps named records and one row per round but does
 * not interpret them: this module defines their contents and checks the rules, for every store. Two
 * stores exist: store/disk/as_disk.h (the aggregator's journal) and sum/as_memory.h (simulator,
 * demo, tests).
 *
 *     record      round    bytes
 *     MEMORY      0        the machine's memory (agg_remember); written with the row and MODEL
 *     MODEL       0        round u64 and hash 32 of the latest release; round 0: the initial model
 *     SIGNALS     0        round u64 and signal f64 of the latest releases (sum/release_check.h)
 *     BYE         0        CSP knows that the task is over
 *     HEADER      N        the header of round N, signed by both servers
 *     SET         N        the frozen set: client 32, body 32 each, sorted by client
 *     TREE        N        sealed tasks: the seed of the tree of round N (protocol/counted.h)
 *     VERDICT     N        sealed tasks: root 32, kept u32, refused u32, then index u32, reason u8
 *     COUNTED     N        sealed tasks: CSP's signed statement about the clients in the sum
 *     BLOCKED     N        why the release check blocked round N
 *     SHARES      N        secret, joint noise: slice 32, the noise shares
 *     MASK        N        secret: attempt u64, set 32, seed 32, coins 32, slice 32, lags u8
 *     REPLY       N        secret: attempt u64, digest 32 of CSP's reply, which CSP may have sent
 *     RELEASE     N        secret: the released integers, 8 bytes each
 *     HISTORY     N        secret, correlated noise: what AS keeps of its noise (sum/history.h);
 *                          `wipe` leaves it
 *
 * Threads: one owner; any thread may call get.   Secrets: SHARES, MASK, REPLY, RELEASE, HISTORY: a
 * disk store encrypts them; wipe destroys the first four, history_keep the last. */
#ifndef SUM_AS_STORE_H
#define SUM_AS_STORE_H

#include "base/buf.h"
#include "base/coins.h"
#include "crypto/ahe/ahe.h"
#include "mpc/noise/online.h"
#include "protocol/counted.h"
#include "protocol/link.h"
#include "sum/agg.h"
#include "sum/ahead.h"
#include "sum/release_check.h"

typedef enum as_record {
    AS_MEMORY,
    AS_MODEL,
    AS_SIGNALS,
    AS_BYE,
    AS_HEADER,
    AS_SET,
    AS_TREE,
    AS_VERDICT,
    AS_COUNTED,
    AS_BLOCKED,
    AS_SHARES,
    AS_MASK,
    AS_REPLY,
    AS_RELEASE,
    AS_HISTORY,
    AS_RECORDS
} as_record;

/* The row of a round. */
typedef struct as_row {
    uint64_t round;
    agg_phase state;
    uint64_t attempt;
    uint64_t opened_ms, deadline_ms, closed_ms; /* wall clock; 0: not yet */
    uint32_t clients, extensions;
    bool skipped, charged; /* charged: set only if the round was skipped after its charge */
    bool has_set, has_model;
    uint8_t set[SHA256_BYTES];   /* hash of the frozen set */
    uint8_t model[SHA256_BYTES]; /* hash of the model that the round began with */
} as_row;

typedef struct as_store {
    void *ctx;
    const char *place; /* for error messages: a folder, "memory" */
    /* Inserts or replaces a record durably. attempt selects the coins that encrypt a secret. */
    sefl_status (*put)(void *ctx, as_record what, uint64_t round, uint64_t attempt,
                       sefl_span bytes);
    /* Appends the record to out; SEFL_ENOTFOUND if there is none. */
    sefl_status (*get)(void *ctx, as_record what, uint64_t round, sefl_buf *out);
    sefl_status (*row_put)(void *ctx, const as_row *row);
    sefl_status (*row_get)(void *ctx, uint64_t round, as_row *out);
    /* Writes MEMORY, MODEL and the row: all or none. */
    sefl_status (*step)(void *ctx, const as_row *row, sefl_span memory, sefl_span model);
    /* Destroys the secrets of a round, its set and its uploads; other records stay. */
    sefl_status (*wipe)(void *ctx, uint64_t round);
    /* Destroys HISTORY of all rounds but from .. to (from > to: of all). */
    sefl_status (*history_keep)(void *ctx, uint64_t from, uint64_t to);
} as_store;

/* Initialises all function entries, for a file that defines functions with these names. */
#define AS_STORE_CALLS                                                                          \
    .put = put, .get = get, .row_put = row_put, .row_get = row_get, .step = step, .wipe = wipe, \
    .history_keep = history_keep

/* ---- one reveal ------------------------------------------------------------------------------ */

/* The values with which AS finishes a reveal after a crash. */
typedef struct as_mask {
    uint64_t attempt;
    uint8_t set[32];
    uint8_t seed[AHE_SEED_BYTES]; /* seed of the mask */
    uint8_t coins[NOISE_COINS];   /* seed of all other random bits that AS draws for w */
    uint8_t slice[SHA256_BYTES];  /* joint: hash of the slice; otherwise all zero */
    uint8_t lags;                 /* earlier rounds whose noise both servers use (noise_params) */
} as_mask;

/* Wipes the mask. */
void as_mask_clear(as_mask *m);
/* SEFL_EPROTO if the bytes are no mask. */
sefl_status as_mask_read(as_mask *out, sefl_span bytes) SEFL_MUST_CHECK;
sefl_status as_mask_write(sefl_buf *out, const as_mask *m) SEFL_MUST_CHECK;

/* Stores a mask before the first byte of the masked sum leaves. A later attempt replaces an earlier
 * one. CSP did not reveal the earlier one, or it would not have answered GO. SEFL_ESTATE: the
 * attempt does not increase, the set changes, or the mask's seed repeats; with shares, also if the
 * coins or the slice repeat; without, if the coins differ. */
sefl_status as_store_mask(const as_store *s, uint64_t round, const as_mask *m) SEFL_MUST_CHECK;
/* The coins of a round without shares, the same for every attempt and every process that leads:
 * those of the latest mask, else the seed of `ahead` (NULL, or of another round: none), else new
 * ones (coins "noise"). */
sefl_status as_store_coins(const as_store *s, uint64_t round, const noise_ahead *ahead,
                           const sefl_coins *coins, uint8_t out[NOISE_COINS]) SEFL_MUST_CHECK;
/* Loads the latest mask of this round, which the caller clears; SEFL_ENOTFOUND if there is none. */
sefl_status as_store_masked(const as_store *s, uint64_t round, as_mask *out) SEFL_MUST_CHECK;
/* Loads SHARES into out; SEFL_ENOTFOUND unless they are of the slice of this mask. AS stores them
 * before the mask. While the round has no mask, it may store them before CSP answers GO; later that
 * could destroy the shares of a reveal that CSP has answered. */
sefl_status as_store_shares(const as_store *s, uint64_t round, const as_mask *m,
                            sefl_buf *out) SEFL_MUST_CHECK;
/* Stores the digest of CSP's reply to this attempt before CSP sends the reply, unless another
 * attempt or digest is stored (*same false): a round has one reply. */
sefl_status as_store_replied(const as_store *s, uint64_t round, uint64_t attempt,
                             const uint8_t digest[SHA256_BYTES], bool *same) SEFL_MUST_CHECK;

/* Loads that digest; SEFL_ENOTFOUND if AS has acknowledged no reply in this round. */
sefl_status as_store_reply(const as_store *s, uint64_t round,
                           uint8_t digest[SHA256_BYTES]) SEFL_MUST_CHECK;

/* Store and load the `values` released integers in w. SEFL_ENOTFOUND if there are none to load. */
sefl_status as_store_release(const as_store *s, uint64_t round, uint64_t attempt, const int64_t *w,
                             size_t values) SEFL_MUST_CHECK;
sefl_status as_store_released(const as_store *s, uint64_t round, int64_t *w,
                              size_t values) SEFL_MUST_CHECK;

/* ---- sealed tasks ---------------------------------------------------------------------------- */

typedef struct as_verdict {
    uint8_t root[SHA256_BYTES]; /* counted_root of the kept clients; as_link_set has checked it */
    uint32_t kept;              /* at least the threshold */
    uint32_t refused_n;
    head_refusal *refused; /* sorted by index; owned */
} as_verdict;

void as_verdict_clear(as_verdict *v);

/* Stores CSP's verdict. SEFL_ECRYPTO: it differs from an earlier one. */
sefl_status as_store_verdict(const as_store *s, uint64_t round, const as_verdict *v,
                             bool *is_new) SEFL_MUST_CHECK;
/* SEFL_ENOTFOUND: there is none yet. */
sefl_status as_store_verdict_get(const as_store *s, uint64_t round,
                                 as_verdict *out) SEFL_MUST_CHECK;
/* Loads the tree seed of a round; draws and stores it on the first call (coins "tree"). */
sefl_status as_store_tree(const as_store *s, uint64_t round, const sefl_coins *coins,
                          uint8_t seed[COUNTED_SEED]) SEFL_MUST_CHECK;

/* ---- the whole task -------------------------------------------------------------------------- */

sefl_status as_store_step(const as_store *s, const as_row *row, const agg_memory *m,
                          const release_from *model) SEFL_MUST_CHECK;
/* SEFL_ENOTFOUND: a new task. */
sefl_status as_store_memory(const as_store *s, agg_memory *out) SEFL_MUST_CHECK;
/* Loads the latest release; in a new task, round 0 and `init`. */
sefl_status as_store_model(const as_store *s, release_from *out,
                           const uint8_t init[SHA256_BYTES]) SEFL_MUST_CHECK;
sefl_status as_store_signals_put(const as_store *s, const release_signals *v) SEFL_MUST_CHECK;
sefl_status as_store_signals(const as_store *s, release_signals *out) SEFL_MUST_CHECK;

#endif

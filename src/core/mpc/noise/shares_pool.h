/* shares_pool: stores noise shares (noise/shares.h), each for use in at most one round.
 *
 *     SEFL_TRY(shares_pool_new(&pool, 0, &rng));
 *     SEFL_TRY(shares_pool_add(pool, id, x, n, 32));             // a session's shares; x is wiped
 *     SEFL_TRY(shares_pool_pick(pool, &slice, count));           // AS: the oldest values
 *     SEFL_TRY(shares_pool_take(pool, &slice, x, 2));            // each side, once; erases them
 *
 * The pools of both servers contain the same sessions. AS picks a slice and names it in its signed
 * statement; each side takes it. SINGLE USE: each session has a cursor; all values before it are
 * erased. A slice is taken whole and must lie at or beyond its sessions' cursors. Taking it moves
 * the cursors past it and erases skipped values too. Values never return to the pool, because two
 * inputs masked with the same share would reveal their difference. A pool is never written to disk,
 * so a restart empties it, and a restored backup cannot use a share twice.
 *
 * Values are stored encrypted (prg), 4 or 5 bytes each. Each session has its own key in locked
 * memory (crypto/secmem), wiped when the session is erased, so swap contains only ciphertext.
 *
 * Threads: any; calls lock internally.   Secret: values. Public: ids, counts, and slices. */
#ifndef MPC_NOISE_SHARES_POOL_H
#define MPC_NOISE_SHARES_POOL_H

#include "base/coins.h"
#include "base/sha256.h"
#include "base/span.h"
#include "mpc/noise/shares.h"

enum {
    SLICE_PARTS_MAX = 64,
    SLICE_PART = SHARES_ID + 16,
    SLICE_BYTES_MAX = 4 + SLICE_PARTS_MAX * SLICE_PART,
    SHARES_POOL_MAX = 1 << 27, /* values */
};

/* A selection of values. Each part selects `count` consecutive values of one session. */
typedef struct shares_slice {
    uint32_t n;
    struct {
        uint8_t id[SHARES_ID];
        uint64_t first, count;
    } part[SLICE_PARTS_MAX];
} shares_slice;

typedef struct shares_pool shares_pool;

/* The pool stores at most `max` values (0: SHARES_POOL_MAX). rng draws the keys, under the lock,
 * and must outlive the pool. */
sefl_status shares_pool_new(shares_pool **out, uint64_t max, const sefl_rng *rng) SEFL_MUST_CHECK;
void shares_pool_free(shares_pool *p);

/* Erases all values. Call it for a new peer or connection, and after a failed check. */
void shares_pool_clear(shares_pool *p);

/* Adds n shares below 2^bits from session `id`; bits is 32 or 40. Wipes x, even if it fails.
 * SEFL_ESTATE if the pool already has this session. If the pool exceeds its limit, erases the
 * oldest sessions, so that shares which the peer has lost do not stay forever. */
sefl_status shares_pool_add(shares_pool *p, const uint8_t id[SHARES_ID], uint64_t *x, size_t n,
                            unsigned bits) SEFL_MUST_CHECK;

/* Returns the number of values neither picked nor taken. */
uint64_t shares_pool_have(shares_pool *p);

/* AS: picks the oldest `count` values that were not picked before. While these span more than
 * SLICE_PARTS_MAX sessions, erases the oldest session and tries again, so that small remainders do
 * not block the pool. SEFL_ENOTFOUND if fewer values are left. */
sefl_status shares_pool_pick(shares_pool *p, shares_slice *out, uint64_t count) SEFL_MUST_CHECK;

/* Writes the low `bytes` bytes (1 to 4; 1 to 5 for 40-bit shares), little-endian, of every value in
 * the slice to x, and erases the values. SEFL_ENOTFOUND if the pool does not (or no longer) have
 * one of them, SEFL_EINVAL if the shares have fewer bytes. On failure the pool is unchanged. */
sefl_status shares_pool_take(shares_pool *p, const shares_slice *s, uint8_t *x,
                             unsigned bytes) SEFL_MUST_CHECK;

/* Erases the sessions that the slice names, because the peer does not have them. */
void shares_pool_drop(shares_pool *p, const shares_slice *s);

/* Returns the number of values in a slice. */
uint64_t shares_slice_count(const shares_slice *s);

/* Wire format: n u32, then for each part id 32, first u64, count u64. Writing returns the length.
 * Reading returns SEFL_EPROTO for more than SLICE_PARTS_MAX parts, an empty part, or a part that
 * reaches past SHARES_COUNT_MAX. */
size_t shares_slice_write(uint8_t out[SLICE_BYTES_MAX], const shares_slice *s);
sefl_status shares_slice_read(rd *r, shares_slice *out) SEFL_MUST_CHECK;

/* Writes the SHA-256 of a slice's wire format, which identifies it. */
void shares_slice_hash(uint8_t out[SHA256_BYTES], const shares_slice *s);

/* For tests, benchmarks, the demo and the simulator: two threads of this process, CSP and AS,
 * generate `count` shares and add them to both pools. */
sefl_status shares_fill_pair(shares_pool *as, shares_pool *csp, uint64_t count,
                             const sefl_rng *as_rng, const sefl_rng *csp_rng) SEFL_MUST_CHECK;

/* Both servers' pools in one process, with seeded coins. shares_twins_wait is the shares_wait
 * callback of an as_link_config: it fills both pools with shares_fill_pair, from the coins "noise"
 * of this round and attempt. */
typedef struct shares_twins {
    shares_pool *as, *csp;
    const sefl_coins *as_coins, *csp_coins;
    sefl_rng keys;
    unsigned bits;  /* of a share: 32 or 40; 0: 32 */
    uint64_t bytes; /* bytes that the two sides have exchanged so far */
} shares_twins;

sefl_status shares_twins_init(shares_twins *t, const sefl_coins *as_coins,
                              const sefl_coins *csp_coins) SEFL_MUST_CHECK;
void shares_twins_clear(shares_twins *t);
sefl_status shares_twins_wait(void *twins, uint64_t round, uint64_t attempt,
                              uint64_t count) SEFL_MUST_CHECK;

#endif

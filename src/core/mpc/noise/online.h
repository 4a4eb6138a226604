/* noise/online: the online part of a round's noise: one message from CSP, which AS may request more
 * than once.
 *
 * AS holds digits of its mask v, CSP digits of n = aggregate + v (docs/PROTOCOL.md), k + t + g bits
 * each. In mode `joint` CSP has shares x^C and AS has shares x^A of noise X that neither knows
 * (noise/shares.h, noise/shares_pool.h):
 *
 *     CSP   m_i = SR(digit_i(n) + J_i) + Y_i + x^C_i                      mod 2^k
 *     AS    w_i = m_i + x^A_i - SR(digit_i(v) + J_i) + Y'_i - 62          mod 2^k, signed
 *
 * SR quantises to the coarse lattice with the server's own secret coins; Y and Y' are the servers'
 * own rare jumps (noise/noise_quantise.h). w is the noisy aggregate in units of the lattice step,
 * less 1/2 (the mean of X is 61.5). J, the dither, is t uniform bits (above the guard bits),
 * expanded from a seed that CSP draws after it has received the whole masked sum. So even an AS
 * that chooses its mask or its sum does not control where its value lies between two lattice points
 * when CSP quantises it. AS learns J along with m. docs/PRIVACY.md has the bound.
 *
 * In mode `own` each server adds its own full noise, e and e', on the fine grid: twice the
 * variance, but no shares. Both servers round off the guard bits with random U and U'; otherwise AS
 * would learn the top bits of each sum without noise:
 *
 *     CSP   reply_i = ((digit_i(n) + U) >> g) + e_i                       mod 2^(k+t)
 *     AS    w_i = reply_i - ((digit_i(v) + U') >> g) + e'_i               mod 2^(k+t), signed
 *
 * AS adds its noise in the ring, before it makes the number signed: the wrap then depends on the
 * noisy sum only. If AS added e' to a signed number, a hostile client could put a coordinate at
 * 2^(k+t-1), where an honest client's last bit decides the sign, and CSP, with a reply without
 * noise, would read that bit from a release with e' alone.
 *
 *     noise_params p = { .task = { ... }, .round = 12, .attempt = 1, .count = n, .k = 16, .t = 12,
 *                        .g = 16, .shape = &noise_joint, .slice = { ... } };  // on both sides
 *     CSP  noise_taken x = { shares, noise_share_bytes(&p) };
 *          noise_source add = noise_taken_of(&x);
 *          SEFL_TRY(noise_reply_make(reply, &p, &masked, &add, NULL, pool, rng));
 *          ...                                      // store reply and mark durably, then send
 *     AS   SEFL_TRY(noise_reply_finish(w, &p, reply, &mask, &add, NULL, pool, coins));
 *
 * With a filter (p.gamma; noise/noise_filter.h) a round takes back part of the noise of earlier
 * rounds. Each server passes its memory, in which noise_filter_back has written H for p.lags; the
 * functions overwrite H with what the server keeps of this round. Both servers use the same lags.
 * A filter changes no size on the wire; a share has 12 bits more.
 *
 * A shape, noise_joint or noise_own (shapes.c), contains everything that differs between the modes.
 * A new release mode that computes something else defines another shape.
 *
 * A reply consists of task 32; round, attempt, count u64 each; k, t, g, the shape's wire byte (0
 * joint, 1 own; plus 16 times p.lags) u8 each; SHA-256 of the slice 32 (own: zeros); dither seed 32
 * (own: zeros); then `count` values of noise_value_bytes each, little-endian.
 *
 * ONE REVEAL PER ROUND: the caller enforces it. CSP makes one reply per round and, if asked again,
 * sends the stored bytes; a slice's shares serve one reply. AS stores the seed of its coins with
 * the mask, so w and what AS keeps are the same after a crash: noise_reply_finish depends only on
 * its arguments.
 *
 * Secret: digits, shares, noise, coins, w, memories; the reply until it is sent. Public: params,
 * all sizes.
 * Constant time except for the caller's sources.   Threads: pure functions; they work on the pool
 * (NULL: this thread), and their result does not depend on its size. */
#ifndef MPC_NOISE_ONLINE_H
#define MPC_NOISE_ONLINE_H

#include "base/pool.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/span.h"
#include "crypto/prg/prg.h"
#include "mpc/circuits/sampler.h"
#include "mpc/noise/noise_filter.h"

#include <stdbool.h>

enum { NOISE_ID = 32, NOISE_COINS = 32, NOISE_REPLY_HEAD = 124 };

typedef struct noise_shape noise_shape;

typedef struct noise_params {
    uint8_t task[32];         /* hash of the task document */
    uint64_t round, attempt;  /* the caller counts the attempts of a round durably */
    uint64_t count;           /* coordinates, 1 to 2^32 */
    unsigned k, t, g;         /* ring, fraction, guard bits of a digit; 7 <= k <= 32, t <= 32,
                               * k + t + g <= 62 */
    const noise_shape *shape; /* what the servers compute; must be set */
    uint8_t slice[32];        /* joint: shares_slice_hash of the shares that the reply uses */
    /* The filter: round r takes back gamma[j] / 4096 of the noise of round r - 1 - j. All zero:
     * there is none. At most 4096 together; k + t + g <= 52; only with a coarse shape. */
    uint16_t gamma[NOISE_LAGS];
    uint8_t lags; /* bit j: both servers have what they kept in round r - 1 - j, and use it */
} noise_params;

/* What the servers compute from their digits, and what a reply contains. The functions are constant
 * time and work on a group of n <= JUMP_GROUP coordinates (noise/noise_quantise.h). */
struct noise_shape {
    uint8_t wire;      /* identifies the shape in a reply; unique, below 16 */
    bool fraction;     /* values have k + t bits and count fine steps; false: k bits, coarse */
    bool slice;        /* the reply names the slice of shares that it uses */
    bool dither;       /* CSP draws a seed for J, which both servers add to their digits */
    unsigned mean2;    /* twice the mean of the servers' common noise (noise/noise_filter.h) */
    unsigned less;     /* AS subtracts it: that mean, rounded up */
    const char *coins; /* label of a server's coins; unique */
    /* Bytes of coins per coordinate: `quantise` uses at most JUMP_GROUP times as many per group. */
    unsigned coin_bytes;
    /* Quantises the digits, which already contain J, in place: drops `cut` bits. sign is 1 at CSP
     * and -1 at AS, which subtracts its quantised digits. The caller reduces the result to the
     * ring. */
    void (*quantise)(uint64_t *digit, size_t n, unsigned cut, int sign, prg *coins);
};

extern const noise_shape noise_joint, noise_own;

/* Coordinates are read in pieces [first, first + n): first is a multiple of NOISE_PIECE, and n is
 * NOISE_PIECE except in the last piece. Several threads of the pool may call `get` at once. */
enum { NOISE_PIECE = 8192 };

/* get writes n digits, starting at coordinate `first`, each below 2^(k+t+g). */
typedef struct noise_digits {
    sefl_status (*get)(void *ctx, uint64_t *digit, size_t first, size_t n);
    void *ctx;
} noise_digits;

/* get writes n values of a server's noise, starting at coordinate `first`. */
typedef struct noise_source {
    sefl_status (*get)(void *ctx, int64_t *e, size_t first, size_t n);
    void *ctx;
} noise_source;

/* Shares from shares_pool_take, `bytes` each. */
typedef struct noise_taken {
    const uint8_t *x;
    unsigned bytes;
} noise_taken;

noise_source noise_taken_of(noise_taken *t);

/* True if the params have a filter. */
bool noise_has_filter(const noise_params *p);

/* Returns the size in bytes of a value in a reply, and of a share: enough for the bits of a value,
 * which are 12 more for a share if there is a filter. p->shape must be set. */
unsigned noise_value_bytes(const noise_params *p);
unsigned noise_share_bytes(const noise_params *p);

/* Computes the size of a reply. SEFL_EINVAL for params out of range or without a shape. The
 * functions below also check the params first; if they fail later, they zero reply or w, and
 * memory. */
sefl_status noise_reply_bytes(size_t *bytes, const noise_params *p) SEFL_MUST_CHECK;

/* CSP: makes the reply, once per round, after the last byte of the masked sum has arrived. Draws
 * the reply's coins and the dither. memory is NULL unless the params have a filter. */
sefl_status noise_reply_make(uint8_t *reply, const noise_params *p, const noise_digits *masked,
                             const noise_source *add, uint8_t *memory, pool *threads,
                             const sefl_rng *rng) SEFL_MUST_CHECK;

/* AS: SEFL_EPROTO if the reply is for another task, round, attempt, slice, shape, size or lags. */
sefl_status noise_reply_check(const noise_params *p, sefl_span reply) SEFL_MUST_CHECK;

/* AS: checks the reply and computes w from it. */
sefl_status noise_reply_finish(int64_t *w, const noise_params *p, sefl_span reply,
                               const noise_digits *mask, const noise_source *add, uint8_t *memory,
                               pool *threads, const uint8_t coins[NOISE_COINS]) SEFL_MUST_CHECK;

#endif

/* g44: the joint noise in the clear, as a reference for the circuit: the distribution that it
 * samples, and the whole computation of both servers in mpc/, from a sum to the released integers.
 *
 *     z = n + pop(r[0..2]) + 2 pop(r[3..6]) + 4 pop(r[7..26]) + 16 (1 + K)  mod 2^k
 *     K = 0 unless r[27..32] are all 1; then +1 if r[33] is 1, else -1
 *
 * X = z - n for n = 0: mean 61.5, variance 88.75, on 0..123. In addition each server adds its own
 * rare jump Y. It is 0, except with probability 2^-18, when it is the difference of two geometric
 * numbers (counts of non-zero 5-bit draws before the first zero). The part that a server cannot
 * remove is N = X - 61.5 + Tri + Y (docs/PRIVACY.md).
 *
 * Secret: coins and samples; g44_jumps_vartime is not constant-time (its draws are rare and made in
 * advance). Threads: any. */
#ifndef SUPPORT_G44_H
#define SUPPORT_G44_H

#include "privacy/dp_grid.h"
#include "privacy/mechanism/mech_coins.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
    G44_RANDOM_BITS = 34,
    G44_VALUES = 124,       /* X is in 0..123 */
    G44_OFFSET = 62,        /* subtracted outside the circuit; result = (w + 0.5) h */
    G44_JUMP_LOG = 18,      /* a jump has probability 2^-18 */
    G44_JUMP_DRAW_BITS = 5, /* ratio 31/32 */
};

/* Columns of the circuit: number and weight of their fair bits. */
static const struct {
    unsigned first, bits, weight;
} g44_columns[] = { { 0, 3, 1 }, { 3, 4, 2 }, { 7, 20, 4 } };

/* Computes X from 34 random bits: bit i of r is r[i]. */
static inline uint32_t g44_value(uint64_t r)
{
    uint32_t x = 16;
    for (size_t c = 0; c < sizeof g44_columns / sizeof g44_columns[0]; c++)
        x += g44_columns[c].weight *
             (uint32_t)__builtin_popcountll(r >> g44_columns[c].first &
                                            ((1u << g44_columns[c].bits) - 1));
    if ((r >> 27 & 63) == 63)
        x += r >> 33 & 1 ? 16 : -16u;
    return x;
}

/* Computes the exact distribution of X: Pr[X = x] = out[x] / 2^34. The numbers add up to 2^34. */
static inline void g44_law(uint64_t out[G44_VALUES])
{
    uint64_t sum[G44_VALUES] = { 1 };
    for (size_t c = 0; c < sizeof g44_columns / sizeof g44_columns[0]; c++)
        for (unsigned b = 0; b < g44_columns[c].bits; b++)
            for (unsigned x = G44_VALUES; x-- > g44_columns[c].weight;) /* one bit more */
                sum[x] += sum[x - g44_columns[c].weight];
    /* the kick: of the 128 values of its 7 bits, 126 give +16, one 0, one +32 */
    memset(out, 0, G44_VALUES * sizeof *out);
    for (unsigned x = 0; x < G44_VALUES; x++) {
        if (x + 32 < G44_VALUES)
            out[x + 32] += sum[x];
        if (x + 16 < G44_VALUES)
            out[x + 16] += 126 * sum[x];
        out[x] += sum[x];
    }
}

/* Returns Pr[Y = y]. */
static inline double g44_jump_probability(int64_t y)
{
    /* difference of two geometric numbers of ratio r: r^|y| (1-r)/(1+r) */
    const double r = 31.0 / 32, rare = ldexp(1, -G44_JUMP_LOG);
    double p = rare * pow(r, (double)(y < 0 ? -y : y)) * (1 - r) / (1 + r);
    return y == 0 ? p + (1 - rare) : p;
}

static inline int32_t g44_geometric(coins *c)
{
    int32_t g = 0;
    while (coins_bits(c, G44_JUMP_DRAW_BITS) != 0 && c->st == SEFL_OK && g < 1 << 20)
        g++;
    return g;
}

static inline int32_t g44_jump(coins *c)
{
    if (coins_bits(c, G44_JUMP_LOG) != 0)
        return 0;
    int32_t plus = g44_geometric(c);
    return plus - g44_geometric(c);
}

/* Draws n jumps. Each takes 18 + 5 * (draws) bits from the generator, in this order: 18 bits, all
 * zero for a jump; then the draws of G1, then those of G2. */
static inline sefl_status g44_jumps_vartime(int32_t *out, size_t n, const sefl_rng *rng)
{
    coins c;
    coins_init(&c, rng);
    for (size_t i = 0; i < n; i++)
        out[i] = g44_jump(&c);
    sefl_status st = c.st;
    if (st != SEFL_OK)
        sefl_wipe(out, n * sizeof *out);
    coins_clear(&c);
    return st;
}

/* The coins of one coordinate of one release. */
typedef struct g44_coins {
    uint64_t mask;        /* v, uniform on w = k + t bits */
    uint64_t u_csp, u_as; /* rounding coins, t bits each */
    uint64_t r;           /* 34 bits, XOR of both servers' */
    int32_t y_csp, y_as;  /* jumps */
} g44_coins;

/* Rounds to the coarse lattice: SR(y) = ((y + U) >> bits) mod 2^k with U uniform on `bits` bits. */
static inline uint32_t g44_round(uint64_t y, uint64_t u, unsigned bits, unsigned k)
{
    return (uint32_t)((y + u) >> bits & ((UINT64_C(1) << k) - 1));
}

/* Releases one coordinate: sum is in fine steps, the result w in coarse steps (value (w + 0.5) h).
 * Works slot by slot, without carries, as the pad scheme does. */
static inline int64_t g44_release_one(const dp_grid *g, int64_t sum, const g44_coins *c)
{
    unsigned w = g->k + g->t;
    uint64_t slot_mask = (UINT64_C(1) << w) - 1, ring = (UINT64_C(1) << g->k) - 1;
    uint64_t n = ((uint64_t)sum + c->mask) & slot_mask; /* what CSP decrypts */
    uint64_t n1 = g44_round(n, c->u_csp, g->t, g->k) + (uint64_t)(int64_t)c->y_csp;
    uint64_t v1 = g44_round(c->mask & slot_mask, c->u_as, g->t, g->k) - (uint64_t)(int64_t)c->y_as;
    uint64_t z = n1 + g44_value(c->r);
    uint64_t out = (z - v1 - G44_OFFSET) & ring;
    return out >> (g->k - 1) ? (int64_t)out - (int64_t)(ring + 1) : (int64_t)out;
}

/* Releases a whole vector, with coins from the generator. out[i] is w. */
static inline sefl_status g44_release_vartime(int64_t *out, const dp_grid *g, const int64_t *sum,
                                              size_t n, const sefl_rng *rng)
{
    coins c;
    coins_init(&c, rng);
    uint64_t fine = (UINT64_C(1) << g->t) - 1;
    for (size_t i = 0; i < n; i++) {
        uint64_t a = coins_u64(&c), b = coins_u64(&c);
        int32_t y_csp = g44_jump(&c); /* two statements, because the order of the draws matters */
        int32_t y_as = g44_jump(&c);
        g44_coins one = { .mask = a,
                          .u_csp = a >> 40 & fine,
                          .u_as = b & fine,
                          .r = b >> 16 & ((UINT64_C(1) << G44_RANDOM_BITS) - 1),
                          .y_csp = y_csp,
                          .y_as = y_as };
        out[i] = g44_release_one(g, sum[i], &one);
        sefl_wipe(&one, sizeof one);
    }
    sefl_status st = c.st;
    if (st != SEFL_OK)
        sefl_wipe(out, n * sizeof *out);
    coins_clear(&c);
    return st;
}

#endif

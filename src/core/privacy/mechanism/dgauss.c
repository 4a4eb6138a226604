#include "privacy/mechanism/dgauss.h"

#include "privacy/mechanism/mech_coins.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

typedef unsigned __int128 u128;

/* Bernoulli(a/b), 0 <= a <= b < 2^127, b > 0: compares the binary expansion of a/b with coins, bit
 * by bit; two bits are needed on average. */
static bool flip(coins *c, u128 a, u128 b)
{
    if (a >= b)
        return true;
    for (;;) {
        a <<= 1;
        bool digit = a >= b;
        if (digit)
            a -= b;
        bool coin = coins_bits(c, 1);
        if (coin != digit)
            return digit; /* coin 0, digit 1: the coins are below a/b */
        if (c->st != SEFL_OK)
            return true; /* only zeros from now on: stop, the caller checks st */
    }
}

/* Bernoulli(exp(-a/b)) for a <= b < 2^112 [CKS20, algorithm 1] */
static bool flip_exp_below_1(coins *c, u128 a, u128 b)
{
    /* k <= 2^14 always: reaching it has probability 1/(2^14)! */
    unsigned k = 1;
    while (k < 1u << 14 && flip(c, a, b * k)) {
        k++;
        if (c->st != SEFL_OK)
            break;
    }
    return k & 1;
}

static bool flip_exp(coins *c, u128 a, u128 b)
{
    for (; a > b; a -= b)
        if (!flip_exp_below_1(c, 1, 1))
            return false;
    return flip_exp_below_1(c, a, b);
}

static uint64_t below(coins *c, uint64_t bound)
{
    uint64_t mask = UINT64_MAX >> __builtin_clzll(bound | 1), v;
    do
        v = coins_u64(c) & mask;
    while (v >= bound && c->st == SEFL_OK);
    return v < bound ? v : 0;
}

/* discrete Laplace with scale t [CKS20, algorithm 2, s = 1] */
static int64_t laplace(coins *c, uint64_t t)
{
    for (;;) {
        uint64_t u = below(c, t), v = 0;
        if (!flip_exp_below_1(c, u, t) && c->st == SEFL_OK)
            continue;
        /* 128 has probability e^-128: it stands for all larger ones, and keeps products in range */
        while (v < 128 && c->st == SEFL_OK && flip_exp_below_1(c, 1, 1))
            v++;
        uint64_t x = u + t * v;
        bool negative = coins_bits(c, 1);
        if (negative && x == 0 && c->st == SEFL_OK)
            continue;
        return negative ? -(int64_t)x : (int64_t)x;
    }
}

sefl_status dgauss_init(dgauss *g, uint64_t num, uint64_t den)
{
    SEFL_NEED(den >= 1 && den <= 1u << 16, SEFL_EINVAL,
              "sigma^2: denominator %" PRIu64 " must be in 1..2^16", den);
    SEFL_NEED(num >= 1 && num <= UINT64_C(1) << 50, SEFL_EINVAL,
              "sigma^2: numerator %" PRIu64 " must be in 1..2^50", num);
    uint64_t t = 0; /* floor(sqrt(num/den)), bit by bit */
    for (uint64_t bit = UINT64_C(1) << 25; bit; bit >>= 1)
        if ((u128)(t | bit) * (t | bit) * den <= num)
            t |= bit;
    *g = (dgauss){ .num = num, .den = den, .t = t + 1 };
    return SEFL_OK;
}

sefl_status dgauss_for_grid(dgauss *g, const dp_grid *grid)
{
    double var = ceil(grid->z * grid->z * (double)grid->s2);
    if (!(var >= 1 && var <= 0x1p50))
        return sefl_fail(SEFL_ERANGE, "noise: a variance of %g grid steps is out of range", var);
    /* one more: the product above is rounded */
    return dgauss_init(g, (uint64_t)var + 1, 1);
}

sefl_status dgauss_fill_vartime(const dgauss *g, int64_t *out, size_t n, const sefl_rng *rng)
{
    coins c;
    coins_init(&c, rng);
    assert(g->den > 0 && g->t > 0);
    /* accept y with probability exp(-(|y| - sigma^2/t)^2 / (2 sigma^2))
     *   = exp(-(|y| t den - num)^2 / (2 num den t^2)) */
    u128 scale = (u128)2 * g->num * g->den * ((u128)g->t * g->t);
    for (size_t i = 0; i < n;) {
        int64_t y = laplace(&c, g->t);
        if (c.st != SEFL_OK)
            break;
        uint64_t a = (uint64_t)(y < 0 ? -y : y);
        u128 left = (u128)a * g->t * g->den, dist = left > g->num ? left - g->num : g->num - left;
        if (flip_exp(&c, dist * dist, scale))
            out[i++] = y;
    }
    sefl_status st = c.st;
    if (st != SEFL_OK)
        sefl_wipe(out, n * sizeof *out);
    coins_clear(&c);
    return st;
}

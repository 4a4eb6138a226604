#include "privacy/mechanism/g44.h"

#include "privacy/mechanism/coins.h"

#include <math.h>
#include <string.h>

/* columns of the circuit: how many fair bits of which weight */
static const struct {
    unsigned first, bits, weight;
} columns[] = { { 0, 3, 1 }, { 3, 4, 2 }, { 7, 20, 4 } };

uint32_t g44_value(uint64_t r)
{
    uint32_t x = 16;
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++)
        x += columns[c].weight *
             (uint32_t)__builtin_popcountll(r >> columns[c].first & ((1u << columns[c].bits) - 1));
    if ((r >> 27 & 63) == 63)
        x += r >> 33 & 1 ? 16 : -16u;
    return x;
}

void g44_law(uint64_t out[G44_VALUES])
{
    uint64_t sum[G44_VALUES] = { 1 };
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++)
        for (unsigned b = 0; b < columns[c].bits; b++)
            for (unsigned x = G44_VALUES; x-- > columns[c].weight;) /* one bit more */
                sum[x] += sum[x - columns[c].weight];
    /* the kick: of 128 settings of its 7 bits 126 give +16, one 0, one +32 */
    memset(out, 0, G44_VALUES * sizeof *out);
    for (unsigned x = 0; x < G44_VALUES; x++) {
        if (x + 32 < G44_VALUES)
            out[x + 32] += sum[x];
        if (x + 16 < G44_VALUES)
            out[x + 16] += 126 * sum[x];
        out[x] += sum[x];
    }
}

double g44_jump_probability(int64_t y)
{
    /* difference of two geometric numbers of ratio r: r^|y| (1-r)/(1+r) */
    const double r = 31.0 / 32, rare = ldexp(1, -G44_JUMP_LOG);
    double p = rare * pow(r, (double)(y < 0 ? -y : y)) * (1 - r) / (1 + r);
    return y == 0 ? p + (1 - rare) : p;
}

static int32_t geometric(coins *c)
{
    int32_t g = 0;
    while (coins_bits(c, G44_JUMP_DRAW_BITS) != 0 && c->st == SEFL_OK && g < 1 << 20)
        g++;
    return g;
}

static int32_t jump(coins *c)
{
    if (coins_bits(c, G44_JUMP_LOG) != 0)
        return 0;
    int32_t plus = geometric(c);
    return plus - geometric(c);
}

sefl_status g44_jumps_vartime(int32_t *out, size_t n, const sefl_rng *rng)
{
    coins c;
    coins_init(&c, rng);
    for (size_t i = 0; i < n; i++)
        out[i] = jump(&c);
    sefl_status st = c.st;
    if (st != SEFL_OK)
        sefl_wipe(out, n * sizeof *out);
    coins_clear(&c);
    return st;
}

uint32_t g44_round(uint64_t y, uint64_t u, unsigned bits, unsigned k)
{
    return (uint32_t)((y + u) >> bits & ((UINT64_C(1) << k) - 1));
}

int64_t g44_release_one(const dp_grid *g, int64_t sum, const g44_coins *c)
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

sefl_status g44_release_vartime(int64_t *out, const dp_grid *g, const int64_t *sum, size_t n,
                                const sefl_rng *rng)
{
    coins c;
    coins_init(&c, rng);
    uint64_t fine = (UINT64_C(1) << g->t) - 1;
    for (size_t i = 0; i < n; i++) {
        uint64_t a = coins_u64(&c), b = coins_u64(&c);
        int32_t y_csp = jump(&c); /* two statements: the coins have an order */
        int32_t y_as = jump(&c);
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

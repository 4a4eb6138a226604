#include "crypto/ahe/pack.h"

#include "base/ct.h"
#include "grid/grid.h"

#include <math.h>

typedef grid_u128 u128;

enum {
    CLIP_DIMENSION = 400, /* from here on one coordinate rarely has 0.17 of the norm */
    K_USUAL = 16,
};
#define CLIP_LEAST ((pack_nano)170000000) /* 0.17 */
#define Z_MIN      (PACK_ONE / 1000)
#define Z_MAX      (1000 * PACK_ONE)
#define C_MAX      ((pack_nano)1 << 53) /* exact as a double */
#define DIM_MAX    ((uint64_t)1 << 40)

/* ---- integers -------------------------------------------------------------------------------- */

static unsigned bit_length(u128 x)
{
    unsigned n = 0;
    for (; x > 0; x >>= 1)
        n++;
    return n;
}

sefl_status pack_decimal(pack_nano *out, const char *text)
{
    pack_nano v = 0, unit = PACK_ONE;
    bool digits = false, point = false, ok = true;
    for (const char *c = text; *c && ok; c++) {
        if (*c == '.' && !point) {
            point = true;
            continue;
        }
        ok = *c >= '0' && *c <= '9';
        if (!ok)
            break;
        digits = true;
        unsigned d = (unsigned)(*c - '0');
        if (point) {
            unit /= 10;
            ok = unit > 0; /* a tenth decimal, even a zero, is an error */
            v += d * unit;
        } else {
            ok = v < C_MAX / 10;
            v = v * 10 + d * PACK_ONE;
        }
        ok = ok && v <= C_MAX;
    }
    *out = 0;
    if (!ok || !digits)
        return sefl_fail(SEFL_EINVAL,
                         "\"%.32s\" is not a number such as 0.25 (at most 9 decimals, 9 million)",
                         text);
    *out = v;
    return SEFL_OK;
}

/* ---- with noise ------------------------------------------------------------------------------ */

/* Sets k and value_max. If the task sets no coordinate clip, chooses one (see pack.h). */
static sefl_status choose_width(pack *p, const pack_config *c)
{
    uint64_t most = grid_isqrt(p->s2), value_max = most;
    uint64_t least = grid_share(p->s2, CLIP_LEAST);
    unsigned k = c->k;

    if (c->coordinate_clip > 0)
        value_max = grid_share(p->s2, c->coordinate_clip);
    SEFL_NEED(value_max >= 1, SEFL_EINVAL, "the coordinate clip is below one step of the grid");
    if (k == 0)
        k = grid_smallest_k(PACK_K_MIN, p->t, c->clients, value_max);
    if (c->coordinate_clip == 0 && c->dimension >= CLIP_DIMENSION &&
        !(k <= K_USUAL && grid_fits(k, p->t, c->clients, most))) {
        unsigned from = c->k ? c->k : K_USUAL, to = c->k ? c->k : PACK_K_MAX;
        for (unsigned i = from; i <= to; i++) {
            uint64_t clipped = (uint64_t)((grid_room(i, p->t) - 1) / c->clients);
            if (clipped >= least) {
                value_max = clipped < most ? clipped : most;
                k = i;
                break;
            }
        }
    }
    SEFL_NEED(k <= PACK_K_MAX && grid_fits(k, p->t, c->clients, value_max), SEFL_ERANGE,
              "%u clients with |value| <= %llu need %u bits, but the slot has %u: use fewer "
              "clients, a smaller coordinate clip or more noise",
              c->clients, (unsigned long long)value_max,
              grid_smallest_k(PACK_K_MIN, p->t, c->clients, value_max) + p->t,
              (c->k ? c->k : PACK_K_MAX) + p->t);
    p->k = k;
    p->value_max = (int64_t)value_max;
    return SEFL_OK;
}

/* Carries between slots move a digit by at most 2^-g fine steps, an update's image by at most
 * sqrt(dimension) * 2^-g. That is kept below 10^-5 of the sensitivity, a quarter of the margin
 * between the computed Renyi factor 1.00472 and the 1.0048 that the accountant uses. */
static unsigned derive_g(uint64_t s2, uint64_t dimension)
{
    unsigned g = PACK_G_PAILLIER;
    while (g < 24 && (u128)dimension * 10000000000u > (u128)s2 << (2 * g))
        g++;
    return g;
}

static sefl_status init_noise(pack *p, const pack_config *c)
{
    SEFL_NEED(c->noise >= Z_MIN && c->noise <= Z_MAX, SEFL_EINVAL,
              "noise multiplier %.9g: must be 0.001 to 1000, or 0 for no noise",
              (double)c->noise / (double)PACK_ONE);
    SEFL_NEED(c->coordinate_clip <= PACK_ONE, SEFL_EINVAL,
              "coordinate clip of %.9g of the sensitivity: must be at most 1",
              (double)c->coordinate_clip / (double)PACK_ONE);
    SEFL_NEED(c->k == 0 || (c->k >= PACK_K_MIN && c->k <= PACK_K_MAX), SEFL_EINVAL,
              "ring width k = %u: must be %d to %d", c->k, PACK_K_MIN, PACK_K_MAX);
    SEFL_NEED(c->fraction_bits == 0, SEFL_EINVAL,
              "only a task without noise sets fraction bits: here the noise determines them");

    grid_steps g;
    SEFL_PASS(grid_derive(&g, c->noise, (double)c->clip / (double)PACK_ONE, c->dimension));
    p->t = g.t, p->s2 = g.s2, p->r_2p16 = g.r_2p16;
    p->q = g.q, p->h = g.h, p->sensitivity = g.sensitivity;
    SEFL_PASS(choose_width(p, c));
    p->w = p->k + p->t;
    p->g = c->scheme == PACK_PAILLIER ? derive_g(p->s2, c->dimension) : 0;
    return SEFL_OK;
}

/* ---- without noise --------------------------------------------------------------------------- */

/* Stochastic rounding moves a client's vector by at most q * sqrt(dimension) / 2 (root mean
 * square), the average of K independent ones by 1/sqrt(K) of that: below C / 2^11 as soon as
 * 2^f >= 2^10 * sqrt(dimension / K). */
static unsigned derive_fraction(uint64_t dimension, uint32_t clients)
{
    unsigned f = 10;
    while ((u128)clients << (2 * f) < (u128)dimension << 20)
        f++;
    return f;
}

static sefl_status init_plain(pack *p, const pack_config *c)
{
    unsigned f = c->fraction_bits ? c->fraction_bits : derive_fraction(c->dimension, c->clients);
    SEFL_NEED(c->k == 0 && c->coordinate_clip == 0, SEFL_EINVAL,
              "ring width and coordinate clip belong to a task with noise");
    SEFL_NEED(f <= 40, SEFL_EINVAL, "%u fraction bits: must be at most 40", f);
    p->w = f + bit_length(c->clients) + 1;
    SEFL_NEED(p->w <= PACK_W_MAX, SEFL_ERANGE,
              "%u clients with |value| <= %llu need %u bits, but the slot has %d", c->clients,
              1ULL << f, p->w, PACK_W_MAX);
    p->k = p->w;
    p->value_max = (int64_t)1 << f;
    p->r_2p16 = (uint64_t)1 << (f + 16);
    p->q = ldexp((double)c->clip / (double)PACK_ONE, -(int)f);
    p->h = p->q;
    return SEFL_OK;
}

/* ---- both ------------------------------------------------------------------------------------ */

sefl_status pack_init(pack *out, const pack_config *c)
{
    pack p = { .scheme = c->scheme, .clients = c->clients };

    *out = (pack){ 0 };
    SEFL_NEED(c->clients >= 1, SEFL_EINVAL, "a task has at least one client");
    SEFL_NEED(c->dimension >= 1 && c->dimension <= DIM_MAX, SEFL_EINVAL,
              "%llu coordinates: must be 1 to 2^40", (unsigned long long)c->dimension);
    SEFL_NEED(c->clip >= 1 && c->clip <= C_MAX, SEFL_EINVAL,
              "clip %.9g: must be 0.000000001 to 9 million", (double)c->clip / (double)PACK_ONE);
    if (c->noise > 0)
        SEFL_PASS(init_noise(&p, c));
    else
        SEFL_PASS(init_plain(&p, c));
    if (c->scheme == PACK_PAILLIER)
        p.s = PACK_S_PAILLIER;
    SEFL_PASS(pack_check(&p));
    *out = p;
    return SEFL_OK;
}

sefl_status pack_check(const pack *p)
{
    SEFL_NEED(p->w >= 2 && p->w <= PACK_W_MAX && p->k <= p->w && p->t == p->w - p->k, SEFL_EINVAL,
              "slots of %u bits for k = %u and t = %u: 2 to %d, their sum", p->w, p->k, p->t,
              PACK_W_MAX);
    SEFL_NEED(p->w + p->g <= 64, SEFL_EINVAL, "digits have %u + %u bits: at most 64", p->w, p->g);
    SEFL_NEED(p->clients >= 1 && p->value_max >= 1, SEFL_EINVAL,
              "%u clients, |value| <= %lld: nothing to add", p->clients, (long long)p->value_max);
    u128 sum = (u128)p->clients * (uint64_t)p->value_max;
    SEFL_NEED(sum < (u128)1 << (p->w - 1), SEFL_ERANGE,
              "%u clients with |value| <= %lld need %u bits, but the slot has %u", p->clients,
              (long long)p->value_max, bit_length(sum) + 1, p->w);
    return SEFL_OK;
}

size_t pack_slots(const pack *p, unsigned bits)
{
    return bits < 2 + p->s + p->w ? 0 : (bits - 2 - p->s) / p->w;
}

sefl_status pack_check_values(const pack *p, const int64_t *values, size_t n, size_t first)
{
    /* v + max as an unsigned number is in [0, 2 max] for a valid v; max < 2^47, so an invalid v of
     * either sign is above that. The compiler turns this loop into vector code without branches. */
    uint64_t max = (uint64_t)p->value_max, bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= (2 * max - ((uint64_t)values[i] + max)) >> 63 | ((uint64_t)values[i] + max) >> 63;
    CT_PUBLIC(&bad, sizeof bad); /* the caller learns it from the result */
    if (bad == 0)
        return SEFL_OK;
    size_t at = 0;
    while (at + 1 < n) {
        uint64_t above = (uint64_t)values[at] + max > 2 * max;
        CT_PUBLIC(&above, sizeof above); /* the message contains the first index */
        if (above)
            break;
        at++;
    }
    return sefl_fail(SEFL_ERANGE, "value %zu of the update is outside [-%lld, %lld]", first + at,
                     (long long)p->value_max, (long long)p->value_max);
}

/* mech_coins: draws random bits and bytes from a sefl_rng in blocks; internal to mechanism/.
 *
 * If the generator fails, st keeps the error and draws return zeros; the caller checks st at the
 * end. Secret: everything; coins_clear wipes it. */
#ifndef PRIVACY_MECHANISM_MECH_COINS_H
#define PRIVACY_MECHANISM_MECH_COINS_H

#include "base/ct.h"
#include "base/random.h"
#include "base/span.h"

typedef struct coins {
    const sefl_rng *rng;
    sefl_status st;
    uint8_t block[4096];
    size_t used, have;
    uint64_t bits;
    unsigned bits_left;
} coins;

static inline void coins_init(coins *c, const sefl_rng *rng)
{
    c->rng = rng, c->st = SEFL_OK, c->used = c->have = 0, c->bits = 0, c->bits_left = 0;
}

static inline void coins_clear(coins *c)
{
    sefl_wipe(c, sizeof *c);
}

static inline uint64_t coins_u64(coins *c)
{
    if (c->used == c->have) {
        c->used = 0, c->have = sizeof c->block;
        if (c->st == SEFL_OK)
            c->st = rng_fill(c->rng, c->block, sizeof c->block);
        if (c->st != SEFL_OK)
            sefl_wipe(c->block, sizeof c->block);
    }
    uint64_t v = load_u64(c->block + c->used);
    c->used += 8;
    return v;
}

/* Returns n <= 32 random bits. */
static inline uint32_t coins_bits(coins *c, unsigned n)
{
    if (c->bits_left < n) { /* discards the remaining bits */
        c->bits = coins_u64(c);
        c->bits_left = 64;
    }
    uint32_t v = (uint32_t)(c->bits & ((UINT64_C(1) << n) - 1));
    c->bits >>= n;
    c->bits_left -= n;
    return v;
}

#endif

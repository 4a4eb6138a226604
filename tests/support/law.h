/* law: the specification of a sampler profile: its value as a formula, and its exact distribution.
 *
 *     z == law_value_vartime(&sampler_g44, 16, n, r)            // for every n and r
 *     law_pmf(&sampler_g44, count)                              // P[X = x] = count[x] / 2^34
 *
 * Threads: pure functions. */
#ifndef SUPPORT_LAW_H
#define SUPPORT_LAW_H

#include "mpc/circuits/sampler.h"

#include <string.h>

/* Returns (n + X) mod 2^k; r[i] is 0 or 1, in the order of sampler.h. Not constant-time. */
static inline uint32_t law_value_vartime(const sampler_profile *p, unsigned k, uint32_t n,
                                         const uint8_t *r)
{
    uint64_t z = (uint64_t)n + (1u << p->kick_a);
    for (unsigned c = 0; c < p->columns; c++)
        for (unsigned i = 0; i < p->column[c]; i++)
            z += (uint64_t)*r++ << c;
    bool kick = true;
    for (unsigned i = 0; i < p->kick_m; i++)
        kick = kick && *r++;
    if (kick)
        z = *r ? z + (1u << p->kick_a) : z - (1u << p->kick_a);
    return (uint32_t)(z & ((1ULL << k) - 1));
}

/* Sets count[x], for x = 0 .. sampler_max(p), to the number of the 2^sampler_random_bits(p) equally
 * likely bit strings that give X = x. SEFL_ERANGE if a profile has more than 62 random bits. */
static inline sefl_status law_pmf(const sampler_profile *p, uint64_t *count)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(sampler_check(p));
    SEFL_CHECK(sampler_random_bits(p) <= 62, SEFL_ERANGE, "law of %s: %u coins, at most 62",
               p->name, sampler_random_bits(p));
    size_t max = sampler_max(p), top = 0, step = (size_t)1 << p->kick_a;
    memset(count, 0, (max + 1) * sizeof *count);
    count[0] = 1;
    for (unsigned c = 0; c < p->columns; c++) /* one fair bit at a time */
        for (unsigned i = 0; i < p->column[c]; i++) {
            top += (size_t)1 << c;
            for (size_t x = top + 1; x-- > (size_t)1 << c;)
                count[x] += count[x - ((size_t)1 << c)];
        }
    /* the kick: of 2^(m+1) bit strings, one adds 2 steps, one adds none, the others add one */
    uint64_t others = (2ULL << p->kick_m) - 2;
    for (size_t x = max + 1; x-- > 0;) {
        uint64_t n = count[x];
        if (x >= step)
            n += others * count[x - step];
        if (x >= 2 * step)
            n += count[x - 2 * step];
        count[x] = n;
    }
done:
    return st;
}

#endif

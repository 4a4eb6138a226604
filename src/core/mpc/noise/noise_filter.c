#include "mpc/noise/noise_filter.h"

#include "base/ct.h"
#include "base/span.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

void noise_filter_back(uint8_t *memory, const uint16_t gamma[NOISE_LAGS], unsigned lags,
                       const uint8_t *const past[NOISE_LAGS], size_t n)
{
    enum { SOME = 512 };
    uint64_t q[SOME];
    for (size_t at = 0; at < n; at += SOME) {
        const size_t m = n - at < SOME ? n - at : SOME;
        memset(q, 0, sizeof q);
        for (unsigned j = 0; j < NOISE_LAGS; j++) {
            if (!(lags >> j & 1) || gamma[j] == 0)
                continue;
            assert(past[j]);
            const uint8_t *s = past[j] + at * NOISE_KEPT;
            for (size_t i = 0; i < m; i++)
                q[i] -= gamma[j] * load_u64(s + i * NOISE_KEPT);
        }
        for (size_t i = 0; i < m; i++)
            store_u64(memory + (at + i) * NOISE_KEPT,
                      (q[i] + (1u << (NOISE_GAMMA_BITS - 1))) >> NOISE_GAMMA_BITS);
    }
    sefl_wipe(q, sizeof q);
}

void noise_filter_place(const noise_filter *f, uint64_t *digit, uint8_t *memory, const int64_t *x,
                        size_t n)
{
    const uint64_t ring = ((uint64_t)1 << NOISE_PLACE_BITS) - 1;
    const bool csp = f->sign > 0;
    const uint64_t mean = csp ? 0 : (uint64_t)f->mean2 << (f->F - 1);
    for (size_t i = 0; i < n; i++) {
        const uint64_t h = load_u64(memory + i * NOISE_KEPT), up = digit[i] << f->up;
        const uint64_t y = (csp ? up + h : up - h) & ring, place = (uint64_t)x[i] << f->F;
        digit[i] = y;
        store_u64(memory + i * NOISE_KEPT, csp ? place - y : place + y - mean);
    }
}

void noise_filter_keep(const noise_filter *f, uint8_t *memory, const uint64_t *d, size_t n)
{
    const bool csp = f->sign > 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t kept = load_u64(memory + i * NOISE_KEPT), place = d[i] << f->F;
        store_u64(memory + i * NOISE_KEPT, csp ? kept + place : kept - place);
    }
}

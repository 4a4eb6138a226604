#include "mpc/noise/filter.h"

#include "base/span.h"

#include <assert.h>
#include <string.h>

void noise_filter_back(uint64_t *h, const uint16_t gamma[NOISE_LAGS], unsigned lags,
                       const noise_memory *m, size_t at, size_t n)
{
    memset(h, 0, n * sizeof *h);
    for (unsigned j = 0; j < NOISE_LAGS; j++) {
        if (!(lags >> j & 1) || gamma[j] == 0)
            continue;
        assert(m->past[j]);
        const uint8_t *s = m->past[j] + at * NOISE_KEPT;
        for (size_t i = 0; i < n; i++)
            h[i] -= gamma[j] * load_u64(s + i * NOISE_KEPT);
    }
    for (size_t i = 0; i < n; i++)
        h[i] = (h[i] + (1u << (NOISE_GAMMA_BITS - 1))) >> NOISE_GAMMA_BITS;
}

void noise_filter_place(uint64_t *digit, const uint64_t *h, size_t n, unsigned up, int sign)
{
    const uint64_t ring = ((uint64_t)1 << NOISE_PLACE_BITS) - 1;
    const uint64_t s = (uint64_t)(int64_t)sign;
    for (size_t i = 0; i < n; i++)
        digit[i] = ((digit[i] << up) + s * h[i]) & ring;
}

void noise_filter_keep(uint8_t *keep, const int64_t *x, const uint64_t *d, const uint64_t *y,
                       size_t n, unsigned F, int sign, unsigned mean2)
{
    const uint64_t s = (uint64_t)(int64_t)sign;
    const uint64_t mean = sign < 0 ? (uint64_t)mean2 << (F - 1) : 0;
    for (size_t i = 0; i < n; i++)
        store_u64(keep + i * NOISE_KEPT, ((uint64_t)x[i] << F) + s * ((d[i] << F) - y[i]) - mean);
}

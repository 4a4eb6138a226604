/* digits: a noise_digits that reads an array: noise_digits d = noise_digits_of(array). */
#ifndef SUPPORT_DIGITS_H
#define SUPPORT_DIGITS_H

#include "mpc/noise/online.h"

#include <string.h>

static inline sefl_status digits_from_array(void *ctx, uint64_t *digit, size_t first, size_t n)
{
    memcpy(digit, (const uint64_t *)ctx + first, n * sizeof *digit);
    return SEFL_OK;
}

static inline noise_digits noise_digits_of(const uint64_t *digit)
{
    union {
        const uint64_t *from;
        void *ctx;
    } u = { .from = digit };
    return (noise_digits){ .get = digits_from_array, .ctx = u.ctx };
}

#endif

/* squares: computes the exact sum of squares of integers. */
#ifndef SUPPORT_SQUARES_H
#define SUPPORT_SQUARES_H

#include <stddef.h>
#include <stdint.h>

/* Returns the lower half of the sum and sets *hi to the upper half. */
static inline uint64_t sum_of_squares(uint64_t *hi, const int64_t *X, size_t n)
{
    unsigned __int128 sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (unsigned __int128)((__int128)X[i] * X[i]);
    *hi = (uint64_t)(sum >> 64);
    return (uint64_t)sum;
}

#endif

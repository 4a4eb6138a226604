#include "base/ct.h"

#include <string.h>

uint64_t ct_eq_bytes(const void *a, const void *b, size_t n)
{
    const uint8_t *x = a, *y = b;
    uint64_t diff = 0;
    for (size_t i = 0; i < n; i++)
        diff |= (uint64_t)(x[i] ^ y[i]);
    return ct_is_zero_u64(diff);
}

void ct_copy_if(uint64_t bit, void *dst, const void *src, size_t n)
{
    uint8_t mask = (uint8_t)ct_mask_u64(bit);
    uint8_t *d = dst;
    const uint8_t *s = src;
    for (size_t i = 0; i < n; i++)
        d[i] = (uint8_t)(d[i] ^ (mask & (d[i] ^ s[i])));
}

void ct_swap_if(uint64_t bit, void *a, void *b, size_t n)
{
    uint8_t mask = (uint8_t)ct_mask_u64(bit);
    uint8_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++) {
        uint8_t t = (uint8_t)(mask & (x[i] ^ y[i]));
        x[i] ^= t;
        y[i] ^= t;
    }
}

void sefl_wipe(void *p, size_t n)
{
    if (n > 0)
        memset(p, 0, n);
    __asm__ __volatile__("" : : "r"(p) : "memory");
}

#include "crypto/ahe/lwe_head.h"

#include "base/ct.h"

#include <assert.h>
#include <string.h>

enum { BYTES_MAX = 512, OFFSET = 1 << (LWE_SLOT_BITS - 1) };

size_t lwe_head_slots(unsigned bits)
{
    return (bits - 2) / LWE_SLOT_BITS;
}

size_t lwe_head_count(unsigned bits)
{
    size_t slots = lwe_head_slots(bits);
    return (LWE_N + slots - 1) / slots;
}

/* Slots in use in ciphertext `index`: all but the last are full. */
static size_t used_slots(size_t index, unsigned bits)
{
    size_t slots = lwe_head_slots(bits), first = index * slots;
    assert(first < LWE_N && bits <= 8 * BYTES_MAX);
    return LWE_N - first < slots ? LWE_N - first : slots;
}

void lwe_head_encode(uint8_t *m, const int32_t s[LWE_N], size_t index, const uint8_t *modulus,
                     unsigned bits)
{
    const size_t n = used_slots(index, bits), bytes = bits / 8;
    s += index * lwe_head_slots(bits);
    int32_t carry = 0; /* 0 or -1: the sum so far as a two's complement number */
    for (size_t k = 0; k < n; k++) {
        int32_t x = s[k] + carry;
        m[2 * k] = (uint8_t)((uint32_t)x & 255);
        m[2 * k + 1] = (uint8_t)((uint32_t)x >> 8 & 255);
        carry = -(int32_t)((uint32_t)x >> 31);
    }
    memset(m + 2 * n, (int)((uint32_t)carry & 255), bytes - 2 * n);
    /* negative: add N */
    uint32_t sign = (uint32_t)ct_mask_u64((uint32_t)carry & 1), sum = 0;
    for (size_t i = 0; i < bytes; i++) {
        sum += (uint32_t)m[i] + (modulus[i] & sign);
        m[i] = (uint8_t)(sum & 255);
        sum >>= 8;
    }
}

bool lwe_head_decode(int32_t s[LWE_N], const uint8_t *m, size_t index, const uint8_t *modulus,
                     unsigned bits)
{
    const size_t n = used_slots(index, bits), bytes = bits / 8;
    /* x = m + sum of 2^15 * 2^(16*k) modulo N: every slot of an honest sum is then 1 .. 2^16 - 1 */
    uint8_t x[BYTES_MAX] = { 0 }, y[BYTES_MAX] = { 0 };
    uint32_t sum = 0, borrow = 0;
    for (size_t i = 0; i < bytes; i++) {
        sum += (uint32_t)m[i] + (i < 2 * n && i % 2 ? OFFSET >> 8 : 0);
        x[i] = (uint8_t)(sum & 255);
        sum >>= 8;
        uint32_t diff = (uint32_t)x[i] - modulus[i] - borrow;
        y[i] = (uint8_t)(diff & 255);
        borrow = diff >> 31;
    }
    /* m < N and the offset is below 2^(bits-2): the sum has no bit beyond if N has its top bit set,
     * but count it anyway */
    ct_copy_if(1 ^ (borrow & ~sum & 1), x, y, bytes);
    s += index * lwe_head_slots(bits);
    for (size_t k = 0; k < n; k++)
        s[k] = (int32_t)((uint32_t)x[2 * k] | (uint32_t)x[2 * k + 1] << 8) - OFFSET;
    uint64_t above = 0;
    for (size_t i = 2 * n; i < bytes; i++)
        above |= x[i];
    sefl_wipe(x, sizeof x);
    sefl_wipe(y, sizeof y);
    CT_PUBLIC(&above, sizeof above); /* zero for every honest sum; else the result is spoiled */
    return above == 0;
}

/* Slots go through one 64-bit accumulator with a running carry: a value plus carry gives w bits and
 * the next carry, -1 or 0, so that the slots together are A in two's complement. */
#include "crypto/ahe/paillier_pack.h"

#include "base/ct.h"
#include "crypto/ahe/paillier.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

enum { PLAIN_MAX = PAILLIER_BITS_MAX / 8 };

static uint64_t low_bits(unsigned w)
{
    return ((uint64_t)1 << w) - 1; /* w < 64 */
}

/* Bits pos..pos+len-1 of the n bytes, len <= 64; bits outside are 0. Positions are public. */
static uint64_t bits_at(const uint8_t *p, size_t n, int64_t pos, unsigned len)
{
    unsigned before = pos < 0 ? (unsigned)-pos : 0; /* zeros below bit 0 */
    if (before >= len)
        return 0;
    uint8_t tmp[16] = { 0 };
    size_t at = pos < 0 ? 0 : (size_t)pos / 8;
    unsigned shift = pos < 0 ? 0 : (unsigned)(pos % 8);
    if (at < n)
        memcpy(tmp, p + at, n - at < 9 ? n - at : 9);
    uint64_t v = load_u64(tmp) >> shift;
    if (shift > 0)
        v |= (uint64_t)tmp[8] << (64 - shift);
    v <<= before;
    return len == 64 ? v : v & low_bits(len);
}

/* Writes A as |N|/8 bytes in two's complement, from `count` values; the other slots are 0. Returns
 * all ones if A is negative, else 0. */
static uint64_t pack_signed(const ahe_params *p, uint8_t *out, const int64_t *values, size_t count)
{
    unsigned w = p->pack.w, fill = 0;
    uint64_t acc = 0, mask = low_bits(w);
    int64_t carry = 0;
    size_t at = 0;
    assert(w >= 1 && w <= 56);
    for (size_t i = 0; i < p->unit_values; i++) {
        int64_t v = (i < count ? values[i] : 0) + carry;
        carry = v >> w; /* arithmetic shift: gcc and clang */
        acc |= ((uint64_t)v & mask) << fill;
        fill += w;
        for (; fill >= 8; fill -= 8, acc >>= 8)
            out[at++] = (uint8_t)acc;
    }
    uint64_t sign = (uint64_t)carry; /* 0 or all ones */
    if (fill > 0)
        out[at++] = (uint8_t)(acc | sign << fill);
    for (; at < p->plain_bytes; at++)
        out[at] = (uint8_t)sign;
    return sign;
}

void paillier_pack(const ahe_params *p, uint8_t *out, const int64_t *values, size_t count,
                   const uint8_t *n)
{
    uint64_t negative = pack_signed(p, out, values, count), carry = 0;
    for (size_t i = 0; i < p->plain_bytes; i++) { /* 2^|N| - |A| + N, the top bit drops out */
        uint64_t s = (uint64_t)out[i] + (n[i] & (uint8_t)negative) + carry;
        out[i] = (uint8_t)s;
        carry = s >> 8;
    }
}

void paillier_pack_mask(const ahe_params *p, uint8_t *out, uint64_t index,
                        const uint8_t seed[AHE_SEED_BYTES], unsigned offset)
{
    size_t packed = p->unit_values * p->pack.w, bits = packed + p->pack.s, bytes = (bits + 7) / 8;
    uint8_t nonce[crypto_stream_chacha20_NONCEBYTES];
    assert(bits + 1 < 8 * p->plain_bytes);
    store_u64(nonce, index);
    memset(out, 0, p->plain_bytes);
    crypto_stream_chacha20(out, bytes, nonce, seed);
    if (bits % 8)
        out[bytes - 1] &= (uint8_t)low_bits((unsigned)(bits % 8));
    uint64_t carry = (uint64_t)offset << (packed % 8);
    for (size_t i = packed / 8; i < p->plain_bytes; i++) {
        carry += out[i];
        out[i] = (uint8_t)carry;
        carry >>= 8;
    }
}

sefl_status paillier_mask_units(const ahe_params *p, uint8_t *plain, size_t first, size_t units,
                                const uint8_t seed[AHE_SEED_BYTES])
{
    for (size_t i = 0; i < units; i++)
        paillier_pack_mask(p, plain + i * p->plain_bytes, first + i, seed, 0);
    return SEFL_OK;
}

void paillier_plain_digits(const ahe_params *p, uint64_t *digits, const uint8_t *plain,
                           size_t units)
{
    unsigned w = p->pack.w, g = p->pack.g;
    for (size_t u = 0; u < units; u++)
        for (size_t i = 0; i < p->unit_values; i++)
            digits[u * p->unit_values + i] = bits_at(plain + u * p->plain_bytes, p->plain_bytes,
                                                     (int64_t)(w * i) - (int64_t)g, w + g);
}

void paillier_plain_unmask(const ahe_params *p, int64_t *values, const uint8_t *masked,
                           const uint8_t *mask, size_t units)
{
    unsigned w = p->pack.w;
    uint8_t d[PLAIN_MAX];
    assert(w >= 2 && w < 64); /* pack_check */
    for (size_t u = 0; u < units; u++) {
        const uint8_t *n = masked + u * p->plain_bytes, *v = mask + u * p->plain_bytes;
        uint64_t borrow = 0, carry = 0;
        for (size_t i = 0; i < p->plain_bytes; i++) { /* A + OFF; OFF is above the slots */
            uint64_t t = (uint64_t)n[i] - v[i] - borrow;
            d[i] = (uint8_t)t;
            borrow = t >> 63;
        }
        for (size_t i = 0; i < p->unit_values; i++) {
            uint64_t t = bits_at(d, p->plain_bytes, (int64_t)(w * i), w) + carry;
            carry = (t >> (w - 1) & 1) | t >> w; /* a negative value borrowed from the next slot */
            values[u * p->unit_values + i] = (int64_t)(t << (64 - w)) >> (64 - w);
        }
    }
    sefl_wipe(d, sizeof d);
}

void paillier_plain_add(const ahe_params *p, uint8_t *plain, const int64_t *values, size_t units)
{
    uint8_t a[PLAIN_MAX];
    for (size_t u = 0; u < units; u++) {
        uint8_t *n = plain + u * p->plain_bytes;
        uint64_t carry = 0;
        pack_signed(p, a, values + u * p->unit_values, p->unit_values);
        for (size_t i = 0; i < p->plain_bytes; i++) {
            carry += (uint64_t)n[i] + a[i];
            n[i] = (uint8_t)carry;
            carry >>= 8;
        }
    }
    sefl_wipe(a, sizeof a);
}

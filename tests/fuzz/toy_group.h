/* toy_group: a group that replaces ristretto255, for harnesses of code that runs after base OTs.
 *
 * 128 base OTs take 15 ms with libsodium's curve, a thousand times as long as all the parsing. In a
 * harness that includes this header, these functions replace libsodium's: the integers modulo the
 * prime 2^61 - 1 under addition, an element is 32 bytes of which the last 24 are zero. The group
 * keeps the properties that matter to callers: most byte strings are not an element, one element is
 * neutral, both orders of a Diffie-Hellman exchange agree. tests/unit/core/mpc/test_ot_base.c tests
 * the real group, with bad points. */
#ifndef TESTS_FUZZ_TOY_GROUP_H
#define TESTS_FUZZ_TOY_GROUP_H

#include "base/span.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#define TOY_ORDER (((uint64_t)1 << 61) - 1)

static inline uint64_t toy_times(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b % TOY_ORDER);
}

static inline bool toy_load(uint64_t *out, const uint8_t *p)
{
    uint8_t rest = 0;
    for (int i = 8; i < 32; i++)
        rest |= p[i];
    *out = load_u64(p);
    return rest == 0 && *out < TOY_ORDER;
}

static inline void toy_store(uint8_t *p, uint64_t x)
{
    memset(p, 0, 32);
    store_u64(p, x);
}

void crypto_core_ristretto255_scalar_reduce(unsigned char *r, const unsigned char *s)
{
    toy_store(r, load_u64(s) % TOY_ORDER);
}

int crypto_core_ristretto255_from_hash(unsigned char *p, const unsigned char *r)
{
    toy_store(p, load_u64(r) % TOY_ORDER);
    return 0;
}

int crypto_core_ristretto255_add(unsigned char *r, const unsigned char *p, const unsigned char *q)
{
    uint64_t a, b;
    if (!toy_load(&a, p) || !toy_load(&b, q))
        return -1;
    toy_store(r, (a + b) % TOY_ORDER);
    return 0;
}

int crypto_core_ristretto255_sub(unsigned char *r, const unsigned char *p, const unsigned char *q)
{
    uint64_t a, b;
    if (!toy_load(&a, p) || !toy_load(&b, q))
        return -1;
    toy_store(r, (a + TOY_ORDER - b) % TOY_ORDER);
    return 0;
}

int crypto_scalarmult_ristretto255(unsigned char *q, const unsigned char *n, const unsigned char *p)
{
    uint64_t a, x;
    if (!toy_load(&x, p))
        return -1;
    a = toy_times(load_u64(n) % TOY_ORDER, x);
    toy_store(q, a);
    return a == 0 ? -1 : 0;
}

int crypto_scalarmult_ristretto255_base(unsigned char *q, const unsigned char *n)
{
    uint64_t a = toy_times(load_u64(n) % TOY_ORDER, 3);
    toy_store(q, a);
    return a == 0 ? -1 : 0;
}

#endif

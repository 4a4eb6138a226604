/* lwe_choose, lwe_check, and secrets as plaintexts: signs, sums, a full slot, nonsense. */
#include "support/check.h"

#include "crypto/ahe/lwe.h"
#include "crypto/ahe/lwe_head.h"

#include <math.h>
#include <string.h>

static void choices(void **state)
{
    (void)state;
    unsigned kappa, d;
    CHECK_OK(lwe_choose(28, 10000, &kappa, &d));
    assert_int_equal(kappa, 42);
    assert_int_equal(d, 4);
    CHECK_OK(lwe_choose(28, 32767, &kappa, &d));
    assert_int_equal(kappa - d, 39);
    CHECK_STATUS(lwe_choose(28, 0, &kappa, &d), SEFL_ERANGE);
    CHECK_STATUS(lwe_choose(28, 32768, &kappa, &d), SEFL_ERANGE);
    CHECK_STATUS(lwe_choose(1, 10, &kappa, &d), SEFL_ERANGE);
    CHECK_STATUS(lwe_choose(48, 10, &kappa, &d), SEFL_ERANGE);
    CHECK_STATUS(lwe_choose(54, 1, &kappa, &d), SEFL_ERANGE);
    assert_int_equal(kappa, 0);
    assert_int_equal(d, 0);
}

/* Against the same bound in floating point: what is chosen passes, and nothing shorter does. */
static void choices_are_best(void **state)
{
    (void)state;
    static const uint32_t clients[] = { 1, 2, 3, 10, 31, 100, 1000, 9999, 10000, 32767 };
    for (unsigned w = 2; w < LWE_KAPPA_MAX; w++)
        for (size_t i = 0; i < sizeof clients / sizeof clients[0]; i++) {
            unsigned kappa, d, best = 0;
            for (unsigned k = w + 1; k <= LWE_KAPPA_MAX; k++)
                for (unsigned cut = 0; cut <= k - w; cut++) {
                    double v = clients[i] * (10.5 + (pow(4, cut) - 1) / 12);
                    double margin = pow(2, k - w - 1) - 1;
                    bool ok = log2(2) + 32 - margin * margin / (2 * v) / log(2) < -64.38;
                    if (ok && (best == 0 || k - cut < best))
                        best = k - cut;
                    CHECK_STATUS(lwe_check(w, clients[i], k, cut), ok ? SEFL_OK : SEFL_EINVAL);
                }
            if (best == 0) {
                CHECK_STATUS(lwe_choose(w, clients[i], &kappa, &d), SEFL_ERANGE);
                continue;
            }
            CHECK_OK(lwe_choose(w, clients[i], &kappa, &d));
            assert_int_equal(kappa - d, best);
            CHECK_OK(lwe_check(w, clients[i], kappa, d));
        }
    CHECK_STATUS(lwe_check(28, 0, 42, 4), SEFL_EINVAL);
    CHECK_STATUS(lwe_check(28, 32768, 54, 0), SEFL_EINVAL);
    CHECK_STATUS(lwe_check(28, 10, 55, 4), SEFL_EINVAL);
    CHECK_STATUS(lwe_check(28, 10, 28, 0), SEFL_EINVAL);
    CHECK_STATUS(lwe_check(28, 10, 42, 15), SEFL_EINVAL); /* would cut into the message */
    CHECK_STATUS(lwe_check(28, 10, 42, 0xffffffff), SEFL_EINVAL);
}

/* ---- plaintexts ------------------------------------------------------------------------------ */

enum { BYTES = 512 };

/* a = a + b modulo N, little-endian. */
static void add_mod(uint8_t *a, const uint8_t *b, const uint8_t *n, size_t bytes)
{
    unsigned carry = 0;
    int below = 0;
    for (size_t i = 0; i < bytes; i++) {
        carry += (unsigned)a[i] + b[i];
        a[i] = (uint8_t)carry;
        carry >>= 8;
    }
    for (size_t i = bytes; i-- > 0 && !below;)
        below = (a[i] < n[i]) - (a[i] > n[i]);
    if (carry || below <= 0) {
        unsigned borrow = 0;
        for (size_t i = 0; i < bytes; i++) {
            unsigned x = (unsigned)a[i] - n[i] - borrow;
            a[i] = (uint8_t)x;
            borrow = x >> 31;
        }
    }
}

static void modulus(seeded *gen, uint8_t *n, unsigned bits, int kind)
{
    memset(n, kind == 1 ? 0xff : 0, BYTES);
    if (kind == 2)
        seeded_fill(gen, n, bits / 8);
    n[bits / 8 - 1] |= 0x80;
    n[0] |= 1;
}

static void sums_of_heads(void **state)
{
    (void)state;
    static int32_t s[LWE_N], total[LWE_N], got[LWE_N];
    seeded gen;
    test_seed(&gen, "heads");
    assert_int_equal(lwe_head_slots(3072), 191);
    assert_int_equal(lwe_head_count(3072), 11);
    assert_int_equal(lwe_head_count(2048), 17);
    assert_int_equal(lwe_head_count(4096), 9);
    for (unsigned bits = 2048; bits <= 4096; bits += 1024)
        for (int kind = 0; kind < 9; kind++) { /* smallest, largest, random N; three kinds of s */
            uint8_t n[BYTES], sum[17][BYTES] = { 0 }, m[BYTES];
            modulus(&gen, n, bits, kind % 3);
            memset(total, 0, sizeof total);
            for (int j = 0; j < 20; j++) {
                for (size_t k = 0; k < LWE_N; k++) {
                    s[k] = kind / 3 == 0   ? (int32_t)seeded_below(&gen, 3) - 1
                           : kind / 3 == 1 ? 32767 / 20 - 3200 * (j % 2)
                                           : -(32767 / 20);
                    total[k] += s[k];
                }
                for (size_t i = 0; i < lwe_head_count(bits); i++) {
                    lwe_head_encode(m, s, i, n, bits);
                    add_mod(sum[i], m, n, bits / 8);
                }
            }
            for (size_t i = 0; i < lwe_head_count(bits); i++)
                assert_true(lwe_head_decode(got, sum[i], i, n, bits));
            assert_memory_equal(got, total, sizeof got);
        }
}

/* 32,767 clients with equal secrets, signs mixed so that carries run both ways: a slot's limits. */
static void full_slots(void **state)
{
    (void)state;
    static int32_t s[LWE_N], got[LWE_N];
    seeded gen;
    test_seed(&gen, "full");
    for (int kind = 0; kind < 3; kind++) {
        uint8_t n[BYTES], m[BYTES];
        modulus(&gen, n, 3072, kind);
        for (size_t k = 0; k < LWE_N; k++)
            s[k] = kind == 0 ? 32767 : kind == 1 ? -32767 : seeded_below(&gen, 2) ? 32767 : -32767;
        for (size_t i = 0; i < 11; i++) {
            lwe_head_encode(m, s, i, n, 3072);
            assert_true(lwe_head_decode(got, m, i, n, 3072));
        }
        assert_memory_equal(got, s, sizeof got);
    }
}

/* A plaintext outside what sums can give is told apart, and still decodes to 16-bit numbers. */
static void nonsense(void **state)
{
    (void)state;
    static int32_t s[LWE_N];
    uint8_t n[BYTES], m[BYTES] = { 0 };
    modulus(NULL, n, 3072, 0);
    m[3072 / 8 - 2] = 1; /* 2^3056: one beyond 191 slots */
    assert_false(lwe_head_decode(s, m, 0, n, 3072));
    memset(m, 0, sizeof m);
    assert_true(lwe_head_decode(s, m, 0, n, 3072));
    m[2 * (2048 - 10 * 191)] = 1; /* beyond the 138 slots of the last */
    assert_true(lwe_head_decode(s, m, 9, n, 3072));
    assert_false(lwe_head_decode(s, m, 10, n, 3072));
    memcpy(m, n, sizeof m); /* N/2, about */
    m[3072 / 8 - 1] = 0x40;
    assert_false(lwe_head_decode(s, m, 0, n, 3072));
    for (size_t k = 0; k < LWE_N; k++)
        assert_true(s[k] >= -32768 && s[k] <= 32767);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices),       cmocka_unit_test(choices_are_best),
        cmocka_unit_test(sums_of_heads), cmocka_unit_test(full_slots),
        cmocka_unit_test(nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Products in the ring, every path against the schoolbook; the proven error bound against the worst
 * inputs; rows of bits. */
#include "support/check.h"

#include "crypto/ahe/lwe_bits.h"
#include "crypto/ahe/lwe_ring.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

static lwe_ring ring;
static lwe_spectrum f;
static lwe_scratch scratch;
static uint64_t a[LWE_N], c[LWE_N], want[LWE_N];
static int32_t s[LWE_N];

static uint64_t low(unsigned bits)
{
    return ((uint64_t)1 << bits) - 1;
}

static void compare(unsigned kappa, bool ternary, const char *what)
{
    for (size_t i = 0; i < LWE_N; i++)
        c[i] = want[i] = i * 0x9e3779b97f4a7c15;
    lwe_ring_mul_add_ref(want, a, s);
    for (unsigned path = 0; path < LWE_PATHS; path++) {
        if (!lwe_path_has(path))
            continue;
        uint64_t got[LWE_N];
        memcpy(got, c, sizeof got);
        lwe_ring_init(&ring, path);
        lwe_ring_spectrum(&ring, &f, s, ternary);
        lwe_ring_mul_add(&ring, got, a, kappa, &f, &scratch);
        for (size_t i = 0; i < LWE_N; i++)
            if (((got[i] ^ want[i]) & low(kappa)) != 0)
                fail_msg("%s, %s, kappa %u: coefficient %zu is %llx, wanted %llx",
                         lwe_path_name(path), what, kappa, i,
                         (unsigned long long)(got[i] & low(kappa)),
                         (unsigned long long)(want[i] & low(kappa)));
    }
}

static void random_products(void **state)
{
    (void)state;
    static const unsigned kappas[] = { 4, 5, 14, 15, 28, 29, 36, 42, 43, 54, 56 };
    seeded gen;
    test_seed(&gen, "ring");
    for (unsigned long t = 0; t < test_count(2, 200); t++)
        for (size_t k = 0; k < sizeof kappas / sizeof kappas[0]; k++)
            for (int ternary = 0; ternary < 2; ternary++) {
                for (size_t i = 0; i < LWE_N; i++) {
                    a[i] = seeded_u64(&gen) & low(kappas[k]);
                    s[i] = ternary ? (int32_t)seeded_below(&gen, 3) - 1
                                   : (int32_t)seeded_below(&gen, 65537) - 32768;
                }
                compare(kappas[k], ternary, "random");
            }
}

/* Largest digits, all of one sign or in the sign pattern of one transform point, times the largest
 * s in the same pattern: the products reach their bound. */
static void extreme_products(void **state)
{
    (void)state;
    static const unsigned kappas[] = { 42, 54, 56 };
    for (size_t k = 0; k < sizeof kappas / sizeof kappas[0]; k++)
        for (int ternary = 0; ternary < 2; ternary++)
            for (unsigned period = 1; period <= LWE_N; period *= 2) {
                unsigned kappa = kappas[k], h = ternary ? (kappa + 1) / 2 : 14;
                uint64_t plus = 0, minus = 0;
                for (unsigned at = 0; at < kappa; at += h) { /* every digit 2^(h-1)-1 or -2^(h-1) */
                    plus += (((uint64_t)1 << (h - 1)) - 1) << at;
                    minus -= (uint64_t)1 << (h - 1) << at;
                }
                for (size_t i = 0; i < LWE_N; i++) {
                    bool up = i / period % 2;
                    a[i] = (up ? plus : minus) & low(kappa);
                    s[i] = (up ? 1 : -1) * (ternary ? 1 : 32768);
                }
                compare(kappa, ternary, "extreme");
            }
}

static void monomials(void **state)
{
    (void)state;
    static const size_t at[] = { 0, 1, 7, 8, 1023, 1024, 1025, 2047 };
    for (size_t i = 0; i < 8; i++)
        for (size_t k = 0; k < 8; k++) {
            memset(a, 0, sizeof a);
            memset(s, 0, sizeof s);
            a[at[i]] = (uint64_t)1 << 41 | 12345;
            s[at[k]] = -1;
            compare(42, true, "monomial");
            compare(42, false, "monomial");
        }
    memset(s, 0, sizeof s);
    compare(42, true, "zero");
}

/* ---- rows of bits ---------------------------------------------------------------------------- */

static void rows(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "rows");
    for (unsigned bits = LWE_BITS_MIN; bits <= LWE_BITS_MAX; bits++)
        for (size_t n = 8; n <= 64; n += 8)
            for (unsigned path = 0; path < LWE_PATHS; path++) {
                if (!lwe_path_has(path))
                    continue;
                lwe_bits b;
                uint64_t in[64], out[64], sum[64];
                uint8_t *row = malloc(n / 8 * bits); /* exact, so that a sanitizer sees a reach */
                uint8_t plain[64 * 8] = { 0 };
                unsigned shift = (unsigned)seeded_below(&gen, 64 - bits + 1);
                uint64_t bias = n % 16 ? 0 : seeded_u64(&gen);
                assert_non_null(row);
                lwe_bits_init(&b, bits, path);
                assert_int_equal(lwe_bits_bytes(&b, n), n * bits / 8);
                for (size_t i = 0; i < n; i++) {
                    in[i] = seeded_u64(&gen);
                    sum[i] = seeded_u64(&gen);
                    for (unsigned j = 0; j < bits; j++) { /* the definition, bit by bit */
                        uint64_t bit = (in[i] + bias) >> (shift + j) & 1;
                        plain[(i * bits + j) / 8] |= (uint8_t)(bit << (i * bits + j) % 8);
                    }
                }
                lwe_bits_pack(&b, row, in, n, shift, bias);
                assert_memory_equal(row, plain, n * bits / 8);
                lwe_bits_unpack(&b, out, row, n);
                for (size_t i = 0; i < n; i++) {
                    assert_true(out[i] == ((in[i] + bias) >> shift & low(bits)));
                    out[i] = sum[i];
                }
                lwe_bits_add(&b, out, row, n);
                for (size_t i = 0; i < n; i++)
                    assert_true(out[i] == sum[i] + ((in[i] + bias) >> shift & low(bits)));
                free(row);
            }
}

static void counts(void **state)
{
    (void)state;
    enum { N = 40 };
    seeded gen;
    test_seed(&gen, "counts");
    for (unsigned path = 0; path < LWE_PATHS; path++)
        for (size_t n = 0; n <= N; n++) {
            uint64_t x[N], y[N], z[N];
            int64_t v[N];
            if (!lwe_path_has(path))
                continue;
            for (size_t i = 0; i < N; i++) {
                x[i] = y[i] = z[i] = i == 0 ? 0 : i == 1 ? ~(uint64_t)0 : seeded_u64(&gen) >> i;
                v[i] = (int64_t)seeded_u64(&gen);
            }
            lwe_bits_count(y, v, n, 14, path);
            lwe_bits_count(z, NULL, n, 14, path);
            for (size_t i = 0; i < N; i++) {
                uint64_t ones = i < n ? (uint64_t)__builtin_popcountll(x[i]) : x[i];
                assert_true(y[i] == ones + (i < n ? (uint64_t)v[i] << 14 : 0));
                assert_true(z[i] == ones);
            }
            if (n % 8)
                continue;
            lwe_bits_join(z, x, 3, y, 20, n, path);
            for (size_t i = 0; i < n; i++)
                assert_true(z[i] == (x[i] << 3) + (y[i] << 20));
        }
}

/* A host program may have set another rounding mode: the products stay exact, its mode stays. */
static void other_rounding(void **state)
{
    static const int modes[] = { FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
    seeded gen;
    (void)state;
    test_seed(&gen, "rounding");
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        for (size_t i = 0; i < LWE_N; i++) {
            a[i] = seeded_u64(&gen) & low(42);
            s[i] = (int32_t)seeded_below(&gen, 65537) - 32768;
        }
        assert_int_equal(fesetround(modes[m]), 0);
        compare(42, false, "another rounding mode");
        assert_int_equal(fegetround(), modes[m]);
        fesetround(FE_TONEAREST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(monomials),        cmocka_unit_test(random_products),
        cmocka_unit_test(extreme_products), cmocka_unit_test(rows),
        cmocka_unit_test(counts),           cmocka_unit_test(other_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

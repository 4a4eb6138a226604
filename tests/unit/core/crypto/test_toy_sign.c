/* The harnesses' toy signature (tests/fuzz/toy_sign.h): it fails where a real one fails, and no
 * comparison shows the right signature to libFuzzer, which copies operands into its inputs. */
#include "support/check.h"

#include <stddef.h>
#include <stdint.h>

enum { SEEN_MAX = 16, SEEN_BYTES = 64 };
static struct {
    uint8_t p[SEEN_BYTES];
    size_t n;
} seen[SEEN_MAX];
static size_t seen_n;

static void see(const void *p, size_t n)
{
    assert_true(seen_n < SEEN_MAX && n <= SEEN_BYTES);
    for (size_t i = 0; i < n; i++)
        seen[seen_n].p[i] = ((const uint8_t *)p)[i];
    seen[seen_n++].n = n;
}

static int watched(const void *a, const void *b, size_t n)
{
    see(a, n), see(b, n);
    int differ = 0;
    for (size_t i = 0; i < n; i++)
        differ |= ((const uint8_t *)a)[i] != ((const uint8_t *)b)[i];
    return differ;
}

#include "base/sha256.h"

#include <sodium.h>
#include <string.h>

#define memcmp watched
#include "fuzz/toy_sign.h"
#undef memcmp

static void signs_and_hides(void **state)
{
    (void)state;
    static const uint8_t m[40] = { 1, 2, 3 }, seed[crypto_sign_SEEDBYTES] = { 4 };
    uint8_t pk[crypto_sign_PUBLICKEYBYTES], sk[crypto_sign_SECRETKEYBYTES];
    uint8_t sig[crypto_sign_BYTES], bad[crypto_sign_BYTES];
    crypto_sign_seed_keypair(pk, sk, seed);
    assert_int_equal(crypto_sign_detached(sig, NULL, m, sizeof m, sk), 0);
    assert_int_equal(crypto_sign_verify_detached(sig, m, sizeof m, pk), 0);
    seen_n = 0;
    for (size_t i = 0; i < sizeof sig; i += 21) {
        memcpy(bad, sig, sizeof bad);
        bad[i] ^= 1;
        assert_int_equal(crypto_sign_verify_detached(bad, m, sizeof m, pk), -1);
    }
    assert_int_equal(crypto_sign_verify_detached(sig, m, sizeof m - 1, pk), -1);
    assert_true(seen_n > 0);            /* otherwise this test sees nothing */
    for (size_t i = 0; i < seen_n; i++) /* no 8 bytes of the signature's hash part */
        for (size_t at = 0; at + 8 <= seen[i].n; at++)
            for (size_t k = 0; k + 8 <= SHA256_BYTES; k++)
                assert_true(memcmp(seen[i].p + at, sig + k, 8) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(signs_and_hides) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

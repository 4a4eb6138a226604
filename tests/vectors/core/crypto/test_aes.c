/* AES-128: FIPS 197 appendices A.1, B, C.1 and SP 800-38A F.1.1, F.5.1, on every path; all paths
 * against each other on random data and lengths. */
#include "support/check.h"

#include "base/sha256.h"
#include "crypto/prg/aes.h"
#include "crypto/prg/prg.h"

#include <string.h>

static void unhex(uint8_t *out, const char *hex)
{
    for (; hex[0] && hex[1]; hex += 2) {
        unsigned v;
        assert_int_equal(sscanf(hex, "%2x", &v), 1);
        *out++ = (uint8_t)v;
    }
}

static const char *const KEY = "2b7e151628aed2a6abf7158809cf4f3c";
static const char *const PLAIN = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
                                 "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
static const char *const ECB = "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf"
                               "43b1cd7f598ece23881b00e3ed0306887b0c785e27e8ad3f8223207104725dd4";
static const char *const CTR = "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
                               "5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee";

static uint64_t load_be64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | p[i];
    return v;
}

/* Block by block: a block of the key stream is the encryption of (nonce, counter). */
static void encrypt(aes_path path, const aes128 *k, uint8_t *out, const uint8_t *in, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++, in += 16, out += 16)
        aes128_ctr_on(path, k, out, 16, load_be64(in), load_be64(in + 8));
}

static void check_block(aes_path path, const char *key, const char *in, const char *want)
{
    uint8_t k[16], x[16], y[16];
    aes128 a;
    unhex(k, key);
    unhex(x, in);
    unhex(y, want);
    aes128_init_on(path, &a, k);
    encrypt(path, &a, x, x, 1);
    assert_memory_equal(x, y, 16);
}

static void vectors(void **state)
{
    (void)state;
    for (aes_path p = AES_SOFT; p < AES_PATHS; p++) {
        if (!aes_path_has(p))
            continue;
        check_block(p, KEY, "3243f6a8885a308d313198a2e0370734", "3925841d02dc09fbdc118597196a0b32");
        check_block(p, "000102030405060708090a0b0c0d0e0f", "00112233445566778899aabbccddeeff",
                    "69c4e0d86a7b0430d8cdb78070b4c55a");
        uint8_t key[16], in[64], want[64], got[64], last[16];
        aes128 a;
        unhex(key, KEY);
        aes128_init_on(p, &a, key);
        unhex(last, "d014f9a8c9ee2589e13f0cc8b6630ca6"); /* A.1: w40 to w43 */
        assert_memory_equal(a.rk + 160, last, 16);
        unhex(in, PLAIN);
        unhex(want, ECB);
        encrypt(p, &a, got, in, 4);
        assert_memory_equal(got, want, 64);
        unhex(want, CTR);
        aes128_ctr_on(p, &a, got, 64, 0xf0f1f2f3f4f5f6f7, 0xf8f9fafbfcfdfeff);
        for (int i = 0; i < 64; i++)
            got[i] ^= in[i];
        assert_memory_equal(got, want, 64);
    }
}

/* Every length around the width of each path, and odd alignments. */
static void paths_agree(void **state)
{
    (void)state;
    enum { MAX = 100 };
    static uint8_t in[16 * MAX], want[16 * MAX], got[16 * MAX + 17];
    seeded g;
    test_seed(&g, "aes paths");
    for (size_t blocks = 0; blocks <= MAX; blocks++) {
        uint8_t key[16];
        aes128 soft, other;
        uint64_t nonce = seeded_u64(&g), counter = seeded_u64(&g) & 0xffffffff;
        if (blocks % 2)
            counter =
                UINT64_MAX - blocks + 1; /* the last blocks of a stream: no carry to the nonce */
        size_t bytes = 16 * blocks + (blocks < MAX ? seeded_below(&g, 16) : 0);
        seeded_fill(&g, key, sizeof key);
        seeded_fill(&g, in, sizeof in);
        aes128_init_on(AES_SOFT, &soft, key);
        for (aes_path p = AES_NI; p < AES_PATHS; p++) {
            if (!aes_path_has(p))
                continue;
            aes128_init_on(p, &other, key);
            assert_memory_equal(soft.rk, other.rk, sizeof soft.rk);
            aes128_ecb_soft(&soft, want, in, blocks);
            memset(got, 0xa5, sizeof got);
            encrypt(p, &other, got + 1, in, blocks);
            assert_memory_equal(got + 1, want, 16 * blocks);
            assert_int_equal(got[0], 0xa5);
            assert_int_equal(got[1 + 16 * blocks], 0xa5);
            aes128_ctr_on(AES_SOFT, &soft, want, bytes, nonce, counter);
            memset(got, 0xa5, sizeof got);
            aes128_ctr_on(p, &other, got + 1, bytes, nonce, counter);
            assert_memory_equal(got + 1, want, bytes);
            assert_int_equal(got[0], 0xa5);
            assert_int_equal(got[1 + bytes], 0xa5);
        }
    }
}

/* The stream is one sequence: it can be split anywhere and read from anywhere. */
static void prg_seeks(void **state)
{
    (void)state;
    enum { N = 3000 };
    uint8_t seed[PRG_SEED], all[N], part[N];
    seeded s;
    prg g, other;
    test_seed(&s, "prg");
    seeded_fill(&s, seed, sizeof seed);
    prg_init(&g, seed, "test");
    prg_at(&g, 7, 0);
    prg_fill(&g, all, N);
    for (int i = 0; i < 300; i++) {
        size_t at = seeded_below(&s, N), n = seeded_below(&s, N - at + 1);
        size_t cut = seeded_below(&s, n + 1);
        prg_read(&g, part, n, 7, at);
        assert_memory_equal(part, all + at, n);
        prg_at(&g, 7, at);
        prg_fill(&g, part, cut);
        prg_fill(&g, part + cut, n - cut);
        assert_memory_equal(part, all + at, n);
    }
    prg_read(&g, part, N, 8, 0);
    assert_memory_not_equal(part, all, N);
    prg_init(&other, seed, "tesu");
    prg_read(&other, part, N, 7, 0);
    assert_memory_not_equal(part, all, N);
    prg_init(&other, seed, "test");
    sefl_rng rng = prg_rng(&other);
    prg_at(&other, 7, 0);
    CHECK_OK(rng_fill(&rng, part, N));
    assert_memory_equal(part, all, N);
    prg_clear(&other);
}

/* The definition in prg.h, spelled out with plain C. */
static void prg_definition(void **state)
{
    (void)state;
    uint8_t seed[PRG_SEED], text[64], digest[32], want[40], got[40];
    aes128 k;
    prg g;
    for (int i = 0; i < PRG_SEED; i++)
        seed[i] = (uint8_t)i;
    memcpy(text, "sefl prg 1", 10);
    memcpy(text + 10, seed, 32);
    memcpy(text + 42, "name", 4);
    sha256_of(digest, span_of(text, 46));
    aes128_init_on(AES_SOFT, &k, digest);
    aes128_ctr_on(AES_SOFT, &k, want, sizeof want, 0x0123456789abcdef, 5);
    prg_init(&g, seed, "name");
    prg_read(&g, got, sizeof got, 0x0123456789abcdef, 80);
    assert_memory_equal(got, want, sizeof got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(paths_agree),
        cmocka_unit_test(prg_seeks),
        cmocka_unit_test(prg_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Known answers of crypto/seal.
 *   Keccak: lengths 0 to 599 against Python's hashlib, accumulated (script in the comment below).
 *   ML-KEM-768: the accumulated vectors of C2SP/CCTV, as Go's crypto/mlkem tests have them for FIPS
 *     203: encapsulation keys, ciphertexts, shared secrets and rejected ciphertexts of N runs, whose coins
 *     are SHAKE-128(""), hashed into one SHAKE-128.
 *     And 200 runs of another implementation (make_seal.mjs).
 *   X-Wing: the three vectors of draft-connolly-cfrg-xwing-kem-10, as digests.
 *   HPKE: RFC 9180, A.2.1, and the first 0x647a vector of draft-ietf-hpke-pq, sequence number 0. */
#include "support/check.h"

#include "base/sha256.h"
#include "crypto/seal/keccak.h"
#include "crypto/seal/mlkem.h"
#include "crypto/seal/seal.h"

#include <string.h>

static size_t unhex(uint8_t *out, const char *hex)
{
    size_t n = 0;
    for (; hex[0] && hex[1]; hex += 2, n++) {
        unsigned v;
        assert_int_equal(sscanf(hex, "%2x", &v), 1);
        out[n] = (uint8_t)v;
    }
    return n;
}

static void same(const uint8_t *got, size_t n, const char *want)
{
    uint8_t w[128];
    assert_int_equal(unhex(w, want), n);
    assert_memory_equal(got, w, n);
}

static void digest_is(sefl_span in, const char *want)
{
    uint8_t d[SHA256_BYTES];
    sha256_of(d, in);
    same(d, sizeof d, want);
}

/* import hashlib as h
 * a = h.sha256()
 * for n in range(600):
 *     m = bytes((i * 7 + n) % 256 for i in range(n))
 *     for d in h.shake_128(m).digest(n), h.shake_256(m).digest(n), h.sha3_256(m).digest(), h.sha3_512(m).digest():
 *         a.update(d)
 * print(a.hexdigest()) */
static void keccak_lengths(void **state)
{
    (void)state;
    static const keccak_kind kinds[4] = { KECCAK_SHAKE128, KECCAK_SHAKE256, KECCAK_SHA3_256,
                                          KECCAK_SHA3_512 };
    uint8_t m[600], out[600], d[SHA256_BYTES];
    sha256 all;
    sha256_init(&all);
    for (size_t n = 0; n < sizeof m; n++) {
        for (size_t i = 0; i < n; i++)
            m[i] = (uint8_t)(i * 7 + n);
        for (int j = 0; j < 4; j++) {
            size_t bytes = j < 2 ? n : j == 2 ? 32 : 64, half = n / 3, first = bytes / 5;
            keccak k;
            keccak_init(&k, kinds[j]);
            keccak_add(&k, m, half); /* in pieces, out in pieces */
            keccak_add(&k, m + half, n - half);
            keccak_get(&k, out, first);
            keccak_get(&k, out + first, bytes - first);
            sha256_add(&all, span_of(out, bytes));
        }
    }
    sha256_end(&all, d);
    same(d, sizeof d, "09bc6eef33a84019ba19310c6a052374728c76f249d77bd07e61cb98f22eb09c");
}

static void mlkem_accumulated(void **state)
{
    (void)state;
    const unsigned long runs = test_count(1, 10000) * 100;
    const char *want = runs == 100
                           ? "1114b1b6699ed191734fa339376afa7e285c9e6acf6ff0177d346696ce564415"
                           : "424bf8f0e8ae99b78d788a6e2e8e9cdaf9773fc0c08a6f433507cb559edfd0f0";
    keccak coins, all;
    mlkem_key key;
    mlkem_pub pub;
    uint8_t seed[MLKEM_SEED], m[MLKEM_COINS], bad[MLKEM_CIPHER], ek[MLKEM_PUB];
    uint8_t cipher[MLKEM_CIPHER], shared[MLKEM_SHARED], again[MLKEM_SHARED], digest[32];
    keccak_init(&coins, KECCAK_SHAKE128);
    keccak_init(&all, KECCAK_SHAKE128);
    for (unsigned long i = 0; i < runs; i++) {
        keccak_get(&coins, seed, sizeof seed);
        keccak_get(&coins, m, sizeof m);
        keccak_get(&coins, bad, sizeof bad);
        mlkem_key_from(&key, seed, ek);
        keccak_add(&all, ek, sizeof ek);
        CHECK_OK(mlkem_pub_from(&pub, ek));
        mlkem_encap(cipher, shared, &pub, m);
        keccak_add(&all, cipher, sizeof cipher);
        keccak_add(&all, shared, sizeof shared);
        mlkem_decap(again, &key, cipher);
        assert_memory_equal(again, shared, sizeof shared);
        mlkem_decap(again, &key, bad);
        keccak_add(&all, again, sizeof again);
    }
    keccak_get(&all, digest, sizeof digest);
    same(digest, sizeof digest, want);
}

/* make_seal.mjs: the same by @noble/post-quantum. */
static void mlkem_noble(void **state)
{
    (void)state;
    keccak coins;
    sha256 all;
    mlkem_key key;
    mlkem_pub pub;
    uint8_t seed[MLKEM_SEED], m[MLKEM_COINS], ek[MLKEM_PUB], cipher[MLKEM_CIPHER];
    uint8_t shared[MLKEM_SHARED], d[SHA256_BYTES];
    keccak_init(&coins, KECCAK_SHAKE128);
    keccak_add(&coins, "noble", 5);
    sha256_init(&all);
    for (unsigned i = 0; i < 200; i++) {
        keccak_get(&coins, seed, sizeof seed);
        keccak_get(&coins, m, sizeof m);
        mlkem_key_from(&key, seed, ek);
        CHECK_OK(mlkem_pub_from(&pub, ek));
        mlkem_encap(cipher, shared, &pub, m);
        sha256_add(&all, span_of(ek, sizeof ek));
        sha256_add(&all, span_of(cipher, sizeof cipher));
        sha256_add(&all, span_of(shared, sizeof shared));
        cipher[i * 37 % MLKEM_CIPHER] ^= (uint8_t)(1U << i % 8);
        mlkem_decap(shared, &key, cipher);
        sha256_add(&all, span_of(shared, sizeof shared));
    }
    sha256_end(&all, d);
    same(d, sizeof d, "6215fca2954d0f370bae6a7cb2a6b83f8eaca0db64038cedea8654bd08ae4925");
}

/* Gives out what it was made of, once. */
typedef struct given {
    const uint8_t *p;
    size_t n;
} given;

static sefl_status given_fill(void *self, void *out, size_t n)
{
    given *g = self;
    assert_true(n <= g->n);
    memcpy(out, g->p, n);
    g->p += n, g->n -= n;
    return SEFL_OK;
}

typedef struct message {
    const char *suite, *seed, *coins, *pub, *enc, *info, *ad, *text, *sealed;
} message;

/* pub and enc: SHA-256 of them. */
static const message messages[] = {
    { "x25519", "1ac01f181fdf9f352797655161c58b75c656a6cc2716dcb66372da835542e1df",
      "909a9b35d3dc4713a5e72a4da274b55d3d3821a37e5d099e74a647db583a904b",
      "9e07479c8d8279a41c16803beb93d8e87e4de2e943df8198760432025b2f7700",
      "200bb479d2547412c9c4d65491b3d5a49ff248e29538297b4fd4f689a332d431",
      "4f6465206f6e2061204772656369616e2055726e", "436f756e742d30",
      "4265617574792069732074727574682c20747275746820626561757479",
      "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a2"
      "8" },
    { "xwing", "3ec47fa82dd5689d27c6190e724c74ec8f608df3331ce331929e37b829676630",
      "2a1c0a3745fe8a48fb62034d300f54dfe1974a5b2e169e580a8789cb1cf5fd19"
      "0fc00f3fd899594e01a8b15334b9f3fa03d8de44da86e19f5776850fb689e6c8",
      "ad8aaf3f00d8a39bfeec2947a7d5dde68be08bba19bd301a348a45dc5fcc8341",
      "95c0a5fca31ea59f29bbc66255ad6637b5a476b3212886af11afdc8930aeb772",
      "34663634363532303666366532303631323034373732363536333639363136653230353537323665",
      "436f756e742d30",
      "34323635363137353734373932303639373332303734373237353734363832633230373437323735373436383230"
      "363236353631373537343739",
      "c5c591f99092d5e38df0a52699af249c66f8275a863423c076de8147a53e65cc584041c963b77a7e59ea93841b13"
      "39b5efda8909b71f74bb0073ad62e899de310c1566dea2fd29eba377" },
};

static void hpke(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        const message *m = &messages[i];
        const seal_suite *s = seal_suite_named(m->suite);
        uint8_t seed[SEAL_SEED], coins[64], info[64], ad[16], text[64], got[64];
        uint8_t enc[SEAL_ENC_MAX], sealed[128];
        assert_non_null(s);
        assert_int_equal(unhex(seed, m->seed), sizeof seed);
        given g = { .p = coins, .n = unhex(coins, m->coins) };
        sefl_rng rng = { .fill = given_fill, .self = &g };
        size_t n_info = unhex(info, m->info), n_ad = unhex(ad, m->ad), n = unhex(text, m->text);
        seal_key *key;
        CHECK_OK(seal_key_from(&key, s, seed));
        digest_is(seal_key_pub(key), m->pub);
        CHECK_OK(seal_make(enc, sealed, s, seal_key_pub(key), span_of(info, n_info),
                           span_of(ad, n_ad), span_of(text, n), &rng));
        assert_int_equal(g.n, 0);
        digest_is(span_of(enc, s->enc_bytes), m->enc);
        same(sealed, n + SEAL_TAG, m->sealed);
        CHECK_OK(seal_open(got, key, enc, span_of(info, n_info), span_of(ad, n_ad),
                           span_of(sealed, n + SEAL_TAG)));
        assert_memory_equal(got, text, n);
        seal_key_free(key);
    }
}

/* The X-Wing draft's own vectors: seed and coins are consecutive bytes of SHAKE-128(""). */
static void xwing_draft(void **state)
{
    (void)state;
    static const char *const want[3][2] = {
        { "2e816deebcd76c5c80d0cd2d174478871658e8e2ff42bc9d4a6e486372e856bb",
          "17cd532d657e44c897ca6583e548a5424fc70bf54f99515a4d2bcf99e3469f33" },
        { "c42ba5f8430d7d2c83739338203819f090e8303ce9c8b02107c272bfa5376916",
          "1661ea86d608a1924ba30840cb0a65f13ae051e3aec9cf0f064efc0bc92f2154" },
        { "6b080d6b84f095342092fa7a22423e58bd681397ad0ef00eac92bd254db4fa95",
          "d3ca5578500344b5896cffc4fd740c9311946b82951df155e6fd86a7966b43c6" }
    };
    const seal_suite *s = seal_suite_of(0x647a);
    keccak coins;
    keccak_init(&coins, KECCAK_SHAKE128);
    for (int i = 0; i < 3; i++) {
        uint8_t seed[SEAL_SEED], eseed[64], enc[SEAL_ENC_MAX], sealed[SEAL_TAG];
        keccak_get(&coins, seed, sizeof seed);
        keccak_get(&coins, eseed, sizeof eseed);
        given g = { .p = eseed, .n = sizeof eseed };
        sefl_rng rng = { .fill = given_fill, .self = &g };
        seal_key *key;
        CHECK_OK(seal_key_from(&key, s, seed));
        digest_is(seal_key_pub(key), want[i][0]);
        CHECK_OK(seal_make(enc, sealed, s, seal_key_pub(key), span_of("", 0), span_of("", 0),
                           span_of("", 0), &rng));
        digest_is(span_of(enc, sizeof enc), want[i][1]);
        seal_key_free(key);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keccak_lengths), cmocka_unit_test(mlkem_accumulated),
        cmocka_unit_test(mlkem_noble),    cmocka_unit_test(hpke),
        cmocka_unit_test(xwing_draft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

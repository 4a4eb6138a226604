/* seal: round trips, everything that must not open, invalid keys, and the rounding without division
 * against the division in FIPS 203. */
#include "support/check.h"

#include "crypto/seal/mlkem.h"
#include "crypto/seal/seal.h"

#include <string.h>

enum { TEXT = 32 };

static const char *const names[] = { "x25519", "xwing" };

typedef struct world {
    const seal_suite *s;
    seal_key *key;
    sefl_rng rng;
    uint8_t enc[SEAL_ENC_MAX], sealed[TEXT + SEAL_TAG], text[TEXT], got[TEXT];
} world;

static const sefl_span info = { .p = (const uint8_t *)"task, round", .n = 11 };
static const sefl_span ad = { .p = (const uint8_t *)"client, units", .n = 13 };

static void make(world *w, const char *name)
{
    uint8_t seed[SEAL_SEED];
    w->s = seal_suite_named(name);
    w->rng = rng_system();
    assert_non_null(w->s);
    assert_ptr_equal(seal_suite_of(w->s->id), w->s);
    CHECK_OK(rng_fill(&w->rng, seed, sizeof seed));
    CHECK_OK(rng_fill(&w->rng, w->text, sizeof w->text));
    CHECK_OK(seal_key_from(&w->key, w->s, seed));
    CHECK_OK(seal_make(w->enc, w->sealed, w->s, seal_key_pub(w->key), info, ad,
                       span_of(w->text, TEXT), &w->rng));
}

static sefl_status open_it(world *w, sefl_span i, sefl_span a)
{
    memset(w->got, 0xaa, TEXT);
    return seal_open(w->got, w->key, w->enc, i, a, span_of(w->sealed, sizeof w->sealed));
}

static void must_not_open(world *w, sefl_span i, sefl_span a)
{
    static const uint8_t zero[TEXT];
    CHECK_STATUS(open_it(w, i, a), SEFL_EAUTH);
    assert_memory_equal(w->got, zero, TEXT);
}

static void round_trip(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        world w;
        make(&w, names[n]);
        CHECK_OK(open_it(&w, info, ad));
        assert_memory_equal(w.got, w.text, TEXT);
        must_not_open(&w, span_of("task, rouns", 11), ad);
        must_not_open(&w, info, span_of("client, unitz", 13));
        must_not_open(&w, info, span_of("", 0));
        CHECK_STATUS(seal_open(w.got, w.key, w.enc, info, ad, span_of(w.sealed, SEAL_TAG - 1)),
                     SEFL_EAUTH);
        seal_key_free(w.key);
    }
    assert_null(seal_suite_named("rsa"));
    assert_null(seal_suite_of(0x647b));
}

/* Every bit of a short enc, every byte of a long one, every bit of the sealed text. X25519 ignores
 * the top bit of a point; the key schedule does not. */
static void tampered(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        world w;
        make(&w, names[n]);
        size_t step = w.s->enc_bytes > 32 ? 5 : 1;
        for (size_t bit = 0; bit < 8 * w.s->enc_bytes; bit += step) {
            w.enc[bit / 8] ^= (uint8_t)(1U << bit % 8);
            must_not_open(&w, info, ad);
            w.enc[bit / 8] ^= (uint8_t)(1U << bit % 8);
        }
        for (size_t bit = 0; bit < 8 * sizeof w.sealed; bit++) {
            w.sealed[bit / 8] ^= (uint8_t)(1U << bit % 8);
            must_not_open(&w, info, ad);
            w.sealed[bit / 8] ^= (uint8_t)(1U << bit % 8);
        }
        CHECK_OK(open_it(&w, info, ad));
        seal_key_free(w.key);
    }
}

static void no_keys(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        world w;
        uint8_t pub[SEAL_PUB_MAX];
        make(&w, names[n]);
        sefl_span p = seal_key_pub(w.key), text = span_of(w.text, TEXT);
        memcpy(pub, p.p, p.n);
        CHECK_STATUS(seal_make(w.enc, w.sealed, w.s, span_of(pub, p.n - 1), info, ad, text, &w.rng),
                     SEFL_EPROTO);
        memset(pub + p.n - 32, 0, 32); /* the point of order two */
        CHECK_STATUS(seal_make(w.enc, w.sealed, w.s, span_of(pub, p.n), info, ad, text, &w.rng),
                     SEFL_EPROTO);
        if (n == 1) { /* each of the 768 coefficients at 3329, and at 4095 */
            for (size_t i = 0; i < 768; i++) {
                memcpy(pub, p.p, p.n);
                uint8_t *b = pub + i / 2 * 3;
                unsigned v = i % 5 == 0 ? 4095 : 3329;
                if (i % 2 == 0) {
                    b[0] = (uint8_t)v;
                    b[1] = (uint8_t)((b[1] & 0xf0) | v >> 8);
                } else {
                    b[1] = (uint8_t)((b[1] & 0x0f) | (v & 15) << 4);
                    b[2] = (uint8_t)(v >> 4);
                }
                CHECK_STATUS(
                    seal_make(w.enc, w.sealed, w.s, span_of(pub, p.n), info, ad, text, &w.rng),
                    SEFL_EPROTO);
            }
        }
        seal_key_free(w.key);
    }
}

/* A rejected ciphertext always gives the same separate secret. */
static void implicit_rejection(void **state)
{
    (void)state;
    sefl_rng rng = rng_system();
    uint8_t seed[MLKEM_SEED], coins[MLKEM_COINS], pub[MLKEM_PUB], cipher[MLKEM_CIPHER];
    uint8_t shared[MLKEM_SHARED], a[MLKEM_SHARED], b[MLKEM_SHARED];
    mlkem_key key;
    CHECK_OK(rng_fill(&rng, seed, sizeof seed));
    CHECK_OK(rng_fill(&rng, coins, sizeof coins));
    mlkem_key_from(&key, seed, pub);
    mlkem_encap(cipher, shared, &key.pub, coins);
    for (size_t i = 0; i < MLKEM_CIPHER; i += 7) {
        cipher[i] ^= 1;
        mlkem_decap(a, &key, cipher);
        mlkem_decap(b, &key, cipher);
        assert_memory_not_equal(a, shared, sizeof a);
        assert_memory_equal(a, b, sizeof a);
        cipher[i] ^= 1;
    }
    mlkem_decap(a, &key, cipher);
    assert_memory_equal(a, shared, sizeof a);
}

static void rounding(void **state)
{
    (void)state;
    static const unsigned bits[3] = { 1, 4, 10 };
    for (int i = 0; i < 3; i++)
        for (uint32_t x = 0, d = bits[i]; x < 3329; x++)
            assert_int_equal(mlkem_compress(x, d),
                             ((2 * (x << d) + 3329) / (2 * 3329)) % (1U << d));
}

static void faults(void **state)
{
    (void)state;
    static const uint8_t seed[SEAL_SEED] = { 1 };
    const seal_suite *s = seal_suite_named("xwing");
    seal_key *key = NULL;
    uint8_t enc[SEAL_ENC_MAX], sealed[TEXT + SEAL_TAG];
    sefl_rng rng = rng_system();
    CHECK_OK(seal_key_from(&key, s, seed));
    TEST_FAULTS(FAULT_RANDOM,
                st = seal_make(enc, sealed, s, seal_key_pub(key), info, ad, info, &rng), (void)0);
    seal_key_free(key);
    seal_key_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),         cmocka_unit_test(tampered), cmocka_unit_test(no_keys),
        cmocka_unit_test(implicit_rejection), cmocka_unit_test(rounding), cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

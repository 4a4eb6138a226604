/* Raw Paillier: keys, checks, states, faults. Known answers are in tests/vectors, laws in
 * tests/property. */
#include "support/check.h"
#include "support/paillier_copy.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/ct.h"
#include "crypto/ahe/paillier_internal.h"

#include <stdlib.h>
#include <string.h>

enum { BITS = 2048, PB = BITS / 8, CB = BITS / 4 };

static paillier_sec *sec;
static const paillier_pub *pub;
static seeded gen;
static sefl_rng rng;

static int set_up(void **state)
{
    (void)state;
    test_seed(&gen, "paillier");
    rng = seeded_rng(&gen);
    CHECK_OK(paillier_keygen_vartime(&sec, BITS, &rng, NULL));
    pub = paillier_sec_pub(sec);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    paillier_sec_free(sec);
    return 0;
}

static void put(uint8_t *out, size_t n, const mpz_t x)
{
    memset(out, 0, n);
    mpz_export(out, NULL, -1, 1, 0, 0, x);
}

static void get(mpz_t x, const void *p, size_t n)
{
    mpz_import(x, n, -1, 1, 0, 0, p);
}

static void says(const char *part)
{
    if (!strstr(sefl_last_error(), part))
        fail_msg("\"%s\" does not say \"%s\"", sefl_last_error(), part);
}

static void sizes(void **state)
{
    static const unsigned bad[] = { 0, 16, 512, 1024, 2047, 2049, 3000, 4095, 6144, 8192, 65535 };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        paillier_sec *k = (paillier_sec *)&gen;
        CHECK_STATUS(paillier_keygen_vartime(&k, bad[i], &rng, NULL), SEFL_EINVAL);
        assert_null(k);
    }
}

static void key_conditions(void **state)
{
    mpz_t p, q, a, b, n;
    (void)state;
    mpz_inits(p, q, a, b, n, NULL);
    get(p, sec->p, PB / 2);
    get(q, sec->q, PB / 2);
    get(n, pub->n_bytes, PB);
    mpz_mul(a, p, q);
    assert_int_equal(mpz_cmp(a, n), 0);
    assert_int_equal(mpz_sizeinbase(n, 2), BITS);
    assert_true(mpz_probab_prime_p(p, 30) && mpz_probab_prime_p(q, 30));
    assert_true(mpz_fdiv_ui(p, 4) == 3 && mpz_fdiv_ui(q, 4) == 3);
    mpz_sub(a, p, q);
    assert_true(mpz_sgn(a) > 0 && mpz_sizeinbase(a, 2) > BITS / 2 - 100);
    mpz_sub_ui(a, p, 1);
    mpz_sub_ui(b, q, 1);
    mpz_gcd(p, a, b);
    assert_int_equal(mpz_cmp_ui(p, 2), 0);
    mpz_mul(a, a, b); /* phi */
    mpz_gcd(p, a, n);
    assert_int_equal(mpz_cmp_ui(p, 1), 0);
    get(b, pub->hs_bytes, CB); /* an N-th residue: its order divides phi */
    mpz_mul(q, n, n);
    mpz_powm(b, b, a, q);
    assert_int_equal(mpz_cmp_ui(b, 1), 0);
    get(b, pub->hs_bytes, CB); /* h = -x^2 has Jacobi symbol 1 and so has h^N */
    mpz_mod(b, b, n);
    assert_int_equal(mpz_jacobi(b, n), 1);
    mpz_clears(p, q, a, b, n, NULL);
}

static void public_key_rejected(void **state)
{
    sefl_buf good = { 0 };
    uint8_t bad[2 + PB + CB + 1];
    paillier_pub *k;
    mpz_t x, n;
    (void)state;
    mpz_inits(x, n, NULL);
    get(n, pub->n_bytes, PB);
    CHECK_OK(paillier_pub_write(pub, &good));
    for (size_t cut = 0; cut < good.n; cut += cut < 4 ? 1 : 97)
        CHECK_STATUS(paillier_pub_read(&k, span_of(good.p, cut)), SEFL_EPROTO);
#define REJECT(what, ...)                                                    \
    do {                                                                     \
        memcpy(bad, good.p, good.n);                                         \
        bad[good.n] = 0;                                                     \
        size_t len = good.n;                                                 \
        __VA_ARGS__;                                                         \
        k = (paillier_pub *)&gen;                                            \
        CHECK_STATUS(paillier_pub_read(&k, span_of(bad, len)), SEFL_EPROTO); \
        assert_null(k);                                                      \
        says(what);                                                          \
    } while (0)
    uint8_t *N = bad + 2, *H = bad + 2 + PB;
    REJECT("1 ", len++); /* one stray byte */
    REJECT("1024 bits", bad[1] = 4);
    REJECT("shorter than 2048", N[PB - 1] &= 0x7f);
    REJECT("even", N[0] &= 0xfe);
    REJECT("factor below", {
        mpz_sub_ui(x, n, mpz_fdiv_ui(n, 2 * 65521)); /* a multiple of 2*65521 */
        mpz_add_ui(x, x, 65521);
        put(N, PB, x);
    });
    REJECT("perfect power", {
        get(x, sec->p, PB / 2);
        mpz_mul(x, x, x);
        put(N, PB, x);
    });
    REJECT("hs is 0", memset(H, 0, CB));
    REJECT("hs is 1", (memset(H, 0, CB), H[0] = 1));
    REJECT("not below N^2", memset(H, 0xff, CB));
    REJECT("not below N^2", (mpz_mul(x, n, n), put(H, CB, x)));
    REJECT("common factor", (get(x, sec->q, PB / 2), put(H, CB, x)));
    REJECT("hs^2 is 1", (mpz_mul(x, n, n), mpz_sub_ui(x, x, 1), put(H, CB, x)));
#undef REJECT
    mpz_clears(x, n, NULL);
    buf_clear(&good);
}

static void secret_key_rejected(void **state)
{
    sefl_buf good = { 0 };
    uint8_t bad[2 + PB + CB + 1], tmp[PB / 2];
    paillier_sec *k;
    (void)state;
    CHECK_OK(paillier_sec_write(sec, &good));
    for (size_t cut = 0; cut < good.n; cut += cut < 4 ? 1 : 97)
        CHECK_STATUS(paillier_sec_read(&k, span_of(good.p, cut)), SEFL_EPROTO);
#define REJECT(what, ...)                                                    \
    do {                                                                     \
        memcpy(bad, good.p, good.n);                                         \
        bad[good.n] = 0;                                                     \
        size_t len = good.n;                                                 \
        __VA_ARGS__;                                                         \
        k = (paillier_sec *)&gen;                                            \
        CHECK_STATUS(paillier_sec_read(&k, span_of(bad, len)), SEFL_EPROTO); \
        assert_null(k);                                                      \
        says(what);                                                          \
    } while (0)
    uint8_t *P = bad + 2, *Q = P + PB / 2, *H = bad + 2 + PB;
    REJECT("1 ", len++); /* one stray byte */
    REJECT("512 bits", bad[1] = 2);
    REJECT("too short", P[PB / 2 - 1] &= 0x7f);
    REJECT("too short", Q[PB / 2 - 1] &= 0x7f);
    REJECT("3 mod 4", P[0] ^= 2);
    REJECT("3 mod 4", Q[0] ^= 1);
    REJECT("not above", (memcpy(tmp, P, PB / 2), memcpy(P, Q, PB / 2), memcpy(Q, tmp, PB / 2)));
    REJECT("too close", (memcpy(Q, P, PB / 2), memset(Q, 3, PB / 2 - 13)));
    REJECT("common factor above 2", { /* both 7 mod 12: 6 divides both less one */
                                      mpz_t x;
                                      mpz_init(x);
                                      uint8_t *at[2] = { P, Q };
                                      for (int i = 0; i < 2; i++) {
                                          get(x, at[i], PB / 2);
                                          mpz_sub_ui(x, x, mpz_fdiv_ui(x, 12));
                                          mpz_add_ui(x, x, 7);
                                          put(at[i], PB / 2, x);
                                      }
                                      mpz_clear(x);
    });
    REJECT("does not belong", H[0] ^= 1);
    REJECT("paillier", P[20] ^= 1); /* no longer prime */
    REJECT("paillier", Q[20] ^= 1);
    REJECT("hs is 1", (memset(H, 0, CB), H[0] = 1));
    /* top bits set, but the product is one bit short; some such pair passes all before that */
    bool found = false;
    for (unsigned i = 0; i < 32 && !found; i++) {
        memset(bad + 2, 0, PB);
        P[PB / 2 - 1] = Q[PB / 2 - 1] = 0x80, P[PB / 2 - 8] = 1, P[0] = 3;
        Q[0] = (uint8_t)(3 + 4 * i);
        CHECK_STATUS(paillier_sec_read(&k, span_of(bad, good.n)), SEFL_EPROTO);
        found = strstr(sefl_last_error(), "p*q is shorter");
    }
    assert_true(found);
#undef REJECT
    CHECK_OK(paillier_sec_read(&k, buf_span(&good)));
    assert_true(paillier_pub_equal(paillier_sec_pub(k), pub));
    sefl_span memory = paillier_sec_memory(k);
    assert_true(memory.n > sizeof *k && (const void *)memory.p == (const void *)k);
    assert_true((const uint8_t *)k->p2.m.block > memory.p &&
                (const uint8_t *)(k->q2.m.block + k->q2.m.block_words) <= memory.p + memory.n);
    paillier_sec_free(k);
    buf_clear(&good);
}

static void ciphertext_checks(void **state)
{
    uint8_t c[11 * CB];
    mpz_t n, n2, x;
    (void)state;
    mpz_inits(n, n2, x, NULL);
    get(n, pub->n_bytes, PB);
    mpz_mul(n2, n, n);
    for (unsigned at = 0; at < 11; at += 5) { /* in the first batch, and in a short last one */
        for (int i = 0; i < 11; i++)
            memcpy(c + i * CB, pub->hs_bytes, CB);
        CHECK_OK(paillier_check(pub, c, 11));
        char index[32];
        snprintf(index, sizeof index, "ciphertext %u is", at);
#define TRY(value, status, what)                            \
    do {                                                    \
        value;                                              \
        put(c + at * CB, CB, x);                            \
        CHECK_STATUS(paillier_check(pub, c, 11), (status)); \
        if ((status) != SEFL_OK)                            \
            says(what), says(index);                        \
    } while (0)
        TRY(mpz_set_ui(x, 0), SEFL_EPROTO, "zero");
        TRY(mpz_set_ui(x, 1), SEFL_OK, "");
        TRY(mpz_sub_ui(x, n2, 1), SEFL_OK, "");
        TRY(mpz_set(x, n2), SEFL_EPROTO, "not below N^2");
        TRY(mpz_add_ui(x, n2, 1), SEFL_EPROTO, "not below N^2");
        TRY(mpz_set(x, n), SEFL_EPROTO, "multiple of N");
        TRY(mpz_sub(x, n2, n), SEFL_EPROTO, "multiple of N");
        TRY(mpz_mul_ui(x, n, 12345), SEFL_EPROTO, "multiple of N");
        TRY(mpz_add_ui(x, n, 1), SEFL_OK, "");
        TRY((mpz_set_ui(x, 0), mpz_setbit(x, 2 * BITS), mpz_sub_ui(x, x, 1)), SEFL_EPROTO,
            "not below N^2");
#undef TRY
        uint8_t m[11 * PB];
        memset(c + at * CB, 0, CB);
        CHECK_STATUS(paillier_decrypt(sec, m, c, 11, NULL, NULL), SEFL_EPROTO);
    }
    mpz_clears(n, n2, x, NULL);
}

/* The filter before the exact test: it never misses a multiple of N, and rarely takes another
 * number for one. Its estimates are off by one for quotients with words of zeros and ones. */
static void multiples_are_never_missed(void **state)
{
    (void)state;
    size_t limbs = pub->limbs;
    mp_limb_t x[2 * N_LIMBS];
    unsigned taken = 0;
    mpz_t n, k, c;
    mpz_inits(n, k, c, NULL);
    get(n, pub->n_bytes, PB);
    assert_true(pub->can_filter);
#define LIMBS_OF_C()                                 \
    do {                                             \
        memset(x, 0, sizeof x);                      \
        mpz_export(x, NULL, -1, sizeof *x, 0, 0, c); \
    } while (0)
    for (unsigned i = 0; i < 20000; i++) {
        uint8_t bytes[PB];
        seeded_fill(&gen, bytes, PB);
        size_t from = seeded_below(&gen, limbs), to = from + seeded_below(&gen, limbs - from) + 1;
        if (i % 4 == 1) /* a run of zeros, of ones, or only the top or the bottom */
            memset(bytes + 8 * from, 0, 8 * (to - from));
        else if (i % 4 == 2)
            memset(bytes + 8 * from, 0xff, 8 * (to - from));
        else if (i % 4 == 3)
            memset(bytes + (i & 4 ? 8 * from : 0), 0, i & 4 ? PB - 8 * from : 8 * to);
        mpz_import(k, PB, -1, 1, 0, 0, bytes);
        mpz_mod(k, k, n);
        if (mpz_sgn(k) == 0)
            continue;
        mpz_mul(c, k, n);
        LIMBS_OF_C();
        assert_true(paillier_maybe_multiple_vartime(pub, x));
        mpz_sub_ui(c, c, 1 + i % 3); /* next to a multiple */
        LIMBS_OF_C();
        taken += paillier_maybe_multiple_vartime(pub, x);
    }
    for (unsigned bit = 0; bit < BITS; bit++)
        for (int d = -1; d <= 1; d++) {
            mpz_set_ui(k, 0);
            mpz_setbit(k, bit);
            if (d < 0)
                mpz_sub_ui(k, k, 1);
            if (d > 0)
                mpz_add_ui(k, k, 1);
            mpz_mod(k, k, n);
            mpz_mul(c, k, n);
            LIMBS_OF_C();
            assert_true(paillier_maybe_multiple_vartime(pub, x));
        }
#undef LIMBS_OF_C
    assert_int_equal(taken, 0);
    mpz_clears(n, k, c, NULL);
}

static void random_plain(uint8_t *m, size_t count)
{
    seeded_fill(&gen, m, count * PB);
    for (size_t i = 0; i < count; i++)
        m[i * PB + PB - 1] &= 0x3f;
}

static void encryption(void **state)
{
    enum { COUNT = 19 };
    static uint8_t m[COUNT * PB], c[COUNT * CB], d[COUNT * CB], back[COUNT * PB];
    uint8_t seed[32];
    paillier_enc *enc;
    pool *two;
    (void)state;
    seeded_fill(&gen, seed, sizeof seed);
    random_plain(m, COUNT);
    CHECK_OK(pool_new(&two, 2));
    CHECK_OK(paillier_enc_new_window(&enc, pub, 3, NULL, NULL));
    CHECK_OK(paillier_encrypt_vartime(enc, c, m, COUNT, seed, 100, NULL, NULL));
    CHECK_OK(paillier_check(pub, c, COUNT));
    CHECK_OK(paillier_decrypt(sec, back, c, COUNT, two, NULL));
    assert_memory_equal(back, m, sizeof m);
    /* pool, split and window do not change the result */
    CHECK_OK(paillier_encrypt_vartime(enc, d, m, COUNT, seed, 100, two, NULL));
    assert_memory_equal(c, d, sizeof c);
    CHECK_OK(paillier_encrypt_vartime(enc, d, m, 5, seed, 100, NULL, NULL));
    CHECK_OK(paillier_encrypt_vartime(enc, d + 5 * CB, m + 5 * PB, 14, seed, 105, NULL, NULL));
    assert_memory_equal(c, d, sizeof c);
    paillier_enc_free(enc);
    static const unsigned windows[] = { 1, 2, 5, 7, 9 };
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        CHECK_OK(paillier_enc_new_window(&enc, pub, windows[i], two, NULL));
        CHECK_OK(paillier_encrypt_vartime(enc, d, m, 3, seed, 100, NULL, NULL));
        assert_memory_equal(c, d, 3 * CB);
        assert_int_equal(paillier_enc_products(enc), (BITS / 2 + windows[i] - 1) / windows[i]);
        paillier_enc_free(enc);
    }
    /* not below N: nothing is encrypted */
    CHECK_OK(paillier_enc_new(&enc, pub, 1, NULL, NULL));
    memset(d, 7, sizeof d);
    memcpy(m + 3 * PB, pub->n_bytes, PB);
    CHECK_STATUS(paillier_encrypt_vartime(enc, d, m, COUNT, seed, 0, NULL, NULL), SEFL_ERANGE);
    says("plaintext 3");
    for (size_t i = 0; i < sizeof d; i++)
        assert_int_equal(d[i], 7);
    paillier_enc_free(enc);
    pool_free(two);
}

static void more_uses_wider_windows(void **state)
{
    static const size_t uses[] = { 1, 11, 100, 1000 };
    unsigned last = 0;
    paillier_enc *enc;
    (void)state;
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        CHECK_OK(paillier_enc_new(&enc, pub, uses[i], NULL, NULL));
        assert_true(paillier_enc_window(enc) >= last);
        last = paillier_enc_window(enc);
        assert_true(paillier_enc_table_bytes(enc) <= 96 << 20);
        paillier_enc_free(enc);
    }
    assert_true(last >= 6);
}

static void sums(void **state)
{
    enum { COUNT = 21 };
    static uint8_t m[3][COUNT * PB], c[3][COUNT * CB], out[COUNT * CB], one[COUNT * CB];
    static uint8_t back[COUNT * PB], plain[COUNT * PB];
    uint8_t seed[32];
    paillier_enc *enc;
    paillier_sum *s, *t;
    mpz_t a, b, n;
    (void)state;
    mpz_inits(a, b, n, NULL);
    get(n, pub->n_bytes, PB);
    CHECK_OK(paillier_enc_new(&enc, pub, 60, NULL, NULL));
    for (int k = 0; k < 3; k++) {
        random_plain(m[k], COUNT);
        seeded_fill(&gen, seed, sizeof seed);
        CHECK_OK(paillier_encrypt_vartime(enc, c[k], m[k], COUNT, seed, 0, NULL, NULL));
    }
    random_plain(plain, COUNT);
    CHECK_OK(paillier_sum_new(&s, pub, COUNT));
    CHECK_OK(paillier_sum_new(&t, pub, COUNT));
    CHECK_STATUS(paillier_sum_write(s, out, 0, 1, NULL, NULL), SEFL_ESTATE);
    for (int k = 0; k < 3; k++)
        CHECK_OK(paillier_sum_add(s, 0, c[k], COUNT, NULL));
    for (int k = 2; k >= 0; k--) /* another order, in uneven pieces */
        for (size_t at = COUNT; at > 0;) {
            size_t n_ = 1 + (size_t)seeded_below(&gen, at < 12 ? at : 12);
            at -= n_;
            CHECK_OK(paillier_sum_add(t, at, c[k] + at * CB, n_, NULL));
        }
    CHECK_STATUS(paillier_sum_add(s, COUNT - 1, c[0], 2, NULL), SEFL_ERANGE);
    CHECK_STATUS(paillier_sum_add(s, COUNT + 1, c[0], 0, NULL), SEFL_ERANGE);
    CHECK_OK(paillier_sum_close(s, NULL));
    CHECK_OK(paillier_sum_close(t, NULL));
    CHECK_STATUS(paillier_sum_close(s, NULL), SEFL_ESTATE);
    CHECK_STATUS(paillier_sum_add(s, 0, c[0], 1, NULL), SEFL_ESTATE);
    CHECK_OK(paillier_sum_write(s, out, 0, COUNT, plain, NULL));
    for (size_t at = 0; at < COUNT; at += 5) {
        size_t k = COUNT - at < 5 ? COUNT - at : 5;
        CHECK_OK(paillier_sum_write(t, one + at * CB, at, k, plain + at * PB, NULL));
    }
    assert_memory_equal(out, one, sizeof out);
    CHECK_OK(paillier_decrypt(sec, back, out, COUNT, NULL, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        get(a, plain + i * PB, PB);
        for (int k = 0; k < 3; k++) {
            get(b, m[k] + i * PB, PB);
            mpz_add(a, a, b);
        }
        mpz_mod(a, a, n);
        get(b, back + i * PB, PB);
        assert_int_equal(mpz_cmp(a, b), 0);
    }
    memcpy(plain + 2 * PB, pub->n_bytes, PB);
    CHECK_STATUS(paillier_sum_write(s, out, 0, COUNT, plain, NULL), SEFL_ERANGE);
    paillier_sum_free(s);
    paillier_sum_free(t);

    /* no client: the product is 1 */
    CHECK_OK(paillier_sum_new(&s, pub, 1));
    CHECK_OK(paillier_sum_close(s, NULL));
    CHECK_OK(paillier_sum_write(s, out, 0, 1, NULL, NULL));
    get(a, out, CB);
    assert_int_equal(mpz_cmp_ui(a, 1), 0);
    paillier_sum_free(s);

    /* half a body */
    CHECK_OK(paillier_sum_new(&s, pub, 9));
    CHECK_OK(paillier_sum_add(s, 0, c[0], 8, NULL));
    CHECK_STATUS(paillier_sum_close(s, NULL), SEFL_ESTATE);
    says("position 8 has 0");
    paillier_sum_free(s);

    /* a multiple of p passes the check on arrival and is detected when the sum is closed */
    for (size_t at = 0; at < 20; at += 19) {
        CHECK_OK(paillier_sum_new(&s, pub, COUNT));
        memcpy(out, c[0], sizeof out);
        get(a, sec->p, PB / 2);
        mpz_mul_ui(a, a, 77);
        put(out + at * CB, CB, a);
        CHECK_OK(paillier_check(pub, out, COUNT));
        CHECK_OK(paillier_sum_add(s, 0, out, COUNT, NULL));
        CHECK_OK(paillier_sum_add(s, 0, c[1], COUNT, NULL));
        CHECK_STATUS(paillier_sum_close(s, NULL), SEFL_ECRYPTO);
        paillier_sum_free(s);
    }
    paillier_enc_free(enc);
    mpz_clears(a, b, n, NULL);
}

static void negation(void **state)
{
    uint8_t m[PB], twice[PB], zero[PB] = { 0 };
    mpz_t a, b, n;
    (void)state;
    mpz_inits(a, b, n, NULL);
    get(n, pub->n_bytes, PB);
    random_plain(m, 1);
    memcpy(twice, m, PB);
    paillier_negate(pub, twice);
    get(a, m, PB);
    get(b, twice, PB);
    mpz_add(a, a, b);
    assert_int_equal(mpz_cmp(a, n), 0);
    paillier_negate(pub, twice);
    assert_memory_equal(m, twice, PB);
    memset(m, 0, PB);
    paillier_negate(pub, m);
    assert_memory_equal(m, zero, PB);
    mpz_clears(a, b, n, NULL);
}

static bool stop(void *self, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    ++*(int *)self;
    return false;
}

static void cancelled(void **state)
{
    int calls = 0;
    sefl_progress p = { stop, &calls };
    paillier_sec *k;
    uint8_t m[PB] = { 0 }, c[CB], seed[32] = { 0 };
    paillier_enc *enc;
    (void)state;
    CHECK_STATUS(paillier_keygen_vartime(&k, 4096, &rng, &p), SEFL_ECANCELLED);
    assert_int_equal(calls, 1);
    CHECK_STATUS(paillier_enc_new(&enc, pub, 1, NULL, &p), SEFL_ECANCELLED);
    assert_null(enc);
    CHECK_OK(paillier_enc_new(&enc, pub, 1, NULL, NULL));
    CHECK_STATUS(paillier_encrypt_vartime(enc, c, m, 1, seed, 0, NULL, &p), SEFL_ECANCELLED);
    CHECK_STATUS(paillier_decrypt(sec, m, pub->hs_bytes, 1, NULL, &p), SEFL_ECANCELLED);
    paillier_enc_free(enc);
}

/* Sanitizers lay out stack frames differently. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLAIN_STACK 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define PLAIN_STACK 0
#endif
#endif
#ifndef PLAIN_STACK
#define PLAIN_STACK 1
#endif

#if PLAIN_STACK
/* Searches for the words of u in what earlier calls left below this frame. */
static __attribute__((noinline)) unsigned left_on_stack(const uint64_t *u, unsigned n)
{
    volatile uintptr_t here = (uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)7;
    const volatile uint64_t *p = (const volatile uint64_t *)here;
    unsigned hits = 0;
    for (int i = 64; i < 20000; i++)
        for (unsigned k = 0; k < n; k++)
            hits += u[k] != 0 && p[-i] == u[k];
    return hits;
}

static __attribute__((noinline)) void clear_stack(void)
{
    uint8_t room[200000];
    sefl_wipe(room, sizeof room);
}
#endif

/* From u = c^(q-1) mod q^2, gcd(u - 1, N) is q: decryption leaves it nowhere on the stack, neither
 * in limbs nor in digits of 52 bits. */
static void stack_is_clean(void **state)
{
    (void)state;
#if PLAIN_STACK
    static uint8_t m[PB], c[CB];
    uint64_t limbs[PB / 8], digits[40];
    mpz_t primes[2], u, e, x;
    mpz_inits(primes[0], primes[1], u, e, x, NULL);
    get(primes[0], sec->p, PB / 2);
    get(primes[1], sec->q, PB / 2);
    get(x, pub->n_bytes, PB);
    mpz_mul_ui(u, x, 5);
    mpz_add_ui(u, u, 1); /* 1 + 5N */
    mpz_mul(x, x, x);
    get(e, pub->hs_bytes, CB);
    mpz_mul(u, u, e);
    mpz_mod(u, u, x);
    put(c, CB, u);
    for (int half = 0; half < 2; half++) {
        get(u, c, CB);
        mpz_sub_ui(e, primes[half], 1);
        mpz_mul(x, primes[half], primes[half]);
        mpz_powm(u, u, e, x);
        memset(limbs, 0, sizeof limbs);
        mpz_export(limbs, NULL, -1, 8, 0, 0, u);
        for (unsigned i = 0; i < 40; i++) {
            mpz_fdiv_q_2exp(x, u, 52 * i);
            mpz_fdiv_r_2exp(x, x, 52);
            digits[i] = mpz_get_ui(x);
        }
        clear_stack(); /* of what GMP left there */
        CHECK_OK(paillier_decrypt(sec, m, c, 1, NULL, NULL));
        assert_int_equal(left_on_stack(limbs, PB / 8), 0);
        assert_int_equal(left_on_stack(digits, 40), 0);
        CHECK_OK(paillier_decrypt_without_crt(sec, m, c, 1, NULL, NULL));
        assert_int_equal(left_on_stack(limbs, PB / 8), 0);
        assert_int_equal(left_on_stack(digits, 40), 0);
    }
    mpz_clears(primes[0], primes[1], u, e, x, NULL);
#endif
}

static void faults(void **state)
{
    sefl_buf bytes = { 0 };
    uint8_t m[PB] = { 5 }, c[CB], back[PB], seed[32] = { 9 };
    paillier_sec *k = NULL;
    paillier_pub *q = NULL;
    paillier_enc *enc = NULL;
    paillier_sum *s = NULL;
    (void)state;
    TEST_FAULTS(FAULT_ALLOC, st = paillier_sec_write(sec, &bytes), buf_clear(&bytes));
    CHECK_OK(paillier_sec_write(sec, &bytes));
    TEST_FAULTS(FAULT_ALLOC, st = paillier_sec_read(&k, buf_span(&bytes)), paillier_sec_free(k));
    buf_reset(&bytes);
    CHECK_OK(paillier_pub_write(pub, &bytes));
    TEST_FAULTS(FAULT_ALLOC, st = paillier_pub_read(&q, buf_span(&bytes)), paillier_pub_free(q));
    TEST_FAULTS(FAULT_ALLOC, st = paillier_pub_copy(&q, sec), paillier_pub_free(q));
    TEST_FAULTS(FAULT_ALLOC, st = paillier_enc_new(&enc, pub, 1, NULL, NULL),
                paillier_enc_free(enc));
    CHECK_OK(paillier_enc_new(&enc, pub, 1, NULL, NULL));
    TEST_FAULTS(FAULT_ALLOC, st = paillier_encrypt_vartime(enc, c, m, 1, seed, 0, NULL, NULL), );
    TEST_FAULTS(FAULT_ALLOC, st = paillier_decrypt(sec, back, c, 1, NULL, NULL), );
    assert_memory_equal(back, m, PB);
    TEST_FAULTS(FAULT_ALLOC, st = paillier_sum_new(&s, pub, 9), paillier_sum_free(s));
    CHECK_OK(paillier_sum_new(&s, pub, 1));
    TEST_FAULTS(FAULT_ALLOC, st = paillier_sum_add(s, 0, c, 1, NULL), );
    TEST_FAULTS(FAULT_ALLOC, st = paillier_sum_close(s, NULL), );
    TEST_FAULTS(FAULT_ALLOC, st = paillier_sum_write(s, c, 0, 1, m, NULL), );
    paillier_sum_free(s);
    paillier_enc_free(enc);
    buf_clear(&bytes);
#if SEFL_FAULTS
    sefl_rng system = rng_system();
    for (uint64_t n = 1; n < 4; n++) {
        fault_arm(FAULT_RANDOM, n);
        CHECK_STATUS(paillier_keygen_vartime(&k, BITS, &system, NULL), SEFL_ERANDOM);
        fault_disarm();
    }
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(key_conditions),
        cmocka_unit_test(public_key_rejected),
        cmocka_unit_test(secret_key_rejected),
        cmocka_unit_test(ciphertext_checks),
        cmocka_unit_test(multiples_are_never_missed),
        cmocka_unit_test(encryption),
        cmocka_unit_test(more_uses_wider_windows),
        cmocka_unit_test(sums),
        cmocka_unit_test(negation),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(stack_is_clean),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* Laws of Paillier: exhaustively on toy keys, at full size with random and extreme values, and a
 * sum of 10,000 clients. Toy keys exist in this program only: no public function generates or reads
 * one. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/fault.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/paillier_internal.h"
#include "crypto/ahe/paillier_pack.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const uint8_t context[AHE_CONTEXT_BYTES];

/* ---- toy keys -------------------------------------------------------------------------------- */

enum { TOY_BITS = 16, TOY_P = 227, TOY_Q = 211, TOY_N = TOY_P * TOY_Q };
static const uint64_t TOY_N2 = (uint64_t)TOY_N * TOY_N;

static uint64_t power(uint64_t x, uint64_t e, uint64_t m)
{
    uint64_t z = 1;
    for (; e > 0; e >>= 1) {
        if (e & 1)
            z = z * x % m; /* m below 2^32 */
        x = x * x % m;
    }
    return z;
}

static uint64_t toy_hs(void)
{
    uint64_t x = 12345;
    return power(TOY_N - x * x % TOY_N, TOY_N, TOY_N2);
}

static paillier_sec *toy_key(void)
{
    uint8_t p = TOY_P, q = TOY_Q, hs[8];
    paillier_sec *k;
    store_u64(hs, toy_hs());
    CHECK_OK(paillier_sec_make(&k, TOY_BITS, &p, &q, hs));
    return k;
}

/* Every plaintext, with every coin in turn, through both decryptions. */
static void toy_decryption(void **state)
{
    enum { BATCH = 64 };
    paillier_sec *k = toy_key();
    uint64_t hs = toy_hs();
    (void)state;
    for (uint64_t m0 = 0; m0 < TOY_N; m0 += BATCH) {
        uint8_t c[BATCH * 4], m[BATCH * 2], without[BATCH * 2];
        for (uint64_t i = 0; i < BATCH; i++) {
            uint64_t m_ = (m0 + i) % TOY_N;
            store_u32(c + 4 * i,
                      (uint32_t)((1 + m_ * TOY_N) * power(hs, (m0 + i) % 256, TOY_N2) % TOY_N2));
        }
        CHECK_OK(paillier_decrypt(k, m, c, BATCH, NULL, NULL));
        CHECK_OK(paillier_decrypt_without_crt(k, without, c, BATCH, NULL, NULL));
        assert_memory_equal(m, without, sizeof m);
        for (uint64_t i = 0; i < BATCH; i++)
            assert_int_equal(m[2 * i] | m[2 * i + 1] << 8, (m0 + i) % TOY_N);
    }
    paillier_sec_free(k);
}

/* Every plaintext encrypted; the coins are those of ChaCha20; every window. */
static void toy_encryption(void **state)
{
    enum { BATCH = 512 };
    static uint8_t m[BATCH * 2], c[BATCH * 4];
    paillier_sec *k = toy_key();
    const paillier_pub *pub = paillier_sec_pub(k);
    uint8_t seed[32] = { 1, 2, 3 };
    uint64_t hs = toy_hs();
    bool seen[256] = { 0 };
    unsigned coins = 0;
    (void)state;
    for (unsigned window = 1; window <= 8; window++) {
        paillier_enc *e;
        CHECK_OK(paillier_enc_new_window(&e, pub, window, NULL, NULL));
        for (uint64_t m0 = window - 1; m0 < TOY_N; m0 += 8 * BATCH) {
            for (uint64_t i = 0; i < BATCH; i++) {
                uint64_t v = (m0 + 8 * i) % TOY_N;
                m[2 * i] = (uint8_t)v, m[2 * i + 1] = (uint8_t)(v >> 8);
            }
            CHECK_OK(paillier_encrypt_vartime(e, c, m, BATCH, seed, m0, NULL, NULL));
            for (uint64_t i = 0; i < BATCH; i++) {
                uint8_t nonce[8], r;
                uint64_t v = (m0 + 8 * i) % TOY_N;
                store_u64(nonce, m0 + i);
                crypto_stream_chacha20(&r, 1, nonce, seed);
                seen[r] = true;
                assert_int_equal(load_u32(c + 4 * i),
                                 (1 + v * TOY_N) * power(hs, r, TOY_N2) % TOY_N2);
            }
        }
        paillier_enc_free(e);
    }
    for (int i = 0; i < 256; i++)
        coins += seen[i];
    assert_int_equal(coins, 256);
    paillier_sec_free(k);
}

/* The check on arrival, for every residue of a stretch and every multiple of N. */
static void toy_checks(void **state)
{
    paillier_sec *k = toy_key();
    const paillier_pub *pub = paillier_sec_pub(k);
    uint8_t c[4];
    (void)state;
    for (uint64_t v = 0; v < TOY_N2 + 3 * TOY_N; v += v < 3 * TOY_N ? 1 : TOY_N / 2) {
        store_u32(c, (uint32_t)v);
        bool good = v < TOY_N2 && v % TOY_N != 0;
        CHECK_STATUS(paillier_check(pub, c, 1), good ? SEFL_OK : SEFL_EPROTO);
    }
    paillier_sec_free(k);
}

/* Three slots of 4 bits, 2 bits of mask: all 15^3 vectors under several masks, against integers. */
static void toy_packing(void **state)
{
    paillier_sec *k = toy_key();
    const paillier_pub *pub = paillier_sec_pub(k);
    ahe_params p = { .scheme = &ahe_paillier,
                     .pack = { .w = 4, .g = 3, .s = 2, .clients = 1, .value_max = 7 },
                     .values = 3 };
    (void)state;
    CHECK_OK(ahe_paillier.params(&p, pub));
    assert_int_equal(p.unit_values, 3);
    for (int64_t a = -7; a <= 7; a++)
        for (int64_t b = -7; b <= 7; b++)
            for (int64_t c = -7; c <= 7; c++) {
                int64_t values[3] = { a, b, c }, sum[3], A = a + 16 * b + 256 * c;
                uint8_t m[2], v[2], n[2], seed[32] = { (uint8_t)a, (uint8_t)b };
                uint64_t digits[3];
                paillier_pack(&p, m, values, 3, pub->n_bytes);
                assert_int_equal(m[0] | m[1] << 8, A < 0 ? TOY_N + A : A);
                paillier_pack_mask(&p, v, 9, seed, 0);
                paillier_pack_mask(&p, n, 9, seed, 1);
                int64_t mask = v[0] | v[1] << 8, off = n[0] | n[1] << 8;
                assert_true(mask < 1 << 14 && off == mask + (1 << 12));
                int64_t clear = A + off;
                n[0] = (uint8_t)clear, n[1] = (uint8_t)(clear >> 8);
                ahe_plain_digits(&p, digits, n, 1);
                for (int i = 0; i < 3; i++)
                    assert_int_equal(digits[i], ((uint64_t)clear << 3 >> (4 * i)) & 127);
                ahe_plain_unmask(&p, sum, n, v, 1);
                assert_memory_equal(sum, values, sizeof sum);
                memcpy(n, v, 2); /* mask + A, once the offset is in */
                n[1] = (uint8_t)(n[1] + 16);
                ahe_plain_add(&p, n, values, 1);
                assert_int_equal(n[0] | n[1] << 8, clear);
            }
    paillier_sec_free(k);
}

/* The mask is uniform: 2^14 values, chi-square of the 64 leading classes. */
static void toy_mask(void **state)
{
    ahe_params p = { .pack = { .w = 4, .s = 2 }, .unit_values = 3, .plain_bytes = 2 };
    unsigned count[64] = { 0 };
    double chi = 0;
    (void)state;
    for (uint64_t i = 0; i < 64000; i++) {
        uint8_t v[2], seed[32] = { 42 };
        paillier_pack_mask(&p, v, i, seed, 0);
        count[(v[0] | v[1] << 8) >> 8]++;
    }
    for (int i = 0; i < 64; i++)
        chi += (count[i] - 1000.0) * (count[i] - 1000.0) / 1000;
    assert_true(chi < 120); /* 63 degrees of freedom: beyond 120 once in 10^5 */
}

/* ---- full size ------------------------------------------------------------------------------- */

typedef struct party {
    paillier_sec *sec;
    const paillier_pub *pub;
    ahe_params p;
    ahe_enc *enc;
    sefl_rng rng;
    seeded gen;
} party;

static void open_party(party *t, const char *stream, unsigned clients, size_t values)
{
    pack packing = { .k = 16, .t = 12, .w = 28, .g = 16, .s = 80, .clients = clients };
    packing.value_max = (((int64_t)1 << 27) - 1) / (int64_t)clients;
    test_seed(&t->gen, stream);
    t->rng = seeded_rng(&t->gen);
    CHECK_OK(paillier_keygen_vartime(&t->sec, 2048, &t->rng, NULL));
    t->pub = paillier_sec_pub(t->sec);
    CHECK_OK(ahe_params_init(&t->p, &ahe_paillier, &packing, t->pub, values));
    CHECK_OK(ahe_enc_new(&t->enc, t->pub, &t->p, NULL, NULL));
}

static void close_party(party *t)
{
    ahe_enc_free(&t->p, t->enc);
    paillier_sec_free(t->sec);
}

static void upload(party *t, uint8_t *body, const int64_t *values)
{
    ahe_upload *u;
    CHECK_OK(ahe_upload_new(&u, &t->p, t->enc, context, &t->rng));
    CHECK_OK(ahe_upload_units(&t->p, u, body, values, t->p.units, NULL, NULL));
    ahe_upload_free(&t->p, u);
}

static void receive(party *t, ahe_sum *s, const uint8_t *body)
{
    CHECK_OK(ahe_sum_begin(&t->p, s));
    CHECK_OK(ahe_sum_add_units(&t->p, s, 0, body, t->p.units, NULL));
}

/* Masks, decrypts, removes the mask: every value must be as expected, the padding zero. */
static void open_sum(party *t, ahe_sum *s, const int64_t *want)
{
    size_t units = t->p.units, n = units * t->p.unit_values;
    uint8_t seed[AHE_SEED_BYTES], *out, *plain, *mask;
    int64_t *sums;
    ahe_dec *d;
    CHECK_OK(sefl_new(&out, units, t->p.unit_bytes));
    CHECK_OK(sefl_new(&plain, units, t->p.plain_bytes));
    CHECK_OK(sefl_new(&mask, units, t->p.plain_bytes));
    CHECK_OK(sefl_new(&sums, n, sizeof *sums));
    CHECK_OK(ahe_sum_close(&t->p, s));
    seeded_fill(&t->gen, seed, sizeof seed);
    CHECK_OK(ahe_sum_write_units(&t->p, s, out, 0, units, seed, NULL));
    CHECK_OK(ahe_dec_new(&d, &t->p, t->sec, context));
    CHECK_OK(ahe_dec_units(&t->p, d, plain, 0, out, units, NULL, NULL));
    CHECK_OK(ahe_mask_units(&t->p, mask, 0, units, seed));
    ahe_plain_unmask(&t->p, sums, plain, mask, units);
    for (size_t i = 0; i < n; i++)
        if (sums[i] != (i < t->p.values ? want[i] : 0))
            fail_msg("value %zu: %lld, not %lld", i, (long long)sums[i], (long long)want[i]);
    ahe_dec_free(&t->p, d);
    sefl_free(out);
    sefl_free(plain);
    sefl_free(mask);
    sefl_free(sums);
}

static void random_sums(void **state)
{
    enum { VALUES = 641, CLIENTS = 7 }; /* ten units of 70, the last one short */
    static int64_t values[VALUES], want[VALUES];
    party t = { 0 };
    ahe_sum *s;
    uint8_t *body;
    (void)state;
    open_party(&t, "random sums", CLIENTS, VALUES);
    CHECK_OK(sefl_new(&body, t.p.units, t.p.unit_bytes));
    CHECK_OK(ahe_sum_new(&s, &t.p, t.pub));
    memset(want, 0, sizeof want);
    for (int c = 0; c < CLIENTS; c++) {
        uint64_t range = 2 * (uint64_t)t.p.pack.value_max + 1;
        for (int i = 0; i < VALUES; i++) {
            values[i] = (int64_t)seeded_below(&t.gen, range) - t.p.pack.value_max;
            want[i] += values[i];
        }
        upload(&t, body, values);
        CHECK_OK(ahe_sum_check_units(&t.p, s, body, t.p.units));
        receive(&t, s, body);
    }
    open_sum(&t, s, want);
    ahe_sum_free(&t.p, s);
    sefl_free(body);
    close_party(&t);
}

/* 10,000 clients at the largest values; 8 bodies, each really added 1250 times. The test checks
 * every slot, including those whose neighbours are all at the opposite extreme. */
static void ten_thousand(void **state)
{
    enum { CLIENTS = 10000, BODIES = 8, VALUES = 3 * 70 };
    static int64_t values[BODIES][VALUES], want[VALUES];
    party t = { 0 };
    ahe_sum *s;
    uint8_t *body;
    (void)state;
    open_party(&t, "ten thousand", CLIENTS, VALUES);
    assert_int_equal(t.p.units, 3);
    int64_t most = t.p.pack.value_max;
    size_t bytes = t.p.units * t.p.unit_bytes;
    CHECK_OK(sefl_new(&body, BODIES, bytes));
    CHECK_OK(ahe_sum_new(&s, &t.p, t.pub));
    memset(want, 0, sizeof want);
    for (int b = 0; b < BODIES; b++) {
        for (int i = 0; i < VALUES; i++) {
            if (i < 70)
                values[b][i] = -most; /* unit 0: the most negative number there is */
            else if (i < 140)
                values[b][i] = i % 2 ? most : -most; /* unit 1: neighbours at both ends */
            else
                values[b][i] = i % 3 == 0 ? (b % 2 ? most : -most) : most - b;
            want[i] += CLIENTS / BODIES * values[b][i];
        }
        upload(&t, body + (size_t)b * bytes, values[b]);
    }
    for (int c = 0; c < CLIENTS; c++)
        receive(&t, s, body + (size_t)(c % BODIES) * bytes);
    CHECK_STATUS(ahe_sum_begin(&t.p, s), SEFL_ERANGE);
    open_sum(&t, s, want);
    ahe_sum_free(&t.p, s);
    sefl_free(body);
    close_party(&t);
}

/* Two uploads of the same vector share no ciphertext, and neither do two units of one upload that
 * hold the same numbers: coins are never used twice. */
static void coins_never_repeat(void **state)
{
    enum { VALUES = 70 * 40 };
    static int64_t values[VALUES];
    party t = { 0 };
    uint8_t *body;
    (void)state;
    open_party(&t, "coins", 100, VALUES);
    size_t units = t.p.units, n = t.p.unit_bytes;
    CHECK_OK(sefl_new(&body, 2 * units, n));
    for (int i = 0; i < VALUES; i++)
        values[i] = 17;
    upload(&t, body, values);
    upload(&t, body + units * n, values);
    for (size_t i = 0; i < 2 * units; i++)
        for (size_t k = i + 1; k < 2 * units; k++)
            assert_memory_not_equal(body + i * n, body + k * n, n);
    sefl_free(body);
    close_party(&t);
}

/* UNITS ciphertexts of plaintexts from the top of the range down, which no sum of honest clients
 * reaches. */
enum { NONSENSE = 40 };

static void encrypt_raw(party *t, uint8_t *c, uint8_t *m, bool nonsense)
{
    paillier_enc *raw;
    uint8_t seed[32];
    size_t pb = t->p.plain_bytes;
    seeded_fill(&t->gen, seed, sizeof seed);
    for (size_t i = 0; i < NONSENSE; i++) {
        uint8_t *at = m + i * pb;
        memset(at, 0x2a, pb);
        at[pb - 1] = at[pb - 2] = 0;
        if (nonsense) {
            memcpy(at, t->pub->n_bytes, pb);
            at[0] ^= 1; /* N - 1 */
            at[1 + i] = (uint8_t)(at[1 + i] / 2);
        }
    }
    CHECK_OK(paillier_enc_new(&raw, t->pub, NONSENSE, NULL, NULL));
    CHECK_OK(paillier_encrypt_vartime(raw, c, m, NONSENSE, seed, 0, NULL, NULL));
    paillier_enc_free(raw);
}

static double cpu_seconds(party *t, ahe_dec *d, uint8_t *plain, const uint8_t *c)
{
    double best = 1e9;
    for (int i = 0; i < 3; i++) {
        clock_t begin = clock();
        CHECK_OK(ahe_dec_units(&t->p, d, plain, 0, c, NONSENSE, NULL, NULL));
        double s = (double)(clock() - begin) / CLOCKS_PER_SEC;
        best = s < best ? s : best;
    }
    return best;
}

/* CSP accepts garbage plaintexts from clients, and they cost it no extra time. */
static void out_of_range(void **state)
{
    party t = { 0 };
    uint8_t *c, *plain, *m;
    ahe_dec *d;
    (void)state;
    open_party(&t, "out of range", 100, NONSENSE * 70);
    CHECK_OK(sefl_new(&c, NONSENSE, t.p.unit_bytes));
    CHECK_OK(sefl_new(&plain, NONSENSE, t.p.plain_bytes));
    CHECK_OK(sefl_new(&m, NONSENSE, t.p.plain_bytes));
    CHECK_OK(ahe_dec_new(&d, &t.p, t.sec, context));
    encrypt_raw(&t, c, m, false);
    double usual = cpu_seconds(&t, d, plain, c);
    assert_memory_equal(plain, m, NONSENSE * t.p.plain_bytes);
    encrypt_raw(&t, c, m, true);
    double spoiled = cpu_seconds(&t, d, plain, c);
    assert_memory_equal(plain, m, NONSENSE * t.p.plain_bytes);
    if (spoiled > 2 * usual) /* the same work: 1, and noise */
        fail_msg("nonsense takes %.1f ms, honest sums %.1f", spoiled * 1e3, usual * 1e3);
    ahe_dec_free(&t.p, d);
    sefl_free(c);
    sefl_free(plain);
    sefl_free(m);
    close_party(&t);
}

/* CSP never sends a result that is correct modulo one prime only. */
static void machine_faults(void **state)
{
    party t = { 0 };
    uint8_t *c, *plain, *m;
    ahe_dec *d;
    (void)state;
    open_party(&t, "machine faults", 100, NONSENSE * 70);
    size_t bytes = NONSENSE * t.p.plain_bytes;
    CHECK_OK(sefl_new(&c, NONSENSE, t.p.unit_bytes));
    CHECK_OK(sefl_new(&plain, NONSENSE, t.p.plain_bytes));
    CHECK_OK(sefl_new(&m, NONSENSE, t.p.plain_bytes));
    encrypt_raw(&t, c, m, false);
    CHECK_OK(ahe_dec_new(&d, &t.p, t.sec, context));
#define SPOILED(first, count)                                                                    \
    do {                                                                                         \
        memset(plain, 1, bytes);                                                                 \
        CHECK_STATUS(ahe_dec_units(&t.p, d, plain, (first), c + (first)*t.p.unit_bytes, (count), \
                                   NULL, NULL),                                                  \
                     SEFL_ECRYPTO);                                                              \
        for (size_t i_ = 0; i_ < (count)*t.p.plain_bytes; i_++)                                  \
            assert_int_equal(plain[i_], 0);                                                      \
    } while (0)
    /* a constant of the key changed in memory: everything is wrong, perhaps in the same way */
    uint64_t *constants[] = {
        (uint64_t *)t.sec->hp,  (uint64_t *)t.sec->hq,  (uint64_t *)t.sec->crt,
        (uint64_t *)t.sec->p_1, (uint64_t *)t.sec->q_1, t.sec->p2.power[3],
        t.sec->q2.m.fix,        (uint64_t *)t.sec->p,   (uint64_t *)t.sec->q,
        t.sec->p2.m.limb,       t.sec->q2.m.rr,         t.sec->q1.limb,
    };
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
        constants[i][1] ^= 4;
        SPOILED(0, 1);
        SPOILED(0, 3);
        constants[i][1] ^= 4;
    }
#if SEFL_FAULTS
    /* one half of one unit is wrong, once: for every unit of a first and of a second call */
    enum { ALL = 3 + 2 }; /* three units, their product, the known one */
    for (uint64_t n = 1; n <= ALL; n++) {
        fault_arm(FAULT_COMPUTE, n);
        SPOILED(0, 3);
        assert_true(fault_was_hit());
        fault_arm(FAULT_COMPUTE, ALL + n);
        CHECK_OK(ahe_dec_units(&t.p, d, plain, 0, c, 3, NULL, NULL));
        SPOILED(3, 3);
        assert_true(fault_was_hit());
    }
    fault_disarm();
#endif
    CHECK_OK(ahe_dec_units(&t.p, d, plain, 0, c, NONSENSE, NULL, NULL));
    assert_memory_equal(plain, m, bytes);
    ahe_dec_free(&t.p, d);
    sefl_free(c);
    sefl_free(plain);
    sefl_free(m);
    close_party(&t);
}

static void scheme_faults(void **state)
{
    enum { VALUES = 70 };
    static const int64_t values[VALUES] = { 1, -2, 3 };
    party t = { 0 };
    uint8_t *body, seed[32] = { 0 }, *plain;
    ahe_enc *e;
    ahe_upload *u = NULL;
    ahe_sum *s = NULL;
    ahe_dec *d = NULL;
    (void)state;
    open_party(&t, "faults", 100, VALUES);
    CHECK_OK(sefl_new(&body, t.p.units, t.p.unit_bytes));
    CHECK_OK(sefl_new(&plain, t.p.units, t.p.plain_bytes));
    TEST_FAULTS(FAULT_ALLOC, st = ahe_enc_new(&e, t.pub, &t.p, NULL, NULL), ahe_enc_free(&t.p, e));
    sefl_rng system = rng_system();
    TEST_FAULTS(FAULT_ALLOC, st = ahe_upload_new(&u, &t.p, t.enc, context, &system),
                ahe_upload_free(&t.p, u));
    TEST_FAULTS(FAULT_RANDOM, st = ahe_upload_new(&u, &t.p, t.enc, context, &system),
                ahe_upload_free(&t.p, u));
    upload(&t, body, values);
    TEST_FAULTS(FAULT_ALLOC, st = ahe_sum_new(&s, &t.p, t.pub), ahe_sum_free(&t.p, s));
    CHECK_OK(ahe_sum_new(&s, &t.p, t.pub));
    receive(&t, s, body);
    TEST_FAULTS(FAULT_ALLOC, st = ahe_sum_close(&t.p, s), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = ahe_sum_write_units(&t.p, s, body, 0, 1, seed, NULL), (void)0);
    TEST_FAULTS(FAULT_ALLOC, st = ahe_dec_new(&d, &t.p, t.sec, context), ahe_dec_free(&t.p, d));
    CHECK_OK(ahe_dec_new(&d, &t.p, t.sec, context));
    TEST_FAULTS(FAULT_ALLOC, st = ahe_dec_units(&t.p, d, plain, 0, body, 1, NULL, NULL), (void)0);
    ahe_dec_free(&t.p, d);
    ahe_sum_free(&t.p, s);
    sefl_free(body);
    sefl_free(plain);
    close_party(&t);
}

/* The same program with the vector kernels switched off. */
static void portable_too(void **state)
{
    (void)state;
    if (!TEST_KERNELS || getenv("SEFL_CPU"))
        return;
    pid_t pid = fork();
    if (pid == 0) {
        setenv("SEFL_CPU", "portable", 1);
        execl("/proc/self/exe", "portable", (char *)NULL);
        _exit(127);
    }
    int status = -1;
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(toy_decryption), cmocka_unit_test(toy_encryption),
        cmocka_unit_test(toy_checks),     cmocka_unit_test(toy_packing),
        cmocka_unit_test(toy_mask),       cmocka_unit_test(random_sums),
        cmocka_unit_test(ten_thousand),   cmocka_unit_test(coins_never_repeat),
        cmocka_unit_test(out_of_range),   cmocka_unit_test(scheme_faults),
        cmocka_unit_test(machine_faults), cmocka_unit_test(portable_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

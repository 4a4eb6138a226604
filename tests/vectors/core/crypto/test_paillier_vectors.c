/* Known answers made by make_paillier.py, which uses Python integers only. Run for every kernel of
 * this machine: the slower ones in processes of their own. */
#include "support/check.h"

#include "base/buf.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/paillier.h"
#include "crypto/ahe/paillier_pack.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct vector {
    unsigned bits, slots;
    const char *pub, *sec, *fingerprint, *seed;
    const char *plain[5], *cipher[5];
    const char *product, *total;
    int64_t values[160];
    const char *mask_seed, *mask, *masked, *clear;
    uint64_t digits[160];
} vector;

#include "paillier_vectors.h"

enum { VECTORS = sizeof vectors / sizeof vectors[0], MOST = 1024 };

static size_t unhex(uint8_t *out, const char *hex)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        char two[3] = { hex[2 * i], hex[2 * i + 1], 0 };
        out[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    return n;
}

static void equal(const uint8_t *got, const char *hex)
{
    uint8_t want[4 * MOST];
    size_t n = unhex(want, hex);
    assert_memory_equal(got, want, n);
}

static paillier_sec *key_of(const vector *v)
{
    uint8_t bytes[4 * MOST];
    paillier_sec *sec = NULL;
    size_t n = unhex(bytes, v->sec);
    CHECK_OK(paillier_sec_read(&sec, span_of(bytes, n)));
    return sec;
}

static ahe_params params_of(const vector *v, const paillier_pub *pub)
{
    pack packing = {
        .k = 16, .t = 12, .w = 28, .g = 16, .s = 80, .clients = 10000, .value_max = 13421
    };
    ahe_params p;
    CHECK_OK(ahe_params_init(&p, &ahe_paillier, &packing, pub, 4 * (size_t)v->slots));
    assert_int_equal(p.unit_values, v->slots);
    return p;
}

static void keys(void **state)
{
    (void)state;
    for (int i = 0; i < VECTORS; i++) {
        const vector *v = &vectors[i];
        uint8_t bytes[4 * MOST], digest[32];
        paillier_pub *pub = NULL;
        sefl_buf out = { 0 };
        paillier_sec *sec = key_of(v);
        CHECK_OK(paillier_pub_read(&pub, span_of(bytes, unhex(bytes, v->pub))));
        assert_true(paillier_pub_equal(pub, paillier_sec_pub(sec)));
        CHECK_OK(paillier_pub_write(pub, &out));
        assert_int_equal(out.n, paillier_pub_bytes(v->bits));
        equal(out.p, v->pub);
        buf_reset(&out);
        CHECK_OK(paillier_sec_write(sec, &out));
        assert_int_equal(out.n, paillier_sec_bytes(v->bits));
        equal(out.p, v->sec);
        paillier_pub_fingerprint(pub, digest);
        equal(digest, v->fingerprint);
        buf_clear(&out);
        paillier_pub_free(pub);
        paillier_sec_free(sec);
    }
}

static void encryption(void **state)
{
    (void)state;
    for (int i = 0; i < VECTORS; i++) {
        const vector *v = &vectors[i];
        paillier_sec *sec = key_of(v);
        const paillier_pub *pub = paillier_sec_pub(sec);
        size_t pb = paillier_plain_bytes(pub), cb = paillier_cipher_bytes(pub);
        uint8_t seed[32], m[5 * MOST], c[5 * MOST], back[5 * MOST];
        paillier_enc *enc;
        paillier_sum *sum;
        unhex(seed, v->seed);
        for (int k = 0; k < 5; k++)
            assert_int_equal(unhex(m + (size_t)k * pb, v->plain[k]), pb);
        CHECK_OK(paillier_enc_new(&enc, pub, 5, NULL, NULL));
        CHECK_OK(paillier_encrypt_vartime(enc, c, m, 5, seed, 7, NULL, NULL));
        for (int k = 0; k < 5; k++)
            equal(c + (size_t)k * cb, v->cipher[k]);
        CHECK_OK(paillier_decrypt(sec, back, c, 5, NULL, NULL));
        assert_memory_equal(back, m, 5 * pb);
        CHECK_OK(paillier_sum_new(&sum, pub, 1));
        for (int k = 0; k < 5; k++)
            CHECK_OK(paillier_sum_add(sum, 0, c + (size_t)k * cb, 1, NULL));
        CHECK_OK(paillier_sum_close(sum, NULL));
        CHECK_OK(paillier_sum_write(sum, c, 0, 1, NULL, NULL));
        equal(c, v->product);
        CHECK_OK(paillier_decrypt(sec, back, c, 1, NULL, NULL));
        equal(back, v->total);
        CHECK_OK(paillier_decrypt_without_crt(sec, back, c, 1, NULL, NULL));
        equal(back, v->total);
        paillier_sum_free(sum);
        paillier_enc_free(enc);
        paillier_sec_free(sec);
    }
}

static void packing(void **state)
{
    (void)state;
    for (int i = 0; i < VECTORS; i++) {
        const vector *v = &vectors[i];
        paillier_sec *sec = key_of(v);
        const paillier_pub *pub = paillier_sec_pub(sec);
        ahe_params p = params_of(v, pub);
        uint8_t out[MOST], seed[32];
        int64_t low[160];
        uint64_t digits[160];
        paillier_pack(&p, out, v->values, v->slots, paillier_modulus(pub));
        equal(out, v->plain[3]);
        for (unsigned k = 0; k < v->slots; k++)
            low[k] = -13421;
        paillier_pack(&p, out, low, v->slots, paillier_modulus(pub));
        equal(out, v->plain[4]);
        unhex(seed, v->mask_seed);
        CHECK_OK(ahe_mask_units(&p, out, 3, 1, seed));
        equal(out, v->mask);
        unhex(out, v->clear);
        ahe_plain_digits(&p, digits, out, 1);
        assert_memory_equal(digits, v->digits, v->slots * sizeof digits[0]);
        paillier_sec_free(sec);
    }
}

/* The last two ciphertexts as two clients' unit 3: the masked sum, bit for bit. */
static void masked_sum(void **state)
{
    (void)state;
    for (int i = 0; i < VECTORS; i++) {
        const vector *v = &vectors[i];
        static const uint8_t context[AHE_CONTEXT_BYTES];
        paillier_sec *sec = key_of(v);
        const paillier_pub *pub = paillier_sec_pub(sec);
        ahe_params p = params_of(v, pub);
        uint8_t body[4][MOST], out[MOST], seed[32], plain[MOST], mask[MOST];
        int64_t sums[160];
        ahe_sum *sum;
        ahe_dec *dec;
        size_t cb = p.unit_bytes;
        uint8_t flat[4 * MOST];
        CHECK_OK(ahe_sum_new(&sum, &p, pub));
        for (int client = 3; client < 5; client++) {
            for (int u = 0; u < 4; u++) {
                unhex(body[u], v->cipher[u == 3 ? client : 2]);
                memcpy(flat + (size_t)u * cb, body[u], cb);
            }
            CHECK_OK(ahe_sum_check_units(&p, sum, flat, 4));
            CHECK_OK(ahe_sum_begin(&p, sum));
            CHECK_OK(ahe_sum_add_units(&p, sum, 0, flat, 4, NULL));
        }
        CHECK_OK(ahe_sum_close(&p, sum));
        unhex(seed, v->mask_seed);
        CHECK_OK(ahe_sum_write_units(&p, sum, out, 3, 1, seed, NULL));
        equal(out, v->masked);
        CHECK_OK(ahe_dec_new(&dec, &p, sec, context));
        CHECK_OK(ahe_dec_units(&p, dec, plain, 3, out, 1, NULL, NULL));
        equal(plain, v->clear);
        CHECK_OK(ahe_mask_units(&p, mask, 3, 1, seed));
        ahe_plain_unmask(&p, sums, plain, mask, 1);
        for (unsigned k = 0; k < v->slots; k++)
            assert_int_equal(sums[k], v->values[k] - 13421);
        ahe_dec_free(&p, dec);
        ahe_sum_free(&p, sum);
        paillier_sec_free(sec);
    }
}

/* The same program with faster kernels switched off. */
static void other_kernels(void **state)
{
    static const char *const keep[] = { "portable", "bmi2,adx" };
    (void)state;
    for (size_t i = 0; TEST_KERNELS && !getenv("SEFL_CPU") && i < sizeof keep / sizeof keep[0];
         i++) {
        pid_t pid = fork();
        if (pid == 0) {
            setenv("SEFL_CPU", keep[i], 1);
            execl("/proc/self/exe", keep[i], (char *)NULL);
            _exit(127);
        }
        int status = -1;
        assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),       cmocka_unit_test(encryption),    cmocka_unit_test(packing),
        cmocka_unit_test(masked_sum), cmocka_unit_test(other_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Known answers of the lwe units; make_lwe.py computes them from the definition. */
#include "support/check.h"

#include "base/sha256.h"
#include "crypto/ahe/lwe_unit.h"

#include <string.h>

#include "vectors/crypto/lwe.h"

static void hex(char *out, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", p[i]);
}

static void check_row(const uint8_t *row, size_t n, const char *first, const char *digest)
{
    char text[2 * SHA256_BYTES + 1];
    uint8_t h[SHA256_BYTES];
    if (first) {
        hex(text, row, 16);
        assert_string_equal(text, first);
    }
    sha256_of(h, span_of(row, n));
    hex(text, h, sizeof h);
    assert_string_equal(text, digest);
}

static void name(uint8_t out[32], const char *format, unsigned number)
{
    char text[32];
    snprintf(text, sizeof text, format, number);
    sha256_of(out, span_of_str(text));
}

static void known_answers(void **state)
{
    (void)state;
    static lwe_plan plan;
    static lwe_work work;
    static lwe_spectrum f;
    static uint64_t sum[LWE_N];
    static int64_t values[LWE_N];
    static int32_t s[LWE_N], minus[LWE_N];
    static uint8_t unit[LWE_N * 8], row[LWE_N * 8], mask[LWE_N * 8], plain[LWE_N * 8];
    for (size_t t = 0; t < sizeof lwe_vectors / sizeof lwe_vectors[0]; t++)
        for (unsigned path = 0; path < LWE_PATHS; path++) {
            const struct lwe_vector *v = &lwe_vectors[t];
            uint8_t seed[32];
            prg pub, err, masks;
            if (!lwe_path_has(path))
                continue;
            lwe_plan_init(&plan, v->w, v->kappa, v->d, path);
            memset(sum, 0, sizeof sum);
            memset(minus, 0, sizeof minus);
            name(seed, "context", 0);
            prg_init(&pub, seed, LWE_PUBLIC);
            for (unsigned j = 0; j < v->clients; j++) {
                name(seed, "client %u", j);
                prg_init(&err, seed, LWE_ERROR);
                lwe_secret_sample(s, seed);
                for (uint64_t i = 0; i < LWE_N; i++) {
                    uint64_t x = (i * i * 7919 + j * 104729u + i) % (2 * (uint64_t)v->max + 1);
                    values[i] = (int64_t)x - v->max;
                    minus[i] -= s[i];
                }
                lwe_ring_spectrum(&plan.ring, &f, s, true);
                lwe_unit_encrypt(&plan, unit, values, LWE_N, v->unit, &pub, &err, &f, &work);
                if (j == 0)
                    check_row(unit, lwe_bits_bytes(&plan.upload_row, LWE_N), v->unit_first,
                              v->unit_sha256);
                lwe_unit_add(&plan, sum, unit);
            }
            name(seed, "mask", 0);
            prg_init(&masks, seed, LWE_MASK);
            prg_read(&masks, mask, lwe_bits_bytes(&plan.plain_row, LWE_N), v->unit, 0);
            lwe_unit_close(&plan, row, sum, v->clients, mask, &work);
            check_row(row, lwe_bits_bytes(&plan.public_row, LWE_N), NULL, v->sum_sha256);
            lwe_ring_spectrum(&plan.ring, &f, minus, false);
            lwe_unit_decrypt(&plan, plain, row, v->unit, &pub, &f, &work);
            check_row(plain, lwe_bits_bytes(&plan.plain_row, LWE_N), v->plain_first,
                      v->plain_sha256);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(known_answers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Dropout coins by position: compared with a plain ChaCha20 in this file, and with numbers from an
 * independent program (Python integers, written from RFC 8439). */
#include "support/check.h"

#include "base/alloc.h"
#include "model/lm.h"
#include "model/nn/nn.h"

#include <math.h>
#include <string.h>

static uint32_t rol(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

/* Computes one block as RFC 8439 defines it. */
static void chacha(uint32_t out[16], const uint32_t key[8], const uint32_t tail[4])
{
    static const int at[8][4] = { { 0, 4, 8, 12 },  { 1, 5, 9, 13 },  { 2, 6, 10, 14 },
                                  { 3, 7, 11, 15 }, { 0, 5, 10, 15 }, { 1, 6, 11, 12 },
                                  { 2, 7, 8, 13 },  { 3, 4, 9, 14 } };
    static const int turn[4] = { 16, 12, 8, 7 };
    uint32_t in[16] = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 };
    memcpy(in + 4, key, 32);
    memcpy(in + 12, tail, 16);
    memcpy(out, in, 64);
    for (int round = 0; round < 10; round++)
        for (int q = 0; q < 8; q++)
            for (int k = 0; k < 4; k++) {
                uint32_t *x = &out[at[q][k % 2 ? 2 : 0]], *y = &out[at[q][k % 2 ? 3 : 1]];
                uint32_t *z = &out[at[q][k % 2 ? 1 : 3]];
                *x += *y;
                *z = rol(*z ^ *x, turn[k]);
            }
    for (int i = 0; i < 16; i++)
        out[i] += in[i];
}

static unsigned coin(const uint32_t key[8], uint64_t step, unsigned site, uint64_t i)
{
    const uint64_t block = i / 32; /* 32 numbers a block */
    const uint32_t tail[4] = { (uint32_t)block, (uint32_t)(block >> 32), (uint32_t)step,
                               site | (uint32_t)(step >> 32) << 16 };
    uint32_t out[16];
    chacha(out, key, tail);
    return out[i % 32 / 2] >> 16 * (i % 2) & 65535;
}

static void test_plain(void **state)
{
    static const size_t lengths[] = { 1, 31, 32, 33, 255, 1024, 1025, 16384, 40000 };
    static const double rates[] = { 0.2, 0.5, 1.0 / 65536, 0.99999 };
    (void)state;
    for (size_t k = 0; k < 9; k++)
        for (size_t r = 0; r < 4; r++) {
            const size_t n = lengths[k];
            const unsigned drop = (unsigned)fmin(rates[r] * 65536 + 0.5, 65535);
            nn_dropout d = { .rate = rates[r],
                             .step = (uint64_t)7 << 32 | (uint64_t)k,
                             .site = (unsigned)r };
            nn_real *mask, *x;
            pool *p;
            lm_dropout_key(d.key, 42 + k);
            CHECK_OK(pool_new(&p, 1 + (unsigned)k % 3));
            CHECK_OK(sefl_new(&mask, n, sizeof *mask));
            CHECK_OK(sefl_new(&x, n, sizeof *x));
            for (size_t i = 0; i < n; i++)
                x[i] = (nn_real)i;
            CHECK_OK(nn_dropout_draw(p, &d, mask, x, n));
            assert_int_equal(d.site, r + 1);
            for (size_t i = 0; i < n; i += 1 + i / 500) {
                bool gone = coin(d.key, d.step, (unsigned)r, i) < drop;
                nn_real keep = (nn_real)(65536.0 / (65536.0 - drop));
                assert_true(mask[i] == (gone ? 0 : keep) && x[i] == (nn_real)i * mask[i]);
            }
            sefl_free(mask), sefl_free(x);
            pool_free(p);
        }
}

static void test_key(void **state)
{
    uint32_t key[8];
    seeded g;
    (void)state;
    lm_dropout_key(key, 42);
    seeded_init(&g, 42, "dropout");
    assert_memory_equal(key, g.key, sizeof key);
    /* hashlib.sha256(struct.pack("<Q", 42) + b"dropout"), first and last word */
    assert_true(key[0] == 0x3aa66a6a && key[7] == 0x35364f58);
    /* the first four numbers of step 3, site 1 */
    static const unsigned want[4] = { 20274, 14531, 49931, 3935 };
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(coin(key, 3, 1, i), want[i]);
}

/* Dropout drops the right share, independently in every step and site. */
static void test_share(void **state)
{
    enum { N = 100000 };
    nn_real *a, *b;
    (void)state;
    CHECK_OK(sefl_new(&a, N, sizeof *a));
    CHECK_OK(sefl_new(&b, N, sizeof *b));
    nn_dropout d = { .rate = 0.2, .key = { 1 } };
    CHECK_OK(nn_dropout_draw(NULL, &d, a, NULL, N));
    CHECK_OK(nn_dropout_draw(NULL, &d, b, NULL, N)); /* the next site */
    size_t gone = 0, both = 0;
    for (size_t i = 0; i < N; i++) {
        gone += a[i] == 0;
        both += a[i] == 0 && b[i] == 0;
    }
    assert_true(fabs((double)gone - 0.2 * N) < 5 * sqrt(0.16 * N));
    assert_true(fabs((double)both - 0.04 * N) < 5 * sqrt(0.04 * N));
    sefl_free(a), sefl_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

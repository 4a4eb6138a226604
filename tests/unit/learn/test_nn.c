/* Layer products against the plain sum: every instruction set, odd sizes, both operands plain or
 * transposed, bias and row sums, the same bytes for any number of threads. */
#include "support/check.h"

#include "base/alloc.h"
#include "model/nn/nn.h"

#include <math.h>
#include <string.h>

static nn_real *numbers(size_t n, seeded *g)
{
    nn_real *p;
    CHECK_OK(sefl_new(&p, n, sizeof *p));
    for (size_t i = 0; i < n; i++)
        p[i] = (nn_real)(2 * seeded_unit(g) - 1);
    return p;
}

static void one_product(size_t m, size_t n, size_t k, unsigned how, seeded *g)
{
    const bool ta = how & 1, tb = how & 2, bias = (how & 12) == 4, add = (how & 12) == 8;
    const size_t lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 1, ldc = n + 2;
    nn_real *a = numbers((ta ? k : m) * lda, g), *b = numbers((tb ? n : k) * ldb, g);
    nn_real *c0 = numbers(m * ldc, g), *first = numbers(n, g), *sums0 = numbers(m, g);
    nn_real *pack = numbers(nn_gemm_room(n, k), g), *seen = NULL, *seen_sums = NULL;
    for (const nn_kernels *const *ker = nn_kernels_all(); *ker; ker++)
        for (unsigned threads = 1; threads <= 3; threads += 2) {
            pool *p = NULL;
            nn_real *c = numbers(m * ldc, g), *sums = numbers(m, g);
            memcpy(c, c0, m * ldc * sizeof *c);
            memcpy(sums, sums0, m * sizeof *sums);
            CHECK_OK(pool_new(&p, threads));
            CHECK_OK(nn_gemm(&(nn_work){ .pool = p, .pack = pack, .k = *ker },
                             &(nn_gemm_args){ .m = m,
                                              .n = n,
                                              .k = k,
                                              .a = { a, lda, ta },
                                              .b = { b, ldb, tb },
                                              .beta = add ? 1 : 0,
                                              .bias = bias ? first : NULL,
                                              .c = c,
                                              .ldc = ldc,
                                              .sums = ta ? sums : NULL }));
            for (size_t i = 0; i < m; i++) {
                double sum = sums0[i];
                for (size_t q = 0; ta && q < k; q++)
                    sum += a[q * lda + i];
                assert_true(fabs(sum - sums[i]) < 2e-4);
                for (size_t j = 0; j < n; j++) {
                    double want = bias ? first[j] : add ? c0[i * ldc + j] : 0;
                    for (size_t q = 0; q < k; q++)
                        want += (double)(ta ? a[q * lda + i] : a[i * lda + q]) *
                                (tb ? b[j * ldb + q] : b[q * ldb + j]);
                    if (!(fabs(want - c[i * ldc + j]) < 1e-4))
                        fail_msg("%s %zux%zux%zu how %u: (%zu,%zu) is %g, should be %g",
                                 (*ker)->name, m, n, k, how, i, j, (double)c[i * ldc + j], want);
                }
                for (size_t j = n; j < ldc; j++) /* the rest is left unchanged */
                    assert_true(c[i * ldc + j] == c0[i * ldc + j]);
            }
            if (threads > 1) {
                assert_memory_equal(c, seen, m * ldc * sizeof *c);
                assert_memory_equal(sums, seen_sums, m * sizeof *sums);
            }
            sefl_free(seen), seen = c;
            sefl_free(seen_sums), seen_sums = sums;
            pool_free(p);
        }
    void *all[] = { a, b, c0, first, sums0, pack, seen, seen_sums };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        sefl_free(all[i]);
}

static void test_products(void **state)
{
    static const size_t sizes[][3] = { { 1, 1, 1 },   { 13, 17, 5 },  { 12, 32, 33 },
                                       { 7, 16, 40 }, { 90, 33, 61 }, { 5, 64, 400 },
                                       { 29, 48, 3 }, { 25, 200, 30 } };
    seeded g;
    (void)state;
    test_seed(&g, "products");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (unsigned how = 0; how < 12; how++)
            one_product(sizes[i][0], sizes[i][1], sizes[i][2], how, &g);
}

static void test_plan(void **state)
{
    nn_plan p = { 0 };
    uint8_t *memory = NULL;
    (void)state;
    assert_null(nn_take(&p, 10, 4));
    assert_null(nn_take(&p, 100, 1));
    CHECK_OK(nn_plan_get(&p, &memory));
    assert_int_equal(p.need, 64 + 128);
    uint8_t *x = nn_take(&p, 10, 4), *y = nn_take(&p, 100, 1);
    assert_ptr_equal(x, memory);
    assert_ptr_equal(y, memory + 64);
    assert_int_equal((uintptr_t)x % 64, 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(y[i], 0);
    assert_int_equal(p.used, p.need);
    sefl_free(memory);
    static const size_t huge[][2] = { { SIZE_MAX, 2 }, { SIZE_MAX, 1 }, { SIZE_MAX - 70, 1 } };
    for (int i = 0; i < 3;
         i++) { /* what does not fit a size_t is refused, and so is everything after it */
        p = (nn_plan){ 0 };
        nn_take(&p, 10, 4);
        nn_take(&p, huge[i][0], huge[i][1]);
        nn_take(&p, 1, 1);
        CHECK_STATUS(nn_plan_get(&p, &memory), SEFL_ERANGE);
    }
    TEST_FAULTS(FAULT_ALLOC, (p = (nn_plan){ .used = 100 }, st = nn_plan_get(&p, &memory)),
                sefl_free(memory));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_products),
                                        cmocka_unit_test(test_plan) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The draw of records: its law, what it may depend on, and the rule for too many. */
#include "support/check.h"

#include "base/alloc.h"
#include "privacy/plan.h"
#include "roles/client/record_draw.h"

#include <math.h>
#include <string.h>

static task task_of(double rate, uint32_t records_max)
{
    return (task){ .record_rate = rate, .records_max = records_max };
}

static void seed_of(uint8_t seed[RECORD_DRAW_SEED], uint64_t n)
{
    memset(seed, 0, RECORD_DRAW_SEED);
    store_u64(seed, n);
}

static record_draw draw_of(const task *t, uint64_t round, size_t docs, uint64_t n)
{
    uint8_t seed[RECORD_DRAW_SEED];
    record_draw d;
    seed_of(seed, n);
    CHECK_OK(record_draw_make(&d, t, round, docs, t->record_rate < 1 ? seed : NULL));
    return d;
}

/* Every record is drawn with the rate, and every two of them independently. */
static void law(void **state)
{
    (void)state;
    enum { N = 6, DRAWS = 40000 };
    static const double rates[] = { 0.05, 0.3, 0.9 };
    for (size_t r = 0; r < 3; r++) {
        const task t = task_of(rates[r], N);
        const double q = rates[r];
        double one[N] = { 0 }, two[N][N] = { { 0 } }, all = 0;
        for (uint64_t s = 0; s < DRAWS; s++) {
            record_draw d = draw_of(&t, 1, N, s + 1000000 * r);
            size_t count = 0;
            assert_int_equal(d.n, N);
            for (size_t i = 0; i < N; i++) {
                one[i] += record_draw_has(&d, i);
                count += record_draw_has(&d, i);
                for (size_t j = 0; j < i; j++)
                    two[i][j] += record_draw_has(&d, i) && record_draw_has(&d, j);
            }
            assert_int_equal(d.count, count);
            all += count == N;
            record_draw_clear(&d);
        }
        /* six standard deviations: a correct draw fails once in 10^7 tests */
        for (size_t i = 0; i < N; i++) {
            assert_true(fabs(one[i] - DRAWS * q) < 6 * sqrt(DRAWS * q * (1 - q)));
            for (size_t j = 0; j < i; j++)
                assert_true(fabs(two[i][j] - DRAWS * q * q) <
                            6 * sqrt(DRAWS * q * q * (1 - q * q)) + 1);
        }
        assert_true(fabs(all - DRAWS * pow(q, N)) < 6 * sqrt(DRAWS * pow(q, N)) + 1);
    }
}

/* A candidate's coin is its own: it does not change with the number of the others, and the seed
 * alone changes it from round to round. */
static void coins(void **state)
{
    (void)state;
    const task t = task_of(0.5, 1000);
    record_draw a = draw_of(&t, 1, 200, 1), b = draw_of(&t, 1, 300, 1), c = draw_of(&t, 2, 200, 1),
                other = draw_of(&t, 1, 200, 2);
    size_t differ = 0;
    for (size_t i = 0; i < 200; i++) {
        assert_true(record_draw_has(&a, i) == record_draw_has(&b, i));
        assert_true(record_draw_has(&a, i) == record_draw_has(&c, i)); /* all are candidates */
        assert_int_equal(record_draw_at(&a, i), i);
        differ += record_draw_has(&a, i) != record_draw_has(&other, i);
    }
    assert_true(differ > 50 && differ < 150);
    record_draw_clear(&a), record_draw_clear(&b), record_draw_clear(&c), record_draw_clear(&other);
    record_draw d;
    CHECK_STATUS(record_draw_make(&d, &t, 1, 200, NULL), SEFL_EINVAL);
}

/* Without a draw the records take turns, and none counts twice in a round. */
static void turns(void **state)
{
    (void)state;
    const task t = task_of(1, 4);
    unsigned used[6] = { 0 };
    for (uint64_t round = 1; round <= 3; round++) {
        record_draw d = draw_of(&t, round, 6, 0);
        assert_true(d.n == 4 && d.count == 4);
        for (size_t i = 0; i < d.n; i++) {
            assert_true(record_draw_has(&d, i));
            assert_int_equal(record_draw_at(&d, i), ((round - 1) * 4 + i) % 6);
            used[record_draw_at(&d, i)]++;
        }
        record_draw_clear(&d);
    }
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(used[i], 2);
    record_draw d = draw_of(&t, UINT64_MAX, 6, 0); /* no overflow */
    assert_true(d.from < 6);
    record_draw_clear(&d);
}

/* More than records_max: none of them, never some. */
static void too_many(void **state)
{
    (void)state;
    enum { N = 20, MOST = 8 };
    size_t overflows = 0;
    for (uint64_t s = 0; s < 2000; s++) {
        uint8_t seed[RECORD_DRAW_SEED];
        record_draw whole = { .n = N, .docs = N }, d = whole;
        seed_of(seed, s);
        CHECK_OK(record_draw_flip(&whole, 0.5, N, seed));
        CHECK_OK(record_draw_flip(&d, 0.5, MOST, seed));
        const bool over = whole.count > MOST;
        assert_int_equal(d.count, over ? 0 : whole.count);
        for (size_t i = 0; i < N; i++)
            assert_true(record_draw_has(&d, i) == (!over && record_draw_has(&whole, i)));
        overflows += over;
        record_draw_clear(&whole), record_draw_clear(&d);
    }
    assert_true(overflows > 1350 && overflows < 1650); /* 0.7483 of 2000, six deviations */
    /* a large text takes turns, with so many candidates that this is rare */
    const task t = task_of(0.3, 40);
    const size_t n = record_draw_candidates(&t, 100000);
    assert_true(n > 40 && n < 134); /* 134 x 0.3 > 40 */
    record_draw d = draw_of(&t, 3, 100000, 1);
    assert_true(d.n == n && d.from == 2 * n && record_draw_at(&d, 1) == 2 * n + 1);
    record_draw_clear(&d);
}

/* The bound on the overflow is a bound: exact binomial tails. */
static void bounds(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        double q;
    } c[] = { { 10, 0.5 }, { 100, 0.1 }, { 1000, 0.05 }, { 1000, 0.5 }, { 5000, 0.001 } };
    for (size_t k = 0; k < sizeof c / sizeof *c; k++) {
        const uint64_t m = dp_records_max(c[k].n, c[k].q, 1e-6);
        double tail = 0;
        for (uint64_t i = m + 1; i <= c[k].n; i++)
            tail += exp(lgamma((double)c[k].n + 1) - lgamma((double)i + 1) -
                        lgamma((double)(c[k].n - i) + 1) + (double)i * log(c[k].q) +
                        (double)(c[k].n - i) * log1p(-c[k].q));
        assert_true(tail <= 1e-6);
        assert_true(dp_records_for(m, c[k].q, 1e-6) >= c[k].n);
        if (m > 1)
            assert_true(dp_records_for(m - 1, c[k].q, 1e-6) < c[k].n);
    }
    assert_int_equal(dp_records_for(7, 1, 1e-6), 7);
    assert_int_equal(dp_records_max(7, 1, 1e-6), 7);
    assert_int_equal(dp_records_max(1, 0.5, 1e-6), 1);
    assert_int_equal(dp_records_max(3, 1e-9, 1e-6), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(law),      cmocka_unit_test(coins),  cmocka_unit_test(turns),
        cmocka_unit_test(too_many), cmocka_unit_test(bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

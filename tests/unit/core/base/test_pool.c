#include "support/check.h"

#include "base/float_mode.h"
#include "base/pool.h"

#include <float.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { N = 10007 };

typedef struct job {
    uint32_t out[N];
    atomic_uint lanes_busy[64];
    unsigned threads;
    atomic_uint pieces;
    size_t fail_at;
    bool overlap;
} job;

static sefl_status mark(void *ctx, unsigned lane, size_t begin, size_t end)
{
    job *j = ctx;
    if (lane >= j->threads || atomic_fetch_add(&j->lanes_busy[lane], 1) != 0)
        j->overlap = true;
    sefl_status st = SEFL_OK;
    atomic_fetch_add(&j->pieces, 1);
    for (size_t i = begin; i < end; i++) {
        SEFL_CHECK(i < j->fail_at, SEFL_ERANGE, "item %zu", i);
        j->out[i] += (uint32_t)(i * 2654435761u ^ begin); /* depends on the piece's border too */
    }
done:
    atomic_fetch_sub(&j->lanes_busy[lane], 1);
    return st;
}

static void same_result_for_any_thread_count(void **state)
{
    (void)state;
    static job want, got;
    static const size_t grains[] = { 1, 7, 64, N, 2 * N };
    for (size_t g = 0; g < 5; g++) {
        memset(&want, 0, sizeof want);
        want.fail_at = SIZE_MAX;
        want.threads = 1;
        CHECK_OK(pool_run(NULL, N, grains[g], mark, &want, NULL));
        for (unsigned t = 1; t <= 5; t += 2) {
            pool *p;
            CHECK_OK(pool_new(&p, t));
            assert_int_equal(pool_threads(p), t);
            for (int again = 0; again < 3; again++) { /* the pool is reusable */
                memset(&got, 0, sizeof got);
                got.fail_at = SIZE_MAX;
                got.threads = t;
                CHECK_OK(pool_run(p, N, grains[g], mark, &got, NULL));
                assert_memory_equal(got.out, want.out, sizeof got.out);
                assert_int_equal(got.pieces, (N + grains[g] - 1) / grains[g]);
                assert_false(got.overlap);
            }
            pool_free(p);
        }
    }
}

static void lowest_failure_is_reported(void **state)
{
    (void)state;
    static job j;
    pool *p;
    CHECK_OK(pool_new(&p, 4));
    for (int i = 0; i < 50; i++) {
        memset(&j, 0, sizeof j);
        j.threads = 4;
        j.fail_at = 100; /* every later piece fails too */
        CHECK_STATUS(pool_run(p, N, 10, mark, &j, NULL), SEFL_ERANGE);
        assert_string_equal(sefl_last_error(), "item 100");
        assert_true(j.pieces < N / 10); /* the rest was not started */
    }
    pool_free(p);
}

static void empty_work_and_bad_counts(void **state)
{
    (void)state;
    pool *p;
    CHECK_OK(pool_new(&p, 0));
    assert_true(pool_threads(p) >= 1);
    CHECK_OK(pool_run(p, 0, 5, mark, NULL, NULL));
    pool_free(p);
    CHECK_STATUS(pool_new(&p, 257), SEFL_EINVAL);
    assert_null(p);
    assert_int_equal(pool_threads(NULL), 1);
    pool_free(NULL);
}

static bool stop_half_way(void *self, uint64_t done, uint64_t total)
{
    uint64_t *last = self;
    assert_true(done > *last && done <= total);
    *last = done;
    return done < total / 2;
}

static void progress_rises_and_can_cancel(void **state)
{
    (void)state;
    static job j;
    uint64_t last = 0;
    sefl_progress progress = { stop_half_way, &last };
    pool *p;
    CHECK_OK(pool_new(&p, 3));
    memset(&j, 0, sizeof j);
    j.fail_at = SIZE_MAX;
    j.threads = 3;
    CHECK_STATUS(pool_run(p, N, 10, mark, &j, &progress), SEFL_ECANCELLED);
    assert_true(last >= N / 2 && last < N);
    pool_free(p);
}

/* What half of the smallest normal number is; more than a moment of work, so that all threads take
 * pieces. */
static sefl_status halve(void *ctx, unsigned lane, size_t begin, size_t end)
{
    float *out = ctx;
    (void)lane;
    for (size_t i = begin; i < end; i++) {
        volatile float least = FLT_MIN;
        out[i] = least / 2;
        usleep(50);
    }
    return SEFL_OK;
}

static void every_thread_flushes_denormals(void **state)
{
    (void)state;
    enum { PIECES = 200 };
    volatile float least = FLT_MIN;
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        float half[PIECES];
        pool *p;
        CHECK_OK(pool_new(&p, threads));
        for (int round = 0; round < 3; round++) { /* the mode of a job ends with it */
            const float_mode was = float_mode_get();
            if (round == 1)
                float_mode_flush();
            CHECK_OK(pool_run(p, PIECES, 1, halve, half, NULL));
            float_mode_set(was);
            for (size_t i = 0; i < PIECES; i++)
                assert_true((half[i] == 0) == (round == 1));
            assert_true(least / 2 > 0);
        }
        pool_free(p);
    }
}

static void faults(void **state)
{
    (void)state;
    pool *p = NULL;
    TEST_FAULTS(FAULT_ALLOC, st = pool_new(&p, 4), pool_free(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_result_for_any_thread_count),
        cmocka_unit_test(lowest_failure_is_reported),
        cmocka_unit_test(empty_work_and_bad_counts),
        cmocka_unit_test(progress_rises_and_can_cancel),
        cmocka_unit_test(every_thread_flushes_denormals),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "support/check.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

static void system_randomness(void **state)
{
    (void)state;
    sefl_rng rng = rng_system();
    uint8_t a[5000], b[5000];
    unsigned seen[256] = { 0 };
    CHECK_OK(rng_fill(&rng, a, sizeof a));
    CHECK_OK(rng_fill(&rng, b, sizeof b));
    assert_memory_not_equal(a, b, sizeof a);
    for (size_t i = 0; i < sizeof a; i++)
        seen[a[i]]++;
    for (int i = 0; i < 256; i++) /* mean 19.5; nine deviations up is 59 */
        assert_true(seen[i] < 70);
    CHECK_OK(rng_fill(&rng, NULL, 0));
}

static void a_failing_source_gives_zeros(void **state)
{
    (void)state;
    sefl_rng rng = rng_system();
    uint8_t a[32];
    memset(a, 0xaa, sizeof a);
#if SEFL_FAULTS
    fault_arm(FAULT_RANDOM, 1);
    CHECK_STATUS(rng_fill(&rng, a, sizeof a), SEFL_ERANDOM);
    fault_disarm();
    for (size_t i = 0; i < sizeof a; i++)
        assert_int_equal(a[i], 0);
    uint64_t x = 0;
    TEST_FAULTS(FAULT_RANDOM, st = rng_below(&rng, &x, 10), (void)0);
#else
    (void)rng;
#endif
}

static void below_is_uniform(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "below");
    sefl_rng rng = seeded_rng(&g);
    enum { BOUND = 10, DRAWS = 100000 };
    unsigned seen[BOUND] = { 0 };
    uint64_t x = 0;
    for (int i = 0; i < DRAWS; i++) {
        CHECK_OK(rng_below(&rng, &x, BOUND));
        assert_true(x < BOUND);
        seen[x]++;
    }
    double chi = 0;
    for (int i = 0; i < BOUND; i++)
        chi += pow(seen[i] - DRAWS / (double)BOUND, 2) / (DRAWS / (double)BOUND);
    assert_true(chi < 40); /* 9 degrees of freedom: beyond 40 has probability 1e-5 */
    CHECK_OK(rng_below(&rng, &x, 1));
    assert_true(x == 0);
    for (int i = 0; i < 100; i++) { /* half of all draws must be rejected here */
        CHECK_OK(rng_below(&rng, &x, (1ull << 63) + 1));
        assert_true(x <= 1ull << 63);
    }
}

static void clocks_run(void **state)
{
    (void)state;
    sefl_clock m = clock_monotonic(), w = clock_wall();
    uint64_t a = clock_ns(&m), b = clock_ns(&m);
    assert_true(b >= a);
    assert_true(clock_ms(&w) > 1700000000000u);
}

static void cpu_is_named(void **state)
{
    (void)state;
    assert_true(strlen(cpu_name()) > 0);
    const cpu_features *f = cpu_get();
    assert_ptr_equal(f, cpu_get());
    assert_true(f->avx2 || !f->avx512); /* no machine has one without the other */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(system_randomness), cmocka_unit_test(a_failing_source_gives_zeros),
        cmocka_unit_test(below_is_uniform),  cmocka_unit_test(clocks_run),
        cmocka_unit_test(cpu_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

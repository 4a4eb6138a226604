#include "support/check.h"

#include "grid/grid.h"

static void square_roots(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "isqrt");
    for (uint64_t x = 0; x < 70000; x++) {
        uint64_t r = grid_isqrt(x);
        assert_true(r * r <= x && (r + 1) * (r + 1) > x);
    }
    for (int i = 0; i < 20000; i++) {
        uint64_t r = seeded_u64(&g) >> (1 + seeded_below(&g, 62));
        grid_u128 square = (grid_u128)r * r;
        assert_true(grid_isqrt(square) == r);
        assert_true(grid_isqrt(square + 2 * (grid_u128)r) == r); /* the last one with this root */
        if (r > 0)
            assert_true(grid_isqrt(square - 1) == r - 1);
    }
}

/* S2 by exact rational comparison: S2 z^2 <= (9.43919 2^t)^2 < (S2 + 1) z^2. */
static void s2_is_the_floor(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "s2");
    for (int i = 0; i < 20000; i++) {
        uint64_t z = GRID_BILLION / 1000 + seeded_below(&g, 1000 * GRID_BILLION);
        unsigned t = grid_fraction_bits(z);
        uint64_t s2 = grid_s2(t, z);
        grid_u128 want = ((grid_u128)9439190000u << t) * ((grid_u128)9439190000u << t);
        assert_true((grid_u128)s2 * z * z <= want);
        assert_true(((grid_u128)s2 + 1) * z * z > want);
    }
    assert_int_equal(grid_fraction_bits(4 * GRID_BILLION - 1), 12);
    assert_int_equal(grid_fraction_bits(4 * GRID_BILLION), 14);
    assert_int_equal(grid_isqrt(grid_s2(12, GRID_BILLION)), 38662); /* the design's 38,662/z */
}

/* R is the largest: its condition is true, and false one unit of 2^-16 (and the floors) further. */
static void clip_fills_the_bound(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "clip");
    unsigned found = 0;
    for (int i = 0; i < 20000; i++) {
        uint64_t z = GRID_BILLION / 4 + seeded_below(&g, 20 * GRID_BILLION);
        uint64_t d = 1 + seeded_below(&g, 20000000), s2 = grid_s2(grid_fraction_bits(z), z);
        uint64_t r16 = grid_clip_2p16(s2, d);
        if (r16 == 0)
            continue;
        found++;
        long double r = (long double)r16 / 65536, root = __builtin_sqrtl((long double)d);
        long double used = r * r + 5.27L * r + (long double)d / 4 + 2.64L * root;
        assert_true(used <= (long double)s2);
        long double more = r + 2.0L / 65536;
        assert_true(more * more + 5.27L * more + (long double)d / 4 + 2.64L * root + 0.001L >
                    (long double)s2);
    }
    assert_true(found > 15000);
    assert_true(grid_clip_2p16(1000, 1000000) == 0);
}

static void rings(void **state)
{
    (void)state;
    uint64_t most = grid_isqrt(grid_s2(12, GRID_BILLION));
    assert_int_equal(grid_smallest_k(12, 12, 3457, most), 16); /* the design's K <= 3457 z */
    assert_int_equal(grid_smallest_k(12, 12, 3459, most), 17);
    uint64_t s2 = grid_s2(12, GRID_BILLION / 2); /* z = 0.5, 10,000 clients: 19, 17, 16 */
    assert_int_equal(grid_smallest_k(12, 12, 10000, grid_share(s2, GRID_BILLION)), 19);
    assert_int_equal(grid_smallest_k(12, 12, 10000, grid_share(s2, GRID_BILLION * 34 / 100)), 17);
    assert_int_equal(grid_smallest_k(12, 12, 10000, grid_share(s2, GRID_BILLION * 17 / 100)), 16);
    assert_true(grid_clip_ok(100, 5 << 16) && !grid_clip_ok(100, (5 << 16) - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(square_roots),
        cmocka_unit_test(s2_is_the_floor),
        cmocka_unit_test(clip_fills_the_bound),
        cmocka_unit_test(rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

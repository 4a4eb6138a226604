#include "support/check.h"

#include "base/alloc.h"
#include "base/ct.h"

#include <string.h>

static void ct_words(void **state)
{
    (void)state;
    static const uint64_t v[] = {
        0, 1, 2, 127, 1ull << 31, 1ull << 63, UINT64_MAX - 1, UINT64_MAX
    };
    enum { N = sizeof v / sizeof v[0] };
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            assert_int_equal(ct_eq_u64(v[i], v[j]), v[i] == v[j]);
            assert_true(ct_select_u64(ct_mask_u64(1), v[i], v[j]) == v[i]);
            assert_true(ct_select_u64(ct_mask_u64(0), v[i], v[j]) == v[j]);
        }
    for (int i = 0; i < N; i++)
        assert_int_equal(ct_is_zero_u64(v[i]), v[i] == 0);
    assert_true(ct_mask_u64(1) == UINT64_MAX && ct_mask_u64(0) == 0);
}

/* Exhaustive over pairs of bytes: the formula is right for every small case. */
static void ct_eq_exhaustive(void **state)
{
    (void)state;
    for (uint64_t a = 0; a < 256; a++)
        for (uint64_t b = 0; b < 256; b++) {
            assert_int_equal(ct_eq_u64(a << 56, b << 56), a == b);
            assert_int_equal(ct_eq_u64(a, b), a == b);
        }
}

static void ct_bytes(void **state)
{
    (void)state;
    uint8_t a[33], b[33], c[33];
    for (int i = 0; i < 33; i++) {
        a[i] = (uint8_t)i;
        b[i] = (uint8_t)(200 - i);
    }
    assert_int_equal(ct_eq_bytes(a, b, 0), 1);
    assert_int_equal(ct_eq_bytes(a, a, 33), 1);
    for (int i = 0; i < 33; i++) {
        memcpy(c, a, 33);
        c[i] ^= 0x80;
        assert_int_equal(ct_eq_bytes(a, c, 33), 0);
    }
    memcpy(c, a, 33);
    ct_copy_if(0, c, b, 33);
    assert_memory_equal(c, a, 33);
    ct_copy_if(1, c, b, 33);
    assert_memory_equal(c, b, 33);
    memcpy(c, a, 33);
    ct_swap_if(0, c, b, 33);
    assert_memory_equal(c, a, 33);
    ct_swap_if(1, c, b, 33);
    assert_memory_equal(b, a, 33);
    sefl_wipe(a, sizeof a);
    for (int i = 0; i < 33; i++)
        assert_int_equal(a[i], 0);
    sefl_wipe(NULL, 0);
    sefl_free_secret(NULL, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ct_words),
        cmocka_unit_test(ct_eq_exhaustive),
        cmocka_unit_test(ct_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "net/buckets.h"

#include "support/check.h"

#include <string.h>

static void key_of(uint8_t out[BUCKETS_KEY], uint32_t n)
{
    memset(out, 0, BUCKETS_KEY);
    memcpy(out, &n, sizeof n);
}

static void bursts_and_rates(void **state)
{
    (void)state;
    buckets *b;
    uint8_t a[BUCKETS_KEY], c[BUCKETS_KEY];
    key_of(a, 1), key_of(c, 2);
    CHECK_OK(buckets_new(&b, &(buckets_rule){ .burst = 5, .per_s = 2 }));
    for (int i = 0; i < 5; i++)
        assert_true(buckets_take(b, a, 1, 1000));
    assert_false(buckets_take(b, a, 1, 1000));
    assert_true(buckets_take(b, c, 5, 1000)); /* another peer's bucket is full */
    assert_false(buckets_take(b, a, 1, 1499));
    assert_true(buckets_take(b, a, 1, 1501));         /* a refusal uses no tokens */
    assert_false(buckets_take(b, a, 1, 1500));        /* a clock that goes back adds no tokens */
    assert_false(buckets_take(b, a, 5.5, 100000000)); /* never more than the burst */
    assert_true(buckets_take(b, a, 5, 100000000));
    buckets_free(b);
    CHECK_STATUS(buckets_new(&b, &(buckets_rule){ 0 }), SEFL_EINVAL);
}

/* Unlimited keys: memory stays constant, and active peers keep their buckets. */
static void many_keys(void **state)
{
    (void)state;
    buckets *b;
    uint8_t mine[BUCKETS_KEY], other[BUCKETS_KEY];
    key_of(mine, 77);
    CHECK_OK(buckets_new(&b, &(buckets_rule){ .burst = 2, .per_s = 0 }));
    assert_true(buckets_take(b, mine, 2, 1));
    for (uint32_t i = 0; i < 100000; i++) {
        key_of(other, 1000 + i);
        assert_true(buckets_take(b, other, 1, 2 + i));
        if (i % 64 == 0)
            assert_false(buckets_take(b, mine, 1, 2 + i));
    }
    buckets_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bursts_and_rates),
        cmocka_unit_test(many_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

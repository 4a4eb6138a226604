#include "support/check.h"

#include "base/alloc.h"
#include "roles/aggregator/body_pool.h"
#include "store/journal/spool.h"

#include <string.h>
#include <sys/mman.h>

enum { BODY = 10000 };

static bool is_mapped(uint8_t *page)
{
    unsigned char there;
    return mincore(page, SPOOL_BLOCK, &there) == 0;
}

static void they_go_around(void **state)
{
    (void)state;
    body_pool *rs;
    body_room *r[4];
    size_t before = sefl_heap_live();
    CHECK_OK(body_pool_new(&rs, BODY, 3 * SPOOL_ROOM(BODY) + 100));
    assert_int_equal(body_pool_most(rs), 3);
    for (int i = 0; i < 3; i++) {
        r[i] = body_pool_take(rs);
        assert_non_null(r[i]);
        assert_int_equal((uintptr_t)room_bytes(r[i]) % SPOOL_BLOCK, 0);
        memset(room_bytes(r[i]), i, SPOOL_ROOM(BODY));
    }
    assert_null(body_pool_take(rs)); /* not more than the budget */
    assert_int_equal(body_pool_taken(rs), 3);
    for (int i = 0; i < 3; i++) /* none is shared */
        for (size_t k = 0; k < SPOOL_ROOM(BODY); k += 511)
            assert_int_equal(room_bytes(r[i])[k], i);
    uint8_t *page = room_bytes(r[1]);
    room_give(r[1]);
    assert_ptr_equal(body_pool_take(rs), r[1]);
    room_give(r[1]);
    room_give(NULL);
    assert_true(is_mapped(page));
    body_pool_trim(rs); /* rooms in use stay, and there may be three again */
    assert_false(is_mapped(page));
    assert_int_equal(body_pool_taken(rs), 2);
    r[1] = body_pool_take(rs);
    assert_non_null(r[1]);
    assert_null(body_pool_take(rs));
    for (int i = 0; i < 3; i++)
        room_give(r[i]);
    body_pool_free(rs);
    assert_int_equal(sefl_heap_live(), before);
    body_pool_free(NULL);
    body_pool_trim(NULL);
}

static void there_may_be_none(void **state)
{
    (void)state;
    body_pool *rs;
    assert_null(body_pool_take(NULL));
    static const uint64_t sizes[] = { BODY + 1, UINT64_MAX, BODY, 0 };
    for (int i = 0; i < 4; i++) { /* the third would fit except for the rest of its last block */
        CHECK_OK(body_pool_new(&rs, sizes[i], BODY));
        assert_int_equal(body_pool_most(rs), 0);
        assert_null(body_pool_take(rs));
        body_pool_free(rs);
    }
}

#if SEFL_FAULTS
static void without_memory(void **state)
{
    (void)state;
    body_pool *rs = NULL;
    fault_arm(FAULT_ALLOC, 1);
    CHECK_STATUS(body_pool_new(&rs, BODY, 100000), SEFL_ENOMEM);
    fault_disarm();
    assert_null(rs);
    CHECK_OK(body_pool_new(&rs, BODY, 100000));
    for (unsigned nth = 1; nth <= 2; nth++) {
        fault_arm(FAULT_ALLOC, nth);
        assert_null(body_pool_take(rs));
        fault_disarm();
        assert_int_equal(body_pool_taken(rs), 0);
    }
    body_room *r = body_pool_take(rs);
    assert_non_null(r);
    room_give(r);
    body_pool_free(rs);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_go_around),
        cmocka_unit_test(there_may_be_none),
#if SEFL_FAULTS
        cmocka_unit_test(without_memory),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "support/check.h"

#include "base/alloc.h"
#include "roles/aggregator/readback.h"
#include "support/folder.h"

#include <string.h>
#include <unistd.h>

enum { BYTES = (19 << 20) + 1234, PIECE = 1 << 20, LARGE = 9 << 20 };

static uint8_t *body, *room;
static char path[300];

static int setup(void **state)
{
    seeded g;
    if (folder_make(state) != 0 || sefl_new(&body, BYTES, 1) != SEFL_OK ||
        sefl_new(&room, LARGE, 1) != SEFL_OK)
        return -1;
    seeded_init(&g, 1, "readback");
    seeded_fill(&g, body, BYTES);
    snprintf(path, sizeof path, "%s", folder_put("body", body, BYTES));
    return 0;
}

static int teardown(void **state)
{
    sefl_free(body);
    sefl_free(room);
    return folder_remove(state);
}

/* Mapped and read, in pieces of any size, across window boundaries: the same bytes. */
static void the_bytes_in_order(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "readback");
    for (unsigned i = 0; i < 8; i++) {
        readback r;
        size_t most = i < 2 ? PIECE : i < 4 ? 9739 : i < 6 ? LARGE : 3 * PIECE, mapped = 0;
        CHECK_OK(readback_open(&r, path, BYTES, i % 2));
        for (size_t at = 0; at < BYTES;) {
            const uint8_t *p;
            size_t n = i < 6 ? most : 1 + seeded_below(&g, most);
            n = n < BYTES - at ? n : BYTES - at;
            CHECK_OK(readback_next(&r, &p, n, room));
            assert_memory_equal(p, body + at, n);
            mapped += p != room ? n : 0;
            at += n;
        }
        if (i % 2)
            assert_int_equal(mapped, 0);
        else if (i < 4) /* it was just written */
            assert_true(mapped > BYTES / 2);
        const uint8_t *p;
        CHECK_STATUS(readback_next(&r, &p, 1, room), SEFL_ECRYPTO); /* nothing after it */
        readback_close(&r);
        readback_close(&r);
    }
}

static void other_sizes_are_refused(void **state)
{
    (void)state;
    readback r;
    const uint8_t *p;
    CHECK_STATUS(readback_open(&r, path, BYTES + 1, false), SEFL_ECRYPTO);
    CHECK_STATUS(readback_open(&r, path, BYTES - 1, false), SEFL_ECRYPTO);
    CHECK_STATUS(readback_open(&r, folder_path("none"), BYTES, false), SEFL_ECRYPTO);
    CHECK_STATUS(readback_open(&r, folder_path(""), BYTES, false), SEFL_ECRYPTO);
    readback_close(&r);
    CHECK_OK(readback_open(&r, path, BYTES, true)); /* cut while it is read */
    CHECK_OK(readback_next(&r, &p, PIECE, room));
    assert_int_equal(truncate(path, 2 * PIECE - 5), 0);
    CHECK_STATUS(readback_next(&r, &p, PIECE, room), SEFL_ECRYPTO);
    readback_close(&r);
    CHECK_STATUS(readback_open(&r, path, BYTES, false), SEFL_ECRYPTO);
    /* a hole has no page in memory until it is read: mapped or read, it is zeros */
    assert_int_equal(truncate(path, BYTES), 0);
    CHECK_OK(readback_open(&r, path, BYTES, false));
    for (size_t at = 0; at < BYTES; at += PIECE) {
        size_t n = PIECE < BYTES - at ? PIECE : BYTES - at;
        CHECK_OK(readback_next(&r, &p, n, room));
        assert_int_equal(p[n - 1], at + n <= 2 * PIECE - 5 ? body[at + n - 1] : 0);
    }
    readback_close(&r);
    readback_close(&(readback){ 0 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_in_order),
        cmocka_unit_test(other_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

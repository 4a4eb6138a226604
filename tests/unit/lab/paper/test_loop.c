#include "support/check.h"
#include "support/folder.h"

#include "paper/loop.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Sends uploads of several sizes, among them one larger than any buffer on the way. */
static void sends(void **state)
{
    (void)state;
    static const size_t sizes[] = { 1, 1000, 40 << 20, 17 };
    loop l;
    double seconds;
    const char *folder = folder_path("keys");
    assert_int_equal(mkdir(folder, 0700), 0);
    CHECK_OK(loop_open(&l, folder));
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const size_t n = sizes[k];
        uint8_t *from = malloc(n), *to = calloc(1, n);
        for (size_t i = 0; i < n; i++)
            from[i] = (uint8_t)(i * 2654435761u >> 13);
        seconds = -1;
        CHECK_OK(loop_send(&l, &seconds, to, from, n));
        assert_memory_equal(to, from, n);
        assert_true(seconds > 0);
        free(from), free(to);
    }
    loop_close(&l);
    loop_close(&l); /* closing a closed one is fine */
}

static void bad_folder(void **state)
{
    (void)state;
    loop l;
    assert_true(loop_open(&l, folder_path("nowhere")) != SEFL_OK);
    loop_close(&l);
    assert_true(!l.as && !l.client && !l.as_id && !l.client_id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends),
        cmocka_unit_test(bad_folder),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}

#include "support/check.h"

#include "base/dir.h"
#include "base/file.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void paths(void **state)
{
    (void)state;
    static dir_tree d;
    char longer[PATH_MAX];
    CHECK_OK(dir_root(&d, "/tmp/x//"));
    const char *a = dir_in(&d, "a/%s", "b"), *c = dir_in(&d, "%d", 7);
    assert_string_equal(a, "/tmp/x/a/b");
    assert_string_equal(c, "/tmp/x/7");
    CHECK_OK(dir_root(&d, "/"));
    CHECK_STATUS(dir_root(&d, ""), SEFL_EINVAL);
    memset(longer, 'x', sizeof longer);
    longer[sizeof d.root] = 0;
    CHECK_STATUS(dir_root(&d, longer), SEFL_EINVAL);
    longer[sizeof d.root - 1] = 0;
    CHECK_OK(dir_root(&d, longer));
}

static void whole_folders(void **state)
{
    (void)state;
    static dir_tree d;
    char top[64];
    CHECK_OK(file_temp_folder(top, sizeof top, "sefl-dir"));
    CHECK_OK(dir_root(&d, top));
    assert_true(dir_is_empty(top));
    CHECK_OK(dir_check_free(top));
    CHECK_OK(dir_check_free(dir_in(&d, "nothing")));
    assert_false(dir_is_empty(dir_in(&d, "nothing")));
    assert_int_equal(mkdir(dir_in(&d, "sub"), 0700), 0);
    CHECK_OK(file_write_new(dir_in(&d, "sub/file"), span_of_str("x"), 0600));
    assert_int_equal(symlink("/etc", dir_in(&d, "sub/link")), 0);
    assert_false(dir_is_empty(top));
    CHECK_STATUS(dir_check_free(top), SEFL_EEXIST);
    CHECK_STATUS(dir_check_free(dir_in(&d, "sub/file")), SEFL_EEXIST);
    dir_remove(top);
    assert_false(file_exists(top));
    assert_true(file_exists("/etc/passwd")); /* links are not followed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),
        cmocka_unit_test(whole_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The archive as `tar` unpacks it is tested in tests/e2e/test_kits.sh; here, its bytes. */
#include "support/check.h"

#include "base/dir.h"
#include "base/tar.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static dir_tree d;

static int setup(void **state)
{
    (void)state;
    char top[64];
    CHECK_OK(file_temp_folder(top, sizeof top, "sefl-tar"));
    CHECK_OK(dir_root(&d, top));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dir_remove(d.root);
    return 0;
}

/* True if the header's checksum is right. */
static bool is_whole(const uint8_t *h)
{
    unsigned sum = 0;
    for (int i = 0; i < 512; i++)
        sum += i >= 148 && i < 156 ? ' ' : h[i];
    return strtoul((const char *)h + 148, NULL, 8) == sum && memcmp(h + 257, "ustar\00000", 8) == 0;
}

static void entries(void **state)
{
    (void)state;
    tar t = { 0 };
    sefl_buf b = { 0 };
    struct stat sb;
    assert_int_equal(mkdir(dir_in(&d, "in"), 0700), 0);
    CHECK_OK(file_write_new(dir_in(&d, "in/b"), span_of_str("secret"), 0600));
    CHECK_OK(file_write_new(dir_in(&d, "in/a"), span_of_str(""), 0644));
    CHECK_OK(tar_open(&t, dir_in(&d, "x.tar"), 0600));
    CHECK_OK(tar_put(&t, "k/start", span_of_str("#!/bin/sh\n"), 0755));
    CHECK_OK(tar_copy(&t, "k/in", dir_in(&d, "in")));
    CHECK_OK(tar_commit(&t));
    tar_abort(&t);
    assert_int_equal(stat(dir_in(&d, "x.tar"), &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    CHECK_OK(file_read(&b, dir_in(&d, "x.tar"), 1 << 20));
    /* header, bytes; folder; empty file; header, bytes; the end */
    assert_int_equal(b.n, 512 * (2 + 1 + 1 + 2 + 2));
    static const struct {
        unsigned block;
        const char *name, *mode, *size;
        char type;
    } want[] = {
        { 0, "k/start", "0000755", "00000000012", '0' },
        { 2, "k/in/", "0000700", "00000000000", '5' },
        { 3, "k/in/a", "0000644", "00000000000", '0' },
        { 4, "k/in/b", "0000600", "00000000006", '0' },
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const char *h = (const char *)b.p + 512 * want[i].block;
        assert_true(is_whole((const uint8_t *)h));
        assert_string_equal(h, want[i].name);
        assert_string_equal(h + 100, want[i].mode);
        assert_string_equal(h + 124, want[i].size);
        assert_int_equal(h[156], want[i].type);
    }
    assert_memory_equal(b.p + 512 * 5, "secret\0\0", 8);
    buf_clear(&b);
}

/* A long name is split at a slash; one without a fitting slash is refused. */
static void names(void **state)
{
    (void)state;
    tar t = { 0 };
    sefl_buf b = { 0 };
    char name[300];
    CHECK_OK(tar_open(&t, dir_in(&d, "x.tar"), 0600));
    memset(name, 'x', sizeof name);
    name[100] = 0;
    CHECK_OK(tar_put(&t, name, span_of_str(""), 0600)); /* exactly 100 */
    name[100] = 'x', name[101] = 0;
    CHECK_STATUS(tar_put(&t, name, span_of_str(""), 0600), SEFL_ERANGE);
    name[2] = '/', name[40] = '/';
    CHECK_OK(tar_put(&t, name, span_of_str(""), 0600)); /* xx / 98 bytes */
    memset(name, 'x', sizeof name);
    name[155] = '/', name[256] = 0;
    CHECK_OK(tar_put(&t, name, span_of_str(""), 0600)); /* 155 / 100 */
    memset(name, 'x', sizeof name);
    name[156] = '/', name[257] = 0;
    CHECK_STATUS(tar_put(&t, name, span_of_str(""), 0600), SEFL_ERANGE);
    CHECK_OK(tar_commit(&t));
    CHECK_OK(file_read(&b, dir_in(&d, "x.tar"), 1 << 20));
    const char *h = (const char *)b.p + 512;
    assert_true(is_whole(b.p + 512));
    assert_string_equal(h + 345, "xx");
    assert_int_equal(strlen(h), 98);
    assert_memory_equal(b.p + 1024 + 99, "x0000600", 8); /* 100 bytes without an end */
    assert_int_equal(strlen((const char *)b.p + 1024 + 345), 155);
    buf_clear(&b);
}

static void refusals(void **state)
{
    (void)state;
    tar t = { 0 };
    CHECK_OK(tar_open(&t, dir_in(&d, "x.tar"), 0600));
    CHECK_STATUS(tar_copy(&t, "k", dir_in(&d, "nothing")), SEFL_ENOTFOUND);
    assert_int_equal(symlink("/etc/passwd", dir_in(&d, "link")), 0);
    CHECK_STATUS(tar_copy(&t, "k", dir_in(&d, "link")), SEFL_EINVAL);
    tar_abort(&t);
    assert_false(file_exists(dir_in(&d, "x.tar"))); /* complete or not at all */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(entries, setup, teardown),
        cmocka_unit_test_setup_teardown(names, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

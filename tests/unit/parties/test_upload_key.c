/* A client's upload key: generated once and then always the same; every changed byte is
 * detected. */
#include "support/check.h"
#include "support/folder.h"

#include "roles/client/upload_key.h"

#include "base/file.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t me[32] = { 1 }, you[32] = { 2 };

static void made_once(void **state)
{
    seeded gen;
    upload_key a, b;
    struct stat sb;
    (void)state;
    test_seed(&gen, "upload key");
    sefl_rng rng = seeded_rng(&gen);
    const char *path = folder_path("upload.key");
    CHECK_OK(upload_key_open(&a, path, me, 1234, &rng));
    assert_int_equal(a.serial, 1234);
    assert_true(a.made);
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    CHECK_OK(upload_key_open(&b, path, me, 5678, &rng)); /* an existing file stays */
    assert_int_equal(b.serial, 1234);
    assert_false(b.made);
    assert_memory_equal(sign_key_pub(a.key), sign_key_pub(b.key), SIGN_PUB_BYTES);
    upload_key_clear(&b);
    assert_int_equal(unlink(path), 0);
    CHECK_OK(
        upload_key_open(&b, path, me, 5678, &rng)); /* lost: another one, with a higher serial */
    assert_int_equal(b.serial, 5678);
    assert_memory_not_equal(sign_key_pub(a.key), sign_key_pub(b.key), SIGN_PUB_BYTES);
    upload_key_clear(&a), upload_key_clear(&b);
    CHECK_OK(
        upload_key_open(&a, folder_path("old.key"), me, 0, &rng)); /* a clock that was never set */
    assert_int_equal(a.serial, 1);
    upload_key_clear(&a);
}

/* The site enrolled again in the same folder: CSP would refuse a key that another client has
 * used. */
static void another_client(void **state)
{
    seeded gen;
    upload_key a, b, c;
    (void)state;
    test_seed(&gen, "upload key");
    sefl_rng rng = seeded_rng(&gen);
    const char *path = folder_path("anew.key");
    CHECK_OK(upload_key_open(&a, path, me, 1234, &rng));
    CHECK_OK(upload_key_open(&b, path, you, 1000, &rng)); /* the clock went back */
    assert_true(b.made);
    assert_int_equal(b.serial, 1235);
    assert_memory_not_equal(sign_key_pub(a.key), sign_key_pub(b.key), SIGN_PUB_BYTES);
    CHECK_OK(upload_key_open(&c, path, you, 9999, &rng));
    assert_false(c.made);
    assert_int_equal(c.serial, 1235);
    assert_memory_equal(sign_key_pub(b.key), sign_key_pub(c.key), SIGN_PUB_BYTES);
    upload_key_clear(&a), upload_key_clear(&b), upload_key_clear(&c);
}

static void changed(void **state)
{
    seeded gen;
    upload_key k;
    sefl_buf b = { 0 };
    (void)state;
    test_seed(&gen, "upload key");
    sefl_rng rng = seeded_rng(&gen);
    const char *path = folder_path("upload.key");
    CHECK_OK(file_read(&b, path, 1000));
    for (size_t i = 0; i < b.n; i++) {
        b.p[i] ^= 1;
        folder_put("changed.key", b.p, b.n);
        CHECK_STATUS(upload_key_open(&k, folder_path("changed.key"), me, 9, &rng), SEFL_EPROTO);
        assert_null(k.key);
        assert_non_null(strstr(sefl_last_error(), "delete it"));
        b.p[i] ^= 1;
    }
    CHECK_OK(wr_u8(&b, 0));
    for (size_t n = 0; n <= b.n; n++) {
        folder_put("changed.key", b.p, n);
        if (n != b.n - 1)
            CHECK_STATUS(upload_key_open(&k, folder_path("changed.key"), me, 9, &rng), SEFL_EPROTO);
    }
    buf_clear(&b);
}

static void faults(void **state)
{
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_RANDOM, FAULT_WRITE, FAULT_SYNC,
                                        FAULT_READ };
    char path[512];
    upload_key k;
    sefl_rng rng = rng_system();
    (void)state;
    snprintf(path, sizeof path, "%s", folder_path("faults.key"));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        TEST_FAULTS(kinds[i], st = upload_key_open(&k, path, me, 7, &rng);
                    assert_true(st == SEFL_OK || !k.key); upload_key_clear(&k), unlink(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_once),
        cmocka_unit_test(another_client),
        cmocka_unit_test(changed),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}

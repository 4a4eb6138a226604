#include "protocol/version.h"

#include "support/check.h"

#include <stdio.h>
#include <string.h>

static void reading(void **state)
{
    (void)state;
    version_number v;
    char ours[16];
    CHECK_OK(version_read(&v, NULL));
    assert_true(v.major == 1 && v.minor == 0);
    CHECK_OK(version_read(&v, "12.3456"));
    assert_true(v.major == 12 && v.minor == 3456);
    CHECK_OK(version_read(&v, "0.0"));
    const char *const bad[] = { "",    "1",    "1.",   ".1",      "1.1.1", "01.1",
                                "1.x", "1 .1", "1.1 ", "12345.1", "-1.1",  "1.99999" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STATUS(version_read(&v, bad[i]), SEFL_EPROTO);
    snprintf(ours, sizeof ours, "%d.%d", VERSION_MAJOR, VERSION_MINOR);
    assert_string_equal(ours, VERSION_TEXT);
}

static void neighbours(void **state)
{
    (void)state;
    char why[VERSION_SENTENCE];
    for (unsigned major = 0; major < 4; major++)
        for (unsigned minor = 0; minor < 6; minor++) {
            bool near = major == VERSION_MAJOR && minor <= VERSION_MINOR + 1;
            bool takes = version_takes((version_number){ (uint16_t)major, (uint16_t)minor }, why);
            assert_int_equal(takes, near);
            assert_int_equal(why[0] == 0, near);
            if (!near) /* says which version is needed */
                assert_non_null(strstr(why, "needs " VERSION_TEXT));
        }
}

static void the_link(void **state)
{
    (void)state;
    char why[VERSION_SENTENCE];
    assert_int_equal(version_link(LINK_VERSION, LINK_VERSION, why), LINK_VERSION);
    assert_int_equal(version_link(1, 65535, why), LINK_VERSION);
    assert_int_equal(version_link(LINK_VERSION + 1, LINK_VERSION + 2, why), 0);
    assert_non_null(strstr(why, "no common version"));
    assert_int_equal(version_link(0, 0, why), 0);
    assert_int_equal(version_link(2, 1, why), 0); /* no range */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading),
        cmocka_unit_test(neighbours),
        cmocka_unit_test(the_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

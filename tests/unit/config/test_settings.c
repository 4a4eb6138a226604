#include "support/check.h"

#include "config/settings.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const setting_def schema[] = {
    { "model.block", SETTING_U64, "32", .min = 1, .max = 4096 },
    { "model.kind", SETTING_WORD, "lstm", .words = "lstm transformer" },
    { "privacy.z", SETTING_DECIMAL, "1.0", .min = 0, .max = 100 },
    { "verbose", SETTING_BOOL, "false" },
    { "name", SETTING_TEXT, NULL },
    { 0 },
};

static void expect_error(settings *s, const char *text, const char *sentence)
{
    CHECK_STATUS(settings_set(s, text, "--set"), SEFL_EINVAL);
    assert_string_equal(sefl_last_error(), sentence);
}

static void values_and_fallbacks(void **state)
{
    (void)state;
    settings s;
    settings_init(&s, schema);
    assert_true(settings_u64(&s, "model.block") == 32);
    assert_false(settings_given(&s, "model.block"));
    CHECK_STATUS(settings_complete(&s), SEFL_EINVAL);
    assert_string_equal(sefl_last_error(), "settings that must be given: name");
    CHECK_OK(settings_set(&s, " model.block =\t16 ", "--set"));
    CHECK_OK(settings_set(&s, "model.block=8", "--set"));
    CHECK_OK(settings_set(&s, "model.kind=transformer", "--set"));
    CHECK_OK(settings_set(&s, "privacy.z=1e-3", "--set"));
    assert_string_equal(settings_text(&s, "privacy.z"), "1e-3"); /* as it was written */
    CHECK_OK(settings_set(&s, "privacy.z=2.50E+1", "--set"));
    CHECK_OK(settings_set(&s, "privacy.z=0.25", "--set"));
    CHECK_OK(settings_set(&s, "verbose=true", "--set"));
    CHECK_OK(settings_set(&s, "name=a=b", "--set"));
    CHECK_OK(settings_complete(&s));
    assert_true(settings_u64(&s, "model.block") == 8);
    assert_string_equal(settings_text(&s, "model.kind"), "transformer");
    assert_string_equal(settings_text(&s, "privacy.z"), "0.25");
    assert_true(settings_bool(&s, "verbose"));
    assert_string_equal(settings_text(&s, "name"), "a=b");
    settings_clear(&s);
    settings_clear(&s);
}

static void errors_name_what_and_where(void **state)
{
    (void)state;
    settings s;
    settings_init(&s, schema);
    expect_error(&s, "model.blok=3",
                 "--set: unknown setting \"model.blok\"; did you mean \"model.block\"?");
    expect_error(&s, "zzz=3", "--set: unknown setting \"zzz\"");
    expect_error(&s, "model.block", "--set: a setting is written key=value");
    expect_error(&s, "", "--set: a setting is written key=value");
    expect_error(&s, "model.block=0",
                 "--set: model.block wants a whole number from 1 to 4096, not \"0\"");
    static const char *bad_numbers[] = { "4097", "-1",   "+1",  "1x",
                                         "",     "0x10", "1.5", "99999999999999999999" };
    for (size_t i = 0; i < sizeof bad_numbers / sizeof bad_numbers[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "model.block=%s", bad_numbers[i]);
        CHECK_STATUS(settings_set(&s, text, "x"), SEFL_EINVAL);
    }
    static const char *bad_decimals[] = { "1e5",    "nan",   "inf",   ".5",     "5.",
                                          "-0.1",   "101",   "1,5",   "--1",    "1e",
                                          "1e+",    "e3",    "1e999", "1e-999", "1e1.5",
                                          "0x1p-3", "1e--3", "1ee3",  "5.e1" };
    for (size_t i = 0; i < sizeof bad_decimals / sizeof bad_decimals[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "privacy.z=%s", bad_decimals[i]);
        CHECK_STATUS(settings_set(&s, text, "x"), SEFL_EINVAL);
    }
    CHECK_STATUS(settings_set(&s, "model.kind=lst", "x"), SEFL_EINVAL);
    CHECK_STATUS(settings_set(&s, "model.kind=", "x"), SEFL_EINVAL);
    CHECK_STATUS(settings_set(&s, "model.kind=lstm transformer", "x"), SEFL_EINVAL);
    CHECK_STATUS(settings_set(&s, "verbose=yes", "x"), SEFL_EINVAL);
    CHECK_STATUS(settings_set(&s, "name=a\x1b[2J", "x"), SEFL_EINVAL);
    CHECK_STATUS(settings_set_pair(&s, span_of_str("name"), span_of("a\0b", 3), "x"), SEFL_EINVAL);
    assert_true(settings_u64(&s, "model.block") == 32); /* nothing was changed by all that */
    settings_clear(&s);
}

static void files_have_lines(void **state)
{
    (void)state;
    char path[] = "/tmp/sefl-settings-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    settings s;
    settings_init(&s, schema);
    CHECK_OK(file_write_atomic(
        path, span_of_str("# a comment\n\nname = hospital one\r\n  model.block=4\nverbose=true"),
        0600));
    CHECK_OK(settings_set_file(&s, path));
    assert_string_equal(settings_text(&s, "name"), "hospital one");
    assert_true(settings_u64(&s, "model.block") == 4);
    assert_true(settings_bool(&s, "verbose"));
    CHECK_OK(file_write_atomic(path, span_of_str("name=x\nmodel.block=y\n"), 0600));
    CHECK_STATUS(settings_set_file(&s, path), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), ":2: model.block wants a whole number"));
    CHECK_STATUS(settings_set_file(&s, "/nonexistent/file"), SEFL_ENOTFOUND);
    settings_clear(&s);
    TEST_FAULTS(FAULT_ALLOC, st = settings_set(&s, "name=x", "--set"), settings_clear(&s));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_fallbacks),
        cmocka_unit_test(errors_name_what_and_where),
        cmocka_unit_test(files_have_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

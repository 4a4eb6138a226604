#include "support/check.h"

#include "config/address.h"
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
    assert_string_equal(sefl_last_error(), "required settings are missing: name");
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
    expect_error(&s, "model.block", "--set: a setting must have the form key=value");
    expect_error(&s, "", "--set: a setting must have the form key=value");
    expect_error(&s, "model.block=0",
                 "--set: model.block must be a whole number from 1 to 4096, not \"0\"");
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
    assert_true(settings_u64(&s, "model.block") == 32); /* none of that changed anything */
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
    assert_non_null(strstr(sefl_last_error(), ":2: model.block must be a whole number"));
    CHECK_STATUS(settings_set_file(&s, "/nonexistent/file"), SEFL_ENOTFOUND);
    settings_clear(&s);
    TEST_FAULTS(FAULT_ALLOC, st = settings_set(&s, "name=x", "--set"), settings_clear(&s));
    unlink(path);
}

/* ---- fields ---------------------------------------------------------------------------------- */

typedef enum colour { RED, GREEN, BLUE } colour;

typedef struct bound {
    const char *text, *path, *word, *exact, *list;
    colour colour;
    bool yes, flag;
    uint16_t port;
    unsigned count;
    uint64_t large;
    double real;
    host_port listen, health;
    int untouched;
} bound;

static const setting_def bound_schema[] = {
    { "text", SETTING_TEXT, "", SETTING_TO(bound, text) },
    { "tls.cert_file", SETTING_PATH, NULL, SETTING_TO(bound, path) },
    { "ready", SETTING_PATH, "" },
    { "word", SETTING_WORD, "b", SETTING_TO(bound, word), .words = "a b" },
    { "colour", SETTING_CHOICE, "red", SETTING_TO(bound, colour), .words = "red green blue" },
    { "yes", SETTING_BOOL, "true", SETTING_TO(bound, yes) },
    { "flag", SETTING_FLAG, .letter = 'f', SETTING_TO(bound, flag) },
    { "port", SETTING_U64, "7", SETTING_TO(bound, port) },
    { "count", SETTING_U64, "8", SETTING_TO(bound, count), .max = 1000, .was = "number amount" },
    { "large", SETTING_U64, "9", SETTING_TO(bound, large) },
    { "real", SETTING_REAL, "0.5", SETTING_TO(bound, real), .max = 2 },
    { "exact", SETTING_DECIMAL, "0.10", SETTING_TO(bound, exact) },
    { "listen", SETTING_ADDRESS, "localhost:0", SETTING_TO(bound, listen) },
    { "health", SETTING_ADDRESS, "", SETTING_TO(bound, health), .min = 1 },
    { "list", SETTING_LIST, "", SETTING_TO(bound, list) },
    { 0 },
};

static void set_all(settings *s, const char *const *all)
{
    for (; *all; all++)
        CHECK_OK(settings_set(s, *all, "test"));
}

static void fields_of_a_struct(void **state)
{
    (void)state;
    settings s;
    bound b = { .untouched = 5 };
    settings_init(&s, bound_schema);
    CHECK_STATUS(settings_fill(&s, &b), SEFL_EINVAL);
    assert_string_equal(sefl_last_error(), "required settings are missing: tls.cert_file");
    CHECK_OK(settings_set(&s, "tls.cert_file=/a", "test"));
    CHECK_OK(settings_fill(&s, &b));
    assert_null(b.text); /* empty */
    assert_string_equal(b.path, "/a");
    assert_string_equal(b.word, "b");
    assert_true(b.colour == RED && b.yes && !b.flag && b.port == 7 && b.count == 8);
    assert_true(b.large == 9 && b.real == 0.5 && b.untouched == 5);
    assert_string_equal(b.exact, "0.10");
    assert_string_equal(b.listen.host, "localhost");
    assert_string_equal(b.health.host, "");
    assert_null(b.list);
    set_all(&s,
            (const char *[]){ "text=t", "word=a", "colour=blue", "yes=false", "flag=true",
                              "port=65535", "count=1000", "large=18446744073709551615", "real=1e-3",
                              "exact=1.50", "listen=[::1]:65535", "health=127.0.0.1:1", "list=one",
                              "list=two", "list=three", NULL });
    CHECK_OK(settings_fill(&s, &b));
    assert_string_equal(b.text, "t");
    assert_string_equal(b.word, "a");
    assert_true(b.colour == BLUE && !b.yes && b.flag && b.port == 65535 && b.count == 1000);
    assert_true(b.large == UINT64_MAX && b.real == 1e-3 && b.untouched == 5);
    assert_true(settings_bool(&s, "flag") && settings_choice(&s, "colour") == BLUE);
    assert_true(settings_choice(&s, "word") == 0);
    assert_string_equal(b.exact, "1.50");
    assert_string_equal(b.listen.host, "::1");
    assert_int_equal(b.listen.port, 65535);
    assert_string_equal(b.health.host, "127.0.0.1");
    assert_memory_equal(b.list, "one\0two\0three\0", sizeof "one\0two\0three\0");
    settings_clear(&s);
}

static void fields_have_limits(void **state)
{
    (void)state;
    settings s;
    settings_init(&s, bound_schema);
    expect_error(&s, "port=65536",
                 "--set: port must be a whole number from 0 to 65535, not \"65536\"");
    expect_error(&s, "real=2.1", "--set: real must be a decimal number from 0 to 2, not \"2.1\"");
    expect_error(&s, "colour=pink", "--set: colour must be one of: red green blue; not \"pink\"");
    expect_error(&s, "flag=1", "--set: flag must be true or false, not \"1\"");
    expect_error(&s, "tls.cert_file=", "--set: tls.cert_file is empty: it must be a path");
    expect_error(&s, "list=", "--set: list is empty");
    expect_error(&s, "listen=x", "--set: listen: must be host:port or [address]:port, not \"x\"");
    expect_error(&s, "health=h:0",
                 "--set: health: must be host:port or [address]:port, not \"h:0\"");
    CHECK_OK(settings_set(&s, "ready=", "x"));
    CHECK_OK(settings_set(&s, "health=", "x"));
    settings_clear(&s);
}

static void old_names(void **state)
{
    (void)state;
    settings s;
    char option[SETTING_OPTION_BYTES];
    settings_init(&s, bound_schema);
    expect_error(&s, "number=3", "--set: number is now called count");
    expect_error(&s, "amount=3", "--set: amount is now called count");
    CHECK_OK(settings_set(&s, "count=3", "run.yml:3:1"));
    assert_string_equal(settings_origin(&s, "count"), "run.yml:3:1");
    assert_string_equal(settings_origin(&s, "port"), "port");
    assert_ptr_equal(setting_find(bound_schema, "colour"), &bound_schema[4]);
    assert_null(setting_find(bound_schema, "number"));
    setting_option(option, "tls.cert_file");
    assert_string_equal(option, "tls-cert-file");
    settings_clear(&s);
}

static void words_by_index(void **state)
{
    (void)state;
    static const char words[] = "all open some";
    static const char *const want[] = { "all", "open", "some" };
    char word[SETTING_WORD_BYTES];
    for (unsigned i = 0; i < 3; i++) {
        assert_string_equal(setting_word_at(word, words, i), want[i]);
        assert_int_equal(setting_word(words, word), i);
    }
}

static void paths_from_a_folder(void **state)
{
    (void)state;
    static const struct {
        const char *value, *folder, *path;
    } cases[] = {
        { "a.pem", "/etc/sefl", "/etc/sefl/a.pem" },
        { "/a.pem", "/etc/sefl", "/a.pem" },
        { "a/b.pem", "", "a/b.pem" },
        { "a.pem", NULL, "a.pem" },
        { "../a.pem", "x", "x/../a.pem" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        settings s;
        bound b = { 0 };
        settings_init(&s, bound_schema);
        CHECK_OK(settings_set(&s, "text=t", "test"));
        CHECK_OK(settings_set_pair(&s, span_of_str("tls.cert_file"), span_of_str(cases[i].value),
                                   "test"));
        CHECK_OK(settings_resolve(&s, cases[i].folder));
        CHECK_OK(settings_fill(&s, &b));
        assert_string_equal(b.path, cases[i].path);
        assert_string_equal(b.text, "t"); /* not a path */
        assert_string_equal(settings_text(&s, "ready"), "");
        settings_clear(&s);
    }
}

static void commands_run_in_the_folder_of_their_file(void **state)
{
    (void)state;
    static const setting_def two[] = { { "run", SETTING_TEXT, "", .runs_in = "where" },
                                       { "where", SETTING_PATH, "" },
                                       { 0 } };
    static const struct {
        const char *value, *where, *folder, *runs_in;
    } cases[] = {
        { "./a.sh x; b", "", "/etc/sefl", "/etc/sefl/." },
        { "/bin/a", "", "-it's %s", "-it's %s/." },
        { "./a.sh", "", "", "" },
        { "./a.sh", "", NULL, "" },
        { "", "", "/etc/sefl", "" },
        { "./a.sh", "b", "/etc", "/etc/b" },
        { "./a.sh", "/b", "/etc", "/b" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        settings s;
        settings_init(&s, two);
        CHECK_OK(settings_set_pair(&s, span_of_str("run"), span_of_str(cases[i].value), "test"));
        if (*cases[i].where)
            CHECK_OK(settings_setf(&s, "test", "where=%s", cases[i].where));
        for (int again = 0; again < 2; again++) { /* the second time changes no absolute path */
            CHECK_OK(settings_resolve(&s, cases[i].folder));
            assert_string_equal(settings_text(&s, "run"), cases[i].value);
            assert_string_equal(settings_text(&s, "where"), cases[i].runs_in);
            if (*cases[i].runs_in != '/')
                break;
        }
        settings_clear(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_fallbacks),
        cmocka_unit_test(errors_name_what_and_where),
        cmocka_unit_test(files_have_lines),
        cmocka_unit_test(fields_of_a_struct),
        cmocka_unit_test(fields_have_limits),
        cmocka_unit_test(old_names),
        cmocka_unit_test(words_by_index),
        cmocka_unit_test(paths_from_a_folder),
        cmocka_unit_test(commands_run_in_the_folder_of_their_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "support/check.h"

#include "config/yaml/yaml.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const setting_def schema[] = {
    { "model.block", SETTING_U64, "32", .min = 1, .max = 4096 },
    { "model.kind", SETTING_WORD, "lstm", .words = "lstm transformer" },
    { "tls.cert", SETTING_TEXT, "" },
    { "tls.peers.ca", SETTING_TEXT, "" },
    { "privacy.z", SETTING_DECIMAL, "1.0", .min = 0, .max = 100 },
    { "verbose", SETTING_BOOL, "false" },
    { "listen", SETTING_TEXT, "127.0.0.1:0" },
    { "hosts", SETTING_TEXT, "" },
    { "shapes", SETTING_TEXT, "", .map = true },
    { 0 },
};

static void good(settings *s, const char *text)
{
    CHECK_OK(yaml_read_over(s, span_of_str(text), "as.yml"));
}

/* Checks the message, and that nothing changed. */
static void bad(const char *text, const char *sentence)
{
    settings s;
    settings_init(&s, schema);
    CHECK_OK(settings_set(&s, "model.block=7", "--set"));
    CHECK_STATUS(yaml_read_over(&s, span_of_str(text), "as.yml"), SEFL_EINVAL);
    assert_string_equal(sefl_last_error(), sentence);
    assert_true(settings_u64(&s, "model.block") == 7);
    for (size_t i = 1; i < s.count; i++)
        assert_null(s.value[i]);
    settings_clear(&s);
}

/* libyaml words some messages itself: checks the position and a part of the message. */
static void bad_at(const char *text, const char *where, const char *part)
{
    settings s;
    settings_init(&s, schema);
    CHECK_STATUS(yaml_read_over(&s, span_of_str(text), "as.yml"), SEFL_EINVAL);
    if (strncmp(sefl_last_error(), where, strlen(where)) != 0 || !strstr(sefl_last_error(), part))
        fail_msg("\"%s\" should begin with %s and hold \"%s\"", sefl_last_error(), where, part);
    settings_clear(&s);
}

static void nested_maps_become_keys_with_points(void **state)
{
    (void)state;
    settings s;
    settings_init(&s, schema);
    good(&s, "# a server\n"
             "listen: \"[::1]:7000\"\n"
             "model:\n"
             "  block: 8\n"
             "  kind: 'transformer'\n"
             "tls: { cert: a b.pem, peers: { ca: ca.pem } }\n"
             "privacy.z: 0.25   # points work as well\n"
             "verbose: true\n"
             "hosts:\n"
             "  - one\n"
             "  - 127.0.0.1\n"
             "shapes:\n"
             "  fc.weight: 10x784/32\n"
             "  fc.bias: 10\n");
    assert_string_equal(settings_text(&s, "shapes"), "fc.weight=10x784/32,fc.bias=10");
    assert_string_equal(settings_text(&s, "listen"), "[::1]:7000");
    assert_true(settings_u64(&s, "model.block") == 8);
    assert_string_equal(settings_text(&s, "model.kind"), "transformer");
    assert_string_equal(settings_text(&s, "tls.cert"), "a b.pem");
    assert_string_equal(settings_text(&s, "tls.peers.ca"), "ca.pem");
    assert_string_equal(settings_text(&s, "privacy.z"), "0.25");
    assert_true(settings_bool(&s, "verbose"));
    assert_string_equal(settings_text(&s, "hosts"), "one,127.0.0.1");
    assert_string_equal(s.origin[0], "as.yml:4:3");

    /* a later file replaces values; what it omits stays */
    good(&s, "model: { block: 16 }\nhosts: []\ntls:\n  cert: ''\n");
    assert_true(settings_u64(&s, "model.block") == 16);
    assert_string_equal(settings_text(&s, "model.kind"), "transformer");
    assert_true(settings_given(&s, "hosts"));
    assert_string_equal(settings_text(&s, "hosts"), "");
    assert_string_equal(settings_text(&s, "tls.cert"), "");

    static const char *const nothing[] = { "",   "# only words\n", "---\n", "---\n...\n",
                                           "{}", "\xef\xbb\xbf" };
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++)
        good(&s, nothing[i]);
    good(&s, "\xef\xbb\xbfmodel: {block: 4}\r\nverbose: false\r\n");
    assert_true(settings_u64(&s, "model.block") == 4);
    good(&s, "%YAML 1.1\n---\nmodel: {}\n");
    settings_clear(&s);
}

static void errors_name_the_key_itself(void **state)
{
    (void)state;
    bad("listen: x\nmodel:\n  blok: 3\n",
        "as.yml:3:3: unknown setting \"model.blok\"; did you mean \"model.block\"?");
    bad("listen: x\nmodle:\n  block: 3\n",
        "as.yml:2:1: unknown setting \"modle\"; did you mean \"model\"?");
    bad("tls:\n    perrs: { ca: x }\n",
        "as.yml:2:5: unknown setting \"tls.perrs\"; did you mean \"tls.peers\"?");
    bad("zzzzzz: 1\n", "as.yml:1:1: unknown setting \"zzzzzz\"");
    bad("zzzzzz: { a: 1 }\n", "as.yml:1:1: unknown setting \"zzzzzz\"");
    bad("zzzzzz: [ 1 ]\n", "as.yml:1:1: unknown setting \"zzzzzz\"");
    /* the value is wrong, far away; the message names the position of the key */
    bad("verbose: true\nmodel: { kind: lstm,\n    block:\n\n      many }\n",
        "as.yml:3:5: model.block must be a whole number from 1 to 4096, not \"many\"");
    bad("verbose: yes\n", "as.yml:1:1: verbose must be true or false, not \"yes\"");
    bad("model: 8\n", "as.yml:1:1: \"model\" is a group: write its settings below it, indented");
    bad("model:\nverbose: true\n",
        "as.yml:1:1: \"model\" is a group: write its settings below it, indented");
    bad("model:\n  block:\n    a: 3\n", "as.yml:2:3: \"model.block\" must be a value, not a map");
    bad("model: { block: [1, 2] }\n", "as.yml:1:10: \"model.block\" must be one value, not a list");
    bad("model:\n  block:\n  kind: lstm\n",
        "as.yml:2:3: \"model.block\" has no value (write \"\" for an empty one)");
    bad("hosts: [ a, b: c ]\n",
        "as.yml:1:1: an item of \"hosts\" is a map: only plain values are allowed");
    bad("hosts: { a: b }\n", "as.yml:1:1: \"hosts\" must be a value, not a map");
    bad("shapes: { a: { b: c } }\n",
        "as.yml:1:1: an item of \"shapes\" is a map: only plain values are allowed");
    bad("shapes: { a: [b] }\n", "as.yml:1:1: the list \"shapes\" contains a list");
    bad("shapes: { a: }\n",
        "as.yml:1:1: a name or value in \"shapes\" is empty or contains a comma or =");
    bad("shapes: { a: 'b,c' }\n",
        "as.yml:1:1: a name or value in \"shapes\" is empty or contains a comma or =");
    bad("shapes: { 'a=b': c }\n",
        "as.yml:1:1: a name or value in \"shapes\" is empty or contains a comma or =");
    bad("shapes: { a: b }\nshapes: { a: b }\n", "as.yml:2:1: \"shapes\" is set twice");
    bad("hosts: [ a, [b] ]\n", "as.yml:1:1: the list \"hosts\" contains a list");
    bad("hosts:\n  - a\n  - 'b,c'\n",
        "as.yml:1:1: an item of \"hosts\" is empty or contains a comma");
    bad("listen: |\n  a\n  b\n", "as.yml:1:1: listen contains a control character");
    bad("listen: \"a\\0b\"\n", "as.yml:1:1: listen contains a control character");
    bad("verbose: true\nverbose: true\n", "as.yml:2:1: \"verbose\" is set twice");
    bad("model: {block: 1}\nmodel: {kind: lstm}\n", "as.yml:2:1: \"model\" is set twice");
    bad("model: {block: 1}\nmodel.block: 1\n", "as.yml:2:1: \"model.block\" is set twice");
}

static void what_yaml_can_do_and_settings_do_not(void **state)
{
    (void)state;
    bad("listen: &a x\n", "as.yml:1:1: anchors (&a) are not supported");
    bad("&a listen: x\n", "as.yml:1:1: anchors (&a) are not supported");
    bad("model: &m { block: 1 }\n", "as.yml:1:1: anchors (&m) are not supported");
    bad("hosts: &h [ x ]\n", "as.yml:1:1: anchors (&h) are not supported");
    bad("listen: *a\n", "as.yml:1:1: aliases (*a) are not supported");
    bad("*a : x\n", "as.yml:1:1: aliases (*a) are not supported");
    bad("verbose: !!bool true\n", "as.yml:1:1: tags (tag:yaml.org,2002:bool) are not supported");
    bad("listen: ! x\n", "as.yml:1:1: tags (!) are not supported");
    bad("listen: !!binary aGFsbG8=\n",
        "as.yml:1:1: tags (tag:yaml.org,2002:binary) are not supported");
    bad("%TAG ! tag:x,1:\n---\nlisten: x\n", "as.yml:1:1: tags (%TAG) are not supported");
    bad("listen: x\n---\nverbose: true\n", "as.yml:2:1: more than one document in the file");
    bad("just words\n", "as.yml:1:1: a setting must have the form \"key: value\"");
    bad("- listen\n", "as.yml:1:1: a setting must have the form \"key: value\"");
    bad("? { a: b }\n: c\n", "as.yml:1:3: a map cannot be a key");
    bad("? [ a ]\n: c\n", "as.yml:1:3: a list cannot be a key");
    bad("'': c\n", "as.yml:1:1: empty key");
    bad("a b: c\n", "as.yml:1:1: a key contains white space or a control character");
    bad("<<: { listen: x }\n", "as.yml:1:1: unknown setting \"<<\"");
}

static void broken_files(void **state)
{
    (void)state;
    bad_at("listen: x\n\tverbose: true\n", "as.yml:2:1: ", "tab character");
    bad_at("# \xc3\xa4\nlisten:\n\tx: 3\n", "as.yml:3:1: ", "tab character: indent YAML");
    bad_at("listen: x\n  verbose: true\n", "as.yml:2:10: ", "indent all settings of a group alike");
    bad_at("model:\n  kind: lstm\n   block: 3\n", "as.yml:2:3: line 3 continues the value of ",
           "indent all settings of a group alike");
    bad_at("listen: \"x\n", "as.yml:", "unexpected end of stream");
    bad_at("model: { block: 1\n", "as.yml:", "did not find expected");
    bad_at("verbose: true\nlisten: a\xff\n", "as.yml:2:10: ", "UTF-8");
    bad_at("verbose: true\nlisten: \xc3\xa4\x01\n", "as.yml:2:10: ", "control characters");
    settings s;
    settings_init(&s, schema);
    CHECK_STATUS(yaml_read_over(&s, span_of("l\0i\0s\0:\0 \0x\0", 12), "u16"), SEFL_EINVAL);

    /* sizes */
    sefl_buf big = { 0 };
    for (unsigned i = 0; i < (1u << 20) / 16; i++)
        CHECK_OK(wr_fmt(&big, "# filling......\n"));
    CHECK_OK(yaml_read_over(&s, buf_span(&big), "big.yml"));
    CHECK_OK(wr_u8(&big, '\n'));
    CHECK_STATUS(yaml_read_over(&s, buf_span(&big), "big.yml"), SEFL_ERANGE);
    assert_string_equal(sefl_last_error(), "big.yml: 1048577 bytes of settings, at most 1048576");
    buf_reset(&big);
    for (unsigned i = 0; i < 1u << 19; i++)
        CHECK_OK(wr_fmt(&big, "["));
    CHECK_STATUS(yaml_read_over(&s, buf_span(&big), "deep.yml"), SEFL_EINVAL);
    buf_reset(&big);
    CHECK_OK(wr_fmt(&big, "listen: "));
    for (unsigned i = 0; i < 4097; i++)
        CHECK_OK(wr_fmt(&big, "x"));
    CHECK_STATUS(yaml_read_over(&s, buf_span(&big), "wide.yml"), SEFL_EINVAL);
    buf_reset(&big);
    for (unsigned i = 0; i < 600; i++)
        CHECK_OK(wr_fmt(&big, "k"));
    CHECK_OK(wr_fmt(&big, ": 1\n"));
    CHECK_STATUS(yaml_read_over(&s, buf_span(&big), "long.yml"), SEFL_EINVAL);
    buf_clear(&big);
    settings_clear(&s);
}

/* A schema as deep as the reader allows, and one deeper. */
static void depth_is_bounded(void **state)
{
    (void)state;
    static const setting_def deep[] = {
        { "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.b", SETTING_TEXT, "" },
        { "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.b", SETTING_TEXT, "" },
        { 0 },
    };
    settings s;
    settings_init(&s, deep);
    for (unsigned levels = 15; levels <= 16; levels++) {
        sefl_buf b = { 0 };
        for (unsigned i = 0; i < levels; i++)
            CHECK_OK(wr_fmt(&b, "{a: "));
        CHECK_OK(wr_fmt(&b, "{b: x}"));
        for (unsigned i = 0; i < levels; i++)
            CHECK_OK(wr_fmt(&b, "}"));
        sefl_status st = yaml_read_over(&s, buf_span(&b), "d.yml");
        if (levels == 15) {
            CHECK_OK(st);
            assert_string_equal(settings_text(&s, deep[0].key), "x");
        } else {
            CHECK_STATUS(st, SEFL_EINVAL);
            assert_string_equal(sefl_last_error(),
                                "d.yml:1:62: more than 16 levels of nested maps");
        }
        buf_clear(&b);
    }
    settings_clear(&s);
}

static void files_and_faults(void **state)
{
    (void)state;
    char path[] = "/tmp/sefl-yaml-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    settings s;
    settings_init(&s, schema);
    CHECK_OK(file_write_atomic(path, span_of_str("model:\n  blok: 1\n"), 0600));
    CHECK_STATUS(yaml_read(&s, path), SEFL_EINVAL);
    char want[200];
    snprintf(want, sizeof want,
             "%s:2:3: unknown setting \"model.blok\"; did you mean \"model.block\"?", path);
    assert_string_equal(sefl_last_error(), want);
    CHECK_STATUS(yaml_read(&s, "/nonexistent/as.yml"), SEFL_ENOTFOUND);
    CHECK_STATUS(yaml_read(&s, "/tmp"), SEFL_EINVAL);
    CHECK_OK(file_write_atomic(path, span_of_str("model: {block: 2}\nhosts: [a, b]\n"), 0600));
    TEST_FAULTS(FAULT_ALLOC, st = yaml_read(&s, path), settings_clear(&s));
    unlink(path);
    settings_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_maps_become_keys_with_points),
        cmocka_unit_test(errors_name_the_key_itself),
        cmocka_unit_test(what_yaml_can_do_and_settings_do_not),
        cmocka_unit_test(broken_files),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(files_and_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

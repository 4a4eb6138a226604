#include "support/check.h"

#include "base/alloc.h"
#include "config/paths.h"

static const setting_def schema[] = {
    { "listen", SETTING_TEXT, NULL },
    { "cert", SETTING_PATH, NULL },
    { "ready", SETTING_PATH, "" },
    { 0 },
};

static void paths(void **state)
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
        char *path;
        settings_init(&s, schema);
        CHECK_OK(settings_set_pair(&s, span_of_str("cert"), span_of_str(cases[i].value), "test"));
        CHECK_OK(settings_path(&path, &s, "cert", cases[i].folder));
        assert_string_equal(path, cases[i].path);
        sefl_free(path);
        CHECK_OK(settings_path(&path, &s, "ready", cases[i].folder)); /* may be left out */
        assert_null(path);
        CHECK_STATUS(settings_set(&s, "cert=", "test"), SEFL_EINVAL);
        settings_clear(&s);
    }
}

static void addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        unsigned port;
    } good[] = { { "as.example:7000", "as.example", 7000 },
                 { "[::1]:1", "::1", 1 },
                 { "127.0.0.1:65535", "127.0.0.1", 65535 } };
    static const char *const bad[] = { "",         "as",     "as:",       ":7",    "as:0",
                                       "as:65536", "as:7x",  "::1:7",     "[::1]", "[]:7",
                                       "as:-1",    "[::1:7", "[::1]x:70", "as: 70" };
    char *host;
    uint16_t port;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK_OK(place_address(&host, &port, good[i].text, "server", 1));
        assert_string_equal(host, good[i].host);
        assert_int_equal(port, good[i].port);
        sefl_free(host);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STATUS(place_address(&host, &port, bad[i], "server", 1), SEFL_EINVAL);
}

static void ports(void **state)
{
    (void)state;
    settings s;
    char *host;
    uint16_t port = 1;
    settings_init(&s, schema);
    CHECK_OK(settings_set(&s, "listen=[::]:0", "test"));
    CHECK_STATUS(settings_address(&host, &port, &s, "listen", 1), SEFL_EINVAL);
    assert_string_equal(sefl_last_error(),
                        "listen: wants host:port or [address]:port, not \"[::]:0\"");
    assert_null(host);
    CHECK_OK(settings_address(&host, &port, &s, "listen", 0));
    assert_string_equal(host, "::");
    assert_int_equal(port, 0);
    sefl_free(host);
    settings_clear(&s);
}

#if SEFL_FAULTS
static void without_memory(void **state)
{
    (void)state;
    char *host;
    uint16_t port;
    fault_arm(FAULT_ALLOC, 1);
    CHECK_STATUS(place_address(&host, &port, "a:1", "server", 1), SEFL_ENOMEM);
    fault_disarm();
    assert_null(host);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),
        cmocka_unit_test(addresses),
        cmocka_unit_test(ports),
#if SEFL_FAULTS
        cmocka_unit_test(without_memory),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

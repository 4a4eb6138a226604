#include "support/check.h"

#include "config/address.h"

#include <string.h>

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
    host_port a;
    sefl_buf b = { 0 };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK_OK(address_read(&a, good[i].text, 1));
        assert_string_equal(a.host, good[i].host);
        assert_int_equal(a.port, good[i].port);
        buf_reset(&b);
        CHECK_OK(address_write(&b, a.host, a.port));
        assert_int_equal(b.n, strlen(good[i].text));
        assert_memory_equal(b.p, good[i].text, b.n);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_STATUS(address_read(&a, bad[i], 1), SEFL_EINVAL);
        assert_string_equal(a.host, "");
    }
    buf_clear(&b);
}

static void limits(void **state)
{
    (void)state;
    host_port a;
    char text[300] = { 0 };
    CHECK_STATUS(address_read(&a, "[::]:0", 1), SEFL_EINVAL);
    assert_string_equal(sefl_last_error(), "must be host:port or [address]:port, not \"[::]:0\"");
    CHECK_OK(address_read(&a, "[::]:0", 0));
    assert_string_equal(a.host, "::");
    assert_int_equal(a.port, 0);
    memset(text, 'h', ADDRESS_HOST_MAX + 1);
    memcpy(text + ADDRESS_HOST_MAX + 1, ":70", 3);
    CHECK_STATUS(address_read(&a, text, 1), SEFL_EINVAL); /* a host that is too long */
    CHECK_OK(address_read(&a, text + 1, 1));
    assert_int_equal(strlen(a.host), ADDRESS_HOST_MAX);
}

/* A port and brackets that may be missing. */
static void hosts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        unsigned usual, port;
    } good[] = { { "as.example", "as.example", 7000, 7000 },
                 { "as.example:1", "as.example", 7000, 1 },
                 { "::1", "::1", 7, 7 },
                 { "[::1]", "::1", 7, 7 },
                 { "[::1]:9", "::1", 7, 9 },
                 { "10.0.0.1", "10.0.0.1", 0, 0 } };
    static const char *const bad[] = { "", ":7", "as:0", "as:", "a b", "[::1", "as:7x", "a/b" };
    char text[400];
    host_port a;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK_OK(address_read_host(&a, span_of_str(good[i].text), good[i].usual));
        assert_string_equal(a.host, good[i].host);
        assert_int_equal(a.port, good[i].port);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STATUS(address_read_host(&a, span_of_str(bad[i]), 7), SEFL_EINVAL);
    memset(text, 'h', sizeof text);
    CHECK_STATUS(address_read_host(&a, span_of(text, sizeof text), 7), SEFL_EINVAL);
    CHECK_STATUS(address_read_host(&a, span_of(text, ADDRESS_HOST_MAX + 1), 7), SEFL_EINVAL);
    CHECK_OK(address_read_host(&a, span_of(text, ADDRESS_HOST_MAX), 7));
    CHECK_OK(address_read_host(&a, span_of("as:7000,csp", 7), 7)); /* a part of a text */
    assert_int_equal(a.port, 7000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses),
        cmocka_unit_test(hosts),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

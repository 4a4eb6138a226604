#include "support/check.h"

#include "base/buf.h"
#include "operator/card.h"

#include <string.h>

#define LINES                                                                  \
    "sefl card 1\nrole csp\nname South & Co\naddress [fd00::2]:7001\n"         \
    "population wards 1 to 9\n"                                                \
    "signs 0101010101010101010101010101010101010101010101010101010101010101\n" \
    "tls abababababababababababababababababababababababababababababababab\n"
#define PEM "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

static const char good[] = LINES PEM;

static void one_representation(void **state)
{
    (void)state;
    card c;
    sefl_buf b = { 0 };
    uint8_t a[SHA256_BYTES], d[SHA256_BYTES];
    CHECK_OK(card_parse(&c, span_of_str(good)));
    assert_int_equal(c.role, TRUST_CSP);
    assert_string_equal(c.name, "South & Co");
    assert_string_equal(c.at.host, "fd00::2");
    assert_int_equal(c.at.port, 7001);
    assert_string_equal(c.population, "wards 1 to 9");
    assert_int_equal(c.sign[31], 1);
    assert_int_equal(c.tls[0], 0xab);
    assert_memory_equal(c.ca.p, PEM, c.ca.n);
    CHECK_OK(card_write(&b, &c));
    assert_int_equal(b.n, strlen(good));
    assert_memory_equal(b.p, good, b.n);
    card_digits(a, buf_span(&b));
    b.p[40] ^= 1;
    card_digits(d, buf_span(&b));
    assert_memory_not_equal(a, d, sizeof a);
    buf_clear(&b);
}

static void truncated(void **state)
{
    (void)state;
    card c;
    for (size_t n = 0; n < strlen(good); n++)
        CHECK_STATUS(card_parse(&c, span_of(good, n)), SEFL_EPROTO);
}

/* Replaces the first `from` in the good card. */
static sefl_status with(const char *from, const char *to)
{
    card c;
    sefl_buf b = { 0 };
    const char *at = strstr(good, from);
    assert_non_null(at);
    CHECK_OK(wr_raw(&b, good, (size_t)(at - good)));
    CHECK_OK(wr_fmt(&b, "%s%s", to, at + strlen(from)));
    const sefl_status st = card_parse(&c, buf_span(&b));
    buf_clear(&b);
    return st;
}

static void bad_lines(void **state)
{
    (void)state;
    char lengthy[CARD_POPULATION_MAX + 2];
    memset(lengthy, 'x', sizeof lengthy);
    lengthy[sizeof lengthy - 1] = 0;
    CHECK_STATUS(with("card 1", "card 2"), SEFL_EUNSUPPORTED);
    CHECK_STATUS(with("role csp", "role client"), SEFL_EPROTO);
    CHECK_STATUS(with("role csp", "role CSP"), SEFL_EPROTO);
    CHECK_STATUS(with("role csp\n", ""), SEFL_EPROTO);
    CHECK_STATUS(with("name South & Co", "name "), SEFL_EPROTO);
    CHECK_STATUS(with("name South", "name \033[2J"), SEFL_EPROTO); /* no escapes on a terminal */
    CHECK_STATUS(with("South & Co\n", "South & Co\r\n"), SEFL_EPROTO);
    CHECK_STATUS(with("South & Co", lengthy), SEFL_EPROTO);
    CHECK_STATUS(with("wards 1 to 9", lengthy), SEFL_EPROTO);
    CHECK_STATUS(with(":7001", ":07001"), SEFL_EPROTO);
    CHECK_STATUS(with(":7001", ":0"), SEFL_EPROTO);
    CHECK_STATUS(with(":7001", ""), SEFL_EPROTO);
    CHECK_STATUS(with("[fd00::2]", "a b"), SEFL_EPROTO);
    CHECK_STATUS(with("signs 01", "signs 0"), SEFL_EPROTO);
    CHECK_STATUS(with("tls ab", "tls AB"), SEFL_EPROTO);
    CHECK_STATUS(with("-----BEGIN", "\n-----BEGIN"), SEFL_EPROTO);
    CHECK_STATUS(with("-----END CERTIFICATE-----\n", "-----END CERTIFICATE-----\n\n"), SEFL_EPROTO);
    CHECK_STATUS(with("MIIB", "MIIC"), SEFL_OK); /* x509 reads the certificate */
}

static void too_long(void **state)
{
    (void)state;
    card c;
    sefl_buf b = { 0 };
    CHECK_OK(wr_fmt(&b, "%s-----BEGIN CERTIFICATE-----\n", LINES));
    while (b.n < CARD_MAX)
        CHECK_OK(wr_u8(&b, 'A'));
    CHECK_OK(wr_fmt(&b, "-----END CERTIFICATE-----\n"));
    CHECK_STATUS(card_parse(&c, buf_span(&b)), SEFL_EPROTO);
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_representation),
        cmocka_unit_test(truncated),
        cmocka_unit_test(bad_lines),
        cmocka_unit_test(too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

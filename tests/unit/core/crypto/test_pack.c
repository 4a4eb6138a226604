/* Worked examples of docs/PROTOCOL.md, Parameters; refusals, and the range check of values. */
#include "crypto/ahe/pack.h"

#include "support/check.h"

#include <math.h>
#include <string.h>

static pack_nano dec(const char *text)
{
    pack_nano v;
    CHECK_OK(pack_decimal(&v, text));
    return v;
}

static pack_config config(uint32_t clients, const char *z)
{
    return (pack_config){ .scheme = PACK_PAILLIER,
                          .clients = clients,
                          .dimension = 945510,
                          .clip = dec("1"),
                          .noise = dec(z) };
}

static void test_decimal(void **state)
{
    static const char *const bad[] = { "",
                                       ".",
                                       "-1",
                                       "+1",
                                       "1e3",
                                       "0x10",
                                       "1.2.3",
                                       " 1",
                                       "1 ",
                                       "1,5",
                                       "nan",
                                       "0.0000000001",
                                       "inf",
                                       "9007200",
                                       "99999999999999999999",
                                       "1.0000000000" };
    (void)state;
    assert_int_equal(dec("0"), 0);
    assert_int_equal(dec("12"), 12 * PACK_ONE);
    assert_int_equal(dec("0.25"), PACK_ONE / 4);
    assert_int_equal(dec("1."), PACK_ONE);
    assert_int_equal(dec(".5"), PACK_ONE / 2);
    assert_int_equal(dec("0.000000001"), 1);
    assert_int_equal(dec("9007199.254740992"), (uint64_t)1 << 53);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pack_nano v = 7;
        CHECK_STATUS(pack_decimal(&v, bad[i]), SEFL_EINVAL);
        assert_int_equal(v, 0);
    }
}

/* docs/PROTOCOL.md, From a task to these numbers */
static void test_widths(void **state)
{
    static const struct {
        uint32_t clients;
        const char *z, *clip;
        unsigned k;
    } row[] = {
        { 10000, "0.5", "1", 19 }, /* no coordinate clip */
        { 10000, "0.5", "0.34", 17 }, { 10000, "0.5", "0.17", 16 }, { 10000, "1", "0.34", 16 },
        { 3457, "1", "1", 16 }, /* K <= 3457 z */
        { 3459, "1", "1", 17 },       { 1728, "0.5", "1", 16 },     { 864, "0.25", "1", 16 },
        { 13828, "4", "1", 16 },      { 10, "1", "1", 12 }, /* never below the circuit's smallest */
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        pack p;
        pack_config c = config(row[i].clients, row[i].z);
        c.coordinate_clip = dec(row[i].clip);
        CHECK_OK(pack_init(&p, &c));
        if (p.k != row[i].k)
            fail_msg("row %zu: k = %u, not %u", i, p.k, row[i].k);
        assert_int_equal(p.t, c.noise < 4 * PACK_ONE ? 12 : 14);
        assert_int_equal(p.w, p.k + p.t);
    }
}

/* The default coordinate clip: none if k = 16 suffices without it, else at least 0.17 D. */
static void test_usual_clip(void **state)
{
    static const struct {
        uint32_t clients;
        const char *z;
        uint64_t dimension;
        unsigned k;
        double share; /* of D, to three digits */
    } row[] = {
        { 3457, "1", 945510, 16, 1 },        { 10000, "1", 945510, 16, 0.3457 },
        { 10000, "0.5", 945510, 16, 0.172 }, { 10000, "0.25", 945510, 17, 0.173 },
        { 10000, "0.5", 399, 19, 1 },        { 20000, "1", 400, 16, 0.172 },
        { 100, "1", 945510, 12, 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        pack p;
        pack_config c = config(row[i].clients, row[i].z);
        c.dimension = row[i].dimension;
        CHECK_OK(pack_init(&p, &c));
        double share = (double)p.value_max / sqrt((double)p.s2);
        if (p.k != row[i].k || fabs(share - row[i].share) > 0.001)
            fail_msg("row %zu: k = %u, clip %.4f of D", i, p.k, share);
    }
}

static void test_grid(void **state)
{
    pack p;
    pack_config c = config(3000, "1");
    (void)state;
    /* (9.43919 * 4096)^2 = 38662.92224^2 = 1494821556.137..., by hand */
    CHECK_OK(pack_init(&p, &c));
    assert_int_equal(p.s2, 1494821556);
    assert_int_equal(p.value_max, 38662); /* floor(sqrt(S2)) */
    assert_int_equal(p.g, 16);
    assert_int_equal(p.s, 80);
    c.noise = dec("0.5");
    c.clients = 1000;
    CHECK_OK(pack_init(&p, &c));
    assert_int_equal(p.s2, 5979286224); /* 4 * 1494821556.137... */
    c.noise = dec("4");
    CHECK_OK(pack_init(&p, &c));
    assert_int_equal(p.s2, 1494821556); /* t = 14 makes up for z = 4 */
    assert_int_equal(p.t, 14);
    assert_int_equal(p.w, p.k + 14);

    /* the equation of R, and what rounding costs: 0.015 % of the norm squared... at z = 1 */
    c = config(3000, "1");
    CHECK_OK(pack_init(&p, &c));
    double R = (double)p.r_2p16 / 65536, d = 945510;
    double lhs = R * R + 5.27 * R + d / 4 + 2.64 * sqrt(d);
    assert_true(lhs <= (double)p.s2 && lhs > (double)p.s2 - 2 * R / 65536 - 2);
    assert_true((double)p.s2 / (R * R) - 1 < 0.001);
    assert_true(fabs(p.q - 1 / R) < 1e-18);
    assert_true(p.h == p.q * 4096);
    assert_true(fabs(p.sensitivity / (p.q * sqrt((double)p.s2)) - 1) < 1e-15);
    /* the released noise, sqrt(89.09847) coarse steps, is z sensitivities or a little more */
    double ratio = sqrt(89.09847) * p.h / p.sensitivity;
    assert_true(ratio >= 1 && ratio < 1.000002);
}

static void test_slots(void **state)
{
    pack p;
    pack_config c = config(3000, "1");
    (void)state;
    CHECK_OK(pack_init(&p, &c));
    assert_int_equal(p.w, 28);
    assert_int_equal(pack_slots(&p, 2048), 70);
    assert_int_equal(pack_slots(&p, 3072), 106);
    assert_int_equal(pack_slots(&p, 4096), 143);
    assert_int_equal(pack_slots(&p, 110), 1);
    assert_int_equal(pack_slots(&p, 109), 0);
    assert_int_equal(pack_slots(&p, 0), 0);
}

static void test_pad(void **state)
{
    pack p;
    pack_config c = config(10000, "0.5");
    (void)state;
    c.scheme = PACK_PAD;
    CHECK_OK(pack_init(&p, &c));
    assert_int_equal(p.w, 28);
    assert_int_equal(p.g, 0);
    assert_int_equal(p.s, 0);
}

static void test_without_noise(void **state)
{
    pack p;
    pack_config c = config(10000, "0");
    (void)state;
    CHECK_OK(pack_init(&p, &c)); /* 2^10 sqrt(945510 / 10000) = 9957 <= 2^14 */
    assert_int_equal(p.value_max, 1 << 14);
    assert_int_equal(p.w, 29); /* 10000 * 2^14 < 2^28 */
    assert_int_equal(p.t, 0);
    assert_int_equal(p.g, 0);
    assert_int_equal(p.s2, 0);
    assert_true(p.q == 1.0 / (1 << 14) && p.h == p.q && p.sensitivity == 0);
    c.clients = 1;
    CHECK_OK(pack_init(&p, &c));
    assert_int_equal(p.value_max, 1 << 20);
    c.clients = 8; /* a power of two needs the next bit: 8 * 2^12 = 2^15 is not below 2^15 */
    c.fraction_bits = 12;
    CHECK_OK(pack_init(&p, &c));
    assert_int_equal(p.w, 17);
    c.fraction_bits = 40;
    c.clients = 1000;
    CHECK_STATUS(pack_init(&p, &c), SEFL_ERANGE);
    assert_non_null(strstr(sefl_last_error(), "need 51 bits, but the slot has 48"));
    c.fraction_bits = 41;
    CHECK_STATUS(pack_init(&p, &c), SEFL_EINVAL);
}

static void test_refusals(void **state)
{
    pack p;
    pack_config c = config(10000, "0.5"), good = c;
    (void)state;
    c.k = 16; /* the width in the task is used or refused, never widened */
    c.coordinate_clip = PACK_ONE;
    CHECK_STATUS(pack_init(&p, &c), SEFL_ERANGE);
    assert_non_null(
        strstr(sefl_last_error(),
               "10000 clients with |value| <= 77325 need 31 bits, but the slot has 28"));
    assert_int_equal(p.w, 0);
    c.k = 16, c.coordinate_clip = 0; /* the default clip makes it fit */
    CHECK_OK(pack_init(&p, &c));
    assert_int_equal(p.k, 16);
    c.k = 15;
    CHECK_STATUS(pack_init(&p, &c), SEFL_ERANGE);

    c = good, c.clients = UINT32_MAX, c.noise = dec("0.25");
    CHECK_STATUS(pack_init(&p, &c), SEFL_ERANGE);
    assert_non_null(strstr(sefl_last_error(), "the slot has 36"));
    c = good, c.noise = dec("20"), c.dimension = 500000000;
    CHECK_STATUS(pack_init(&p, &c), SEFL_ERANGE); /* the grid is too coarse for so many */
    assert_non_null(strstr(sefl_last_error(), "500000000 coordinates"));

#define REFUSED(change) \
    c = good, change;   \
    CHECK_STATUS(pack_init(&p, &c), SEFL_EINVAL)
    REFUSED(c.clients = 0);
    REFUSED(c.dimension = 0);
    REFUSED(c.dimension = ((uint64_t)1 << 40) + 1);
    REFUSED(c.clip = 0);
    REFUSED(c.clip = ((uint64_t)1 << 53) + 1);
    REFUSED(c.noise = dec("0.0009"));
    REFUSED(c.noise = dec("1001"));
    REFUSED(c.noise = UINT64_MAX);
    REFUSED(c.coordinate_clip = PACK_ONE + 1);
    REFUSED(c.coordinate_clip = 1);
    REFUSED(c.k = 11);
    REFUSED(c.k = 25);
    REFUSED(c.fraction_bits = 12);
    REFUSED((c.noise = 0, c.k = 16));
    REFUSED((c.noise = 0, c.coordinate_clip = PACK_ONE));
}

static void test_check(void **state)
{
    const pack good = {
        .k = 16, .t = 12, .w = 28, .g = 16, .s = 80, .clients = 10000, .value_max = 13421
    };
    pack p = good;
    (void)state;
    CHECK_OK(pack_check(&p));
    p.value_max = 13422; /* 10000 * 13422 = 134220000 > 2^27 = 134217728 */
    CHECK_STATUS(pack_check(&p), SEFL_ERANGE);
    assert_non_null(strstr(sefl_last_error(), "need 29 bits, but the slot has 28"));
    p = good, p.value_max = INT64_MAX;
    CHECK_STATUS(pack_check(&p), SEFL_ERANGE);
    p = good, p.value_max = -1;
    CHECK_STATUS(pack_check(&p), SEFL_EINVAL);
    p = good, p.clients = 0;
    CHECK_STATUS(pack_check(&p), SEFL_EINVAL);
    p = good, p.t = 11;
    CHECK_STATUS(pack_check(&p), SEFL_EINVAL);
    p = good, p.g = 37;
    CHECK_STATUS(pack_check(&p), SEFL_EINVAL);
    p = good, p.w = p.k = UINT32_MAX, p.t = 0;
    CHECK_STATUS(pack_check(&p), SEFL_EINVAL);
    p = (pack){ 0 };
    CHECK_STATUS(pack_check(&p), SEFL_EINVAL);
}

static void test_values(void **state)
{
    const pack p = { .value_max = 1000 };
    static const int64_t bad[] = { 1001,
                                   -1001,
                                   INT64_MAX,
                                   INT64_MIN,
                                   INT64_MIN + 1000,
                                   INT64_MAX - 1000,
                                   (int64_t)1 << 47,
                                   -((int64_t)1 << 62) };
    int64_t v[37];
    (void)state;
    for (size_t i = 0; i < 37; i++)
        v[i] = i % 2 ? 1000 : -1000;
    CHECK_OK(pack_check_values(&p, v, 37, 0));
    CHECK_OK(pack_check_values(&p, v, 0, 0));
    for (size_t i = 0; i < 37; i++)
        for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
            int64_t was = v[i];
            char want[64];
            v[i] = bad[b];
            CHECK_STATUS(pack_check_values(&p, v, 37, 500), SEFL_ERANGE);
            snprintf(want, sizeof want, "value %zu of the update is outside [-1000, 1000]",
                     500 + i);
            assert_string_equal(sefl_last_error(), want); /* but not the value */
            v[i] = was;
        }
    v[3] = v[9] = 5000;
    CHECK_STATUS(pack_check_values(&p, v, 37, 0), SEFL_ERANGE);
    assert_non_null(strstr(sefl_last_error(), "value 3 "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decimal),       cmocka_unit_test(test_widths),
        cmocka_unit_test(test_usual_clip),    cmocka_unit_test(test_grid),
        cmocka_unit_test(test_slots),         cmocka_unit_test(test_pad),
        cmocka_unit_test(test_without_noise), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_check),         cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

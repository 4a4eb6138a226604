#include "agg_bodies.h"

#include "roles/aggregator/body.h"

static const char *const schemes[] = { "paillier", "pad" };
static const size_t pieces[] = { 1, 7, 511, 512, 513, 4096, 65536, 1 << 22 };

static sefl_status feed(body_check *c, const uint8_t *body, size_t n, size_t piece)
{
    sefl_status st = SEFL_OK;
    for (size_t i = 0; i < n && st == SEFL_OK; i += piece)
        st = body_check_feed(c, span_of(body + i, n - i < piece ? n - i : piece));
    return st;
}

static void whole_bodies_pass(void **state)
{
    (void)state;
    for (size_t s = 0; s < 2; s++) {
        bodies b;
        body_rule rule;
        uint8_t hash[32];
        bodies_make(&b, schemes[s], 5000, 10);
        CHECK_OK(body_rule_init(&rule, &b.p, b.pub));
        uint8_t *whole = bodies_body(&b, 0, hash), *body = whole + UPDATE_SALT;
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
            body_check c = { .rule = &rule };
            size_t n = ahe_body_bytes(&b.p);
            CHECK_OK(feed(&c, body, n - 1, pieces[i]));
            CHECK_STATUS(body_check_end(&c), SEFL_EPROTO);
            CHECK_OK(body_check_feed(&c, span_of(body + n - 1, 1)));
            CHECK_OK(body_check_end(&c));
            CHECK_STATUS(body_check_feed(&c, span_of(body, 1)), SEFL_ERANGE);
            CHECK_STATUS(body_check_end(&c), SEFL_ERANGE);
            body_check_clear(&c);
        }
        sefl_free(whole);
        body_rule_clear(&rule);
        bodies_free(&b);
    }
}

static void bad_units_are_named(void **state)
{
    (void)state;
    bodies b;
    body_rule rule;
    uint8_t hash[32];
    char want[64];
    bodies_make(&b, "paillier", 5000, 10);
    CHECK_OK(body_rule_init(&rule, &b.p, b.pub));
    assert_true(b.p.units > 20 && b.p.units % 8 != 0);
    size_t bad[] = { 0, 7, 8, 13, b.p.units - 1 };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
            uint8_t *whole = bodies_body(&b, 0, hash), *body = whole + UPDATE_SALT;
            body_check c = { .rule = &rule };
            bodies_spoil(&b, whole, bad[k]);
            CHECK_STATUS(feed(&c, body, ahe_body_bytes(&b.p), pieces[i]), SEFL_EPROTO);
            snprintf(want, sizeof want, "unit %zu of %zu: ", bad[k], b.p.units);
            assert_memory_equal(sefl_last_error(), want, strlen(want));
            CHECK_STATUS(body_check_feed(&c, span_of(body, 1)), SEFL_EPROTO); /* stays */
            CHECK_STATUS(body_check_end(&c), SEFL_EPROTO);
            body_check_clear(&c);
            sefl_free(whole);
            if (i > 4)
                break;
        }
    body_rule_clear(&rule);
    bodies_free(&b);
}

static void memory_can_run_out(void **state)
{
    (void)state;
    bodies b;
    uint8_t hash[32];
    bodies_make(&b, "paillier", 500, 10);
    uint8_t *whole = bodies_body(&b, 0, hash), *body = whole + UPDATE_SALT;
    body_rule rule;
    TEST_FAULTS(FAULT_ALLOC, st = body_rule_init(&rule, &b.p, b.pub), body_rule_clear(&rule));
    CHECK_OK(body_rule_init(&rule, &b.p, b.pub));
    body_check c;
    TEST_FAULTS(FAULT_ALLOC, (c = (body_check){ .rule = &rule }, st = feed(&c, body, 700, 7)),
                body_check_clear(&c));
    body_rule_clear(&rule);
    sefl_free(whole);
    bodies_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_bodies_pass),
        cmocka_unit_test(bad_units_are_named),
        cmocka_unit_test(memory_can_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tokens: text and back, single use, expiry, bound to a name. */
#include "support/check.h"

#include "trust/token.h"

#include <string.h>

static trust *list(void)
{
    trust *t;
    CHECK_OK(trust_new(&t));
    t->self = (trust_self){ .role = TRUST_CSP, .name = "csp" };
    memset(t->self.tls, 1, sizeof t->self.tls);
    memset(t->self.sign, 2, sizeof t->self.sign);
    return t;
}

static void text(void **state)
{
    trust *t = list();
    token a, b;
    sefl_buf s = { 0 };
    sefl_rng rng = rng_system();
    (void)state;
    CHECK_OK(token_new(&a, &t->self, "hospital-7", 1234567, &rng));
    CHECK_OK(token_print(&s, &a));
    CHECK_OK(token_parse(&b, buf_span(&s)));
    assert_memory_equal(&a, &b, sizeof a);
    CHECK_OK(wr_fmt(&s, " \r\n"));
    CHECK_OK(token_parse(&b, buf_span(&s)));
    s.n -= 3;
    for (size_t i = 0; i < s.n; i++) { /* typing errors and truncation are detected */
        uint8_t old = s.p[i];
        s.p[i] = (uint8_t)(old == 'A' ? 'B' : 'A');
        CHECK_STATUS(token_parse(&b, buf_span(&s)), SEFL_EPROTO);
        s.p[i] = old;
        CHECK_STATUS(token_parse(&b, span_of(s.p, i)), SEFL_EPROTO);
    }
    CHECK_STATUS(token_new(&a, &t->self, "two words", 1, &rng), SEFL_EINVAL);
    t->self.role = (trust_role)0;
    CHECK_STATUS(token_new(&a, &t->self, "a", 1, &rng), SEFL_ESTATE);
    token_clear(&b);
    buf_clear(&s);
    trust_free(t);
}

static void use(void **state)
{
    trust *t = list();
    token a, other;
    sign_key *key, *stranger;
    uint8_t mine[TRUST_KEY] = { 1 }, theirs[TRUST_KEY] = { 2 };
    sefl_rng rng = rng_system();
    (void)state;
    CHECK_OK(token_new(&a, &t->self, "site", 1000, &rng));
    CHECK_OK(token_new(&other, &t->self, "other", 1000, &rng));
    CHECK_OK(token_list(t, &a, 10));
    CHECK_OK(sign_key_from(&key, a.seed));
    CHECK_OK(sign_key_from(&stranger, other.seed));
    const uint8_t *pub = sign_key_pub(key);
    CHECK_STATUS(token_check(t, sign_key_pub(stranger), "other", mine, 20), SEFL_EAUTH);
    CHECK_STATUS(token_check(t, pub, "other", mine, 20), SEFL_EAUTH);
    CHECK_STATUS(token_check(t, pub, "site", mine, 1000), SEFL_EAUTH);
    CHECK_OK(token_check(t, pub, "site", mine, 999));
    token_use(t, pub, mine, 15);
    CHECK_STATUS(token_check(t, pub, "site", theirs, 20), SEFL_EAUTH);
    CHECK_OK(token_check(t, pub, "site", mine, 20)); /* its answer was lost: the same key again */
    CHECK_STATUS(token_check(t, pub, "site", mine, 1000), SEFL_EAUTH);
    t->token[0].state = TRUST_CANCELLED;
    CHECK_STATUS(token_check(t, pub, "site", mine, 20), SEFL_EAUTH);
    /* the list has neither the seed nor its public half */
    sefl_buf s = { 0 };
    char hex[65];
    CHECK_OK(trust_print(&s, t));
    CHECK_OK(wr_u8(&s, 0));
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", pub[i]);
    assert_null(strstr((const char *)s.p, hex));
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", a.seed[i]);
    assert_null(strstr((const char *)s.p, hex));
    buf_clear(&s);
    sign_key_free(key), sign_key_free(stranger);
    trust_free(t);
}

/* The key that used a token may repeat this for an hour after the first use, but not after the
 * token expires. */
static void repeats_end(void **state)
{
    trust *t = list();
    token a;
    sign_key *key;
    uint8_t mine[TRUST_KEY] = { 1 };
    sefl_rng rng = rng_system();
    (void)state;
    CHECK_OK(token_new(&a, &t->self, "site", 100000, &rng));
    CHECK_OK(token_list(t, &a, 10));
    CHECK_OK(sign_key_from(&key, a.seed));
    const uint8_t *pub = sign_key_pub(key);
    token_use(t, pub, mine, 5000);
    CHECK_OK(token_check(t, pub, "site", mine, 5000 + TOKEN_REPEAT_S - 1));
    token_use(t, pub, mine, 5000 + TOKEN_REPEAT_S - 1); /* a repetition does not extend the hour */
    CHECK_STATUS(token_check(t, pub, "site", mine, 5000 + TOKEN_REPEAT_S), SEFL_EAUTH);
    assert_non_null(strstr(sefl_last_error(), "already used"));
    /* used shortly before it expires */
    CHECK_OK(token_list(t, &a, 10));
    token_use(t, pub, mine, 99990);
    CHECK_OK(token_check(t, pub, "site", mine, 99999));
    CHECK_STATUS(token_check(t, pub, "site", mine, 100000), SEFL_EAUTH);
    sign_key_free(key);
    token_clear(&a);
    trust_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(text), cmocka_unit_test(use),
                                        cmocka_unit_test(repeats_end) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

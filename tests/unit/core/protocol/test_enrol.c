/* Enrolment messages: round trips, every byte changed, proofs bound to key, name and servers. */
#include "support/check.h"

#include "base/alloc.h"
#include "protocol/enrol.h"

#include <string.h>

static sign_key *as, *csp;
static trust *as_list, *csp_list;
static token as_token, csp_token;
static enrol_request req;

static int setup(void **state)
{
    sefl_rng rng = rng_system();
    (void)state;
    CHECK_OK(sign_key_new(&as, &rng));
    CHECK_OK(sign_key_new(&csp, &rng));
    CHECK_OK(trust_new(&as_list));
    CHECK_OK(trust_new(&csp_list));
    as_list->self.role = TRUST_AGGREGATOR, csp_list->self.role = TRUST_CSP;
    memcpy(as_list->self.sign, sign_key_pub(as), 32);
    memcpy(csp_list->self.sign, sign_key_pub(csp), 32);
    CHECK_OK(token_new(&as_token, &as_list->self, "site-1", 1000, &rng));
    CHECK_OK(token_new(&csp_token, &csp_list->self, "site-1", 1000, &rng));
    req.claim = (enrol_claim){ .name = "site-1" };
    memset(req.claim.key, 9, sizeof req.claim.key);
    memcpy(req.claim.servers.as, as_token.sign, 32);
    memcpy(req.claim.servers.csp, csp_token.sign, 32);
    req.csr = span_of("not really", 10);
    CHECK_OK(enrol_prove(&req.as, &req.claim, &as_token));
    CHECK_OK(enrol_prove(&req.csp, &req.claim, &csp_token));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sign_key_free(as), sign_key_free(csp);
    trust_free(as_list), trust_free(csp_list);
    return 0;
}

static void request(void **state)
{
    sefl_buf b = { 0 };
    enrol_request got;
    (void)state;
    CHECK_OK(enrol_request_write(&b, &req));
    assert_true(b.n <= ENROL_REQUEST_MAX);
    CHECK_OK(enrol_request_read(&got, buf_span(&b)));
    assert_memory_equal(&got.claim, &req.claim, sizeof req.claim);
    assert_memory_equal(&got.csp, &req.csp, sizeof req.csp);
    assert_int_equal(got.csr.n, 10);
    CHECK_OK(enrol_proof_check(&got.as, &got.claim));
    CHECK_OK(enrol_proof_check(&got.csp, &got.claim));
    /* a changed byte breaks the form or a proof; only the request for a certificate is signed by
     * itself */
    for (size_t i = 0; i < b.n - req.csr.n; i++) {
        b.p[i] ^= 1;
        if (enrol_request_read(&got, buf_span(&b)) == SEFL_OK &&
            enrol_proof_check(&got.as, &got.claim) == SEFL_OK &&
            enrol_proof_check(&got.csp, &got.claim) == SEFL_OK)
            fail_msg("byte %zu changed, and taken", i);
        b.p[i] ^= 1;
        CHECK_STATUS(enrol_request_read(&got, span_of(b.p, i)), SEFL_EPROTO);
    }
    CHECK_OK(wr_u8(&b, 0));
    CHECK_STATUS(enrol_request_read(&got, buf_span(&b)), SEFL_EPROTO);
    buf_clear(&b);
}

static void question(void **state)
{
    sefl_buf b = { 0 };
    enrol_claim c;
    enrol_proof p;
    uint8_t sig[SIGN_BYTES];
    (void)state;
    CHECK_OK(enrol_question_write(&b, &req.claim, &req.csp));
    CHECK_OK(enrol_question_read(&c, &p, buf_span(&b)));
    CHECK_OK(enrol_proof_check(&p, &c));
    c.key[0] ^= 1; /* AS cannot turn it into a proof for another key */
    CHECK_STATUS(enrol_proof_check(&p, &c), SEFL_EAUTH);
    c.key[0] ^= 1;
    strcpy(c.name, "site-2");
    CHECK_STATUS(enrol_proof_check(&p, &c), SEFL_EAUTH);
    CHECK_STATUS(enrol_prove(&p, &c, &csp_token), SEFL_EINVAL);
    CHECK_OK(enrol_approve(sig, &req.claim, csp));
    CHECK_OK(enrol_approved(sig, &req.claim, csp_token.sign));
    CHECK_STATUS(enrol_approved(sig, &req.claim, as_token.sign), SEFL_EAUTH);
    CHECK_STATUS(enrol_approved(sig, &c, csp_token.sign), SEFL_EAUTH);
    /* a proof is not an approval */
    CHECK_STATUS(enrol_approved(req.csp.sig, &req.claim, req.csp.pub), SEFL_EAUTH);
    buf_clear(&b);
}

static void answer(void **state)
{
    sefl_buf b = { 0 };
    enrol_answer a = { .population = span_of("us", 2),
                       .certificate = span_of("cert", 4),
                       .ca = span_of("the ca", 6) },
                 got;
    (void)state;
    CHECK_OK(enrol_approve(a.csp, &req.claim, csp));
    CHECK_OK(enrol_approve(a.as, &req.claim, as));
    CHECK_OK(enrol_answer_write(&b, &a));
    CHECK_OK(enrol_answer_read(&got, buf_span(&b)));
    assert_int_equal(got.ca.n, 6);
    CHECK_OK(enrol_approved(got.csp, &req.claim, csp_token.sign));
    for (size_t i = 0; i < b.n; i++)
        CHECK_STATUS(enrol_answer_read(&got, span_of(b.p, i)), SEFL_EPROTO);
    a.ca.n = ENROL_PEM_MAX + 1;
    CHECK_STATUS(enrol_answer_write(&b, &a), SEFL_ERANGE);
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(request), cmocka_unit_test(question),
                                        cmocka_unit_test(answer) };
    return cmocka_run_group_tests(tests, setup, teardown);
}

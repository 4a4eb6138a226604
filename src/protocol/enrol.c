#include "protocol/enrol.h"

#include <string.h>

static const char request_mark[8] = "SEFLENR1", answer_mark[8] = "SEFLENA1";

static sefl_status claim_write(sefl_buf *out, const enrol_claim *c)
{
    SEFL_PASS(wr_raw(out, c->key, sizeof c->key));
    SEFL_PASS(wr_raw(out, &c->servers, sizeof c->servers));
    return wr_bytes(out, span_of_str(c->name));
}

static sefl_status claim_read(enrol_claim *c, rd *r)
{
    sefl_span name;
    *c = (enrol_claim){ 0 };
    SEFL_PASS(rd_raw(r, c->key, sizeof c->key));
    SEFL_PASS(rd_raw(r, &c->servers, sizeof c->servers));
    SEFL_PASS(rd_bytes(r, &name, TRUST_NAME_MAX));
    memcpy(c->name, name.p, name.n);
    SEFL_NEED(strlen(c->name) == name.n && trust_name_ok(c->name), SEFL_EPROTO,
              "enrolment: the site's name is not valid");
    return SEFL_OK;
}

static sefl_status proof_write(sefl_buf *out, const enrol_proof *p)
{
    SEFL_PASS(wr_raw(out, p->pub, sizeof p->pub));
    return wr_raw(out, p->sig, sizeof p->sig);
}

static sefl_status proof_read(enrol_proof *p, rd *r)
{
    sefl_status st = rd_raw(r, p->pub, sizeof p->pub);
    return st == SEFL_OK ? rd_raw(r, p->sig, sizeof p->sig) : st;
}

/* ---- signatures ------------------------------------------------------------------------------ */

static sefl_status sign_claim(uint8_t sig[SIGN_BYTES], const enrol_claim *c, sign_kind kind,
                              const sign_key *key)
{
    sefl_buf b = { 0 };
    sefl_status st = claim_write(&b, c);
    if (st == SEFL_OK)
        st = sign_make(sig, key, kind, buf_span(&b));
    buf_clear(&b);
    return st;
}

static sefl_status check_claim(const uint8_t sig[SIGN_BYTES], const enrol_claim *c, sign_kind kind,
                               const uint8_t pub[SIGN_PUB_BYTES])
{
    sefl_buf b = { 0 };
    sefl_status st = claim_write(&b, c);
    if (st == SEFL_OK)
        st = sign_check(sig, pub, kind, buf_span(&b));
    buf_clear(&b);
    return st;
}

sefl_status enrol_prove(enrol_proof *out, const enrol_claim *c, const token *t)
{
    sefl_status st = SEFL_OK;
    sign_key *key = NULL;
    SEFL_CHECK(strcmp(c->name, t->name) == 0, SEFL_EINVAL,
               "the %s's token was made for \"%s\", not for \"%s\"",
               t->role == TRUST_CSP ? "CSP" : "aggregator", t->name, c->name);
    SEFL_TRY(sign_key_from(&key, t->seed));
    memcpy(out->pub, sign_key_pub(key), sizeof out->pub);
    SEFL_TRY(sign_claim(out->sig, c, SIGN_ENROLMENT, key));
done:
    sign_key_free(key);
    return st;
}

sefl_status enrol_proof_check(const enrol_proof *p, const enrol_claim *c)
{
    return check_claim(p->sig, c, SIGN_ENROLMENT, p->pub);
}

sefl_status enrol_approve(uint8_t sig[SIGN_BYTES], const enrol_claim *c, const sign_key *key)
{
    return sign_claim(sig, c, SIGN_APPROVAL, key);
}

sefl_status enrol_approved(const uint8_t sig[SIGN_BYTES], const enrol_claim *c,
                           const uint8_t pub[SIGN_PUB_BYTES])
{
    return check_claim(sig, c, SIGN_APPROVAL, pub);
}

/* ---- messages -------------------------------------------------------------------------------- */

sefl_status enrol_request_write(sefl_buf *out, const enrol_request *r)
{
    SEFL_NEED(r->csr.n <= ENROL_CSR_MAX, SEFL_ERANGE, "enrolment: a request of %zu bytes",
              r->csr.n);
    SEFL_PASS(wr_raw(out, request_mark, sizeof request_mark));
    SEFL_PASS(claim_write(out, &r->claim));
    SEFL_PASS(proof_write(out, &r->as));
    SEFL_PASS(proof_write(out, &r->csp));
    return wr_bytes(out, r->csr);
}

sefl_status enrol_request_read(enrol_request *out, sefl_span in)
{
    enrol_request q = { 0 };
    rd r = rd_over(in);
    *out = q;
    SEFL_PASS(rd_expect(&r, request_mark, sizeof request_mark, "an enrolment request"));
    SEFL_PASS(claim_read(&q.claim, &r));
    SEFL_PASS(proof_read(&q.as, &r));
    SEFL_PASS(proof_read(&q.csp, &r));
    SEFL_PASS(rd_bytes(&r, &q.csr, ENROL_CSR_MAX));
    SEFL_PASS(rd_end(&r));
    *out = q;
    return SEFL_OK;
}

sefl_status enrol_question_write(sefl_buf *out, const enrol_claim *c, const enrol_proof *p)
{
    sefl_status st = claim_write(out, c);
    return st == SEFL_OK ? proof_write(out, p) : st;
}

sefl_status enrol_question_read(enrol_claim *c, enrol_proof *p, sefl_span in)
{
    rd r = rd_over(in);
    SEFL_PASS(claim_read(c, &r));
    SEFL_PASS(proof_read(p, &r));
    return rd_end(&r);
}

sefl_status enrol_answer_write(sefl_buf *out, const enrol_answer *a)
{
    SEFL_NEED(a->population.n >= 1 && a->population.n <= ENROL_POPULATION_MAX, SEFL_ERANGE,
              "enrolment: a population's name of %zu bytes", a->population.n);
    SEFL_NEED(a->certificate.n <= ENROL_PEM_MAX && a->ca.n <= ENROL_PEM_MAX, SEFL_ERANGE,
              "enrolment: a certificate of more than %d bytes", ENROL_PEM_MAX);
    SEFL_PASS(wr_raw(out, answer_mark, sizeof answer_mark));
    SEFL_PASS(wr_raw(out, a->csp, sizeof a->csp));
    SEFL_PASS(wr_raw(out, a->as, sizeof a->as));
    SEFL_PASS(wr_bytes(out, a->population));
    SEFL_PASS(wr_bytes(out, a->certificate));
    return wr_bytes(out, a->ca);
}

sefl_status enrol_answer_read(enrol_answer *out, sefl_span in)
{
    enrol_answer a = { 0 };
    rd r = rd_over(in);
    *out = a;
    SEFL_PASS(rd_expect(&r, answer_mark, sizeof answer_mark, "an enrolment's answer"));
    SEFL_PASS(rd_raw(&r, a.csp, sizeof a.csp));
    SEFL_PASS(rd_raw(&r, a.as, sizeof a.as));
    SEFL_PASS(rd_bytes(&r, &a.population, ENROL_POPULATION_MAX));
    for (size_t i = 0; i < a.population.n; i++)
        SEFL_NEED(a.population.p[i] >= 0x20 && a.population.p[i] < 0x7f, SEFL_EPROTO,
                  "enrolment: the population's name is not printable");
    SEFL_NEED(a.population.n > 0, SEFL_EPROTO, "enrolment: no population");
    SEFL_PASS(rd_bytes(&r, &a.certificate, ENROL_PEM_MAX));
    SEFL_PASS(rd_bytes(&r, &a.ca, ENROL_PEM_MAX));
    SEFL_PASS(rd_end(&r));
    *out = a;
    return SEFL_OK;
}

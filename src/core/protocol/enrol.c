#include "protocol/enrol.h"

#include "protocol/fields.h"

#include <string.h>

static const char request_mark[8] = "SEFLENR1", answer_mark[8] = "SEFLENA1";

static sefl_status name_read(char out[TRUST_NAME_MAX + 1], rd *r, size_t max)
{
    sefl_span name;
    SEFL_PASS(rd_bytes(r, &name, max));
    memcpy(out, name.p, name.n);
    SEFL_NEED(strlen(out) == name.n && trust_name_ok(out), SEFL_EPROTO,
              "enrolment: the site's name is not valid");
    return SEFL_OK;
}

#define FIELD_WRITE_name(x)      wr_bytes(out, span_of_str(x))
#define FIELD_WRITE_claim(x)     claim_write(out, &(x))
#define FIELD_WRITE_proof(x)     proof_write(out, &(x))
#define FIELD_READ_name(x, max)  name_read(x, r, max)
#define FIELD_READ_claim(x, max) claim_read(&(x), r)
#define FIELD_READ_proof(x, max) proof_read(&(x), r)

static sefl_status claim_write(sefl_buf *out, const enrol_claim *v)
{
    ENROL_CLAIM_FIELDS(FIELD_WRITE)
    return SEFL_OK;
}

static sefl_status claim_read(enrol_claim *v, rd *r)
{
    *v = (enrol_claim){ 0 };
    ENROL_CLAIM_FIELDS(FIELD_READ)
    return SEFL_OK;
}

static sefl_status proof_write(sefl_buf *out, const enrol_proof *v)
{
    ENROL_PROOF_FIELDS(FIELD_WRITE)
    return SEFL_OK;
}

static sefl_status proof_read(enrol_proof *v, rd *r)
{
    ENROL_PROOF_FIELDS(FIELD_READ)
    return SEFL_OK;
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

sefl_status enrol_request_write(sefl_buf *out, const enrol_request *v)
{
    SEFL_NEED(v->csr.n <= ENROL_CSR_MAX, SEFL_ERANGE, "enrolment: a request of %zu bytes",
              v->csr.n);
    SEFL_PASS(wr_raw(out, request_mark, sizeof request_mark));
    ENROL_REQUEST_FIELDS(FIELD_WRITE)
    return SEFL_OK;
}

sefl_status enrol_request_read(enrol_request *out, sefl_span in)
{
    enrol_request got = { 0 }, *v = &got;
    rd reader = rd_over(in), *r = &reader;
    *out = got;
    SEFL_PASS(rd_expect(r, request_mark, sizeof request_mark, "an enrolment request"));
    ENROL_REQUEST_FIELDS(FIELD_READ)
    SEFL_PASS(rd_end(r));
    *out = got;
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

sefl_status enrol_answer_write(sefl_buf *out, const enrol_answer *v)
{
    SEFL_NEED(v->population.n >= 1 && v->population.n <= ENROL_POPULATION_MAX, SEFL_ERANGE,
              "enrolment: a population's name of %zu bytes", v->population.n);
    SEFL_NEED(v->certificate.n <= ENROL_PEM_MAX && v->ca.n <= ENROL_PEM_MAX, SEFL_ERANGE,
              "enrolment: a certificate of more than %d bytes", ENROL_PEM_MAX);
    SEFL_PASS(wr_raw(out, answer_mark, sizeof answer_mark));
    ENROL_ANSWER_FIELDS(FIELD_WRITE)
    return SEFL_OK;
}

sefl_status enrol_answer_read(enrol_answer *out, sefl_span in)
{
    enrol_answer got = { 0 }, *v = &got;
    rd reader = rd_over(in), *r = &reader;
    *out = got;
    SEFL_PASS(rd_expect(r, answer_mark, sizeof answer_mark, "an enrolment's answer"));
    ENROL_ANSWER_FIELDS(FIELD_READ)
    SEFL_PASS(rd_end(r));
    for (size_t i = 0; i < v->population.n; i++)
        SEFL_NEED(v->population.p[i] >= 0x20 && v->population.p[i] < 0x7f, SEFL_EPROTO,
                  "enrolment: the population's name is not printable");
    SEFL_NEED(v->population.n > 0, SEFL_EPROTO, "enrolment: no population");
    *out = got;
    return SEFL_OK;
}

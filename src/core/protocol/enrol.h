/* enrol: the messages that a site and the servers exchange when the site joins a federation.
 *
 *     site    creates a key and a certificate request; signs the claim with each server's token
 *     AS      checks its token; forwards the claim with CSP's token to CSP (link.h, ENROL)
 *     CSP     checks its token, records the member, signs the claim (APPROVED)
 *     AS      records the member, issues the certificate, signs the claim, answers
 *     site    verifies each server's signature with the key from that server's token
 *
 * All parties sign the claim, which binds the site's key and name to these two servers. AS cannot
 * reuse CSP's token: its signature is valid only for this key and name.
 *
 *     claim      site's key (SHA-256 of SPKI) 32 | AS's signing key 32 | CSP's signing key 32
 *                | name
 *     proof      token's public half 32 | its signature on the claim (SIGN_ENROLMENT) 64
 *     request    "SEFLENR1" | claim | AS proof | CSP proof | PKCS #10 request (DER), at most 4096
 *     question   claim | CSP proof                                                      (AS to CSP)
 *     answer     "SEFLENA1" | CSP's signature on the claim (SIGN_APPROVAL) 64 | AS's 64
 *                | population, 1 to 64 bytes | certificate, PEM | AS's CA, PEM, at most 16 KiB each
 *
 * A varint length precedes each name, population, request and PEM. Both servers keep the ledger of
 * the population. trust/trust.h defines valid names.
 * Threads: any; spans point into the input.   Secrets: none (tokens: trust/token.h). */
#ifndef PROTOCOL_ENROL_H
#define PROTOCOL_ENROL_H

#include "base/buf.h"
#include "protocol/signed.h"
#include "trust/token.h"

enum {
    ENROL_REQUEST_MAX = 8192,
    ENROL_ANSWER_MAX = 40 << 10,
    ENROL_CSR_MAX = 4096,
    ENROL_PEM_MAX = 16 << 10,
    ENROL_POPULATION_MAX = 64,
};

/* The fields in wire order after a mark (protocol/fields.h): enrol.c reads and writes by these
 * lists, and tests/unit/core/protocol/test_schema.c reviews them. */
#define ENROL_CLAIM_FIELDS(X)           \
    X(raw, key, TRUST_KEY)              \
    X(raw, servers.as, SIGN_PUB_BYTES)  \
    X(raw, servers.csp, SIGN_PUB_BYTES) \
    X(name, name, TRUST_NAME_MAX)
#define ENROL_PROOF_FIELDS(X)   \
    X(raw, pub, SIGN_PUB_BYTES) \
    X(raw, sig, SIGN_BYTES)
#define ENROL_REQUEST_FIELDS(X) \
    X(claim, claim, 0)          \
    X(proof, as, 0)             \
    X(proof, csp, 0)            \
    X(bytes, csr, ENROL_CSR_MAX)
#define ENROL_ANSWER_FIELDS(X)                 \
    X(raw, csp, SIGN_BYTES)                    \
    X(raw, as, SIGN_BYTES)                     \
    X(bytes, population, ENROL_POPULATION_MAX) \
    X(bytes, certificate, ENROL_PEM_MAX)       \
    X(bytes, ca, ENROL_PEM_MAX)

typedef struct enrol_claim {
    uint8_t key[TRUST_KEY];
    pinned servers;
    char name[TRUST_NAME_MAX + 1];
} enrol_claim;

typedef struct enrol_proof {
    uint8_t pub[SIGN_PUB_BYTES], sig[SIGN_BYTES];
} enrol_proof;

typedef struct enrol_request {
    enrol_claim claim;
    enrol_proof as, csp;
    sefl_span csr;
} enrol_request;

typedef struct enrol_answer {
    uint8_t csp[SIGN_BYTES], as[SIGN_BYTES];
    sefl_span population, certificate, ca;
} enrol_answer;

/* Signs the claim with a token; SEFL_EINVAL if the token was issued for another name. */
sefl_status enrol_prove(enrol_proof *out, const enrol_claim *c, const token *t) SEFL_MUST_CHECK;
/* SEFL_EAUTH unless the proof's signature on the claim is valid. token_check decides whether the
 * token itself is valid. */
sefl_status enrol_proof_check(const enrol_proof *p, const enrol_claim *c) SEFL_MUST_CHECK;

sefl_status enrol_request_write(sefl_buf *out, const enrol_request *r) SEFL_MUST_CHECK;
/* SEFL_EPROTO if the format is wrong. Verifies no signature. */
sefl_status enrol_request_read(enrol_request *out, sefl_span in) SEFL_MUST_CHECK;

sefl_status enrol_question_write(sefl_buf *out, const enrol_claim *c,
                                 const enrol_proof *p) SEFL_MUST_CHECK;
sefl_status enrol_question_read(enrol_claim *c, enrol_proof *p, sefl_span in) SEFL_MUST_CHECK;

/* enrol_approve signs the claim for a server; enrol_approved verifies that signature. */
sefl_status enrol_approve(uint8_t sig[SIGN_BYTES], const enrol_claim *c,
                          const sign_key *key) SEFL_MUST_CHECK;
sefl_status enrol_approved(const uint8_t sig[SIGN_BYTES], const enrol_claim *c,
                           const uint8_t pub[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;

sefl_status enrol_answer_write(sefl_buf *out, const enrol_answer *a) SEFL_MUST_CHECK;
sefl_status enrol_answer_read(enrol_answer *out, sefl_span in) SEFL_MUST_CHECK;

#endif

/* site: a client's folder, made on the client's own machine: its key and certificate, both servers'
 * public keys, client.yml and policy.yml. The private key never leaves this folder.
 *
 *     SEFL_TRY(site_enrol(&(site_config){ .folder = "site", .host = "as.example", .port = 7000,
 *                         .as_token = t1, .csp_token = t2 }, &report));
 *
 * The site asks AS to enrol it (protocol/enrol.h). It recognises AS by the TLS key in AS's token,
 * and accepts the answer only if CSP signed it with the key in CSP's token. If enrolment fails
 * halfway (CSP is not reachable, the answer is lost), a second call continues with the same key,
 * for an hour (TOKEN_REPEAT_S) after a server has used its token.
 *
 * Operators may also exchange files: site_request makes the key and a request, the operators sign
 * it (ca_sign), and site_install stores the certificate and the servers' public keys.
 *
 * Files: key.pem (0600), cert.pem, peers.pem, aggregator.pub, csp.pub, client.yml, policy.yml,
 * ledger, text/.
 * Threads: one owner.   Secrets: key.pem, the tokens. */
#ifndef ROLES_SITE_H
#define ROLES_SITE_H

#include "net/x509.h"
#include "trust/token.h"

typedef struct site_config {
    const char *folder; /* made if it is not there */
    const char *host;
    uint16_t port;
    const char *proxy; /* as of https_client.h */
    sefl_span as_token, csp_token;
} site_config;

enum { SITE_KEPT = 400 };

typedef struct site_report {
    char name[TRUST_NAME_MAX + 1];
    uint8_t key[TRUST_KEY];
    uint8_t as[SIGN_PUB_BYTES], csp[SIGN_PUB_BYTES];
    int64_t until;
    /* Warnings about files that existed before, or "": client.yml names another server; the ledger
     * belongs to another text. */
    char kept_settings[SITE_KEPT], kept_ledger[SITE_KEPT];
} site_report;

/* SEFL_EAUTH: AS or CSP refuses. SEFL_ETIMEOUT: try again later. SEFL_EEXIST: the folder has a
 * certificate already. */
sefl_status site_enrol(const site_config *c, site_report *out) SEFL_MUST_CHECK;

/* Writes key.pem and csr.pem; an existing key is used again. */
sefl_status site_request(const char *folder, const char *name) SEFL_MUST_CHECK;

typedef struct site_parts {
    const char *cert, *peers;     /* PEM files */
    const char *as_key, *csp_key; /* files of sign_pub_write */
    const char *host;
    uint16_t port;
} site_parts;

sefl_status site_install(const char *folder, const site_parts *p, site_report *out) SEFL_MUST_CHECK;

/* Fetches the newest certificate of our key from AS, after the operator has renewed it, and
 * replaces cert.pem if it is newer. *fresh: it was newer. */
sefl_status site_renew(const char *folder, const char *host, uint16_t port, const char *proxy,
                       bool *fresh, int64_t *until) SEFL_MUST_CHECK;
/* The same with a certificate (PEM file) that the operator has sent: AS does not answer a site
 * whose certificate has expired. SEFL_EAUTH if it is for another key, CA or role. */
sefl_status site_renew_from(const char *folder, const char *path, bool *fresh,
                            int64_t *until) SEFL_MUST_CHECK;

#endif

/* site: creates a client's folder on the client's own machine, with its key and certificate, both
 * servers' public keys, client.yml and policy.yml. The private key never leaves this folder.
 *
 *     SEFL_TRY(site_enrol(&(site_config){ .folder = "site", .server = { "as.example", 7000 },
 *                         .as_token = t1, .csp_token = t2 }, &report));
 *
 * The site asks AS to enrol it (protocol/enrol.h). It identifies AS by the TLS key in AS's token,
 * and accepts the answer only if the key in CSP's token signed the claim. If enrolment fails
 * halfway (CSP is unreachable, the answer is lost), a second call continues with the same key, up
 * to an hour (TOKEN_REPEAT_S) after a server accepted its token.
 *
 * Sites and operators may exchange files instead: site_request creates the key and a request, the
 * operators sign it (ca_sign), and site_install stores the certificate and the servers' public
 * keys.
 *
 * Files: key.pem (0600), cert.pem, peers.pem, aggregator.pub, csp.pub, client.yml, policy.yml,
 * ledger, text/.
 * Threads: one owner.   Secrets: key.pem, the tokens. */
#ifndef ROLES_SITE_H
#define ROLES_SITE_H

#include "config/address.h"
#include "net/x509.h"
#include "trust/token.h"

typedef struct site_config {
    const char *folder; /* created if it does not exist */
    host_port server;   /* AS */
    const char *proxy;  /* see https_client.h */
    /* site_enrol */
    sefl_span as_token, csp_token;
    /* Sends the request to AS and appends the answer; NULL: HTTPS to `server`. */
    sefl_status (*ask)(void *ctx, sefl_span request, sefl_buf *answer);
    void *ctx;
    /* site_install: PEM files and the servers' public keys. site_renew uses only cert (or NULL) */
    const char *cert, *peers, *as_key, *csp_key;
} site_config;

enum { SITE_KEPT = 400 };

typedef struct site_report {
    char name[TRUST_NAME_MAX + 1];
    uint8_t key[TRUST_KEY];
    uint8_t as[SIGN_PUB_BYTES], csp[SIGN_PUB_BYTES];
    int64_t until;
    /* Warnings about files that were kept, or "": client.yml names another server or none; the
     * ledger does not belong to this text. */
    char kept_settings[SITE_KEPT], kept_ledger[SITE_KEPT];
} site_report;

/* Enrols with both tokens. SEFL_EAUTH if AS or CSP refuses, SEFL_ETIMEOUT if the site should try
 * again later, SEFL_EEXIST if the folder already has a certificate. */
sefl_status site_enrol(const site_config *c, site_report *out) SEFL_MUST_CHECK;

/* Writes key.pem and csr.pem; keeps an existing key. */
sefl_status site_request(const char *folder, const char *name) SEFL_MUST_CHECK;

/* Installs the files that the operators sent; SEFL_EEXIST if the folder has a certificate. */
sefl_status site_install(const site_config *c, site_report *out) SEFL_MUST_CHECK;

/* Replaces cert.pem and sets *fresh if there is a newer certificate for our key. It comes from the
 * file c->cert or, if that is NULL, from AS, which does not serve a site whose certificate has
 * expired. SEFL_EAUTH if the certificate is for another key, CA or role. */
sefl_status site_renew(const site_config *c, bool *fresh) SEFL_MUST_CHECK;

#endif

/* ca: an operator's folder: its CA, its server's signing key, its trust list (trust/trust.h).
 *
 *     FOLDER/ca.pem ca.key          the CA, ECDSA P-256: of its own server; AS's also of clients
 *            sign.key sign.pub      Ed25519: tasks, headers, receipts, approvals
 *            trust                  issuers, members, tokens
 *            issued/KEY.pem         the newest certificate of each member
 *
 * `sefl ca` changes it, and so does the running server when a site enrols. Each operator has one
 * and never sees the other's, nor a site's private key.
 *
 *     SEFL_TRY(ca_new(folder, "Alpha", 3650, NULL));
 *     SEFL_TRY(ca_edit(&e, folder));
 *     SEFL_TRY(ca_server(e.t, folder, &(ca_server_config){ .role = TRUST_AGGREGATOR, ... }));
 *     SEFL_TRY(ca_token(e.t, &text, "hospital-7", now + 48 * 3600, now, &rng));
 *     SEFL_TRY(trust_edit_commit(&e));
 *
 * Functions that take a list change it in memory: the caller commits. `now`: seconds since 1970.
 * Threads: one owner of a list.   Secrets: keys on disk, 0600. */
#ifndef ROLES_CA_H
#define ROLES_CA_H

#include "base/file.h"
#include "net/x509.h"
#include "protocol/enrol.h"
#include "trust/token.h"

enum { CA_DAYS = 3650, CA_SERVER_DAYS = 365, CA_CLIENT_DAYS = 365, CA_TOKEN_HOURS = 48 };

/* Where the newest certificate of this key is. */
sefl_status ca_issued_path(char out[PATH_MAX], const char *folder,
                           const uint8_t key[TRUST_KEY]) SEFL_MUST_CHECK;
/* trust_read and trust_edit_begin of the folder's list. */
sefl_status ca_read(trust **out, const char *folder) SEFL_MUST_CHECK;
sefl_status ca_edit(trust_edit *e, const char *folder) SEFL_MUST_CHECK;

/* SEFL_EINVAL if the list belongs to another server than the one with this role and signing key:
 * the setting `ca` names another server's folder then. A list without a server yet fits every
 * server. */
sefl_status ca_list_of(const trust *t, trust_role role,
                       const uint8_t sign[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;

/* Makes the folder, which must be empty or absent; after a failure it is empty or absent again.
 * sign_key: where the signing key goes; NULL: FOLDER/sign.key. */
sefl_status ca_new(const char *folder, const char *name, unsigned days,
                   const char *sign_key) SEFL_MUST_CHECK;

typedef struct ca_server_config {
    trust_role role; /* TRUST_AGGREGATOR or TRUST_CSP */
    const char *name, *hosts;
    unsigned days;
    const char *cert, *key; /* files to make */
} ca_server_config;

/* Makes key and certificate of the operator's own server, and names it in the list. For AS, the
 * folder's CA becomes an issuer of clients, of whom only listed members are accepted; if that CA is
 * revoked, it stays revoked. */
sefl_status ca_server(trust *t, const char *folder, const ca_server_config *c,
                      int64_t now) SEFL_MUST_CHECK;
/* A new certificate for the server's key. hosts NULL: those of the current certificate. SEFL_EINVAL
 * if there are none. */
sefl_status ca_server_renew(const trust *t, const char *folder, const char *cert, const char *hosts,
                            unsigned days, sefl_buf *pem) SEFL_MUST_CHECK;

typedef struct ca_issuer_config {
    trust_role role;
    const char *unit; /* see trust.h; NULL: its certificates carry our mark */
    bool also;        /* although it is our own, or is or was trusted for another role */
} ca_issuer_config;

/* Trusts another CA for this role. SEFL_EINVAL for a certificate that is no CA's, expired or weak.
 * SEFL_EEXIST for the folder's own CA, and for one that is trusted for another role (both: unless
 * `also`). SEFL_ESTATE for one that was revoked: restore it first in this role, or give `also` if
 * it was revoked in another. A CA that is trusted already gets the new unit. The folder's own CA,
 * of which only listed members are accepted, stays so. */
sefl_status ca_trust_issuer(trust *t, const char *folder, sefl_span pem, const ca_issuer_config *c,
                            int64_t now) SEFL_MUST_CHECK;
/* Revokes or restores a CA in one role. role 0: in every role that it has; a restore of several is
 * refused (SEFL_EINVAL), since one of them may have been the mistake. SEFL_ENOTFOUND if there is
 * nothing to change. */
sefl_status ca_set_issuer(trust *t, const uint8_t key[TRUST_KEY], trust_role role, trust_state to,
                          int64_t now) SEFL_MUST_CHECK;

/* A token for one site, as text; SEFL_EEXIST if an active member has that name. */
sefl_status ca_token(trust *t, sefl_buf *text, const char *name, int64_t expires, int64_t now,
                     const sefl_rng *rng) SEFL_MUST_CHECK;

/* An open token of this name that has not expired; NULL if there is none. */
const trust_token *ca_open_token(const trust *t, const char *name, int64_t now);
/* The name of an active member, or of an open token, that differs from this one only in upper and
 * lower case: easily confused. NULL if there is none. */
const char *ca_name_alike(const trust *t, const char *name, int64_t now);

/* May this site join here with this token? SEFL_EAUTH with the reason. Changes nothing. */
sefl_status ca_check(const trust *t, const enrol_claim *c, const enrol_proof *p,
                     int64_t now) SEFL_MUST_CHECK;
/* AS: the same, and the site asks for a certificate of the key that it claims. */
sefl_status ca_check_request(const trust *t, const enrol_request *r, int64_t now) SEFL_MUST_CHECK;
/* After ca_check: marks the token as used and adds the member. until: end of its certificate; 0:
 * not issued here. */
sefl_status ca_admit(trust *t, const enrol_claim *c, const enrol_proof *p, int64_t until,
                     const uint8_t issuer[TRUST_KEY], int64_t now) SEFL_MUST_CHECK;

/* CSP: the largest number of clients in a round that began at `since` (0: unknown): all approved
 * members at any time since then. UINT64_MAX: unknown, because an organisation's CA vouches for
 * clients too, or because the list never had a client. */
uint64_t ca_most_clients(const trust *t, int64_t since);

/* AS: a whole enrolment that CSP approved: checks, admits, issues, signs; answer: enrol.h. */
sefl_status ca_enrol(trust *t, const char *folder, sefl_buf *answer, const enrol_request *r,
                     const uint8_t approval[SIGN_BYTES], const sign_key *key,
                     const char *population, unsigned days, int64_t now) SEFL_MUST_CHECK;

/* A request that the operator received by mail and knows the sender of: AS issues a certificate
 * (PEM in cert), CSP adds the member. */
sefl_status ca_sign(trust *t, const char *folder, sefl_buf *cert, const char *name,
                    sefl_span request, unsigned days, int64_t now) SEFL_MUST_CHECK;

/* A new certificate for a member's key; the old one stays valid until it ends. SEFL_ENOTFOUND. */
sefl_status ca_renew(trust *t, const char *folder, sefl_buf *pem, const uint8_t key[TRUST_KEY],
                     unsigned days) SEFL_MUST_CHECK;

/* Servers refuse a revoked key within a second and close its connections. Cancels open tokens of
 * its name. Adds a key that is not in the list (of an organisation's CA). */
sefl_status ca_revoke_key(trust *t, const uint8_t key[TRUST_KEY], int64_t now) SEFL_MUST_CHECK;
/* Undoes a revocation: the member is active again, with the certificates it had; a key that was no
 * member before leaves the list. SEFL_ENOTFOUND if it is not revoked; SEFL_EEXIST if another key
 * has the name by now. */
sefl_status ca_restore_key(trust *t, const uint8_t key[TRUST_KEY], int64_t now) SEFL_MUST_CHECK;

#endif

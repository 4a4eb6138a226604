/* ca: an operator's folder: its CA, its server's signing key, its trust list (trust/trust.h).
 *
 *     FOLDER/ca.pem ca.key          the CA: ECDSA P-256; AS's makes clients, each makes its own server
 *            sign.key sign.pub      Ed25519: tasks, headers, receipts, approvals
 *            trust                  issuers, members, tokens
 *            issued/KEY.pem         the newest certificate of each member
 *
 * `sefl ca` works on it, and so does the running server when a site enrols. Both operators have one;
 * neither ever sees the other's, nor a site's private key.
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

#include "net/x509.h"
#include "protocol/enrol.h"
#include "trust/token.h"

enum { CA_DAYS = 3650, CA_SERVER_DAYS = 365, CA_CLIENT_DAYS = 365, CA_TOKEN_HOURS = 48 };

/* FOLDER/name, as a C string in out (which is emptied first). */
sefl_status ca_path(sefl_buf *out, const char *folder, const char *name) SEFL_MUST_CHECK;
/* Where the newest certificate of this key is. */
sefl_status ca_issued_path(sefl_buf *out, const char *folder,
                           const uint8_t key[TRUST_KEY]) SEFL_MUST_CHECK;
/* trust_edit_begin of the folder's list. */
sefl_status ca_edit(trust_edit *e, const char *folder) SEFL_MUST_CHECK;

/* SEFL_EINVAL if this is the list of another server than the one with this role and signing key: the setting
 * `ca` then names another's folder. A list for which no server was made yet is anybody's. */
sefl_status ca_list_of(const trust *t, trust_role role,
                       const uint8_t sign[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;

/* Makes the folder, which must be empty or not there, and is so again if it fails. sign_key: where the
 * signing key goes; NULL: FOLDER/sign.key. */
sefl_status ca_new(const char *folder, const char *name, unsigned days,
                   const char *sign_key) SEFL_MUST_CHECK;

typedef struct ca_server_config {
    trust_role role; /* TRUST_AGGREGATOR or TRUST_CSP */
    const char *name, *hosts;
    unsigned days;
    const char *cert, *key; /* files to make */
} ca_server_config;

/* The operator's own server: a key and certificate, and the list says whose it is. For AS its own CA
 * becomes an issuer of clients, whose members are listed; revoked, it stays so. */
sefl_status ca_server(trust *t, const char *folder, const ca_server_config *c,
                      int64_t now) SEFL_MUST_CHECK;
/* A new certificate for the server's key, from the present one and for its hosts; hosts: for these
 * instead, NULL: none are given. SEFL_EINVAL if there is none either way. */
sefl_status ca_server_renew(const trust *t, const char *folder, const char *cert, const char *hosts,
                            unsigned days, sefl_buf *pem) SEFL_MUST_CHECK;

typedef struct ca_issuer_config {
    trust_role role;
    const char *unit; /* see trust.h; NULL: its certificates carry our mark */
    bool also;        /* although it is our own, or is or was trusted for another role */
} ca_issuer_config;

/* Another CA is trusted for this role. SEFL_EINVAL for what is no CA, expired or weak; SEFL_EEXIST for our
 * own, and for one that is trusted for another role (both: unless `also`); SEFL_ESTATE for one that was
 * revoked: in this role it is restored first, in another `also` says that it is meant. One that is
 * trusted already gets the new unit. Our own, where its members are listed, stays like that. */
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

/* A token of this name that can be used still; NULL if there is none. */
const trust_token *ca_open_token(const trust *t, const char *name, int64_t now);
/* The name of an active member, or of an open token, that differs from this one in capitals alone: two sites,
 * and easily taken for one. NULL if there is none. */
const char *ca_name_alike(const trust *t, const char *name, int64_t now);

/* May this site join here with this token? SEFL_EAUTH with the reason. Changes nothing. */
sefl_status ca_check(const trust *t, const enrol_claim *c, const enrol_proof *p,
                     int64_t now) SEFL_MUST_CHECK;
/* After ca_check: the token is used, the site a member. until: of its certificate, 0: none of ours. */
sefl_status ca_admit(trust *t, const enrol_claim *c, const enrol_proof *p, int64_t until,
                     const uint8_t issuer[TRUST_KEY], int64_t now) SEFL_MUST_CHECK;

/* CSP: the most clients that can be in a round that began at `since` (0: not known when): those who
 * were approved members at some time since then. UINT64_MAX: it cannot be told, since a CA of an organisation
 * vouches for clients too, or since nobody was ever approved here. */
uint64_t ca_most_clients(const trust *t, int64_t since);

/* AS: a client's certificate for the key in a request, under this name; in issued/ and, as PEM, in
 * out. until: when it ends. */
sefl_status ca_issue(const char *folder, sefl_buf *out, int64_t *until, const char *name,
                     sefl_span request, unsigned days) SEFL_MUST_CHECK;

/* AS: all of an enrolment that CSP has approved: checks, admits, issues, signs; answer: enrol.h. */
sefl_status ca_enrol(trust *t, const char *folder, sefl_buf *answer, const enrol_request *r,
                     const uint8_t approval[SIGN_BYTES], const sign_key *key,
                     const char *population, unsigned days, int64_t now) SEFL_MUST_CHECK;

/* A request mailed to the operator, who knows from whom it is: AS issues (cert gets PEM), CSP notes the
 * member. */
sefl_status ca_sign(trust *t, const char *folder, sefl_buf *cert, const char *name,
                    sefl_span request, unsigned days, int64_t now) SEFL_MUST_CHECK;

/* A new certificate for a member's key; the old one is good until it ends. SEFL_ENOTFOUND. */
sefl_status ca_renew(trust *t, const char *folder, sefl_buf *pem, const uint8_t key[TRUST_KEY],
                     unsigned days) SEFL_MUST_CHECK;

/* From the next second on it is refused, and its connections are closed; open tokens of its name are
 * cancelled. A key that is not in the list (of an organisation's CA) is put there. */
sefl_status ca_revoke_key(trust *t, const uint8_t key[TRUST_KEY], int64_t now) SEFL_MUST_CHECK;
/* Takes a revocation back: the member is one again, with the certificates it had; a key that was no member
 * before is merely not revoked any more. SEFL_ENOTFOUND if it is not revoked; SEFL_EEXIST if another
 * key has the name by now. */
sefl_status ca_restore_key(trust *t, const uint8_t key[TRUST_KEY], int64_t now) SEFL_MUST_CHECK;

#endif

/* ca: manages an operator's folder: its CA, its server's signing key, its trust list (trust.h).
 *
 *     FOLDER/ca.pem ca.key          CA (ECDSA P-256) of its server, for AS also of clients
 *            sign.key sign.pub      Ed25519: signs tasks, headers, receipts, approvals
 *            trust                  issuers, members, tokens
 *            issued/KEY.pem         the newest certificate of each member
 *
 * `sefl ca` changes the folder, and so does the running server when a site enrols. Each operator
 * has its own folder, and never sees the other's folder or a site's private key.
 *
 *     SEFL_TRY(ca_new(folder, "Alpha", 3650, NULL));
 *     SEFL_TRY(ca_edit(&e, folder));
 *     SEFL_TRY(ca_server(e.t, folder, &(ca_server_config){ .role = TRUST_AGGREGATOR, ... }));
 *     SEFL_TRY(ca_token(e.t, &text, "hospital-7", now + 48 * 3600, now, &rng));
 *     SEFL_TRY(trust_edit_commit(&e));
 *
 * Functions that take a list change it in memory; the caller commits. Times are Unix seconds.
 * Threads: a list has one owner.   Secrets: the keys on disk, in files with mode 0600. */
#ifndef ROLES_CA_H
#define ROLES_CA_H

#include "base/file.h"
#include "net/x509.h"
#include "protocol/enrol.h"
#include "trust/token.h"

enum { CA_DAYS = 3650, CA_SERVER_DAYS = 365, CA_CLIENT_DAYS = 365, CA_TOKEN_HOURS = 48 };

/* Returns the path of the newest certificate for this key. */
sefl_status ca_issued_path(char out[PATH_MAX], const char *folder,
                           const uint8_t key[TRUST_KEY]) SEFL_MUST_CHECK;
/* ca_read calls trust_read for the folder's list; ca_edit calls trust_edit_begin. */
sefl_status ca_read(trust **out, const char *folder) SEFL_MUST_CHECK;
sefl_status ca_edit(trust_edit *e, const char *folder) SEFL_MUST_CHECK;

/* SEFL_EAUTH if the list belongs to another user. A user who changes the list becomes its owner; a
 * server that runs as another user could not read the new list and would keep the old one. */
sefl_status ca_check_owner(const char *folder) SEFL_MUST_CHECK;

/* SEFL_EINVAL unless the list belongs to the server with this role and signing key, because the
 * setting `ca` must not name another server's folder. A list without a server is accepted. */
sefl_status ca_list_of(const trust *t, trust_role role,
                       const uint8_t sign[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;

/* Creates the folder, which must be empty or not exist; a failure leaves nothing behind. sign_key
 * is the path for the signing key; NULL: FOLDER/sign.key. */
sefl_status ca_new(const char *folder, const char *name, unsigned days,
                   const char *sign_key) SEFL_MUST_CHECK;

typedef struct ca_server_config {
    trust_role role; /* TRUST_AGGREGATOR or TRUST_CSP */
    const char *name, *hosts;
    unsigned days;
    const char *cert, *key; /* files to create */
} ca_server_config;

/* Creates the key and certificate of the operator's own server; the list then names the server. For
 * AS, the folder's CA becomes an issuer of clients, limited to listed members. A revoked CA stays
 * revoked. */
sefl_status ca_server(trust *t, const char *folder, const ca_server_config *c,
                      int64_t now) SEFL_MUST_CHECK;
/* Issues a new certificate for the server's key. If hosts is NULL, keeps the hosts of the current
 * certificate; SEFL_EINVAL if that names none. */
sefl_status ca_server_renew(const trust *t, const char *folder, const char *cert, const char *hosts,
                            unsigned days, sefl_buf *pem) SEFL_MUST_CHECK;

typedef struct ca_issuer_config {
    trust_role role;
    const char *unit; /* see trust.h; NULL: its certificates must have SEFL's role entry */
    bool also;        /* allows the folder's own CA, and one that has or had another role */
} ca_issuer_config;

/* Trusts another CA for this role. SEFL_EINVAL if the certificate is not a CA, has expired or is
 * weak. SEFL_EEXIST for the folder's own CA and for one that is trusted for another role (unless
 * `also` is set). SEFL_ESTATE for a revoked CA: if it was revoked in this role, restore it first;
 * if in another role, set `also`. A CA that is already trusted gets the new unit. The folder's own
 * CA stays limited to listed members. */
sefl_status ca_trust_issuer(trust *t, const char *folder, sefl_span pem, const ca_issuer_config *c,
                            int64_t now) SEFL_MUST_CHECK;
/* Revokes or restores a CA in one role, or in every role that it has if role is 0. SEFL_EINVAL if
 * that would restore several roles at once, since one of them may be unintended. SEFL_ENOTFOUND if
 * there is nothing to change. */
sefl_status ca_set_issuer(trust *t, const uint8_t key[TRUST_KEY], trust_role role, trust_state to,
                          int64_t now) SEFL_MUST_CHECK;

/* Creates and prints a token for one site; SEFL_EEXIST if an active member has that name. */
sefl_status ca_token(trust *t, sefl_buf *text, const char *name, int64_t expires, int64_t now,
                     const sefl_rng *rng) SEFL_MUST_CHECK;

/* Returns an open token for this name that has not expired, or NULL. */
const trust_token *ca_open_token(const trust *t, const char *name, int64_t now);
/* Returns the name of an active member or open token that differs from this name only in case, so
 * that people may confuse them; NULL if there is none. */
const char *ca_name_alike(const trust *t, const char *name, int64_t now);

/* SEFL_EAUTH, with the reason, unless this site may join with this token. Changes nothing. */
sefl_status ca_check(const trust *t, const enrol_claim *c, const enrol_proof *p,
                     int64_t now) SEFL_MUST_CHECK;
/* AS: calls ca_check, and checks that the certificate request has the key of the claim. */
sefl_status ca_check_request(const trust *t, const enrol_request *r, int64_t now) SEFL_MUST_CHECK;
/* Marks the token as used and adds the member; call it after ca_check. until is the expiry of the
 * member's certificate; 0: not issued here. */
sefl_status ca_admit(trust *t, const enrol_claim *c, const enrol_proof *p, int64_t until,
                     const uint8_t issuer[TRUST_KEY], int64_t now) SEFL_MUST_CHECK;

/* CSP: returns the maximum number of clients in a round that began at `since` (0: unknown): the
 * number of members approved at any time since then. Returns UINT64_MAX if the number is unknown:
 * an organisation's CA vouches for clients too, or the list has never had a client. */
uint64_t ca_most_clients(const trust *t, int64_t since);

/* AS: completes an enrolment that CSP approved, and appends the signed answer (enrol.h). */
sefl_status ca_enrol(trust *t, const char *folder, sefl_buf *answer, const enrol_request *r,
                     const uint8_t approval[SIGN_BYTES], const sign_key *key,
                     const char *population, unsigned days, int64_t now) SEFL_MUST_CHECK;

/* Signs a request whose sender the operator has verified. AS issues a certificate (PEM in cert);
 * CSP only adds the member. */
sefl_status ca_sign(trust *t, const char *folder, sefl_buf *cert, const char *name,
                    sefl_span request, unsigned days, int64_t now) SEFL_MUST_CHECK;

/* Issues a new certificate for a member's key; the old one stays valid until it expires.
 * SEFL_ENOTFOUND if no active member has this key. */
sefl_status ca_renew(trust *t, const char *folder, sefl_buf *pem, const uint8_t key[TRUST_KEY],
                     unsigned days) SEFL_MUST_CHECK;

/* Revokes a key: servers refuse it within a second and close its connections. Cancels open tokens
 * for its name. Adds a key that is not in the list (an organisation's CA issued it) as revoked. */
sefl_status ca_revoke_key(trust *t, const uint8_t key[TRUST_KEY], int64_t now) SEFL_MUST_CHECK;
/* Undoes a revocation: the member is active again, with the certificates it had; a key that was
 * never a member leaves the list. SEFL_ENOTFOUND if the key is not revoked; SEFL_EEXIST if another
 * key has the name now. */
sefl_status ca_restore_key(trust *t, const uint8_t key[TRUST_KEY], int64_t now) SEFL_MUST_CHECK;

#endif

/* allowlist: who may connect: a trust list (trust/trust.h) prepared for checking peer certificates.
 *
 *     SEFL_TRY(allowlist_new(&g, list));
 *     https_server_set_allowlist(s, g);     // applies now; closes connections it no longer allows
 *     allowlist_free(g);                    // each holder keeps it alive
 *
 * A peer passes if its chain leads to an active issuer that is trusted for the requested role, its
 * key is not revoked, and, where the issuer's members are listed, its key is a member. Each issuer
 * is tried alone, so an issuer trusted for clients vouches for no other role. Threads: immutable;
 * share freely.   Secrets: none. */
#ifndef NET_ALLOWLIST_H
#define NET_ALLOWLIST_H

#include "net/x509.h"
#include "trust/trust.h"

typedef struct allowlist allowlist;

/* SEFL_EPROTO if the list has a certificate that cannot be parsed. Holds the list. */
sefl_status allowlist_new(allowlist **out, const trust *t) SEFL_MUST_CHECK;
allowlist *allowlist_hold(const allowlist *g); /* NULL is fine */
void allowlist_free(allowlist *g);
const trust *allowlist_list(const allowlist *g);

/* Checks certificates (PEM, the leaf first) as if a peer had connected with them in this role. p
 * gets the verdict, X509_OK if they pass. It does not prove that the peer has the private key. */
void allowlist_shown(const allowlist *g, x509_peer *p, sefl_span pem, const char *role);

/* Is a peer that passed before still allowed? Checks issuer, list and date, not the chain again. A
 * peer that no allowlist judged (one that we dialled) is looked up by its key alone. False: p has
 * the verdict. */
bool allowlist_still(const allowlist *g, x509_peer *p);

#endif

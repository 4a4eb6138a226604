/* allowlist: decides which peers may connect. It is a trust list (trust/trust.h) prepared for
 * checking certificates.
 *
 *     SEFL_TRY(allowlist_new(&g, list));
 *     https_server_set_allowlist(s, g);     // applies now; closes connections it no longer allows
 *     allowlist_free(g);                    // drops one reference
 *
 * A peer passes if its chain leads to an active issuer that is trusted for the requested role, its
 * key is not revoked, and, where the issuer's members are listed, its key is a member. The check
 * tries each issuer separately, so an issuer trusted for clients cannot vouch for another role.
 * Threads: immutable, so any number may share it.   Secrets: none. */
#ifndef NET_ALLOWLIST_H
#define NET_ALLOWLIST_H

#include "net/x509.h"
#include "trust/trust.h"

typedef struct allowlist allowlist;

/* Returns SEFL_EPROTO if a certificate in the list cannot be parsed. Keeps a reference to the
 * list. */
sefl_status allowlist_new(allowlist **out, const trust *t) SEFL_MUST_CHECK;
allowlist *allowlist_hold(const allowlist *g); /* NULL is allowed */
void allowlist_free(allowlist *g);
const trust *allowlist_list(const allowlist *g);

/* Checks certificates (PEM, leaf first) as if a peer in this role had presented them. p gets the
 * verdict, X509_OK if they pass. The check does not prove that the peer has the private key. */
void allowlist_shown(const allowlist *g, x509_peer *p, sefl_span pem, const char *role);

/* True if a peer that passed before is still allowed. Checks the issuer, the list and the expiry
 * date, but not the chain. A peer that no allowlist has checked (one that we dialled) is looked up
 * by its key alone. If it returns false, p has the verdict. */
bool allowlist_still(const allowlist *g, x509_peer *p);

#endif

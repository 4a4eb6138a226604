/* allowlist: a trust list (trust/trust.h) made ready to judge the certificates of peers with.
 *
 *     SEFL_TRY(allowlist_new(&g, list));
 *     https_server_set_allowlist(s, g);          // from now on; closes whom it lets in no more
 *     allowlist_free(g);                         // holders keep it
 *
 * A peer passes if its chain leads to an issuer that is active and trusted for the role that is wanted
 * (each issuer is tried by itself: one that vouches for clients vouches for nobody else), and its key
 * is not revoked, and is a member where the issuer's members are listed.
 * Threads: never changed once made; share freely.   Secrets: none. */
#ifndef NET_ALLOWLIST_H
#define NET_ALLOWLIST_H

#include "net/x509.h"
#include "trust/trust.h"

typedef struct allowlist allowlist;

/* SEFL_EPROTO if a certificate in the list is none. The list is held. */
sefl_status allowlist_new(allowlist **out, const trust *t) SEFL_MUST_CHECK;
allowlist *allowlist_hold(const allowlist *g); /* NULL is fine */
void allowlist_free(allowlist *g);
const trust *allowlist_list(const allowlist *g);

/* Judges certificates (PEM, the peer's own first) as if a client of ours had dialled with them and this role;
 * p has the verdict, X509_OK if they pass. Nothing says that the peer has the key. */
void allowlist_shown(const allowlist *g, x509_peer *p, sefl_span pem, const char *role);

/* A peer that was let in before: is it still? Looks at issuer, list and date, not at the chain again.
 * A peer whose issuer no allowlist judged (we dialled it) is looked up by its key alone. False: p has the
 * verdict. */
bool allowlist_still(const allowlist *g, x509_peer *p);

#endif

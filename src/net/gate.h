/* gate: a trust list (trust/trust.h) made ready to judge the certificates of peers with.
 *
 *     SEFL_TRY(gate_new(&g, list));
 *     https_server_set_gate(s, g);          // from now on; closes whom it lets in no more
 *     gate_free(g);                         // holders keep it
 *
 * A peer passes if its chain leads to an issuer that is active and trusted for the role that is wanted
 * (each issuer is tried by itself: one that vouches for clients vouches for nobody else), and its key
 * is not revoked, and is a member where the issuer's members are listed.
 * Threads: never changed once made; share freely.   Secrets: none. */
#ifndef NET_GATE_H
#define NET_GATE_H

#include "net/x509.h"
#include "trust/trust.h"

typedef struct gate gate;

/* SEFL_EPROTO if a certificate in the list is none. The list is held. */
sefl_status gate_new(gate **out, const trust *t) SEFL_MUST_CHECK;
gate *gate_hold(const gate *g); /* NULL is fine */
void gate_free(gate *g);
const trust *gate_list(const gate *g);

/* Judges certificates (PEM, the peer's own first) as if a client of ours had dialled with them and this role;
 * p has the verdict, X509_OK if they pass. Nothing says that the peer has the key. */
void gate_shown(const gate *g, x509_peer *p, sefl_span pem, const char *role);

/* A peer that was let in before: is it still? Looks at issuer, list and date, not at the chain again.
 * A peer whose issuer no gate judged (we dialled it) is looked up by its key alone. False: p has the
 * verdict. */
bool gate_still(const gate *g, x509_peer *p);

#endif

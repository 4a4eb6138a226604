/* tls_inside: what the modules of net share about TLS; other layers do not include it. */
#ifndef NET_TLS_INSIDE_H
#define NET_TLS_INSIDE_H

#include "base/buf.h"
#include "net/allowlist.h"
#include "net/tls.h"

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>

/* TLS 1.3 alone; AES-128-GCM first: with AES-NI it is the fastest, and 128 bits are the level of
 * everything else here. The server's order counts. */
#define TLS_PRIORITY                                                                 \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:"        \
    "+CHACHA20-POLY1305:-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:" \
    "%SERVER_PRECEDENCE"

enum { X509_CHAIN_MAX = 8, X509_PEM_MAX = 1 << 20 };

/* What is wanted of a peer. */
typedef struct x509_want {
    const char *role;           /* NULL: any */
    const uint8_t *fingerprint; /* NULL: any */
    const char *host;           /* NULL: not looked at */
    bool server;                /* the peer is the server: server authentication */
    bool pin_only;              /* the fingerprint is all that vouches for it: no chain */
    const allowlist *allowlist; /* whose issuers and members count, instead of `cas`; NULL: none */
} x509_want;

/* Judges the chain that the peer of a session has shown; fills p in any case. */
void x509_check_session(x509_peer *p, gnutls_session_t s, gnutls_x509_trust_list_t cas,
                        const x509_want *want);
/* The same for DER certificates, leaf first. */
void x509_check_chain(x509_peer *p, const gnutls_datum_t *der, unsigned n,
                      gnutls_x509_trust_list_t cas, const x509_want *want);
/* The same for a PEM text. */
void x509_check_pem(x509_peer *p, sefl_span pem, gnutls_x509_trust_list_t cas,
                    const x509_want *want);
/* Name, role and fingerprint of a certificate, as a peer of verdict X509_OK. */
sefl_status x509_describe(x509_peer *p, gnutls_x509_crt_t crt) SEFL_MUST_CHECK;

/* A verdict with its sentence, which begins with the certificate's name if there is one. */
void x509_judge(x509_peer *p, x509_verdict_code code, const char *fmt, ...) SEFL_PRINTF(3, 4);
/* The chain up to a CA of this list, with dates; else a verdict. */
bool x509_chain_good(x509_peer *p, gnutls_x509_crt_t *crt, unsigned n,
                     gnutls_x509_trust_list_t cas);
/* Is this (printable ASCII) one of the organisational units of the subject, character for
 * character? */
bool x509_has_unit(gnutls_x509_crt_t crt, const char *unit);
/* The chain up to an issuer that the allowlist trusts for this role (NULL: any); maps the role
 * where the issuer has a unit; then the list of members. False: a verdict is in p. */
bool allowlist_chain(const allowlist *g, x509_peer *p, gnutls_x509_crt_t *crt, unsigned n,
                     const char *role);
bool allowlist_member(const allowlist *g, x509_peer *p);
/* Is a key or signature below what is taken? */
bool x509_key_weak(int algorithm, unsigned bits);
/* Would checking one signature of this key take more than some milliseconds? Its sizes. */
bool x509_key_dear(gnutls_pubkey_t key, unsigned *bits, unsigned *exponent);
/* The same for the certificate that the peer has shown, before GnuTLS checks its signature with it
 * (a hook before GNUTLS_HANDSHAKE_CERTIFICATE_VERIFY). False: end the handshake; p has the
 * verdict. */
bool x509_shown_affordable(x509_peer *p, gnutls_session_t s);

/* The first certificate in a PEM text; SEFL_EPROTO. The caller frees *out, which is NULL before,
 * also after a failure. */
sefl_status x509_crt_read(gnutls_x509_crt_t *out, sefl_span pem) SEFL_MUST_CHECK;
/* The same for a private key in a PEM file; a failure names the file. */
sefl_status x509_privkey_read(gnutls_x509_privkey_t *out, const char *path) SEFL_MUST_CHECK;
/* A new ECDSA P-256 key (gnutls_x509_privkey_deinit), and its PKCS #8 PEM, appended: secret, so the
 * buffer is one that wipes. */
sefl_status x509_key_new(gnutls_x509_privkey_t *key, sefl_buf *pem) SEFL_MUST_CHECK;

/* A span as GnuTLS takes it; it does not write. */
#define TLS_DATUM(span) \
    ((gnutls_datum_t){ .data = (unsigned char *)(uintptr_t)(span).p, .size = (unsigned)(span).n })

/* A step of GnuTLS inside a function with `done`; GNUTLS_READ: of bytes that others made, where a
 * failure is `code`. What GnuTLS frees may be NULL. GNUTLS_PASS and GNUTLS_NEED are the same in a
 * function that owns nothing (base/status.h). */
#define GNUTLS_READ(code, call, what)           \
    do {                                        \
        int rc_ = (call);                       \
        if (rc_ < 0) {                          \
            st = tls_fail((code), rc_, (what)); \
            goto done;                          \
        }                                       \
    } while (0)
#define GNUTLS_TRY(call, what) GNUTLS_READ(SEFL_ECRYPTO, call, what)
#define GNUTLS_NEED(code, call, what)             \
    do {                                          \
        int rc_ = (call);                         \
        if (rc_ < 0)                              \
            return tls_fail((code), rc_, (what)); \
    } while (0)
#define GNUTLS_PASS(call, what) GNUTLS_NEED(SEFL_ECRYPTO, call, what)

/* A numeric address as bytes: 4 or 16; 0 for what is none. */
unsigned x509_address(uint8_t out[16], const char *host);

/* Appends what GnuTLS made, and frees it. */
sefl_status tls_put_datum(sefl_buf *out, gnutls_datum_t *d) SEFL_MUST_CHECK;

/* SEFL_ENOMEM, or `code` with "what: GnuTLS' words". rc < 0. */
sefl_status tls_fail(sefl_status code, int rc, const char *what);

struct tls_id {
    _Atomic unsigned holders;
    char *cert_path, *key_path, *ca_path;
    gnutls_certificate_credentials_t cred; /* our certificate, for GnuTLS' own choice */
    gnutls_x509_trust_list_t trust;
    gnutls_priority_t priority;
    gnutls_pcert_st chain[X509_CHAIN_MAX]; /* the same certificate, for a retrieve function */
    unsigned chain_n;
    gnutls_privkey_t key;
    x509_peer self;
};

/* One more holder; each calls tls_id_free. */
tls_id *tls_id_hold(const tls_id *id);

/* ---- handshakes: tls.c and handshakes.c ---- */

enum { TLS_CONNECT_MS = 10000, TLS_IDLE_MS = 120000 }; /* where tls_limits has 0 */

/* A stream before its handshake; takes fd. lim: NULL or zeros as in tls.h. host: the server's name;
 * NULL where we are the server. What `want` points to must live until the handshake is over or
 * another one is set. */
sefl_status tls_wrap(tls **out, int fd, bool server, const char *host, const tls_id *id,
                     const tls_peer *want, const tls_limits *lim) SEFL_MUST_CHECK;
void tls_want(tls *t, const tls_peer *want);
/* One step. *done: it is over, and the peer is who it should be. */
sefl_status tls_shake(tls *t, bool *done) SEFL_MUST_CHECK;
short tls_shake_events(const tls *t); /* what the next step waits for */
int tls_fd(const tls *t);
/* After SEFL_EAUTH: tells want->refused, unless it is the peer who refuses us. */
void tls_tell_refused(const tls *t, const tls_peer *want);

#endif

/* tls_inside: TLS internals that the modules of net/ share. */
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

/* TLS 1.3 only. AES-128-GCM comes first: it is the fastest with AES-NI, and the default key
 * exchange and signatures also offer 128-bit security. The server's order decides. */
#define TLS_PRIORITY                                                                 \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:"        \
    "+CHACHA20-POLY1305:-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:" \
    "%SERVER_PRECEDENCE"

enum { X509_CHAIN_MAX = 8, X509_PEM_MAX = 1 << 20 };

/* The requirements on a peer's certificate. */
typedef struct x509_want {
    const char *role;           /* NULL: any */
    const uint8_t *fingerprint; /* NULL: any */
    const char *host;           /* NULL: not checked */
    bool server;                /* the peer is the server: requires server authentication */
    bool pin_only;              /* only the fingerprint authenticates it; no chain is checked */
    const allowlist *allowlist; /* its issuers and members replace `cas`; NULL: `cas` applies */
    bool any_date;              /* without an allowlist: the dates do not matter */
} x509_want;

/* Verifies the chain that a session's peer presented; always fills p. */
void x509_check_session(x509_peer *p, gnutls_session_t s, gnutls_x509_trust_list_t cas,
                        const x509_want *want);
/* Verifies DER certificates, leaf first. */
void x509_check_chain(x509_peer *p, const gnutls_datum_t *der, unsigned n,
                      gnutls_x509_trust_list_t cas, const x509_want *want);
/* Verifies certificates in PEM. */
void x509_check_pem(x509_peer *p, sefl_span pem, gnutls_x509_trust_list_t cas,
                    const x509_want *want);
/* Fills p with a certificate's name, role, fingerprint and expiry; the verdict is X509_OK. */
sefl_status x509_describe(x509_peer *p, gnutls_x509_crt_t crt) SEFL_MUST_CHECK;

/* Sets a verdict and its message, which begins with the certificate's name if there is one. Returns
 * false: `return x509_judge(...)`. */
bool x509_judge(x509_peer *p, x509_verdict_code code, const char *fmt, ...) SEFL_PRINTF(3, 4);
/* Verifies the chain up to a CA in `cas`, and the dates. If it returns false, p has the verdict. */
bool x509_chain_good(x509_peer *p, gnutls_x509_crt_t *crt, unsigned n,
                     gnutls_x509_trust_list_t cas);
/* True if the subject has exactly this organisational unit (printable ASCII). */
bool x509_has_unit(gnutls_x509_crt_t crt, const char *unit);
/* allowlist_chain verifies the chain up to an issuer that the allowlist trusts for this role (NULL:
 * any) and, if the issuer has a unit, derives the role from it. allowlist_member checks the issuer
 * and the member. If one returns false, p has the verdict. */
bool allowlist_chain(const allowlist *g, x509_peer *p, gnutls_x509_crt_t *crt, unsigned n,
                     const char *role);
bool allowlist_member(const allowlist *g, x509_peer *p);
/* True if a key is too weak to be accepted. */
bool x509_key_weak(int algorithm, unsigned bits);
/* True if verifying one signature with this key would take more than a few milliseconds. Sets *bits
 * and *exponent to the sizes of the key. */
bool x509_key_dear(gnutls_pubkey_t key, unsigned *bits, unsigned *exponent);
/* Applies x509_key_dear to the certificate that the peer presented, before GnuTLS verifies a
 * signature with it (a hook before GNUTLS_HANDSHAKE_CERTIFICATE_VERIFY). If it returns false, end
 * the handshake; p has the verdict. */
bool x509_shown_affordable(x509_peer *p, gnutls_session_t s);

/* Reads the first certificate in PEM; SEFL_EPROTO if there is none. *out must be NULL before the
 * call; the caller frees it, even after a failure. */
sefl_status x509_crt_read(gnutls_x509_crt_t *out, sefl_span pem) SEFL_MUST_CHECK;
/* Reads a private key from a PEM file; the error names the file. *out: see x509_crt_read. */
sefl_status x509_privkey_read(gnutls_x509_privkey_t *out, const char *path) SEFL_MUST_CHECK;
/* Generates an ECDSA P-256 key (freed with gnutls_x509_privkey_deinit) and appends its PKCS #8 PEM,
 * which is secret: sefl_buf wipes it. */
sefl_status x509_key_new(gnutls_x509_privkey_t *key, sefl_buf *pem) SEFL_MUST_CHECK;

/* Converts a span to a datum that GnuTLS only reads. */
#define TLS_DATUM(span) \
    ((gnutls_datum_t){ .data = (unsigned char *)(uintptr_t)(span).p, .size = (unsigned)(span).n })

/* GNUTLS_TRY makes a GnuTLS call and jumps to `done` if it fails; GNUTLS_READ does so with the
 * status `code`, for a call that parses foreign bytes. GnuTLS's deinit functions accept NULL. In a
 * function that owns nothing, GNUTLS_PASS and GNUTLS_NEED return instead (base/status.h). */
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

/* Parses a numeric address and returns its length, 4 or 16; 0 if host is not one. */
unsigned x509_address(uint8_t out[16], const char *host);

/* Appends bytes that GnuTLS allocated, and frees them. */
sefl_status tls_put_datum(sefl_buf *out, gnutls_datum_t *d) SEFL_MUST_CHECK;

/* Returns SEFL_ENOMEM, or `code` with the message "what: GnuTLS's message". Requires rc < 0. */
sefl_status tls_fail(sefl_status code, int rc, const char *what);

struct tls_id {
    _Atomic unsigned holders;
    char *cert_path, *key_path, *ca_path;
    gnutls_certificate_credentials_t cred; /* our certificate, if GnuTLS itself selects it */
    gnutls_x509_trust_list_t trust;
    gnutls_priority_t priority;
    gnutls_pcert_st chain[X509_CHAIN_MAX]; /* our certificate, for a callback that selects it */
    unsigned chain_n;
    gnutls_privkey_t key;
    x509_peer self;
};

/* Adds a reference; tls_id_free drops it. */
tls_id *tls_id_hold(const tls_id *id);

/* ---- handshakes: tls.c and handshakes.c ---- */

enum { TLS_CONNECT_MS = 10000, TLS_IDLE_MS = 120000 }; /* defaults of tls_limits */

/* Creates a stream before its handshake; takes ownership of fd, even if it fails. lim may be NULL;
 * a limit of 0 means the default. host is the server's name, or NULL if we are the server.
 * `want` and its pointers must live until the handshake is over or tls_want replaces them. */
sefl_status tls_wrap(tls **out, int fd, bool server, const char *host, const tls_id *id,
                     const tls_peer *want, const tls_limits *lim) SEFL_MUST_CHECK;
void tls_want(tls *t, const tls_peer *want);
/* Runs one step of the handshake. Sets *done when it is complete and the peer is accepted. */
sefl_status tls_shake(tls *t, bool *done) SEFL_MUST_CHECK;
short tls_shake_events(const tls *t); /* poll events that the next step waits for */
int tls_fd(const tls *t);
/* After SEFL_EAUTH: calls want->refused, unless the peer refused us. */
void tls_tell_refused(const tls *t, const tls_peer *want);

#endif

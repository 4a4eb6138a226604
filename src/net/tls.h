/* tls: identities and mutual TLS 1.3 (GnuTLS), and the stream between AS and CSP as a channel.
 *
 *     SEFL_TRY(tls_id_read(&id, "cert.pem", "key.pem", "peers-ca.pem"));
 *     SEFL_TRY(tls_listen(&fd, "127.0.0.1", 7001, &port));
 *     SEFL_TRY(tls_accept(&t, fd, id, &(tls_peer){ .role = "aggregator" }, timeouts));
 *     SEFL_TRY(tls_dial(&t, "csp.example", 7001, id, &(tls_peer){ .role = "csp" }, timeouts));
 *     channel *ch = tls_channel(t);                       // promises of mpc/channel.h
 *
 * Only TLS 1.3; ECDSA P-256 (or better) certificates; both sides verify chain, dates, key usage and
 * role: the role is an organisational-unit entry of the subject, "sefl aggregator", "sefl csp",
 * "sefl client". The dialled host must be in the certificate. No session resumption. Every wait
 * ends (SEFL_ETIMEOUT). IPv4 and IPv6.
 * Threads: an id may be shared; a stream has one owner.   Secrets: keys; wiped by GnuTLS. */
#ifndef NET_TLS_H
#define NET_TLS_H

#include "base/span.h"
#include "mpc/channel.h"

#include <stdint.h>

typedef struct tls_id tls_id;
typedef struct tls tls;

typedef struct tls_peer {
    const char *role;           /* "aggregator", "csp", "client" */
    const uint8_t *fingerprint; /* 32 bytes, SHA-256 of its SPKI; NULL: any of that role */
} tls_peer;

typedef struct tls_limits {
    unsigned connect_ms, idle_ms; /* 0: 10 s, 120 s */
} tls_limits;

sefl_status tls_id_read(tls_id **out, const char *cert, const char *key,
                        const char *peers_ca) SEFL_MUST_CHECK;
void tls_id_free(tls_id *id);
const uint8_t *tls_id_fingerprint(const tls_id *id); /* 32 bytes, of our own key */
const char *tls_id_name(const tls_id *id);           /* common name */
/* Paths, for libcurl and libmicrohttpd. */
const char *tls_id_cert_path(const tls_id *id);
const char *tls_id_key_path(const tls_id *id);
const char *tls_id_ca_path(const tls_id *id);

sefl_status tls_listen(int *fd, const char *address, uint16_t port,
                       uint16_t *bound) SEFL_MUST_CHECK;
/* SEFL_ETIMEOUT if nobody comes in wait_ms. A peer that is refused is SEFL_EAUTH with the reason. */
sefl_status tls_accept(tls **out, int fd, const tls_id *id, const tls_peer *want, unsigned wait_ms,
                       const tls_limits *lim) SEFL_MUST_CHECK;
sefl_status tls_dial(tls **out, const char *host, uint16_t port, const tls_id *id,
                     const tls_peer *want, const tls_limits *lim) SEFL_MUST_CHECK;
channel *tls_channel(tls *t);
const uint8_t *tls_peer_fingerprint(const tls *t);
const char *tls_peer_name(const tls *t);
/* Ends a wait of the owner from another thread: its call fails with SEFL_ECLOSED. */
void tls_interrupt(tls *t);
void tls_close(tls *t);

/* ---- certificates ------------------------------------------------------------------------ */

typedef struct x509_subject {
    const char *name;  /* common name, 1 to 64 printable characters */
    const char *role;  /* NULL: a CA */
    const char *hosts; /* names and addresses for the SAN, separated by commas; NULL: none */
    unsigned days;
} x509_subject;

/* A new ECDSA P-256 key and a certificate: signed by the CA given, or by itself (a CA). Keys are
 * written with mode 0600, nothing is replaced. */
sefl_status x509_make(const char *cert_path, const char *key_path, const x509_subject *s,
                      const char *ca_cert, const char *ca_key) SEFL_MUST_CHECK;

typedef enum x509_verdict_code {
    X509_OK,
    X509_NONE,
    X509_UNKNOWN_ISSUER,
    X509_EXPIRED,
    X509_NOT_YET,
    X509_WEAK,
    X509_WRONG_ROLE,
    X509_MALFORMED
} x509_verdict_code;

typedef struct x509_peer {
    x509_verdict_code code;
    uint8_t fingerprint[32]; /* SPKI */
    char name[65], role[17];
} x509_peer;

const char *x509_verdict_text(x509_verdict_code c);

#endif

/* x509: issues the certificates of a federation and verifies those that peers present.
 *
 *     SEFL_TRY(x509_make("ca.pem", "ca.key", &(x509_subject){ .name = "AS CA", .days = 3650 },
 *                        NULL, NULL));
 *     SEFL_TRY(x509_make("cert.pem", "key.pem",
 *                        &(x509_subject){ .name = "client-01", .role = "client", .days = 365 },
 *                        "ca.pem", "ca.key"));
 *
 * A certificate has one role: the entry "sefl aggregator", "sefl csp" or "sefl client" among the
 * organisational units of its subject. x509_make uses ECDSA P-256 keys and SHA-256. Certificates
 * from an organisation's own CA are accepted too if they have that entry and the right purpose
 * (client or server authentication). They must be strong: RSA keys of 2048 to 8192 bits, curves of
 * at least 256 bits, SHA-256 or better in every signature below the trusted CA.
 *
 * A site generates its own key and a request (x509_request_*). The CA issues a certificate for the
 * key in the request, or for the key of an earlier certificate (x509_issue), and ignores the
 * subject in the request.
 *
 * The identity of a peer is the SHA-256 of its public key (SubjectPublicKeyInfo): a renewed
 * certificate with the same key is the same peer.
 * Threads: any.   Secrets: private keys; GnuTLS draws them from the system's generator. */
#ifndef NET_X509_H
#define NET_X509_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct x509_subject {
    const char *name;  /* common name, 1 to 64 printable characters */
    const char *role;  /* NULL: a CA */
    const char *hosts; /* SAN: names and addresses, separated by commas; NULL: no SAN */
    unsigned days;     /* lifetime; a certificate never outlives its CA */
    int64_t from;      /* start of validity, seconds since 1970; 0: one hour ago (clocks differ) */
} x509_subject;

/* Generates an ECDSA P-256 key and issues its certificate, signed by the given CA or, if ca_cert is
 * NULL, self-signed (a CA). The key file has mode 0600; existing files are kept (SEFL_EEXIST). */
sefl_status x509_make(const char *cert_path, const char *key_path, const x509_subject *s,
                      const char *ca_cert, const char *ca_key) SEFL_MUST_CHECK;

enum { X509_REQUEST_MAX = 4096, X509_CERT_MAX = 16 << 10 };

/* Generates an ECDSA P-256 key in key_path (0600, never replaced) and appends a certificate request
 * for it (PKCS #10, DER) to der. */
sefl_status x509_request_make(sefl_buf *der, const char *key_path,
                              const char *name) SEFL_MUST_CHECK;
/* Appends a certificate request for an existing key. */
sefl_status x509_request_for(sefl_buf *der, const char *key_path, const char *name) SEFL_MUST_CHECK;
/* Reads the fingerprint of the key in a request. SEFL_EPROTO if the bytes are not a request,
 * SEFL_EAUTH if the key is weak or too large, or did not sign the request. */
sefl_status x509_request_read(uint8_t fingerprint[32], sefl_span der) SEFL_MUST_CHECK;
/* Convert a request to PEM and back. */
sefl_status x509_request_pem(sefl_buf *out, sefl_span der) SEFL_MUST_CHECK;
sefl_status x509_request_from_pem(sefl_buf *der, sefl_span pem) SEFL_MUST_CHECK;

/* Issues a certificate (PEM, appended to out) for the key in a request or in an earlier
 * certificate; the caller leaves one of the two empty. */
sefl_status x509_issue(sefl_buf *out, const x509_subject *s, sefl_span request,
                       sefl_span earlier_pem, const char *ca_cert,
                       const char *ca_key) SEFL_MUST_CHECK;

/* The contents of a certificate. */
typedef struct x509_info {
    uint8_t fingerprint[32];
    char name[65], role[17];
    int64_t from, until;
    bool is_ca;
    bool weak; /* its key is too weak to be accepted from a peer */
} x509_info;

/* Reads the first certificate in PEM and appends its DER bytes to der (may be NULL). Verifies
 * nothing. */
sefl_status x509_info_read(x509_info *out, sefl_span pem, sefl_buf *der) SEFL_MUST_CHECK;
/* Appends a file's bytes to pem and reads the first certificate in them; the error names the
 * file. */
sefl_status x509_info_file(x509_info *out, sefl_buf *pem, const char *path) SEFL_MUST_CHECK;

/* Returns the number of certificates in PEM; 0 if the bytes are anything else. */
unsigned x509_count(sefl_span pem);

/* Appends to out the hosts (x509_subject) that the first certificate in PEM names, if any. */
sefl_status x509_hosts_read(sefl_buf *out, sefl_span pem) SEFL_MUST_CHECK;

/* SEFL_EAUTH unless this CA issued this certificate and neither has expired. */
sefl_status x509_issued_by(sefl_span cert_pem, sefl_span ca_pem) SEFL_MUST_CHECK;

/* Appends the public key (SubjectPublicKeyInfo, DER) of the first certificate in PEM; its SHA-256
 * is the fingerprint. */
sefl_status x509_spki_read(sefl_buf *out, sefl_span pem) SEFL_MUST_CHECK;

/* Signs bytes with a certificate's private key and appends the signature: ECDSA or RSA (PKCS #1
 * v1.5; PSS for a PSS-only key) with SHA-256, Ed25519 or Ed448. SEFL_EAUTH for a key that no peer
 * would accept. */
sefl_status x509_sign(sefl_buf *sig, const char *key_path, sefl_span bytes) SEFL_MUST_CHECK;
/* SEFL_EAUTH unless the signature is valid under this public key, which must be neither weak nor
 * too large. */
sefl_status x509_verify(sefl_span spki, sefl_span bytes, sefl_span sig) SEFL_MUST_CHECK;

typedef enum x509_verdict_code {
    X509_OK,
    X509_NONE,
    X509_UNKNOWN_ISSUER,
    X509_EXPIRED,
    X509_NOT_YET,
    X509_WEAK,
    X509_WRONG_ROLE,
    X509_MALFORMED,
    X509_WRONG_USE,  /* not for client (or server) authentication */
    X509_WRONG_HOST, /* does not name the host that we dialled */
    X509_WRONG_KEY,  /* not the pinned key */
    X509_WITHDRAWN,  /* the certificate or its issuer was revoked */
    X509_NOT_LISTED, /* its CA's members are listed, and this peer is not one of them */
    X509_VERDICTS
} x509_verdict_code;

typedef struct x509_peer {
    x509_verdict_code code;
    uint8_t fingerprint[32]; /* SHA-256 of its SPKI; zeros if it presented no certificate */
    uint8_t issuer[32]; /* the trusted CA's key, set by an allowlist (net/allowlist.h); or zeros */
    bool listed;        /* a member of that allowlist; else only its issuer vouches for it */
    int64_t until;      /* when the certificate expires, seconds since 1970 */
    char name[65], role[17]; /* common name; role without "sefl "; printable */
    char why[160];           /* message for the log; never for the peer */
} x509_peer;

/* Returns one to three words for a counter's name, such as "expired". Never NULL. */
const char *x509_verdict_text(x509_verdict_code c);

#endif

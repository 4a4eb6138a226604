/* x509: certificates: made for a federation, and judged when a peer shows one.
 *
 *     SEFL_TRY(x509_make("ca.pem", "ca.key", &(x509_subject){ .name = "AS CA", .days = 3650 },
 *                        NULL, NULL));
 *     SEFL_TRY(x509_make("cert.pem", "key.pem",
 *                        &(x509_subject){ .name = "client-01", .role = "client", .days = 365 },
 *                        "ca.pem", "ca.key"));
 *
 * A certificate speaks for one role: the entry "sefl aggregator", "sefl csp" or "sefl client" among
 * the organisational units of its subject. What x509_make writes has ECDSA P-256 keys and SHA-256;
 * certificates of an organisation's own CA are taken too if they carry that entry, the purpose
 * (client or server authentication) and nothing weak: RSA from 2048 to 8192 bits, curves from 256
 * bits, SHA-256 or better in every signature below the trusted CA.
 *
 * A site makes its own key and a request (x509_request_*). The CA issues a certificate for the key
 * in the request, or for the key of an earlier certificate (x509_issue), and ignores the subject
 * that the request names.
 *
 * The identity of a peer is the SHA-256 of its public key (SubjectPublicKeyInfo): a renewed
 * certificate with the same key is the same peer.
 * Threads: any.   Secrets: private keys; drawn by GnuTLS from the system's generator. */
#ifndef NET_X509_H
#define NET_X509_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct x509_subject {
    const char *name;  /* common name, 1 to 64 printable characters */
    const char *role;  /* NULL: a CA */
    const char *hosts; /* for the SAN: names and addresses with commas between; NULL: no SAN */
    unsigned days;     /* until it expires; never beyond its CA */
    int64_t from;      /* valid from, seconds since 1970; 0: one hour ago (clocks differ) */
} x509_subject;

/* A new ECDSA P-256 key and a certificate: signed by the CA given, or by itself (a CA). Keys are
 * written with mode 0600, nothing is replaced (SEFL_EEXIST). */
sefl_status x509_make(const char *cert_path, const char *key_path, const x509_subject *s,
                      const char *ca_cert, const char *ca_key) SEFL_MUST_CHECK;

enum { X509_REQUEST_MAX = 4096, X509_CERT_MAX = 16 << 10 };

/* A new ECDSA P-256 key in key_path (0600, never replaced), and a certificate request for it (PKCS
 * #10, DER), appended to der. */
sefl_status x509_request_make(sefl_buf *der, const char *key_path,
                              const char *name) SEFL_MUST_CHECK;
/* The same request for a key that is there already. */
sefl_status x509_request_for(sefl_buf *der, const char *key_path, const char *name) SEFL_MUST_CHECK;
/* The fingerprint of the key that asks. SEFL_EPROTO for what is no request, SEFL_EAUTH if it is not
 * signed by that key or the key is weak. */
sefl_status x509_request_read(uint8_t fingerprint[32], sefl_span der) SEFL_MUST_CHECK;
/* PEM of a request, and back. */
sefl_status x509_request_pem(sefl_buf *out, sefl_span der) SEFL_MUST_CHECK;
sefl_status x509_request_from_pem(sefl_buf *der, sefl_span pem) SEFL_MUST_CHECK;

/* A certificate (PEM, appended to out) for the key of a request or of an earlier certificate: one
 * of the two is empty. */
sefl_status x509_issue(sefl_buf *out, const x509_subject *s, sefl_span request,
                       sefl_span earlier_pem, const char *ca_cert,
                       const char *ca_key) SEFL_MUST_CHECK;

/* The contents of a certificate. */
typedef struct x509_info {
    uint8_t fingerprint[32];
    char name[65], role[17];
    int64_t from, until;
    bool is_ca;
    bool weak; /* its key is weaker than what we accept from a peer */
} x509_info;

/* Of the first certificate in a PEM text; der (may be NULL): its bytes, appended. Nothing is
 * verified. */
sefl_status x509_info_read(x509_info *out, sefl_span pem, sefl_buf *der) SEFL_MUST_CHECK;
/* The same of a file, whose bytes are appended to pem; a failure names the file. */
sefl_status x509_info_file(x509_info *out, sefl_buf *pem, const char *path) SEFL_MUST_CHECK;

/* How many certificates a PEM text has; 0 for other text. */
unsigned x509_count(sefl_span pem);

/* The hosts (x509_subject) that the first certificate in a PEM text is for, appended to out;
 * nothing for one that names none. */
sefl_status x509_hosts_read(sefl_buf *out, sefl_span pem) SEFL_MUST_CHECK;

/* SEFL_EAUTH unless this CA issued this certificate and neither has expired. */
sefl_status x509_issued_by(sefl_span cert_pem, sefl_span ca_pem) SEFL_MUST_CHECK;

/* The public key (SubjectPublicKeyInfo, DER) of the first certificate in a PEM text, appended: its
 * SHA-256 is the fingerprint. */
sefl_status x509_spki_read(sefl_buf *out, sefl_span pem) SEFL_MUST_CHECK;

/* A certificate's private key, of whatever kind, signs these bytes; the signature is appended.
 * ECDSA and RSA (PKCS #1 v1.5; PSS for a key that is for PSS alone) with SHA-256, Ed25519, Ed448.
 * SEFL_EAUTH for a key that no peer would accept. */
sefl_status x509_sign(sefl_buf *sig, const char *key_path, sefl_span bytes) SEFL_MUST_CHECK;
/* SEFL_EAUTH unless this public key made this signature and is neither weak nor too large. */
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
    X509_WRONG_HOST, /* we dialled another name */
    X509_WRONG_KEY,  /* not the pinned one */
    X509_WITHDRAWN,  /* the certificate or its issuer was revoked */
    X509_NOT_LISTED, /* its CA's members are listed, and it is not among them */
    X509_VERDICTS
} x509_verdict_code;

typedef struct x509_peer {
    x509_verdict_code code;
    uint8_t fingerprint[32]; /* SHA-256 of its SPKI; zero if it shows no certificate */
    uint8_t
        issuer[32]; /* key of the trusted CA if an allowlist judged (net/allowlist.h), or zero */
    bool listed;    /* a member on that allowlist; else only its issuer vouches for it */
    int64_t until;  /* when the certificate expires, seconds since 1970 */
    char name[65], role[17]; /* common name; role without "sefl "; printable */
    char why[160];           /* the sentence for the log; never for the peer */
} x509_peer;

/* "expired": one word or two for a counter's name. Never NULL. */
const char *x509_verdict_text(x509_verdict_code c);

#endif

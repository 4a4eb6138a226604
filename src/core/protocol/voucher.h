/* voucher: a client's statement that it owns an upload key, signed with its certificate's key.
 *
 *     "SFV1" | client 32 | upload key 32 | AS's signing key 32 | CSP's signing key 32 | serial u64
 *     | u16 n, SPKI | u16 n, signature | u32 n, chain
 *
 *     client      SHA-256 of SPKI
 *     SPKI        the certificate's public key, DER, of any type
 *     signature   by that key (net/x509.h: x509_sign), over "sefl voucher 1\n" and all bytes before
 *                 the signature's length
 *     chain       the certificate and the intermediates up to its CA, PEM; may be empty
 *                 for a client whose key is in CSP's own list
 *
 * A client then signs its uploads with the upload key (Ed25519, 49 us per verification) instead of
 * the certificate's key. A server accepts a voucher if it names both servers, its SPKI belongs to a
 * member, its signature is valid, its serial exceeds the client's last one, and no other client has
 * that upload key. This module reads and writes the bytes; roles/vouch.h, which may use net/,
 * verifies the signature.
 *
 *     SEFL_TRY(voucher_read(&v, in));               // spans point into `in`
 *     SEFL_TRY(voucher_to_sign(&buf, &v));          // the input of x509_sign and x509_verify
 *
 * Threads: any.   Secrets: none. */
#ifndef PROTOCOL_VOUCHER_H
#define PROTOCOL_VOUCHER_H

#include "base/buf.h"
#include "protocol/signed.h"

enum {
    VOUCHER_MAX = 32 << 10,
    VOUCHER_SPKI_MAX = 2048, /* RSA with 8192 bits needs 1062 */
    VOUCHER_SIGNATURE_MAX = 2048,
};

/* The fields in wire order after the mark (protocol/fields.h): voucher.c reads and writes by these
 * lists, and tests/unit/core/protocol/test_schema.c reviews them. */
#define VOUCHER_SIGNED_FIELDS(X)        \
    X(raw, client, 32)                  \
    X(raw, key, SIGN_PUB_BYTES)         \
    X(raw, servers.as, SIGN_PUB_BYTES)  \
    X(raw, servers.csp, SIGN_PUB_BYTES) \
    X(u64, serial, 8)                   \
    X(bytes16, spki, VOUCHER_SPKI_MAX)
#define VOUCHER_MORE_FIELDS(X)                   \
    X(bytes16, signature, VOUCHER_SIGNATURE_MAX) \
    X(bytes32, chain, VOUCHER_MAX)

typedef struct voucher {
    uint8_t client[32];
    uint8_t key[SIGN_PUB_BYTES]; /* the upload key */
    pinned servers;
    uint64_t serial; /* above 0 */
    sefl_span spki, signature, chain;
} voucher;

/* SEFL_EPROTO if the format is wrong or `client` is not the SHA-256 of the SPKI. Does not verify
 * the signature. */
sefl_status voucher_read(voucher *out, sefl_span in) SEFL_MUST_CHECK;
/* Appends the voucher. Computes `client` from the SPKI; ignores v->client. SEFL_ERANGE: too
 * long. */
sefl_status voucher_write(sefl_buf *out, const voucher *v) SEFL_MUST_CHECK;

/* Appends the bytes that the certificate's key signs. */
sefl_status voucher_to_sign(sefl_buf *out, const voucher *v) SEFL_MUST_CHECK;

#endif

/* tls: identities and mutual TLS 1.3 (GnuTLS), and the stream between AS and CSP as a channel.
 *
 *     SEFL_TRY(tls_id_read(&id, "cert.pem", "key.pem", "peers-ca.pem"));
 *     SEFL_TRY(tls_listen(&fd, "127.0.0.1", 7001, &port));
 *     SEFL_TRY(tls_accept(&t, fd, id, &(tls_peer){ .role = "aggregator" }, wait_ms, NULL));
 *     SEFL_TRY(tls_dial(&t, "csp.example", 7001, id, &(tls_peer){ .role = "csp" }, NULL));
 *     channel *ch = tls_channel(t);                       // promises of base/channel.h
 *
 * Only TLS 1.3; both sides show a certificate and verify chain, dates, key usage, strength and role
 * (net/x509.h). The dialled host must be in the certificate. No session resumption, no early data.
 * Every wait ends (SEFL_ETIMEOUT). IPv4 and IPv6.
 *
 * A silent link. With silent_ms a stream can tell a busy peer from a lost one: while its owner
 * computes, a thread of the stream sends a heartbeat (an empty TLS record, which the other side
 * skips) every quarter of silent_ms, at most 5 s apart. A waiting end gives up after silent_ms
 * without a byte, and after idle_ms with heartbeats only. So a slow peer has idle_ms for each step,
 * and a dead link costs silent_ms. Both ends need it, with limits of the same order. TCP's
 * keepalive would add nothing: it asks the other kernel, which also answers for a stopped process,
 * or it asks a middlebox. TCP_USER_TIMEOUT would do harm: Linux also counts the time in which a
 * living peer computes and leaves its receive window closed.
 *
 * Protocols (ALPN). A listener that serves several kinds of stream names them in
 * tls_peer.protocols, the dialling side names one, and tls_protocol tells both which one it is.
 * Where names are given, a peer that offers none of them is refused with SEFL_EPROTO.
 *
 * In TLS 1.3 the side that dials has finished before the other one has judged its certificate: a
 * refusal shows as SEFL_EAUTH (the peer's alert) or SEFL_ECLOSED in its first receive.
 * Threads: an id may be shared; a stream has one owner and its own heartbeat thread.
 * Secrets: keys (wiped by GnuTLS) and what is sent (wiped from our buffers). */
#ifndef NET_TLS_H
#define NET_TLS_H

#include "base/channel.h"
#include "base/span.h"
#include "net/allowlist.h"
#include "net/x509.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tls_id tls_id;
typedef struct tls tls;

enum { TLS_PROTOCOLS = 2, TLS_PROTOCOL_MAX = 31 }; /* names; bytes of one */

typedef struct tls_peer {
    const char *role;                     /* "aggregator", "csp", "client" */
    const char *protocols[TLS_PROTOCOLS]; /* any of them; NULL at the first: not asked for */
    const uint8_t *fingerprint; /* 32 bytes, SHA-256 of its SPKI; NULL: any of that role */
    const allowlist *allowlist; /* who may connect; NULL: peers of the id's CAs */
    void (*refused)(void *ctx, const x509_peer *p); /* hears of each refusal; may be NULL */
    void *ctx;
} tls_peer;

typedef struct tls_limits {
    unsigned connect_ms, idle_ms; /* 0: 10 s, 120 s */
    unsigned silent_ms;           /* 0: no heartbeats, idle_ms alone counts */
} tls_limits;

/* Our certificate (with intermediates behind it), its key, and the CAs whose peers we accept.
 * SEFL_EINVAL if key and certificate do not belong together. */
sefl_status tls_id_read(tls_id **out, const char *cert, const char *key,
                        const char *peers_ca) SEFL_MUST_CHECK;
void tls_id_free(tls_id *id); /* streams and servers made from it keep what they need */
const uint8_t *tls_id_fingerprint(const tls_id *id); /* 32 bytes, of our own key */
const char *tls_id_name(const tls_id *id);           /* common name */
const char *tls_id_role(const tls_id *id);           /* "aggregator", ...; "" if it has none */
int64_t tls_id_expires(const tls_id *id);            /* seconds since 1970 */
/* Our own certificate as a peer with the same CAs would judge it; server: for serving. */
void tls_id_check_own(const tls_id *id, x509_peer *out, bool server);

/* address: a numeric address or a name of this machine; "::" takes IPv4 too. port 0: the system
 * chooses. *fd is closed by the caller. */
sefl_status tls_listen(int *fd, const char *address, uint16_t port,
                       uint16_t *bound) SEFL_MUST_CHECK;
/* One peer that passes `want`, for a caller that expects a single one (else net/handshakes.h).
 * Handshakes run side by side, so silent peers do not delay it. If every peer that came was
 * refused: the result of handshakes_accept. SEFL_ETIMEOUT if there is no connection in wait_ms. */
sefl_status tls_accept(tls **out, int fd, const tls_id *id, const tls_peer *want, unsigned wait_ms,
                       const tls_limits *lim) SEFL_MUST_CHECK;
sefl_status tls_dial(tls **out, const char *host, uint16_t port, const tls_id *id,
                     const tls_peer *want, const tls_limits *lim) SEFL_MUST_CHECK;
channel *tls_channel(tls *t);
const uint8_t *tls_peer_fingerprint(const tls *t);
const char *tls_peer_name(const tls *t);
const x509_peer *tls_peer_info(const tls *t);
const char *tls_protocol(const tls *t); /* one of tls_peer.protocols; "" where none was asked for */
/* Ends a wait of the owner from another thread: its call fails with SEFL_ECLOSED. */
void tls_interrupt(tls *t);
/* Sends close_notify if the socket takes it, and closes. Unflushed bytes are lost. NULL is fine. */
void tls_close(tls *t);

#endif

/* tls: identities, mutual TLS 1.3 (GnuTLS), and the stream between AS and CSP as a channel.
 *
 *     SEFL_TRY(tls_id_read(&id, "cert.pem", "key.pem", "peers-ca.pem"));
 *     SEFL_TRY(tls_listen(&fd, "127.0.0.1", 7001, &port));
 *     SEFL_TRY(tls_accept(&t, fd, id, &(tls_peer){ .role = "aggregator" }, wait_ms, NULL));
 *     SEFL_TRY(tls_dial(&t, "csp.example", 7001, id, &(tls_peer){ .role = "csp" }, NULL));
 *     channel *ch = tls_channel(t);                       // guarantees: base/channel.h
 *
 * It uses only TLS 1.3, over IPv4 or IPv6. Both sides present a certificate and verify the other's
 * chain, dates, key usage, strength and role (net/x509.h). The certificate must name the dialled
 * host. There is no session resumption or early data. Every wait is bounded (SEFL_ETIMEOUT).
 *
 * A silent link. If silent_ms is set, a stream can tell a busy peer from a lost one. While its
 * owner computes, a thread of the stream sends a heartbeat (an empty TLS record, which the other
 * side skips) every quarter of silent_ms, at most 5 s apart. A waiting side gives up after
 * silent_ms without a byte, or after idle_ms with only heartbeats. So a slow peer has idle_ms for
 * each step, and a dead link is detected after silent_ms. Both sides must enable heartbeats, with
 * similar limits. TCP keepalive would add nothing: the peer's kernel or a middlebox answers it even
 * for a stopped process. TCP_USER_TIMEOUT would be harmful: Linux also counts the time in which a
 * live peer computes with its receive window closed.
 *
 * Protocols (ALPN). A listener that serves several kinds of stream names them in
 * tls_peer.protocols, the dialling side names one, and tls_protocol returns the negotiated one. If
 * names are given, a peer that offers none of them is refused with SEFL_EPROTO.
 *
 * In TLS 1.3 the dialling side finishes before the other side has verified its certificate: it sees
 * a refusal in its first receive, as SEFL_EAUTH (the peer's alert) or SEFL_ECLOSED.
 * Threads: an id may be shared; a stream has one owner and its own heartbeat thread.
 * Secrets: keys (wiped by GnuTLS) and the transferred bytes (wiped from our buffers). */
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

enum { TLS_PROTOCOLS = 2, TLS_PROTOCOL_MAX = 31 }; /* maximum number of names, and length of one */

typedef struct tls_peer {
    const char *role;                     /* "aggregator", "csp", "client" */
    const char *protocols[TLS_PROTOCOLS]; /* any of these; first one NULL: no ALPN */
    const uint8_t *fingerprint;           /* 32 bytes, SHA-256 of its SPKI; NULL: any key */
    const allowlist *allowlist;           /* who may connect; NULL: any peer of the id's CAs */
    void (*refused)(void *ctx, const x509_peer *p); /* called for each refusal; may be NULL */
    void *ctx;
} tls_peer;

typedef struct tls_limits {
    unsigned connect_ms, idle_ms; /* 0: 10 s, 120 s */
    unsigned silent_ms;           /* 0: there are no heartbeats, and only idle_ms applies */
} tls_limits;

/* Reads our certificate (followed by its intermediates), its key, and the CAs whose peers we
 * accept. SEFL_EINVAL if the key does not match the certificate. */
sefl_status tls_id_read(tls_id **out, const char *cert, const char *key,
                        const char *peers_ca) SEFL_MUST_CHECK;
void tls_id_free(tls_id *id); /* streams and servers made from it stay valid */
const uint8_t *tls_id_fingerprint(const tls_id *id); /* 32 bytes, of our own key */
const char *tls_id_name(const tls_id *id);           /* common name */
const char *tls_id_role(const tls_id *id);           /* "aggregator", ...; "" if it has none */
int64_t tls_id_expires(const tls_id *id);            /* seconds since 1970 */
/* Checks our own certificate as a peer with the same CAs would. If server is true, checks it for
 * server authentication. */
void tls_id_check_own(const tls_id *id, x509_peer *out, bool server);

/* Listens on a numeric address or a name of this machine; "::" also accepts IPv4. If port is 0, the
 * system chooses one. The caller closes *fd. */
sefl_status tls_listen(int *fd, const char *address, uint16_t port,
                       uint16_t *bound) SEFL_MUST_CHECK;
/* Accepts one peer that satisfies `want`, for a caller that expects only one; net/handshakes.h
 * accepts many. Handshakes run concurrently, so silent peers do not delay it. If no peer passes,
 * returns the last failure of handshakes_accept. SEFL_ETIMEOUT if nobody connects within
 * wait_ms. */
sefl_status tls_accept(tls **out, int fd, const tls_id *id, const tls_peer *want, unsigned wait_ms,
                       const tls_limits *lim) SEFL_MUST_CHECK;
sefl_status tls_dial(tls **out, const char *host, uint16_t port, const tls_id *id,
                     const tls_peer *want, const tls_limits *lim) SEFL_MUST_CHECK;
channel *tls_channel(tls *t); /* its binding is from the TLS exporter */

const x509_peer *tls_peer_info(const tls *t);
const char *tls_protocol(const tls *t); /* one of tls_peer.protocols; "" if ALPN is not used */
/* Makes the owner's current and later calls fail with SEFL_ECLOSED. Any thread may call it. */
void tls_interrupt(tls *t);
/* Sends close_notify if the socket accepts it, and closes the stream. Unflushed bytes are lost.
 * NULL is allowed. */
void tls_close(tls *t);

#endif

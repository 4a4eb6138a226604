/* handshakes: runs TLS handshakes on one listening port concurrently until the expected peer has
 * connected.
 *
 *     SEFL_TRY(handshakes_new(&p, fd));                          // fd: from tls_listen
 *     st = handshakes_accept(&t, p, id, &want, 200, &limits);    // in a loop
 *     handshakes_free(p);
 *
 * No peer delays another peer or the caller: a call returns at the first result or after wait_ms,
 * and unfinished handshakes continue in the next call. There are 64 slots. A new connection always
 * gets one: when all are in use, the oldest connection from the address with the most slots is
 * closed. A flood from a few addresses therefore displaces its own connections; a flood from many
 * addresses must open 64 connections during a peer's handshake to displace that peer. An address is
 * an IPv4 address or the first 64 bits of an IPv6 address.
 *
 * Threads: one owner.   Secrets: none.   Memory: 0.5 MiB of buffers per slot in use, of which a
 * handshake touches a few pages. */
#ifndef NET_HANDSHAKES_H
#define NET_HANDSHAKES_H

#include "net/tls.h"

typedef struct handshakes handshakes;

sefl_status handshakes_new(handshakes **out, int fd) SEFL_MUST_CHECK;
void handshakes_free(handshakes *p); /* closes unfinished handshakes */

/* Returns the next peer that satisfies the current `want`, no matter when it connected. Otherwise
 * returns the first failure. SEFL_EAUTH: a peer was refused, for the reason in the message
 * (want->refused is called for each). SEFL_EPROTO: a peer spoke another protocol. SEFL_ECLOSED: a
 * peer disconnected. SEFL_EIO: a peer did not finish within connect_ms, or lost its slot.
 * SEFL_ETIMEOUT: nothing happened within wait_ms. SEFL_ENOMEM, without waiting: there is no
 * descriptor or memory for a new connection; pause before the next call. */
sefl_status handshakes_accept(tls **out, handshakes *p, const tls_id *id, const tls_peer *want,
                              unsigned wait_ms, const tls_limits *lim) SEFL_MUST_CHECK;

#endif

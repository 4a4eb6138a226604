/* handshakes: TLS handshakes on one listening port, all at the same time, until the expected peer
 * is in.
 *
 *     SEFL_TRY(handshakes_new(&p, fd));                          // fd: tls_listen; the caller keeps it
 *     st = handshakes_accept(&t, p, id, &want, 200, &limits);    // again and again
 *     handshakes_free(p);
 *
 * No peer delays another one or the caller: a call returns at the first result or after wait_ms,
 * and unfinished handshakes continue in the next call. There are 64 places. A new connection always
 * gets one: when all are taken, the oldest connection of the address with the most places is
 * closed. A flood from a few addresses therefore closes its own connections; from n addresses it
 * must bring 64 connections within one handshake to close another peer's. An address is IPv4 or the
 * first 64 bits of IPv6.
 *
 * Threads: one owner.   Secrets: none.   Memory: 0.5 MiB of buffers per place in use, of which a
 * handshake touches a few pages. */
#ifndef NET_HANDSHAKES_H
#define NET_HANDSHAKES_H

#include "net/tls.h"

typedef struct handshakes handshakes;

sefl_status handshakes_new(handshakes **out, int fd) SEFL_MUST_CHECK;
void handshakes_free(handshakes *p); /* closes unfinished handshakes */

/* The next peer that passes `want` as it is now, whenever it connected. Otherwise the first result:
 * SEFL_EAUTH: a peer was refused, with the reason (want->refused hears of each); SEFL_EPROTO: it
 * spoke another protocol; SEFL_ECLOSED: it disconnected; SEFL_EIO: it did not finish within
 * connect_ms, or lost its place; SEFL_ETIMEOUT: nothing happened in wait_ms. SEFL_ENOMEM, at once:
 * no descriptor or memory for a new connection; wait before the next call. */
sefl_status handshakes_accept(tls **out, handshakes *p, const tls_id *id, const tls_peer *want,
                              unsigned wait_ms, const tls_limits *lim) SEFL_MUST_CHECK;

#endif

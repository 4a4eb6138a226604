/* handshakes: those who have dialled our port and are shaking hands, all at the same time, until one of them
 * turns out to be who is awaited.
 *
 *     SEFL_TRY(handshakes_new(&p, fd));                                 // fd: tls_listen; stays the caller's
 *     st = handshakes_accept(&t, p, id, &want, 200, &limits);           // again and again
 *     handshakes_free(p);
 *
 * Nobody on the handshakes keeps another one waiting, nor the caller: a call ends with the first news or
 * after wait_ms, and who is in the middle of a handshake stays. There are 64 places. A newcomer finds
 * one always: on a full handshakes the oldest of the address that has the most places goes. So whoever
 * floods the port from few addresses pushes out himself, and with n addresses he must bring 64
 * connections in the time of one handshake to hit another one.
 * An address is IPv4 or the first 64 bits of IPv6.
 *
 * Threads: one owner.   Secrets: none.   Memory: 0.5 MiB of buffers for each place that is taken, of which
 * a handshake touches some pages. */
#ifndef NET_HANDSHAKES_H
#define NET_HANDSHAKES_H

#include "net/tls.h"

typedef struct handshakes handshakes;

sefl_status handshakes_new(handshakes **out, int fd) SEFL_MUST_CHECK;
void handshakes_free(handshakes *p); /* whoever stands there is cut off */

/* The next one that is who it should be, by `want` as it is now, whenever he came. Else the news:
 * SEFL_EAUTH somebody was refused, with the reason (want->refused is told of each); SEFL_EPROTO spoke something
 * else; SEFL_ECLOSED went away; SEFL_EIO did not get on within connect_ms, or had to make place. SEFL_ETIMEOUT: nothing in wait_ms.
 * SEFL_ENOMEM, at once: somebody dials and there is no descriptor or memory left; wait before the next call. */
sefl_status handshakes_accept(tls **out, handshakes *p, const tls_id *id, const tls_peer *want,
                              unsigned wait_ms, const tls_limits *lim) SEFL_MUST_CHECK;

#endif

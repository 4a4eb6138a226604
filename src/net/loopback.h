/* loopback: a plain TCP stream between two processes of one machine, as a channel.
 *
 * For benchmarks, the demo and local_http.h only: no encryption, no identity. It therefore binds to and dials
 * 127.0.0.0/8 or ::1 and nothing else (SEFL_EINVAL). The federation's link is TLS.
 *
 *     SEFL_TRY(loopback_listen(&ls, "127.0.0.1", 0, &port));
 *     SEFL_TRY(loopback_accept(&ls, &lb, 5000));              // the other process:
 *     SEFL_TRY(loopback_dial(&lb, "127.0.0.1", port, 5000));
 *     channel *ch = loopback_channel(lb);
 *     ...
 *     loopback_close(lb);
 *
 * Every wait ends after timeout_ms without progress (SEFL_ETIMEOUT). While a send is blocked, input
 * is read into memory up to CHANNEL_INBOX (see base/channel.h).
 * Threads: one owner. */
#ifndef NET_LOOPBACK_H
#define NET_LOOPBACK_H

#include "base/channel.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct loopback loopback;

/* Is this an address that this machine alone reaches? */
bool loopback_is(const char *address);

/* Listens on a loopback address; port 0 lets the system choose. *fd is closed by the caller. */
sefl_status loopback_listen(int *fd, const char *address, uint16_t port,
                            uint16_t *bound) SEFL_MUST_CHECK;

/* The next connection, with timeout_ms for its arrival and for every later wait. */
sefl_status loopback_accept(loopback **out, int fd, unsigned timeout_ms) SEFL_MUST_CHECK;

sefl_status loopback_dial(loopback **out, const char *address, uint16_t port,
                          unsigned timeout_ms) SEFL_MUST_CHECK;

channel *loopback_channel(loopback *lb);

/* Closes at once; held-back bytes are lost, so flush first. NULL is fine. */
void loopback_close(loopback *lb);

#endif

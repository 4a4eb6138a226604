/* loopback: a plain TCP stream between two processes on one machine, as a channel.
 *
 * Benchmarks compare TLS with it. It has no encryption and no authentication, so only benchmarks
 * use it; a federation uses TLS.
 *
 *     SEFL_TRY(socket_listen(&fd, "127.0.0.1", 0, &port));
 *     SEFL_TRY(loopback_accept(&lb, fd, 5000));              // one process
 *     SEFL_TRY(loopback_dial(&lb, port, 5000));              // the other
 *     channel *ch = loopback_channel(lb);
 *     ...
 *     loopback_close(lb);
 *
 * Every wait ends after timeout_ms without progress (SEFL_ETIMEOUT). While a send is blocked, input
 * is read into memory up to CHANNEL_INBOX (see base/channel.h).
 * Threads: one owner. */
#ifndef BENCH_LOOPBACK_H
#define BENCH_LOOPBACK_H

#include "base/channel.h"

#include <stdint.h>

typedef struct loopback loopback;

/* Accepts the next connection; timeout_ms limits its arrival and every later wait. */
sefl_status loopback_accept(loopback **out, int fd, unsigned timeout_ms) SEFL_MUST_CHECK;

sefl_status loopback_dial(loopback **out, uint16_t port, unsigned timeout_ms) SEFL_MUST_CHECK;

channel *loopback_channel(loopback *lb);

/* Closes at once and drops buffered bytes, so flush first. NULL is allowed. */
void loopback_close(loopback *lb);

#endif

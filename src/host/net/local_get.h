/* local_get: reads a page of a server on this machine (net/local_http.h), for `sefl status`.
 *
 *     SEFL_TRY(local_get(&body, &status, "127.0.0.1", 7010, "/healthz", 65536));
 *
 * Plain HTTP, one request, at most two seconds; refuses an address that is not loopback.
 * Threads: any.   Secrets: none. */
#ifndef NET_LOCAL_GET_H
#define NET_LOCAL_GET_H

#include "base/buf.h"

#include <stdint.h>

/* Appends the body. SEFL_EINVAL: not loopback. SEFL_EIO, SEFL_ETIMEOUT: no answer. SEFL_ERANGE:
 * more than max bytes. SEFL_EPROTO: not HTTP. */
sefl_status local_get(sefl_buf *body, unsigned *status, const char *host, uint16_t port,
                      const char *path, size_t max) SEFL_MUST_CHECK;

/* Splits an answer: sets *body to the offset of its body. */
sefl_status local_answer_read(sefl_span in, unsigned *status, size_t *body) SEFL_MUST_CHECK;

#endif

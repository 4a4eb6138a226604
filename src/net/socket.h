/* socket: TCP sockets that do not block, for the modules of net.
 * Threads: any. */
#ifndef NET_SOCKET_H
#define NET_SOCKET_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

uint64_t socket_now_ms(void); /* monotonic */

/* Listens; *bound is the port. address: see tls_listen. */
sefl_status socket_listen(int *out, const char *address, uint16_t port,
                          uint16_t *bound) SEFL_MUST_CHECK;

/* Is it a numeric address that only this machine reaches: 127.0.0.0/8 or ::1? */
bool socket_is_loopback(const char *address);

/* Where a connection comes from, for counting: IPv4, or the first 64 bits of IPv6, and zeros
 * behind. */
enum { SOCKET_ORIGIN = 32 };
struct sockaddr;
void socket_origin_of(uint8_t out[SOCKET_ORIGIN], const struct sockaddr *a);
void socket_origin(uint8_t out[SOCKET_ORIGIN], int fd);

/* The next connection; SEFL_ETIMEOUT if there is none in wait_ms. */
sefl_status socket_accept(int *out, int fd, unsigned wait_ms) SEFL_MUST_CHECK;

/* Tries each address of the host until one answers; until_ms as of socket_now_ms. */
sefl_status socket_dial(int *out, const char *host, uint16_t port,
                        uint64_t until_ms) SEFL_MUST_CHECK;

/* poll(2) of one socket until until_ms; *seen = 0: time is over. */
sefl_status socket_wait(int fd, short events, uint64_t until_ms, short *seen) SEFL_MUST_CHECK;

#endif

/* socket: non-blocking TCP sockets for the modules of net.
 * Threads: any. */
#ifndef NET_SOCKET_H
#define NET_SOCKET_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

uint64_t socket_now_ms(void); /* monotonic */

/* Listens on the address (see tls_listen); *bound gets the port. */
sefl_status socket_listen(int *out, const char *address, uint16_t port,
                          uint16_t *bound) SEFL_MUST_CHECK;

/* True for a numeric address that only this machine can reach: 127.0.0.0/8 or ::1. */
bool socket_is_loopback(const char *address);

/* Write a peer's address prefix, as a key for rate limits: a byte 4 and the IPv4 address, or a byte
 * 6 and the first 64 bits of the IPv6 address, then zeros; all zeros if the address is unknown. */
enum { SOCKET_ORIGIN = 32 };
struct sockaddr;
void socket_origin_of(uint8_t out[SOCKET_ORIGIN], const struct sockaddr *a);
void socket_origin(uint8_t out[SOCKET_ORIGIN], int fd);

/* Accepts the next connection; SEFL_ETIMEOUT if there is none within wait_ms. */
sefl_status socket_accept(int *out, int fd, unsigned wait_ms) SEFL_MUST_CHECK;

/* Tries each address of the host until one answers, at most until until_ms (socket_now_ms). */
sefl_status socket_dial(int *out, const char *host, uint16_t port,
                        uint64_t until_ms) SEFL_MUST_CHECK;

/* Polls one socket, at most until until_ms; *seen is 0 after a timeout. */
sefl_status socket_wait(int fd, short events, uint64_t until_ms, short *seen) SEFL_MUST_CHECK;

#endif

/* address: a network address as host:port, or [address]:port for IPv6.
 *
 *     host_port a;
 *     SEFL_TRY(address_read(&a, "as.example:7000", 1));       // a.host, a.port
 *
 * Threads: any.   Secrets: none. */
#ifndef CONFIG_ADDRESS_H
#define CONFIG_ADDRESS_H

#include "base/buf.h"

#include <stdbool.h>

enum { ADDRESS_HOST_MAX = 255 };

typedef struct host_port {
    char host[ADDRESS_HOST_MAX + 1]; /* has no brackets; "" if not set */
    uint16_t port;
} host_port;

/* Parses an address whose port is from `least` to 65535 (port 0: the system chooses). If it is
 * invalid, returns SEFL_EINVAL and leaves *out empty. */
sefl_status address_read(host_port *out, const char *text, unsigned least) SEFL_MUST_CHECK;
/* Parses an address that may lack its port, which is then `usual`, and an IPv6 address its
 * brackets. The host must be one (address_is_host). usual 0: the port may be 0. */
sefl_status address_read_host(host_port *out, sefl_span text, unsigned usual) SEFL_MUST_CHECK;
/* True for a host name or an address: letters, digits, "-", ".", "_" and ":". */
bool address_is_host(const char *host);
/* Appends host:port, with brackets around an IPv6 address. */
sefl_status address_write(sefl_buf *out, const char *host, unsigned port) SEFL_MUST_CHECK;

#endif

/* relay: a TCP relay on loopback that records every byte it carries.
 *
 *     SEFL_TRY(relay_start(&r, "127.0.0.1", port_of_the_server, "/tmp/x/link"));
 *     dial("127.0.0.1", relay_port(r));
 *     ...
 *     relay_stop(r);                // closes all; /tmp/x/link-0001.up, -0001.down, ...
 *
 * Each connection has its own pair of files; `up` contains the bytes that the connecting side sent.
 * The relay does not interpret the bytes and cannot decrypt TLS. It is a child process, so that a
 * test may fork while it runs, and accepts at most 1024 connections. Start it before the first
 * thread. The relay keeps the caller's open descriptors open too until it is stopped. */
#ifndef SUPPORT_RELAY_H
#define SUPPORT_RELAY_H

#include "base/status.h"

#include <stdint.h>

typedef struct relay relay;

/* Listens on 127.0.0.1, on a port that the system chooses. Connects to host:port (an IPv4 address)
 * once per connection, so the server may stop and start. */
sefl_status relay_start(relay **out, const char *host, uint16_t port,
                        const char *record) SEFL_MUST_CHECK;
uint16_t relay_port(const relay *r);
/* Return the number of connections so far, and of bytes carried in both directions. */
unsigned relay_connections(const relay *r);
uint64_t relay_bytes(const relay *r);
/* Simulates a link that drops packets: the connections so far (or the first one, if there is none
 * yet) carry about `bytes` more and then lose all data, but stay open. Later connections carry
 * everything. */
void relay_mute_after(relay *r, uint64_t bytes);
void relay_stop(relay *r);

#endif

/* relay: a TCP relay on loopback that records every byte it carries.
 *
 *     SEFL_TRY(relay_start(&r, "127.0.0.1", port_of_the_server, "/tmp/x/link"));
 *     dial("127.0.0.1", relay_port(r));
 *     ...
 *     relay_stop(r);                // closes what is open; /tmp/x/link-0001.up, -0001.down, ...
 *
 * One pair of files per connection, so that recordings do not mix; `up` is what the connecting side
 * sent. The relay does not interpret the bytes and cannot decrypt TLS. It is a child process of the
 * caller, so that a test may fork beside it; it accepts at most 1024 connections. Start it before
 * there are threads. Descriptors that the caller holds open then are held open by the relay too,
 * until it is stopped. */
#ifndef SUPPORT_RELAY_H
#define SUPPORT_RELAY_H

#include "base/status.h"

#include <stdint.h>

typedef struct relay relay;

/* Listens on 127.0.0.1, port chosen by the system; connects to host:port (an IPv4 address) for each
 * connection, so the server may stop and start. */
sefl_status relay_start(relay **out, const char *host, uint16_t port,
                        const char *record) SEFL_MUST_CHECK;
uint16_t relay_port(const relay *r);
/* Connections so far, and bytes carried in both directions. */
unsigned relay_connections(const relay *r);
uint64_t relay_bytes(const relay *r);
/* A link that drops packets: the connections so far (the first one, if there is none yet) carry
 * about `bytes` more, then nothing, and stay open; data sent to them is lost. Later connections
 * carry everything. */
void relay_mute_after(relay *r, uint64_t bytes);
void relay_stop(relay *r);

#endif

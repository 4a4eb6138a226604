/* channel: an ordered byte stream to one peer. Protocol code uses this interface, not sockets.
 *
 *     SEFL_TRY(channel_send(ch, msg, sizeof msg));
 *     SEFL_TRY(channel_flush(ch));                  // channel_recv flushes too
 *     SEFL_TRY(channel_recv(ch, reply, sizeof reply));
 *
 * An implementation is a table of three functions with these guarantees:
 *  1. send keeps the order and may buffer bytes until flush or recv;
 *  2. recv returns exactly n bytes or fails; it flushes first, so two peers cannot deadlock on
 *     each other's buffered bytes;
 *  3. no call blocks forever: if the peer is silent for too long, the call returns SEFL_ETIMEOUT;
 *  4. a send does not wait for the peer to stop sending: while it is blocked, it reads incoming
 *     bytes into memory, up to CHANNEL_INBOX. Both peers may therefore have that many bytes in
 *     flight at once; our protocols never have more.
 * After a failure the stream is dead: every later call fails too.
 *
 * channel_pair_new() creates two connected ends in memory, for two threads of a simulation or a
 * test. src/host/net implements channels over sockets.
 *
 * Messages. A message is a frame of 16 bytes (kind u32, index u32, length u64), then a body whose
 * length both sides already know. The receiver states what it expects. A message that is missing,
 * repeated, out of order or of the wrong size is SEFL_EPROTO before any of its body is read; the
 * error message contains the expected and the received value.
 *
 * Threads: one owner per end.   Secrets: the channel does not encrypt; bytes pass unchanged.
 * Faults: FAULT_SEND makes channel_send fail, FAULT_RECV makes channel_recv fail. */
#ifndef BASE_CHANNEL_H
#define BASE_CHANNEL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHANNEL_INBOX = 32 << 20, MSG_HEADER = 16, CHANNEL_BINDING = 32 };

typedef struct channel_ops {
    sefl_status (*send)(void *self, const void *p, size_t n);
    sefl_status (*recv)(void *self, void *p, size_t n);
    sefl_status (*flush)(void *self);
} channel_ops;

typedef struct channel {
    const channel_ops *ops;
    void *self;
    uint64_t sent, received; /* bytes, including frames */
    uint64_t turns;          /* number of changes from sending to receiving */
    bool was_sending;
    bool dead;
    /* Bytes that only the two ends of this stream have, for signatures that are valid on no other
     * stream; the same at both ends. binding_n is 0 in memory, where there is nobody else. */
    uint8_t binding[CHANNEL_BINDING];
    size_t binding_n;
} channel;

sefl_status channel_send(channel *ch, const void *p, size_t n) SEFL_MUST_CHECK;

/* Receives exactly n bytes; zeroes p on failure. */
sefl_status channel_recv(channel *ch, void *p, size_t n) SEFL_MUST_CHECK;

sefl_status channel_flush(channel *ch) SEFL_MUST_CHECK;

/* Sends one message: the frame, then n bytes. */
sefl_status msg_send(channel *ch, uint32_t kind, uint32_t index, const void *body,
                     size_t n) SEFL_MUST_CHECK;

/* Sends only the frame; the caller sends the body in pieces with channel_send. */
sefl_status msg_begin(channel *ch, uint32_t kind, uint32_t index, uint64_t n) SEFL_MUST_CHECK;

/* Receives a frame and checks it. `what` names the message in errors. The caller receives the body
 * with channel_recv. */
sefl_status msg_expect(channel *ch, uint32_t kind, uint32_t index, uint64_t n,
                       const char *what) SEFL_MUST_CHECK;

/* Receives one message: msg_expect, then the body. */
sefl_status msg_recv(channel *ch, uint32_t kind, uint32_t index, void *body, size_t n,
                     const char *what) SEFL_MUST_CHECK;

/* Creates both ends of a stream in memory. A wait longer than timeout_ms is SEFL_ETIMEOUT. After
 * one end closes, the other reads the remaining bytes and then fails with SEFL_ECLOSED. Close each
 * end once with channel_pair_close; the second call frees the memory. */
sefl_status channel_pair_new(channel *a, channel *b, unsigned timeout_ms) SEFL_MUST_CHECK;
void channel_pair_close(channel *end);

/* Limits the bytes in flight in each direction; call it before the first send. A sender above the
 * limit waits, as on a socket, unless the peer is blocked in a send too (guarantee 4). Memory stays
 * bounded whichever thread is faster. If no limit is set, one thread may send CHANNEL_INBOX bytes
 * and then receive them at the other end. */
sefl_status channel_pair_limit(channel *end, size_t bytes) SEFL_MUST_CHECK;

/* Runs both sides of a protocol over a limited pair: `here` in this thread, `there` in a second
 * one. If a side fails, returns its status and message; if that side failed only because the other
 * had closed, returns the other's. */
typedef struct channel_side {
    sefl_status (*run)(void *ctx, channel *ch);
    void *ctx;
} channel_side;
sefl_status channel_pair_run(channel_side here, channel_side there, unsigned timeout_ms,
                             size_t limit) SEFL_MUST_CHECK;

#endif

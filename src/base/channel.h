/* channel: an ordered stream of bytes to one peer. Protocol code talks to this and owns no socket.
 *
 *     SEFL_TRY(channel_send(ch, msg, sizeof msg));
 *     SEFL_TRY(channel_flush(ch));                  // or receive: that flushes too
 *     SEFL_TRY(channel_recv(ch, reply, sizeof reply));
 *
 * An implementation is a table of three functions. What it promises:
 *  1. send keeps the order, may hold bytes back until flush or recv;
 *  2. recv gives exactly n bytes or fails; it flushes first, so two peers cannot wait for each
 *     other's held-back bytes;
 *  3. nothing waits for ever: a peer that is silent too long is SEFL_ETIMEOUT;
 *  4. a send does not wait for the peer to stop sending: while it cannot send, it reads what comes
 *     in into memory, up to CHANNEL_INBOX bytes. So both peers may have that much in flight at the
 *     same time; the protocols here never have more.
 * After a failure the stream is dead: every later call fails too.
 *
 * channel_pair_new() makes two ends in memory, one for each of two threads: for simulations and
 * tests. src/net has the sockets.
 *
 * Messages. msg_send and msg_recv put a frame of 16 bytes in front of a body whose length both
 * sides know already: kind u32, index u32, length u64. The reader states what it expects. A message
 * that is missing, repeated, out of order or of another size is SEFL_EPROTO before any of its body
 * is read; the sentence names both values.
 *
 * Threads: one owner per end.   Secrets: bytes are passed on as they are.
 * Faults: FAULT_SEND strikes channel_send, FAULT_RECV channel_recv. */
#ifndef MPC_CHANNEL_H
#define MPC_CHANNEL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHANNEL_INBOX = 32 << 20, MSG_HEADER = 16 };

typedef struct channel_ops {
    sefl_status (*send)(void *self, const void *p, size_t n);
    sefl_status (*recv)(void *self, void *p, size_t n);
    sefl_status (*flush)(void *self);
} channel_ops;

typedef struct channel {
    const channel_ops *ops;
    void *self;
    uint64_t sent, received; /* bytes, frames included */
    uint64_t turns;          /* how often the direction changed from sending to receiving */
    bool was_sending;
    bool dead;
} channel;

sefl_status channel_send(channel *ch, const void *p, size_t n) SEFL_MUST_CHECK;

/* Exactly n bytes; on failure p is zeroed. */
sefl_status channel_recv(channel *ch, void *p, size_t n) SEFL_MUST_CHECK;

sefl_status channel_flush(channel *ch) SEFL_MUST_CHECK;

/* One framed message: the frame, then n bytes. */
sefl_status msg_send(channel *ch, uint32_t kind, uint32_t index, const void *body,
                     size_t n) SEFL_MUST_CHECK;

/* The frame alone, for bodies that are sent in several pieces with channel_send. */
sefl_status msg_begin(channel *ch, uint32_t kind, uint32_t index, uint64_t n) SEFL_MUST_CHECK;

/* Receives the frame and checks it against what is expected. `what` names the message in the
 * sentence. The body follows with channel_recv. */
sefl_status msg_expect(channel *ch, uint32_t kind, uint32_t index, uint64_t n,
                       const char *what) SEFL_MUST_CHECK;

/* msg_expect and the body. */
sefl_status msg_recv(channel *ch, uint32_t kind, uint32_t index, void *body, size_t n,
                     const char *what) SEFL_MUST_CHECK;

/* Two ends of a stream in memory. A wait longer than timeout_ms is SEFL_ETIMEOUT. When one end is
 * closed, the other reads what was sent and then fails with SEFL_ECLOSED. Close each end once, with
 * channel_pair_close; the second call frees the memory. */
sefl_status channel_pair_new(channel *a, channel *b, unsigned timeout_ms) SEFL_MUST_CHECK;
void channel_pair_close(channel *end);

/* Limits the bytes in flight each way; call it before the first byte. A sender with more unread
 * bytes waits, as on a socket, unless the peer waits to send too (promise 4). Two threads then use
 * a bounded amount of memory whichever is faster. Without a limit one thread may send CHANNEL_INBOX
 * bytes and then read them itself. */
sefl_status channel_pair_limit(channel *end, size_t bytes) SEFL_MUST_CHECK;

/* Runs both sides of a protocol over a limited pair: `here` in this thread, `there` in a second
 * one. Returns the failure of the side that failed by itself, with its sentence. */
typedef struct channel_side {
    sefl_status (*run)(void *ctx, channel *ch);
    void *ctx;
} channel_side;
sefl_status channel_pair_run(channel_side here, channel_side there, unsigned timeout_ms,
                             size_t limit) SEFL_MUST_CHECK;

#endif

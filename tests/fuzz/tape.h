/* tape: a channel for harnesses: what one side says is prepared, what the other says is looked at.
 *
 *     tape t = { .said = said };
 *     tape_frame(&t.in, LINK_YES, 0, span_of(NULL, 0));
 *     channel ch = { .ops = &tape_ops, .self = &t };
 *
 * Threads: none. */
#ifndef TESTS_FUZZ_TAPE_H
#define TESTS_FUZZ_TAPE_H

#include "protocol/link.h"
#include "support/must.h"

#include <string.h>

typedef struct tape {
    sefl_buf in;
    size_t at;
    sefl_buf out;                            /* a message being put together */
    void (*begun)(void *ctx, uint32_t kind); /* a message has its header; NULL: not observed */
    void (*said)(void *ctx, uint32_t kind, sefl_span body); /* it is complete; NULL, as above */
    void *ctx;
} tape;

static inline sefl_status tape_send(void *self, const void *p, size_t n)
{
    tape *t = self;
    bool begun = t->out.n >= MSG_HEADER;
    MUST_OK(wr_raw(&t->out, p, n));
    if (t->out.n < MSG_HEADER)
        return SEFL_OK;
    const uint32_t kind = load_u32(t->out.p);
    const uint64_t bytes = load_u64(t->out.p + 8);
    if (!begun && t->begun)
        t->begun(t->ctx, kind);
    if (t->out.n < MSG_HEADER + bytes)
        return SEFL_OK;
    if (t->said)
        t->said(t->ctx, kind, span_of(t->out.p + MSG_HEADER, (size_t)bytes));
    buf_reset(&t->out);
    return SEFL_OK;
}

static inline sefl_status tape_recv(void *self, void *p, size_t n)
{
    tape *t = self;
    if (t->in.n - t->at < n)
        return sefl_fail(SEFL_ECLOSED, "the end");
    memcpy(p, t->in.p + t->at, n);
    t->at += n;
    return SEFL_OK;
}

static inline sefl_status tape_flush(void *self)
{
    (void)self;
    return SEFL_OK;
}

static const channel_ops tape_ops = { tape_send, tape_recv, tape_flush };

static inline void tape_clear(tape *t)
{
    buf_clear(&t->in);
    buf_clear(&t->out);
}

/* Appends a message. */
static inline void tape_frame(sefl_buf *out, uint32_t kind, uint32_t index, sefl_span body)
{
    MUST_OK(wr_u32(out, kind));
    MUST_OK(wr_u32(out, index));
    MUST_OK(wr_u64(out, body.n));
    MUST_OK(wr_raw(out, body.p, body.n));
}

/* AS's answer to DIGEST or KEPT of round 1, which has the digest at its end: ACK comes next. */
static inline void tape_ack(tape *t, sefl_span said)
{
    sefl_buf ack = { 0 }, body = { 0 };
    MUST(said.n >= 32);
    MUST_OK(wr_u64(&body, 1));
    MUST_OK(wr_raw(&body, said.p + said.n - 32, 32));
    tape_frame(&ack, LINK_ACK, 0, buf_span(&body));
    MUST_OK(wr_raw(&ack, t->in.p + t->at, t->in.n - t->at));
    t->in.n = t->at;
    MUST_OK(wr_raw(&t->in, ack.p, ack.n));
    buf_clear(&ack), buf_clear(&body);
}

/* Returns the next byte of the input, or 0 at its end. */
static inline uint8_t tape_take(rd *r)
{
    uint8_t b = 0;
    return rd_u8(r, &b) == SEFL_OK ? b : 0;
}

#endif

/* link_say: raw questions to CSP on a connection of link_pair.h. */
#ifndef TESTS_LINK_SAY_H
#define TESTS_LINK_SAY_H

#include "link_pair.h"

/* Sends a question and gives the answer's kind; NO is its code (all codes are below all kinds), and
 * a stream that ended is 0. */
static inline uint32_t say(connection *c, uint32_t kind, sefl_span body)
{
    link_msg m = { 0 };
    uint32_t got = 0;
    if (link_send(&c->wire[0].inner, kind, body) == SEFL_OK && link_recv(&c->ch[0], &m) == SEFL_OK)
        got = m.kind == LINK_NO ? (uint32_t)(m.body.p[0] | m.body.p[1] << 8) : m.kind;
    buf_clear(&m.body);
    return got;
}

static inline uint32_t say_buf(connection *c, uint32_t kind, sefl_buf *b)
{
    uint32_t got = say(c, kind, buf_span(b));
    buf_reset(b);
    return got;
}

static inline void put_mark(sefl_buf *b, const mem_ledger *l)
{
    CHECK_OK(ledger_head_write(b, &l->mark[l->n]));
}

static inline void put_hello(sefl_buf *b, const world *w, const mem_ledger *l, unsigned version)
{
    uint8_t signature[SIGN_BYTES];
    size_t from = b->n;
    CHECK_OK(wr_u16(b, (uint16_t)version));
    CHECK_OK(wr_u16(b, (uint16_t)(version + 1)));
    put_mark(b, l);
    CHECK_OK(wr_raw(b, w->t.id, 32));
    CHECK_OK(wr_u64(b, w->as_ms));
    CHECK_OK(sign_make(signature, w->as, SIGN_LINK, span_of(b->p + from, b->n - from)));
    CHECK_OK(wr_raw(b, signature, sizeof signature));
}

static inline void put_signed(sefl_buf *b, sign_kind kind, sefl_span content, signer who,
                              const sign_key *key)
{
    envelope env = { .kind = kind, .content = content };
    CHECK_OK(envelope_sign(&env, who, key));
    CHECK_OK(envelope_write(b, &env));
}

static inline void put_header(sefl_buf *b, const world *w, const round_header *h,
                              const sign_key *key)
{
    uint8_t bytes[HEADER_MAX];
    put_mark(b, &w->a.ledger);
    size_t n = round_header_write(bytes, h);
    put_signed(b, SIGN_HEADER, span_of(bytes, n), SIGNER_AS, key);
}

static inline round_statement statement(const world *w, uint64_t round, uint64_t attempt,
                                        uint32_t clients)
{
    round_statement s = { .round = round, .attempt = attempt, .clients = clients };
    memcpy(s.task, w->t.id, 32);
    memcpy(s.set, w->set, 32);
    return s;
}

static inline void put_open(sefl_buf *b, const world *w, const round_statement *s,
                            const sign_key *key)
{
    uint8_t bytes[STATEMENT_MAX];
    put_mark(b, &w->a.ledger);
    put_signed(b, SIGN_STATEMENT, span_of(bytes, round_statement_write(bytes, s)), SIGNER_AS, key);
}

static inline void put_order(sefl_buf *b, const world *w, uint64_t round, uint8_t what,
                             const sign_key *key)
{
    link_order o = { .round = round, .what = what, .reason = what == LINK_ORDER_SKIP };
    uint8_t bytes[LINK_ORDER_BYTES];
    memcpy(o.task, w->t.id, 32);
    link_order_write(bytes, &o);
    put_signed(b, SIGN_ORDER, span_of(bytes, sizeof bytes), SIGNER_AS, key);
}

static inline void put_skip(sefl_buf *b, const world *w, uint64_t round)
{
    put_mark(b, &w->a.ledger);
    put_order(b, w, round, LINK_ORDER_SKIP, w->as);
}

static inline void greet(connection *c, world *w)
{
    sefl_buf b = { 0 };
    connect_(c, w, NULL, false);
    put_hello(&b, w, &w->a.ledger, LINK_VERSION);
    assert_int_equal(say_buf(c, LINK_HELLO, &b), LINK_WELCOME);
    assert_int_equal(say(c, LINK_TASK, buf_span(&w->envelope)), LINK_YES);
    buf_clear(&b);
}

static inline void sign_round(connection *c, world *w, uint64_t round)
{
    sefl_buf b = { 0 };
    round_header h = world_header(w, round);
    put_header(&b, w, &h, w->as);
    assert_int_equal(say_buf(c, LINK_HEADER, &b), LINK_HEADER);
    buf_clear(&b);
}

#endif

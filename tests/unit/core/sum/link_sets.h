/* link_sets: raw questions of a sealed round (KEY, EARLY, SET) on a connection of link_pair.h, with
 * arbitrary content. */
#ifndef TESTS_LINK_SETS_H
#define TESTS_LINK_SETS_H

#include "link_say.h"

enum { SEALED_VALUES = 40 };

/* A sealed task whose clients have uploaded for round 1. */
static inline world *sealed_world(void)
{
    world *w = world_new("pad", TASK_NOISE_NONE, SEALED_VALUES);
    world_sum(w, 1);
    return w;
}

static inline uint32_t ask_key(connection *c, round_header *h)
{
    link_msg m = { 0 };
    uint8_t body[8];
    uint32_t got = 0;
    store_u64(body, h->round);
    CHECK_OK(link_send(&c->wire[0].inner, LINK_KEY, span_of(body, 8)));
    if (link_recv(&c->ch[0], &m) == SEFL_OK)
        got = m.kind == LINK_NO ? (uint32_t)(m.body.p[0] | m.body.p[1] << 8) : m.kind;
    if (got == LINK_KEY) {
        assert_int_equal(load_u64(m.body.p), h->round);
        h->suite = (uint16_t)(m.body.p[8] | m.body.p[9] << 8);
        h->key_bytes = (uint16_t)(m.body.n - 10);
        memset(h->key, 0, sizeof h->key);
        memcpy(h->key, m.body.p + 10, m.body.n - 10);
    }
    buf_clear(&m.body);
    return got;
}

/* KEY and HEADER. */
static inline round_header begin_round(connection *c, world *w, uint64_t round)
{
    sefl_buf b = { 0 };
    round_header h = world_header(w, round);
    assert_int_equal(ask_key(c, &h), LINK_KEY);
    put_header(&b, w, &h, w->as);
    assert_int_equal(say_buf(c, LINK_HEADER, &b), LINK_HEADER);
    buf_clear(&b);
    return h;
}

static inline void put_head(sefl_buf *b, const world *w, int i, const round_header *h)
{
    uint8_t bytes[HEAD_MAX];
    world_head(w, i, h, bytes);
    CHECK_OK(wr_raw(b, bytes, head_bytes(w->t.seal)));
}

/* Sends EARLY with these heads and clears them; reason[i] of head i. */
static inline uint32_t say_early(connection *c, uint64_t round, sefl_buf *heads, uint8_t *reason,
                                 size_t n)
{
    link_msg m = { 0 };
    sefl_buf b = { 0 };
    uint32_t got = 0;
    memset(reason, 0, n);
    CHECK_OK(wr_u64(&b, round));
    CHECK_OK(wr_raw(&b, heads->p, heads->n));
    buf_reset(heads);
    CHECK_OK(link_send(&c->wire[0].inner, LINK_EARLY, buf_span(&b)));
    if (link_recv(&c->ch[0], &m) == SEFL_OK)
        got = m.kind == LINK_NO ? (uint32_t)(m.body.p[0] | m.body.p[1] << 8) : m.kind;
    for (size_t i = 0; got == LINK_EARLY && i < m.body.n; i += 5) {
        assert_true(load_u32(m.body.p + i) < n);
        reason[load_u32(m.body.p + i)] = m.body.p[i + 4];
    }
    buf_clear(&m.body);
    buf_clear(&b);
    return got;
}

typedef struct verdict {
    uint8_t root[32];
    uint32_t kept, refused;
    uint8_t reason[16];
} verdict;

static inline void put_set(sefl_buf *b, const world *w, uint64_t round, uint32_t clients)
{
    CHECK_OK(wr_u64(b, round));
    CHECK_OK(wr_u32(b, clients));
    CHECK_OK(wr_raw(b, w->tree_seed, COUNTED_SEED));
    CHECK_OK(wr_raw(b, w->replied, SHA256_BYTES));
}

/* Sends SET of `clients` with these heads in one piece and clears them. */
static inline uint32_t say_set(connection *c, const world *w, uint64_t round, uint32_t clients,
                               sefl_buf *heads, verdict *v)
{
    link_msg m = { 0 };
    sefl_buf b = { 0 };
    uint32_t got = 0;
    *v = (verdict){ 0 };
    put_set(&b, w, round, clients);
    CHECK_OK(link_send(&c->wire[0].inner, LINK_SET, buf_span(&b)));
    if (heads->n > 0)
        (void)!msg_send(&c->wire[0].inner, LINK_HEADS, 0, heads->p, heads->n);
    buf_reset(heads);
    if (link_recv(&c->ch[0], &m) == SEFL_OK)
        got = m.kind == LINK_NO ? (uint32_t)(m.body.p[0] | m.body.p[1] << 8) : m.kind;
    if (got == LINK_VERDICT) {
        memcpy(v->root, m.body.p, 32);
        v->kept = load_u32(m.body.p + 32);
        v->refused = load_u32(m.body.p + 36);
        assert_int_equal(m.body.n, 40 + 5 * v->refused);
        for (size_t i = 40; i < m.body.n; i += 5)
            v->reason[load_u32(m.body.p + i)] = m.body.p[i + 4];
    }
    buf_clear(&m.body);
    buf_clear(&b);
    return got;
}

/* All clients' heads, whole. */
static inline void put_heads(sefl_buf *b, const world *w, const round_header *h, int n)
{
    for (int i = 0; i < n; i++)
        put_head(b, w, i, h);
}

#endif

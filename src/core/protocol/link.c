#include "protocol/link.h"

#include <string.h>

enum { SENTENCE_MAX = 400, PLAIN_SET_BYTES = 24, REFUSAL_BYTES = 5 };

#define TEXT_AT(name, value, text) [value] = text,

static const char *text_of(const char *const *texts, size_t n, unsigned code)
{
    return code < n && texts[code] ? texts[code] : "an unknown reason";
}

const char *link_no_text(unsigned code)
{
    static const char *const texts[] = { LINK_NO_LIST(TEXT_AT) };
    return text_of(texts, sizeof texts / sizeof *texts, code);
}

const char *head_reason_text(unsigned reason)
{
    static const char *const texts[] = { HEAD_REASON_LIST(TEXT_AT) };
    return text_of(texts, sizeof texts / sizeof *texts, reason);
}

const char *link_kind_name(uint32_t kind)
{
#define KIND_NAME(name) #name,
    static const char *const names[LINK_KINDS] = { LINK_KIND_LIST(KIND_NAME) };
    return kind - LINK_HELLO < LINK_KINDS ? names[kind - LINK_HELLO] : "?";
}

static uint64_t body_max(uint32_t kind)
{
    switch (kind) {
    case LINK_EARLY:
        return 8 + LINK_HEADS_PIECE;
    case LINK_VERDICT:
        return 40 + (uint64_t)REFUSAL_BYTES * LINK_SET_MAX;
    default:
        return LINK_BODY_MAX;
    }
}

/* The next message: of the kind `piece` and at most `max` bytes; 0: any control message, within its
 * limit. */
static sefl_status receive(channel *ch, link_msg *m, uint32_t piece, uint64_t max)
{
    sefl_status st = SEFL_OK;
    uint8_t head[MSG_HEADER], *body;
    buf_reset(&m->body);
    m->kind = m->index = 0;
    SEFL_TRY(channel_recv(ch, head, sizeof head));
    uint32_t kind = load_u32(head), index = load_u32(head + 4);
    uint64_t n = load_u64(head + 8);
    bool control = kind - LINK_HELLO < LINK_KINDS && kind != LINK_SUM && kind != LINK_PLAIN &&
                   kind != LINK_REPLY && kind != LINK_HEADS;
    SEFL_CHECK(piece ? kind == piece : control, SEFL_EPROTO,
               "link: received message kind 0x%08x (%s), expected %s", kind, link_kind_name(kind),
               piece ? link_kind_name(piece) : "a question or an answer");
    SEFL_CHECK(piece || index == 0, SEFL_EPROTO, "link: %s has the index %u instead of 0",
               link_kind_name(kind), index);
    max = piece ? max : body_max(kind);
    SEFL_CHECK(n <= max, SEFL_EPROTO, "link: %s has %llu bytes, at most %llu are allowed",
               link_kind_name(kind), (unsigned long long)n, (unsigned long long)max);
    SEFL_TRY(buf_extend(&m->body, &body, (size_t)n));
    if (n > 0)
        SEFL_TRY(channel_recv(ch, body, (size_t)n));
    m->kind = kind, m->index = index;
done:
    if (st != SEFL_OK) {
        ch->dead = true; /* out of step, or broken */
        buf_reset(&m->body);
    }
    return st;
}

sefl_status link_recv(channel *ch, link_msg *m)
{
    return receive(ch, m, 0, 0);
}

sefl_status link_recv_piece(channel *ch, link_msg *m, uint32_t kind, uint64_t max)
{
    return receive(ch, m, kind, max);
}

static sefl_status send_flush(channel *ch, uint32_t kind, uint32_t index, sefl_span body)
{
    SEFL_PASS(msg_begin(ch, kind, index, body.n));
    if (body.n > 0)
        SEFL_PASS(channel_send(ch, body.p, body.n));
    return channel_flush(ch);
}

sefl_status link_send_msg(channel *ch, const link_msg *m)
{
    return send_flush(ch, m->kind, m->index, buf_span(&m->body));
}

sefl_status link_send(channel *ch, uint32_t kind, sefl_span body)
{
    return send_flush(ch, kind, 0, body);
}

sefl_status link_no_write(sefl_buf *out, link_no code, const char *sentence)
{
    if (!sentence || !*sentence)
        sentence = link_no_text(code);
    sefl_status st = wr_u16(out, (uint16_t)code);
    return st == SEFL_OK ? wr_raw(out, sentence, strnlen(sentence, SENTENCE_MAX)) : st;
}

sefl_status link_send_no(channel *ch, link_no code, const char *sentence)
{
    sefl_buf body = { 0 };
    sefl_status st = link_no_write(&body, code, sentence);
    if (st == SEFL_OK)
        st = link_send(ch, LINK_NO, buf_span(&body));
    buf_clear(&body);
    return st;
}

void link_order_write(uint8_t out[LINK_ORDER_BYTES], const link_order *o)
{
    memcpy(out, o->task, 32);
    store_u64(out + 32, o->round);
    out[40] = o->what, out[41] = o->reason;
}

sefl_status link_order_read(link_order *out, sefl_span in)
{
    *out = (link_order){ 0 };
    SEFL_NEED(in.n == LINK_ORDER_BYTES &&
                  (in.p[40] == LINK_ORDER_SKIP || in.p[40] == LINK_ORDER_OVER),
              SEFL_EPROTO, "link: %zu bytes that are not an order", in.n);
    memcpy(out->task, in.p, 32);
    out->round = load_u64(in.p + 32);
    out->what = in.p[40], out->reason = in.p[41];
    return SEFL_OK;
}

sefl_status link_refusals_write(sefl_buf *out, const head_refusal *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        SEFL_PASS(wr_u32(out, r[i].index));
        SEFL_PASS(wr_u8(out, r[i].reason));
    }
    return SEFL_OK;
}

sefl_status link_refusals_read(rd *r, head_refusal *out, size_t room, size_t *n, uint32_t heads)
{
    size_t count = r->left / REFUSAL_BYTES;
    *n = 0;
    SEFL_NEED(r->left % REFUSAL_BYTES == 0 && count <= room, SEFL_EPROTO,
              "link: %zu bytes of refusals of %u heads", r->left, heads);
    for (size_t i = 0; i < count; i++) {
        SEFL_PASS(rd_u32(r, &out[i].index));
        SEFL_PASS(rd_u8(r, &out[i].reason));
        SEFL_NEED(out[i].reason > 0 && out[i].index < heads &&
                      (i == 0 || out[i].index > out[i - 1].index),
                  SEFL_EPROTO, "link: a refusal of head %u of %u for reason %u", out[i].index,
                  heads, out[i].reason);
    }
    *n = count;
    return SEFL_OK;
}

size_t link_sum_units(const ahe_params *p)
{
    size_t n = LINK_SUM_PIECE / p->unit_bytes;
    if (n > p->units)
        n = p->units;
    return n > 0 ? n : 1;
}

void link_plain_id(uint8_t id[32], uint64_t attempt, const uint8_t set[32])
{
    store_u64(id, attempt);
    memcpy(id + 8, set, PLAIN_SET_BYTES);
}

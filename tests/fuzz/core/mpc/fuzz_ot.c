/* What a peer can send in the base OTs and trees. The first byte selects the receiver of the rest:
 *     0 base OT, sender   1 base OT, receiver   2 OT trees, holder: the peer's stream
 *     3 OT trees, peer: a byte of settings (depth; bit 7: another session), then changes of three
 *       bytes (position u16, XOR) to the stream of an honest holder, which get past the digests
 * A peer that accepts has the holder's leaves, whatever was changed. */
#include "base/span.h"
#include "fuzz/toy_group.h"
#include "mpc/ot/trees.h"
#include "seeded/seeded.h"
#include "support/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STREAM_MAX = 24 << 10, LEAVES_MAX = (OT_BITS / OT_K_MAX) << OT_K_MAX };

static const uint8_t delta[OT_BITS / 8] = { 0x5b, 1, 0, 0xff, 7 };

/* A channel that reads `in` and keeps what is sent. */
typedef struct stream {
    rd in;
    uint8_t out[STREAM_MAX];
    size_t out_n;
} stream;

static sefl_status take(void *self, void *out, size_t n)
{
    stream *s = self;
    sefl_status st = rd_raw(&s->in, out, n);
    return st == SEFL_OK ? st : sefl_fail(SEFL_ECLOSED, "end of input");
}

static sefl_status keep(void *self, const void *p, size_t n)
{
    stream *s = self;
    MUST(n <= sizeof s->out - s->out_n);
    memcpy(s->out + s->out_n, p, n);
    s->out_n += n;
    return SEFL_OK;
}

static sefl_status flush(void *self)
{
    (void)self;
    return SEFL_OK;
}

static const channel_ops ops = { keep, take, flush };

/* A session of depth k between an honest holder and an honest peer. */
typedef struct honest {
    stream peer, holder; /* what each says */
    uint8_t leaf[LEAVES_MAX][OT_KEY];
} honest;

static sefl_status receive(stream *s, uint8_t (*leaf)[OT_KEY], unsigned k, uint8_t session)
{
    const uint8_t id[OT_SESSION] = { session };
    channel ch = { .ops = &ops, .self = s };
    seeded gen;
    seeded_init(&gen, 1, "peer");
    sefl_rng rng = seeded_rng(&gen);
    s->out_n = 0;
    return ot_trees_receive(&ch, leaf, delta, k, id, &rng);
}

static sefl_status hold(stream *s, uint8_t (*leaf)[OT_KEY], unsigned k)
{
    const uint8_t id[OT_SESSION] = { 0 };
    channel ch = { .ops = &ops, .self = s };
    seeded gen;
    seeded_init(&gen, 1, "holder");
    sefl_rng rng = seeded_rng(&gen);
    s->out_n = 0;
    return ot_trees_send(&ch, leaf, k, id, &rng);
}

/* The peer speaks first and the holder's answer needs nothing later, so one call of each does. */
static const honest *session_of(unsigned log_k)
{
    static honest all[4];
    honest *h = &all[log_k];
    if (h->holder.out_n == 0) {
        MUST(receive(&h->peer, h->leaf, 1u << log_k, 0) == SEFL_ECLOSED);
        h->holder.in = rd_over(span_of(h->peer.out, h->peer.out_n));
        MUST(hold(&h->holder, h->leaf, 1u << log_k) == SEFL_OK);
    }
    return h;
}

static void changed_holder(rd *in)
{
    static stream s;
    static uint8_t leaf[LEAVES_MAX][OT_KEY], bytes[STREAM_MAX];
    static const uint8_t none[OT_KEY];
    uint8_t settings = 0, change[3];
    (void)!rd_u8(in, &settings);
    const unsigned log_k = settings % 4, k = 1u << log_k;
    const bool other = settings & 0x80;
    const honest *h = session_of(log_k);
    const size_t n = h->holder.out_n;
    memcpy(bytes, h->holder.out, n);
    while (rd_raw(in, change, 3) == SEFL_OK)
        bytes[(change[0] | (size_t)change[1] << 8) % n] ^= change[2];
    const bool same = memcmp(bytes, h->holder.out, n) == 0;
    s.in = rd_over(span_of(bytes, n));
    memset(leaf, 1, sizeof leaf);
    const sefl_status st = receive(&s, leaf, k, other);
    MUST(st == SEFL_OK || st == SEFL_EPROTO || st == SEFL_ECRYPTO);
    MUST(!same || (st == SEFL_OK) == !other);
    for (unsigned i = 0; i < ot_trees(k); i++) {
        unsigned number = 0;
        for (unsigned j = 0; j < k; j++)
            number |= (delta[(i * k + j) / 8] >> (i * k + j) % 8 & 1u) << j;
        for (unsigned z = 0; z < 1u << k; z++) {
            const uint8_t *want = st == SEFL_OK && z > 0 ? h->leaf[i << k | (z ^ number)] : none;
            MUST(memcmp(leaf[i << k | z], want, OT_KEY) == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stream s;
    if (size == 0)
        return 0;
    s.in = rd_over(span_of(data + 1, size - 1)), s.out_n = 0;
    channel ch = { .ops = &ops, .self = &s };
    seeded gen;
    seeded_init(&gen, 1, "fuzz");
    sefl_rng rng = seeded_rng(&gen);
    uint8_t session[OT_SESSION] = { 0 };
    switch (data[0] % 4) {
    case 0: {
        uint8_t keys[2][2][OT_KEY];
        (void)!ot_base_send(&ch, keys, 2, session, &rng);
        break;
    }
    case 1: {
        uint8_t keys[2][OT_KEY], choice[2] = { 0, 1 };
        (void)!ot_base_receive(&ch, keys, choice, 2, session, &rng);
        break;
    }
    case 2: {
        uint8_t leaf[OT_BITS << 1][OT_KEY];
        (void)!hold(&s, leaf, 1);
        break;
    }
    default:
        changed_holder(&s.in);
    }
    return 0;
}

/* A whole session of shares with one changed message from the peer. The harness records an honest
 * run with seeded coins once; then one side runs again, with the same coins, against the recorded
 * messages:
 *     byte 0   bit 0: who listens (0: AS, 1: CSP); bit 1: the frame too may be changed;
 *              bit 2: the record of an audit instead, the rest of the input
 *     byte 1   which of the messages it hears is changed
 *     rest     XORed onto that message, from its start on (from its body on without bit 1)
 * (The sampler is the smallest, OT trees are the toy of fuzz/toy_trees.h: mpc.circuit and mpc.ot
 * have the real ones.) No crash, no hang; either side gives the honest result or a failure, and
 * then zeros. */
#include "fuzz/toy_trees.h"
#include "mpc/noise/shares.h"
#include "seeded/seeded.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COUNT = 150, MESSAGES = 32 };

/* The messages that one side receives. */
typedef struct tape {
    uint8_t *p;
    size_t n;
    size_t begin[MESSAGES + 1], messages;
} tape;

/* A tape being read, with `change` XORed onto it from byte `from` to `to`. */
typedef struct replay {
    const tape *tape;
    size_t at, from, to;
    const uint8_t *change;
} replay;

typedef struct recorder {
    channel ch, inner;
    tape *heard;
    unsigned side; /* 0: AS, 1: CSP */
    uint64_t x[COUNT];
} recorder;

/* The smallest possible sampler: 4 random bits, X of 3 bits. */
static const sampler_profile tiny = { "tiny", .columns = 1, .column = { 2 }, .kick_m = 1 };
static tape tapes[2];
static uint64_t honest[2][COUNT];
static sign_key *key;

static sefl_status run_side(unsigned side, uint64_t *x, channel *ch)
{
    shares_params p = { .count = COUNT, .profile = &tiny, .ot_k = 2, .chunk = 128 };
    shares_result r;
    seeded gen;
    seeded_init(&gen, 1, side ? "shares CSP" : "shares AS");
    sefl_rng rng = seeded_rng(&gen);
    p.sign = key; /* one for both */
    *(side ? &p.as : &p.csp) = sign_key_pub(key);
    sefl_status st = (side ? shares_garble : shares_evaluate)(&r, x, ch, &p, &rng);
    if ((st == SEFL_OK) != (r.outcome == SHARES_KEPT || r.outcome == SHARES_AUDITED))
        abort();
    return st;
}

/* ---- the honest run ---- */

static sefl_status rec_send(void *self, const void *p, size_t n)
{
    return channel_send(&((recorder *)self)->inner, p, n);
}

static sefl_status rec_recv(void *self, void *p, size_t n)
{
    recorder *r = self;
    sefl_status st = channel_recv(&r->inner, p, n);
    if (st != SEFL_OK)
        return st;
    tape *t = r->heard;
    t->p = realloc(t->p, t->n + n);
    if (!t->p)
        abort();
    memcpy(t->p + t->n, p, n);
    t->n += n;
    return st;
}

static sefl_status rec_flush(void *self)
{
    return channel_flush(&((recorder *)self)->inner);
}

static const channel_ops rec_ops = { rec_send, rec_recv, rec_flush };

static void *record_side(void *arg)
{
    recorder *r = arg;
    if (run_side(r->side, honest[r->side], &r->ch) != SEFL_OK)
        abort();
    return NULL;
}

static void record(void)
{
    static recorder r[2];
    uint8_t seed[SIGN_SEED_BYTES] = { 1 };
    pthread_t t;
    if (sign_key_from(&key, seed) != SEFL_OK ||
        channel_pair_new(&r[0].inner, &r[1].inner, 60000) != SEFL_OK)
        abort();
    for (unsigned i = 0; i < 2; i++) {
        r[i].ch = (channel){ .ops = &rec_ops, .self = &r[i] };
        r[i].heard = &tapes[i];
        r[i].side = i;
    }
    if (pthread_create(&t, NULL, record_side, &r[1]) != 0)
        abort();
    record_side(&r[0]);
    if (pthread_join(t, NULL) != 0)
        abort();
    for (int i = 0; i < 2; i++) {
        tape *x = &tapes[i];
        size_t at = 0;
        while (at < x->n && x->messages < MESSAGES) {
            x->begin[x->messages++] = at;
            at += MSG_HEADER + load_u64(x->p + at + 8);
        }
        x->begin[x->messages] = at;
        if (at != x->n)
            abort();
        channel_pair_close(&r[i].inner);
    }
}

/* ---- the replay ---- */

static sefl_status drop(void *self, const void *p, size_t n)
{
    (void)self, (void)p, (void)n;
    return SEFL_OK;
}

static sefl_status hear(void *self, void *p, size_t n)
{
    replay *r = self;
    uint8_t *out = p;
    if (n > r->tape->n - r->at)
        return sefl_fail(SEFL_ECLOSED, "end of the tape");
    memcpy(out, r->tape->p + r->at, n);
    for (size_t i = r->from > r->at ? r->from - r->at : 0; i < n && r->at + i < r->to; i++)
        out[i] ^= r->change[r->at + i - r->from];
    r->at += n;
    return SEFL_OK;
}

static sefl_status flush(void *self)
{
    (void)self;
    return SEFL_OK;
}

static const channel_ops replay_ops = { drop, hear, flush };

static void try_record(sefl_span in)
{
    audit_record r;
    audit_finding found;
    uint8_t again[AUDIT_RECORD];
    if (audit_record_read(&r, in) != SEFL_OK)
        return;
    audit_record_write(again, &r);
    if (memcmp(again, in.p, in.n) != 0)
        abort();
    r.hello[0][24] &= 0; /* a count below 65,536, so that a valid record is replayed quickly */
    r.hello[1][24] &= 0;
    if (shares_replay(&found, &r) != SEFL_OK || !found.why)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t zero[COUNT];
    if (tapes[0].n == 0)
        record();
    if (size < 2)
        return 0;
    if (data[0] & 4) {
        try_record(span_of(data + 2, size - 2));
        return 0;
    }
    unsigned side = data[0] & 1;
    const tape *from = &tapes[side];
    size_t which = data[1] % from->messages;
    replay r = { .tape = from,
                 .from = from->begin[which] + (data[0] & 2 ? 0 : MSG_HEADER),
                 .to = from->begin[which + 1],
                 .change = data + 2 };
    uint64_t x[COUNT];
    if (size - 2 < r.to - r.from)
        r.to = r.from + size - 2;
    channel ch = { .ops = &replay_ops, .self = &r };
    memset(x, 0x55, sizeof x);
    sefl_status st = run_side(side, x, &ch);
    if (st == SEFL_OK && memcmp(x, honest[side], sizeof x) != 0)
        abort(); /* a wrong result */
    if (st != SEFL_OK && memcmp(x, zero, sizeof x) != 0)
        abort();
    return 0;
}

/* A whole attempt with one message of the peer spoiled. An honest run with seeded coins is recorded
 * once; then one side runs again, with the same coins, against what the other had sent:
 *     byte 0   bit 0: who listens (0: AS, 1: CSP); bit 1: the frame too may be changed
 *     byte 1   which of the messages it hears is changed
 *     rest     XORed onto that message, from its start on (from its body on without bit 1)
 * (The sampler is the smallest, OT trees are the toy of fuzz/toy_trees.h: mpc.circuit and mpc.ot have the
 * real ones.) No crash, no hang; AS gives the honest result or a failure, and then zeros; nothing is left of
 * an attempt that broke. */
#include "fuzz/toy_trees.h"
#include "mpc/noise/session.h"
#include "seeded/seeded.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COUNT = 20, MESSAGES = 32 };

/* What one side hears. */
typedef struct tape {
    uint8_t *p;
    size_t n;
    size_t begin[MESSAGES + 1], messages;
} tape;

/* A tape being heard, with change XORed onto it from byte `from` to `to`. */
typedef struct replay {
    const tape *tape;
    size_t at, from, to;
    const uint8_t *change;
} replay;

typedef struct recorder {
    channel inner;
    tape *heard;
} recorder;

/* The least a sampler may be: 4 random bits, X of 3. */
static const sampler_profile tiny = { "tiny", .columns = 1, .column = { 2 }, .kick_m = 1 };
static const noise_params params = { .task = "task",
                                     .round = 1,
                                     .count = COUNT,
                                     .k = 4,
                                     .t = 2,
                                     .g = 2,
                                     .profile = &tiny,
                                     .ot_k = 2,
                                     .chunk = 128 };
static uint64_t digits[COUNT];
static tape tapes[2];
static int32_t honest[COUNT];

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

static sefl_status run_garbler(channel *ch, int32_t *w)
{
    sefl_status st = SEFL_OK;
    noise_garbler *g = NULL;
    noise_digits d = noise_digits_of(digits);
    seeded gen;
    seeded_init(&gen, 1, "replay AS");
    sefl_rng rng = seeded_rng(&gen);
    SEFL_TRY(noise_garbler_new(&g, ch, &params, &rng));
    SEFL_TRY(noise_garbler_offline(g, ch));
    SEFL_TRY(noise_garbler_online(g, ch, &d, &noise_garbler_hooks_none));
    SEFL_TRY(noise_garbler_output(g, ch, w));
done:
    if (g && noise_garbler_holds(g) & NOISE_HOLDS_WORK)
        abort();
    noise_garbler_free(g);
    return st;
}

static sefl_status run_evaluator(channel *ch)
{
    sefl_status st = SEFL_OK;
    noise_evaluator *e = NULL;
    noise_digits d = noise_digits_of(digits);
    seeded gen;
    seeded_init(&gen, 1, "replay CSP");
    sefl_rng rng = seeded_rng(&gen);
    SEFL_TRY(noise_evaluator_new(&e, ch, &params, &rng));
    SEFL_TRY(noise_evaluator_offline(e, ch));
    SEFL_TRY(noise_evaluator_online(e, ch, &d, &noise_evaluator_hooks_none));
    SEFL_TRY(noise_evaluator_output(e, ch));
done:
    if (e && noise_evaluator_holds(e) & NOISE_HOLDS_WORK)
        abort();
    noise_evaluator_free(e);
    return st;
}

static void *evaluator_thread(void *arg)
{
    if (run_evaluator(arg) != SEFL_OK)
        abort();
    return NULL;
}

static void record(void)
{
    recorder r[2] = { { .heard = &tapes[0] }, { .heard = &tapes[1] } };
    channel ch[2];
    pthread_t t;
    if (channel_pair_new(&r[0].inner, &r[1].inner, 60000) != SEFL_OK)
        abort();
    for (int i = 0; i < 2; i++)
        ch[i] = (channel){ .ops = &rec_ops, .self = &r[i] };
    if (pthread_create(&t, NULL, evaluator_thread, &ch[1]) != 0 ||
        run_garbler(&ch[0], honest) != SEFL_OK || pthread_join(t, NULL) != 0)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (tapes[0].n == 0)
        record();
    if (size < 2)
        return 0;
    unsigned side = data[0] & 1;
    const tape *from = &tapes[side];
    size_t which = data[1] % from->messages;
    replay r = { .tape = from,
                 .from = from->begin[which] + (data[0] & 2 ? 0 : MSG_HEADER),
                 .to = from->begin[which + 1],
                 .change = data + 2 };
    int32_t w[COUNT];
    sefl_status st;
    if (size - 2 < r.to - r.from)
        r.to = r.from + size - 2;
    channel ch = { .ops = &replay_ops, .self = &r };
    if (side == 1) {
        (void)run_evaluator(&ch);
    } else {
        memset(w, 0x55, sizeof w);
        st = run_garbler(&ch, w);
        if (st == SEFL_OK && memcmp(w, honest, sizeof w) != 0)
            abort(); /* a wrong result */
        for (size_t i = 0; i < COUNT && st != SEFL_OK; i++)
            if (w[i] != 0 && w[i] != 0x55555555)
                abort();
    }
    return 0;
}

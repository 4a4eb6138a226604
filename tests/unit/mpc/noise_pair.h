/* noise_pair: AS and CSP as two threads over a pair in memory, with seeded coins, for the noise
 * tests. A side stops at its first failure and closes its end. */
#ifndef TESTS_NOISE_PAIR_H
#define TESTS_NOISE_PAIR_H

#include "support/check.h"

#include "base/sha256.h"
#include "mpc/noise/session.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What happens to the message number `at` that a side sends. */
typedef enum tamper { PASS, FLIP, DROP, REPEAT, SWAP, CUT } tamper;

typedef struct wire {
    channel inner;
    uint8_t *msg, *held; /* the message being put together; the one held back by SWAP */
    size_t n, held_n;
    uint64_t count;
    tamper what;
    uint64_t at;
    size_t bit;
    sha256 transcript;
    bool hit;
} wire;

typedef struct pair_run {
    noise_params p;
    uint64_t seed;
    const uint64_t *mask, *masked;
    unsigned timeout_ms;
    noise_garbler_hooks gh; /* all NULL: those that do nothing */
    noise_evaluator_hooks eh;
    uint32_t *v;  /* not NULL: v' of all coordinates goes here */
    wire wire[2]; /* 0: AS, 1: CSP */
    channel ch[2];
    sefl_status st[2];
    const char *step[2];
    char said[2][200];
    int32_t *w;
    /* called between offline and online, on the side's thread */
    void (*ready_g)(struct pair_run *, noise_garbler *);
    void (*ready_e)(struct pair_run *, noise_evaluator *);
    void *ctx;
    uint8_t digest[2][SHA256_BYTES]; /* of all bytes a side sent */
    unsigned holds[2];               /* noise_*_holds at the end */
    uint64_t messages[2];            /* sent */
} pair_run;

static sefl_status wire_pass(wire *w, const uint8_t *p, size_t n)
{
    sha256_add(&w->transcript, span_of(p, n));
    return channel_send(&w->inner, p, n);
}

static sefl_status wire_message(wire *w)
{
    sefl_status st = SEFL_OK;
    bool here = w->what != PASS && w->count++ == w->at;
    if (w->what == PASS)
        w->count++;
    w->hit |= here;
    if (w->held) {
        SEFL_TRY(wire_pass(w, w->msg, w->n));
        SEFL_TRY(wire_pass(w, w->held, w->held_n));
        free(w->held);
        w->held = NULL;
    } else if (here && w->what == SWAP) {
        w->held = malloc(w->n);
        memcpy(w->held, w->msg, w->held_n = w->n);
    } else if (here && w->what == CUT) {
        SEFL_TRY(wire_pass(w, w->msg, w->n - 1));
        st = sefl_fail(SEFL_ECLOSED, "test: cut");
    } else if (!(here && w->what == DROP)) {
        if (here && w->what == FLIP)
            w->msg[w->bit / 8 % w->n] ^= (uint8_t)(1u << w->bit % 8);
        SEFL_TRY(wire_pass(w, w->msg, w->n));
        if (here && w->what == REPEAT)
            SEFL_TRY(wire_pass(w, w->msg, w->n));
    }
done:
    w->n = 0;
    return st;
}

static sefl_status wire_send(void *self, const void *p, size_t n)
{
    wire *w = self;
    w->msg = realloc(w->msg, w->n + n + 1);
    memcpy(w->msg + w->n, p, n);
    w->n += n;
    if (w->n < MSG_HEADER || w->n < MSG_HEADER + load_u64(w->msg + 8))
        return SEFL_OK;
    return wire_message(w);
}

static sefl_status wire_recv(void *self, void *p, size_t n)
{
    return channel_recv(&((wire *)self)->inner, p, n);
}

static sefl_status wire_flush(void *self)
{
    return channel_flush(&((wire *)self)->inner);
}

static const channel_ops wire_ops = { wire_send, wire_recv, wire_flush };

static void pair_end(pair_run *r, int side, sefl_status st, const char *step)
{
    r->st[side] = st;
    r->step[side] = step;
    snprintf(r->said[side], sizeof r->said[side], "%s", st == SEFL_OK ? "" : sefl_last_error());
    sha256_end(&r->wire[side].transcript, r->digest[side]);
    channel_pair_close(&r->wire[side].inner);
}

static sefl_status pair_keep(void *ctx, const uint8_t id[NOISE_ID], size_t first, size_t n,
                             sefl_span decode, const uint32_t *v)
{
    pair_run *r = ctx;
    (void)id, (void)decode;
    if (r->v)
        memcpy(r->v + first, v, n * sizeof *v);
    return SEFL_OK;
}

static void *pair_garbler(void *arg)
{
    pair_run *r = arg;
    sefl_status st = SEFL_OK;
    const char *step = "new";
    noise_garbler *g = NULL;
    noise_digits d = noise_digits_of(r->mask);
    noise_garbler_hooks gh = r->gh;
    if (!gh.keep)
        gh.keep = pair_keep, gh.ctx = r;
    if (!gh.seal)
        gh.seal = noise_garbler_hooks_none.seal;
    seeded gen;
    seeded_init(&gen, r->seed, "AS");
    sefl_rng rng = seeded_rng(&gen);
    SEFL_TRY(noise_garbler_new(&g, &r->ch[0], &r->p, &rng));
    step = "offline";
    SEFL_TRY(noise_garbler_offline(g, &r->ch[0]));
    if (r->ready_g)
        r->ready_g(r, g);
    step = "online";
    SEFL_TRY(noise_garbler_online(g, &r->ch[0], &d, &gh));
    step = "output";
    SEFL_TRY(noise_garbler_output(g, &r->ch[0], r->w));
done:
    r->holds[0] = g ? noise_garbler_holds(g) : 0;
    pair_end(r, 0, st, step);
    noise_garbler_free(g);
    return NULL;
}

static void *pair_evaluator(void *arg)
{
    pair_run *r = arg;
    sefl_status st = SEFL_OK;
    const char *step = "new";
    noise_evaluator *e = NULL;
    noise_digits d = noise_digits_of(r->masked);
    seeded gen;
    seeded_init(&gen, r->seed, "CSP");
    sefl_rng rng = seeded_rng(&gen);
    SEFL_TRY(noise_evaluator_new(&e, &r->ch[1], &r->p, &rng));
    step = "offline";
    SEFL_TRY(noise_evaluator_offline(e, &r->ch[1]));
    if (r->ready_e)
        r->ready_e(r, e);
    step = "online";
    SEFL_TRY(noise_evaluator_online(e, &r->ch[1], &d,
                                    r->eh.open ? &r->eh : &noise_evaluator_hooks_none));
    step = "output";
    SEFL_TRY(noise_evaluator_output(e, &r->ch[1]));
done:
    r->holds[1] = e ? noise_evaluator_holds(e) : 0;
    pair_end(r, 1, st, step);
    noise_evaluator_free(e);
    return NULL;
}

/* Runs both sides to their end. The result of making the channel, if that fails. */
static inline sefl_status pair_go(pair_run *r)
{
    pthread_t t;
    sefl_status st = channel_pair_new(&r->wire[0].inner, &r->wire[1].inner,
                                      r->timeout_ms ? r->timeout_ms : 60000);
    if (st != SEFL_OK)
        return st;
    for (int i = 0; i < 2; i++) {
        sha256_init(&r->wire[i].transcript);
        r->ch[i] = (channel){ .ops = &wire_ops, .self = &r->wire[i] };
    }
    assert_int_equal(pthread_create(&t, NULL, pair_evaluator, r), 0);
    pair_garbler(r);
    pthread_join(t, NULL);
    for (int i = 0; i < 2; i++) {
        free(r->wire[i].msg);
        free(r->wire[i].held);
        r->wire[i].msg = r->wire[i].held = NULL;
        r->wire[i].n = r->wire[i].held_n = 0;
        r->messages[i] = r->wire[i].count;
        r->wire[i].count = 0;
    }
    return r->st[0] != SEFL_OK ? r->st[0] : r->st[1];
}

#endif

/* shares_pair: both sides of a share session in two threads, over a channel that may flip a bit. */
#ifndef UNIT_MPC_SHARES_PAIR_H
#define UNIT_MPC_SHARES_PAIR_H

#include "support/check.h"

#include "mpc/noise/shares.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef sefl_status shares_fn(shares_result *out, uint64_t *x, channel *ch, const shares_params *p,
                              const sefl_rng *rng);

/* A channel that flips one bit of the nth message: 1 << bit of byte `at` of its body or, if
 * `frame`, of the frame before it: kind, index, length. */
typedef struct spoiler {
    channel inner;
    size_t nth, at, seen, frames;
    unsigned bit;
    bool frame;
} spoiler;

static sefl_status spoil_send(void *self, const void *p, size_t n)
{
    spoiler *s = self;
    sefl_status st;
    uint8_t *copy = malloc(n + 1);
    memcpy(copy, p, n);
    size_t nth = n == MSG_HEADER ? ++s->frames : ++s->seen;
    if (nth == s->nth && s->frame == (n == MSG_HEADER))
        copy[s->at % n] ^= (uint8_t)(1u << s->bit);
    st = channel_send(&s->inner, copy, n);
    free(copy);
    return st;
}

static sefl_status spoil_recv(void *self, void *p, size_t n)
{
    return channel_recv(&((spoiler *)self)->inner, p, n);
}

static sefl_status spoil_flush(void *self)
{
    return channel_flush(&((spoiler *)self)->inner);
}

static const channel_ops spoil_ops = { spoil_send, spoil_recv, spoil_flush };

typedef struct side {
    shares_params p;
    spoiler wire;
    channel ch;
    seeded gen;
    sefl_rng rng;
    uint64_t *x;
    shares_result r;
    sefl_status st;
    shares_fn *fn; /* NULL: shares_garble, shares_evaluate */
} side;

static void *run_side(void *arg)
{
    side *s = arg;
    s->st = s->fn(&s->r, s->x, &s->ch, &s->p, &s->rng);
    channel_pair_close(&s->wire.inner);
    return NULL;
}

typedef struct two {
    side csp, as;
    fault_kind fault;
    uint64_t nth; /* 0: no fault */
} two;

/* Keys, audit and callbacks: what the caller has put into t's params; the rest from p. */
static void two_run(two *t, const shares_params *p, uint64_t seed)
{
    pthread_t thread;
    side *sides[2] = { &t->csp, &t->as };
    CHECK_OK(channel_pair_new(&t->csp.wire.inner, &t->as.wire.inner, 20000));
    for (int i = 0; i < 2; i++) {
        side *s = sides[i];
        const shares_params own = s->p;
        s->p = *p;
        s->p.sign = own.sign, s->p.csp = own.csp, s->p.as = own.as, s->p.audit = own.audit;
        s->p.ctx = own.ctx, s->p.draw = own.draw, s->p.drop = own.drop, s->p.owe = own.owe;
        if (!s->fn)
            s->fn = i == 0 ? shares_garble : shares_evaluate;
        s->ch = (channel){ .ops = &spoil_ops, .self = &s->wire };
        seeded_init(&s->gen, seed, i == 0 ? "csp" : "as");
        if (!s->rng.fill)
            s->rng = seeded_rng(&s->gen);
        if (!s->x)
            s->x = malloc(p->count * sizeof *s->x);
        memset(s->x, 0xa5, p->count * sizeof *s->x);
    }
#if SEFL_FAULTS
    if (t->nth)
        fault_arm(t->fault, t->nth);
#endif
    assert_int_equal(pthread_create(&thread, NULL, run_side, &t->csp), 0);
    run_side(&t->as);
    pthread_join(thread, NULL);
}

static void two_clear(two *t)
{
    free(t->csp.x);
    free(t->as.x);
}

static inline bool all_zero(const side *s)
{
    for (size_t i = 0; i < s->p.count; i++)
        if (s->x[i] != 0)
            return false;
    return true;
}

static inline double chi_square(const double *got, const double *want, size_t n, double *df)
{
    double chi = 0, g = 0, w = 0;
    *df = -1;
    for (size_t i = 0; i < n; i++) { /* classes of at least ten */
        g += got[i], w += want[i];
        if (w >= 10) {
            chi += (g - w) * (g - w) / w;
            *df += 1;
            g = w = 0;
        }
    }
    return chi;
}

#endif

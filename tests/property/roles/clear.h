/* clear: what a round gives in the clear: the clients' integers added up, the servers' noise drawn
 * from the same named coins, the result divided and applied, by plain arithmetic. No ciphertext, no
 * garbled table, no network, no journal takes part: of the two-party computation only the drawing of
 * both servers' bits is run, and the sampler is its plain description (mpc/plain/law.h). */
#ifndef TESTS_ROLES_CLEAR_H
#define TESTS_ROLES_CLEAR_H

#include "support/check.h"
#include "support/named_coins.h"

#include "mpc/noise/own.h"
#include "mpc/noise/session.h"
#include "mpc/plain/law.h"
#include "privacy/mechanism/dgauss.h"
#include "protocol/task.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct clear_side {
    channel ch;
    noise_params p;
    uint64_t seed;
    const uint64_t *digit;
    uint8_t *bits; /* this server's half of the sampler's input, as noise_*_coins gives it */
    uint32_t *own; /* n' or v' */
    bool ok;
} clear_side;

/* Records in `bits` lie chunk after chunk. */
static inline void *clear_evaluator(void *arg)
{
    clear_side *s = arg;
    noise_evaluator *e = NULL;
    seeded gen;
    named_coins_replay(&gen, "CSP", s->seed, "noise", s->p.round, s->p.attempt);
    sefl_rng rng = seeded_rng(&gen);
    if (noise_evaluator_new(&e, &s->ch, &s->p, &rng) == SEFL_OK &&
        noise_evaluator_offline(e, &s->ch) == SEFL_OK && channel_flush(&s->ch) == SEFL_OK) {
        noise_session copy = *noise_evaluator_session(e);
        uint64_t *scratch = calloc(copy.p.chunk, sizeof *scratch);
        noise_digits d = noise_digits_of(s->digit);
        s->ok = scratch != NULL;
        for (size_t c = 0; s->ok && c < copy.chunks; c++) {
            noise_evaluator_coins(e, s->bits + c * copy.chunk_blocks * copy.wires_r * 2, c);
            s->ok =
                noise_own_values(&copy, s->own + c * copy.p.chunk, scratch, &d, c, 1) == SEFL_OK;
        }
        free(scratch);
    }
    noise_evaluator_free(e);
    return NULL;
}

static inline void clear_garbler(clear_side *s)
{
    noise_garbler *g = NULL;
    seeded gen;
    named_coins_replay(&gen, "AS", s->seed, "noise", s->p.round, s->p.attempt);
    sefl_rng rng = seeded_rng(&gen);
    CHECK_OK(noise_garbler_new(&g, &s->ch, &s->p, &rng));
    CHECK_OK(noise_garbler_offline(g, &s->ch));
    CHECK_OK(channel_flush(&s->ch));
    noise_session copy = *noise_garbler_session(g);
    uint64_t *scratch = calloc(copy.p.chunk, sizeof *scratch);
    noise_digits d = noise_digits_of(s->digit);
    for (size_t c = 0; c < copy.chunks; c++) {
        noise_garbler_coins(g, s->bits + c * copy.chunk_blocks * copy.wires_r * 2, c);
        CHECK_OK(noise_own_values(&copy, s->own + c * copy.p.chunk, scratch, &d, c, -1));
    }
    free(scratch);
    noise_garbler_free(g);
}

static inline void clear_joint(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                               uint64_t attempt, const uint64_t *v, const uint64_t *m)
{
    size_t padded = t->values + 2048;
    clear_side as = { .p = task_noise_params(t, round, attempt), .seed = seed, .digit = v };
    clear_side csp = { .p = as.p, .seed = seed, .digit = m };
    pthread_t thread;
    as.bits = calloc(padded * 34, 2), csp.bits = calloc(padded * 34, 2);
    as.own = calloc(padded, 4), csp.own = calloc(padded, 4);
    assert_true(as.bits && csp.bits && as.own && csp.own);
    CHECK_OK(channel_pair_new(&as.ch, &csp.ch, 60000));
    assert_int_equal(pthread_create(&thread, NULL, clear_evaluator, &csp), 0);
    clear_garbler(&as);
    pthread_join(thread, NULL);
    assert_true(csp.ok);
    unsigned k = as.p.k;
    for (size_t i = 0; i < t->values; i++) {
        uint8_t bits[34];
        for (unsigned j = 0; j < 34; j++) {
            size_t at = ((i / 16) * 34 + j) * 2 + i % 16 / 8;
            bits[j] = (as.bits[at] ^ csp.bits[at]) >> (i % 8) & 1;
        }
        uint32_t z = law_value_vartime(&sampler_g44, k, csp.own[i], bits);
        uint32_t w = (z - as.own[i] - 62) << (32 - k); /* modulo 2^k, read as signed */
        out[i] = (int64_t)(int32_t)w >> (32 - k);
    }
    channel_pair_close(&as.ch);
    channel_pair_close(&csp.ch);
    free(as.bits), free(csp.bits), free(as.own), free(csp.own);
}

typedef struct clear_law {
    dgauss law;
    sefl_rng rng;
} clear_law;

static inline sefl_status clear_draw(void *ctx, int64_t *e, size_t first, size_t n)
{
    clear_law *l = ctx;
    (void)first;
    return dgauss_fill_vartime(&l->law, e, n, &l->rng);
}

/* Each server rounds its digits and adds its own noise: pure functions of noise/own.h. */
static inline void clear_own(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                             uint64_t attempt, const uint64_t *v, const uint64_t *m)
{
    noise_params p = task_noise_params(t, round, attempt);
    noise_digits dv = noise_digits_of(v), dm = noise_digits_of(m);
    clear_law l;
    noise_source source = { .get = clear_draw, .ctx = &l };
    seeded gen;
    size_t bytes;
    CHECK_OK(dgauss_for_grid(&l.law, &t->grid));
    CHECK_OK(noise_own_bytes(&bytes, &p));
    uint8_t *reply = calloc(bytes, 1);
    assert_non_null(reply);
    named_coins_replay(&gen, "CSP", seed, "own", round, attempt);
    l.rng = seeded_rng(&gen);
    CHECK_OK(noise_own_make(reply, &p, &dm, &source, &l.rng));
    named_coins_replay(&gen, "AS", seed, "own", round, attempt);
    l.rng = seeded_rng(&gen);
    CHECK_OK(noise_own_finish(out, &p, reply, &dv, &source, &l.rng));
    free(reply);
}

/* The released integers of a round (protocol/as_link.h) from the sum of the clients' ones. */
static inline void clear_release(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                                 uint64_t attempt, const int64_t *sum)
{
    const ahe_params *p = &t->ahe;
    size_t n = p->units * p->unit_values;
    if (t->noise == TASK_NOISE_NONE) {
        memcpy(out, sum, t->values * sizeof *out);
        return;
    }
    uint64_t *v = calloc(n, sizeof *v), *m = calloc(n, sizeof *m);
    int64_t *all = calloc(n, sizeof *all);
    uint8_t *plain = calloc(p->units, p->plain_bytes), mask[AHE_SEED_BYTES];
    seeded gen;
    assert_true(v && m && all && plain);
    named_coins_replay(&gen, "AS", seed, "mask", round, attempt);
    seeded_fill(&gen, mask, sizeof mask);
    memcpy(all, sum, t->values * sizeof *sum);
    CHECK_OK(ahe_mask_units(p, plain, 0, p->units, mask));
    ahe_plain_digits(p, v, plain, p->units);
    ahe_plain_add(p, plain, all, p->units);
    ahe_plain_digits(p, m, plain, p->units);
    if (t->noise == TASK_NOISE_JOINT)
        clear_joint(out, t, seed, round, attempt, v, m);
    else
        clear_own(out, t, seed, round, attempt, v, m);
    free(v), free(m), free(all), free(plain);
}

/* theta += lr * value / clients: `server: average` with equal weights. volatile: each step is
 * rounded by itself, whatever the compiler would join. */
static inline void clear_step(float *theta, const task *t, const int64_t *w, uint32_t clients)
{
    for (size_t i = 0; i < t->params; i++) {
        volatile double value = t->noise == TASK_NOISE_JOINT ? ((double)w[i] + 0.5) * t->ahe.pack.h
                                                             : (double)w[i] * t->ahe.pack.q;
        volatile double step = t->server_lr * (value / clients);
        theta[i] = (float)((double)theta[i] + step);
    }
}

#endif

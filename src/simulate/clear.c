#include "simulate/clear.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "mpc/noise/session.h"
#include "mpc/plain/law.h"
#include "protocol/own_noise.h"
#include "simulate/named_coins.h"

#include <pthread.h>
#include <string.h>

enum { COINS = 34, TIMEOUT_MS = 600000, UNDER_WAY = 4 << 20 };

/* ---- joint noise ----------------------------------------------------------------------------- */

typedef struct side {
    channel ch;
    noise_params p;
    uint64_t seed;
    const uint64_t *digit;
    uint8_t *bits; /* this server's half of the sampler's input, as noise_*_coins gives it */
    uint32_t *own; /* n' or v' */
    sefl_status st;
} side;

static sefl_status side_init(side *s, const noise_params *p, uint64_t seed, const uint64_t *digit,
                             size_t padded)
{
    sefl_status st = SEFL_OK;
    s->p = *p, s->seed = seed, s->digit = digit;
    SEFL_TRY(sefl_new(&s->bits, padded * COINS, 2));
    SEFL_TRY(sefl_new(&s->own, padded, sizeof *s->own));
done:
    return st;
}

static void side_clear(side *s)
{
    sefl_free(s->bits);
    sefl_free(s->own);
}

/* A chunk's bits lie one behind the other. `one` draws them from the object of its role. */
static sefl_status draw_chunks(side *s, const noise_session *session, int sign,
                               void (*one)(void *object, uint8_t *bits, size_t c), void *object)
{
    sefl_status st = SEFL_OK;
    noise_session copy = *session;
    uint64_t *scratch = NULL;
    noise_digits d = noise_digits_of(s->digit);
    SEFL_TRY(sefl_new(&scratch, copy.p.chunk, sizeof *scratch));
    for (size_t c = 0; c < copy.chunks; c++) {
        one(object, s->bits + c * copy.chunk_blocks * copy.wires_r * 2, c);
        SEFL_TRY(noise_own_values(&copy, s->own + c * copy.p.chunk, scratch, &d, c, sign));
    }
done:
    sefl_wipe(&copy, sizeof copy);
    sefl_free(scratch);
    return st;
}

static void evaluator_bits(void *object, uint8_t *bits, size_t c)
{
    noise_evaluator_coins(object, bits, c);
}

static void garbler_bits(void *object, uint8_t *bits, size_t c)
{
    noise_garbler_coins(object, bits, c);
}

static void *evaluator(void *arg)
{
    side *s = arg;
    sefl_status st = SEFL_OK;
    noise_evaluator *e = NULL;
    seeded gen;
    named_coins_replay(&gen, "CSP", s->seed, "noise", s->p.round, s->p.attempt);
    sefl_rng rng = seeded_rng(&gen);
    SEFL_TRY(noise_evaluator_new(&e, &s->ch, &s->p, &rng));
    SEFL_TRY(noise_evaluator_offline(e, &s->ch));
    SEFL_TRY(channel_flush(&s->ch));
    SEFL_TRY(draw_chunks(s, noise_evaluator_session(e), 1, evaluator_bits, e));
done:
    noise_evaluator_free(e);
    channel_pair_close(&s->ch); /* the other side learns of a failure */
    s->st = st;
    return NULL;
}

static sefl_status garbler(side *s)
{
    sefl_status st = SEFL_OK;
    noise_garbler *g = NULL;
    seeded gen;
    named_coins_replay(&gen, "AS", s->seed, "noise", s->p.round, s->p.attempt);
    sefl_rng rng = seeded_rng(&gen);
    SEFL_TRY(noise_garbler_new(&g, &s->ch, &s->p, &rng));
    SEFL_TRY(noise_garbler_offline(g, &s->ch));
    SEFL_TRY(channel_flush(&s->ch));
    SEFL_TRY(draw_chunks(s, noise_garbler_session(g), -1, garbler_bits, g));
done:
    noise_garbler_free(g);
    channel_pair_close(&s->ch);
    return st;
}

static void join(int64_t *out, size_t n, const side *as, const side *csp)
{
    unsigned k = as->p.k;
    for (size_t i = 0; i < n; i++) {
        uint8_t bits[COINS];
        for (unsigned j = 0; j < COINS; j++) {
            size_t at = ((i / 16) * COINS + j) * 2 + i % 16 / 8;
            bits[j] = (as->bits[at] ^ csp->bits[at]) >> (i % 8) & 1;
        }
        uint32_t z = law_value_vartime(&sampler_g44, k, csp->own[i], bits);
        uint32_t w = (z - as->own[i] - 62) << (32 - k); /* modulo 2^k, read as signed */
        out[i] = (int64_t)(int32_t)w >> (32 - k);
    }
}

static sefl_status joint(int64_t *out, const task *t, uint64_t seed, const noise_params *p,
                         const uint64_t *v, const uint64_t *m)
{
    sefl_status st = SEFL_OK;
    side as = { 0 }, csp = { 0 };
    pthread_t thread;
    size_t padded = t->values + 2 * (size_t)TASK_NOISE_CHUNK; /* the last chunk is filled up */
    SEFL_TRY(side_init(&as, p, seed, v, padded));
    SEFL_TRY(side_init(&csp, p, seed, m, padded));
    SEFL_TRY(channel_pair_new(&as.ch, &csp.ch, TIMEOUT_MS));
    st = channel_pair_limit(&as.ch, UNDER_WAY);
    if (st == SEFL_OK && pthread_create(&thread, NULL, evaluator, &csp) != 0)
        st = sefl_fail(SEFL_ENOMEM, "no thread for the second server");
    if (st != SEFL_OK) {
        channel_pair_close(&as.ch);
        channel_pair_close(&csp.ch);
        goto done;
    }
    st = garbler(&as);
    pthread_join(thread, NULL);
    SEFL_TRY(st);
    SEFL_CHECK(csp.st == SEFL_OK, csp.st, "the second server's coins could not be drawn");
    join(out, t->values, &as, &csp);
done:
    side_clear(&as);
    side_clear(&csp);
    return st;
}

/* ---- each server's own ----------------------------------------------------------------------- */

/* Each server rounds its digits and adds its own noise: pure functions of noise/own.h. */
static sefl_status own(int64_t *out, const task *t, uint64_t seed, const noise_params *p,
                       const uint64_t *v, const uint64_t *m)
{
    sefl_status st = SEFL_OK;
    noise_digits dv = noise_digits_of(v), dm = noise_digits_of(m);
    own_noise o;
    noise_source source = own_noise_of(&o);
    seeded gen;
    size_t bytes;
    uint8_t *reply = NULL;
    SEFL_TRY(own_noise_init(&o, t));
    SEFL_TRY(noise_own_bytes(&bytes, p));
    SEFL_TRY(sefl_new(&reply, bytes, 1));
    named_coins_replay(&gen, "CSP", seed, "own", p->round, p->attempt);
    o.rng = seeded_rng(&gen);
    SEFL_TRY(noise_own_make(reply, p, &dm, &source, &o.rng));
    named_coins_replay(&gen, "AS", seed, "own", p->round, p->attempt);
    o.rng = seeded_rng(&gen);
    SEFL_TRY(noise_own_finish(out, p, reply, &dv, &source, &o.rng));
done:
    sefl_free(reply);
    return st;
}

/* ---- public ---------------------------------------------------------------------------------- */

sefl_status clear_release(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                          uint64_t attempt, const int64_t *sum)
{
    sefl_status st = SEFL_OK;
    const ahe_params *p = &t->ahe;
    size_t n = p->units * p->unit_values;
    noise_params np;
    uint64_t *v = NULL, *m = NULL;
    int64_t *all = NULL;
    uint8_t *plain = NULL, mask[AHE_SEED_BYTES];
    seeded gen;
    if (t->noise == TASK_NOISE_NONE) {
        memcpy(out, sum, t->values * sizeof *out);
        return SEFL_OK;
    }
    np = task_noise_params(t, round, attempt);
    SEFL_TRY(sefl_new(&v, n, sizeof *v));
    SEFL_TRY(sefl_new(&m, n, sizeof *m));
    SEFL_TRY(sefl_new(&all, n, sizeof *all));
    SEFL_TRY(sefl_new(&plain, p->units, p->plain_bytes));
    named_coins_replay(&gen, "AS", seed, "mask", round, attempt);
    seeded_fill(&gen, mask, sizeof mask);
    memcpy(all, sum, t->values * sizeof *sum);
    SEFL_TRY(ahe_mask_units(p, plain, 0, p->units, mask));
    ahe_plain_digits(p, v, plain, p->units);
    ahe_plain_add(p, plain, all, p->units);
    ahe_plain_digits(p, m, plain, p->units);
    sefl_free(all), all = NULL;
    sefl_free(plain), plain = NULL;
    if (t->noise == TASK_NOISE_JOINT)
        SEFL_TRY(joint(out, t, seed, &np, v, m));
    else
        SEFL_TRY(own(out, t, seed, &np, v, m));
done:
    sefl_free(v);
    sefl_free(m);
    sefl_free(all);
    sefl_free(plain);
    return st;
}

sefl_status clear_central(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                          const int64_t *sum)
{
    sefl_status st = SEFL_OK;
    dgauss g;
    seeded gen;
    SEFL_CHECK(t->noise == TASK_NOISE_OWN, SEFL_EINVAL, "central noise wants the grid of `own`");
    SEFL_TRY(dgauss_for_grid(&g, &t->grid));
    named_coins_replay(&gen, "AS", seed, "cdp", round, 1);
    sefl_rng rng = seeded_rng(&gen);
    SEFL_TRY(dgauss_fill_vartime(&g, out, t->values, &rng));
    for (size_t i = 0; i < t->values; i++)
        out[i] += sum[i];
done:
    return st;
}

#include "simulate/clear.h"

#include "base/alloc.h"
#include "crypto/ahe/ahe.h"
#include "model/engine/engine_ops.h"
#include "mpc/noise/online.h"
#include "mpc/noise/shares_plain.h"
#include "privacy/mechanism/dgauss.h"
#include "protocol/modes/mode.h"
#include "protocol/modes/own.h"
#include "simulate/named_coins.h"

#include <string.h>

enum { UNITS = 16, PIECES = 64 }; /* per piece of pool_run */

/* Computes the noise of this attempt: the sum of both servers' shares. */
static sefl_status joint_noise(uint8_t *x, const clear_facts *c, const noise_params *p)
{
    seeded gen[2];
    sefl_rng rng[2];
    for (int i = 0; i < 2; i++) {
        named_coins_replay(&gen[i], i ? "CSP" : "AS", c->seed, "noise", p->round, p->attempt);
        rng[i] = seeded_rng(&gen[i]);
    }
    return shares_fill_plain(x, noise_share_bytes(p), task_share_bits(c->task), c->task->values,
                             c->pool, &rng[0], &rng[1]);
}

typedef struct masking {
    const task *t;
    uint8_t *plain;
    const int64_t *sum;
    const uint8_t *seed;
} masking;

/* A piece of pool_run: units [begin, end) of the masked sum, as CSP would decrypt it. */
static sefl_status mask_units(void *ctx, unsigned lane, size_t begin, size_t end)
{
    sefl_status st = SEFL_OK;
    const masking *m = ctx;
    const ahe_params *p = &m->t->ahe;
    const size_t n = end - begin, at = begin * p->unit_values, left = m->t->values - at;
    uint8_t *plain = m->plain + begin * p->plain_bytes;
    int64_t *last = NULL; /* the end of the sum, with zeros to the end of its unit */
    (void)lane;
    SEFL_TRY(ahe_mask_units(p, plain, begin, n, m->seed));
    if (left < n * p->unit_values) {
        SEFL_TRY(sefl_new(&last, n * p->unit_values, sizeof *last));
        memcpy(last, m->sum + at, left * sizeof *last);
    }
    ahe_plain_add(p, plain, last ? last : m->sum + at, n);
done:
    sefl_free(last);
    return st;
}

/* The seed of CSP's own noise; NULL: its reply draws one. */
static const uint8_t *csp_noise(uint8_t seed[PRG_SEED], const clear_facts *c)
{
    seeded gen;
    if (!task_mode(c->task)->draw || !task_is_sealed(c->task))
        return NULL;
    named_coins_replay(&gen, "CSP", c->seed, "noise", c->round, 0);
    seeded_fill(&gen, seed, PRG_SEED);
    return seed;
}

/* AS's coins: a mask for each attempt; its own noise (`own`) for the round. */
static void draw_as(uint8_t mask[AHE_SEED_BYTES], uint8_t coins[NOISE_COINS], const clear_facts *c,
                    const release_mode *mode)
{
    seeded gen;
    named_coins_replay(&gen, "AS", c->seed, "mask", c->round, c->attempt);
    seeded_fill(&gen, mask, AHE_SEED_BYTES);
    if (!mode->shares)
        named_coins_replay(&gen, "AS", c->seed, "noise", c->round, 0);
    seeded_fill(&gen, coins, NOISE_COINS);
}

/* Calls both servers' functions of the mode, one after the other. AS's shares are zeros: only the
 * sum of both servers' shares matters. Without noise AS releases the exact sum. */
static sefl_status release(int64_t *out, const clear_facts *c, const int64_t *sum, bool joint)
{
    sefl_status st = SEFL_OK;
    const task *t = c->task;
    const release_mode *mode = task_mode(t);
    static const uint8_t slice[SHA256_BYTES];
    noise_params p = task_noise_params(t, c->round, c->attempt);
    size_t units = t->ahe.units * t->ahe.plain_bytes, bytes;
    const size_t each = mode->shares ? noise_share_bytes(&p) : 0;
    uint8_t *plain = NULL, *reply = NULL, *x[2] = { NULL, NULL };
    uint8_t mask[AHE_SEED_BYTES], coins[NOISE_COINS], noise[PRG_SEED], lags;
    uint8_t *as, *csp;
    seeded gen;
    if (!mode->noisy) {
        memcpy(out, sum, t->values * sizeof *out);
        return SEFL_OK;
    }
    past_use(c->past, PAST_AS, c->round, &lags, &as);
    past_use(c->past, PAST_CSP, c->round, &lags, &csp);
    draw_as(mask, coins, c, mode);
    SEFL_TRY(sefl_new(&plain, units, 1));
    SEFL_TRY(pool_run(c->pool, t->ahe.units, UNITS, mask_units,
                      &(masking){ .t = t, .plain = plain, .sum = sum, .seed = mask }, NULL));
    for (int i = 0; i < 2 && mode->shares; i++)
        SEFL_TRY(sefl_new(&x[i], t->values, each));
    if (mode->shares && joint)
        SEFL_TRY(joint_noise(x[1], c, &p));
    SEFL_TRY(task_output_bytes(&bytes, t));
    if (mode->reply) {
        named_coins_replay(&gen, "CSP", c->seed, "reply", c->round, c->attempt);
        SEFL_TRY(sefl_new(&reply, bytes, 1));
        SEFL_TRY(mode->reply(reply, t,
                             &(mode_csp){ .round = c->round,
                                          .attempt = c->attempt,
                                          .plain = plain,
                                          .slice = slice,
                                          .shares = x[1],
                                          .lags = lags,
                                          .memory = csp,
                                          .noise = csp_noise(noise, c),
                                          .rng = seeded_rng(&gen),
                                          .pool = c->pool }));
    }
    SEFL_TRY(mode->finish(out, t, span_of(reply ? reply : plain, bytes),
                          &(mode_as){ .round = c->round,
                                      .attempt = c->attempt,
                                      .seed = mask,
                                      .coins = coins,
                                      .slice = slice,
                                      .shares = span_of(x[0], x[0] ? t->values * each : 0),
                                      .lags = lags,
                                      .memory = as,
                                      .pool = c->pool }));
done:
    sefl_free(plain);
    sefl_free(reply);
    sefl_free(x[0]);
    sefl_free(x[1]);
    return st;
}

/* ---- a trusted aggregator's noise ------------------------------------------------------------ */

typedef struct central {
    dgauss law;
    seeded coins;
    int64_t *out;
    const int64_t *sum;
    size_t values;
    own_filter filter;
} central;

static sefl_status central_pieces(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const central *c = ctx;
    (void)lane;
    for (size_t piece = begin; piece < end; piece++) {
        seeded gen;
        size_t at = piece * ENGINE_NOISE_PIECE, left = c->values - at;
        size_t n = left < ENGINE_NOISE_PIECE ? left : ENGINE_NOISE_PIECE;
        seeded_piece(&gen, &c->coins, 1 + piece);
        sefl_rng rng = seeded_rng(&gen);
        SEFL_PASS(dgauss_fill_vartime(&c->law, c->out + at, n, &rng));
        own_filter_apply(&c->filter, c->out + at, at, n);
        for (size_t i = at; i < at + n; i++)
            c->out[i] += c->sum[i];
    }
    return SEFL_OK;
}

/* ---- public ---------------------------------------------------------------------------------- */

sefl_status clear_release(int64_t *out, const clear_facts *c, const int64_t *sum)
{
    return release(out, c, sum, true);
}

sefl_status clear_without_joint(int64_t *out, const clear_facts *c, const int64_t *sum)
{
    return release(out, c, sum, false);
}

sefl_status clear_central(int64_t *out, const clear_facts *c, const int64_t *sum)
{
    central job = { .out = out, .sum = sum, .values = c->task->values };
    uint8_t lags, *memory;
    past_use(c->past, PAST_AS, c->round, &lags, &memory);
    SEFL_PASS(own_filter_init(&job.filter, &job.law, c->task, memory));
    named_coins_replay(&job.coins, "AS", c->seed, "cdp", c->round, 1);
    return pool_run(c->pool, (job.values + ENGINE_NOISE_PIECE - 1) / ENGINE_NOISE_PIECE, PIECES,
                    central_pieces, &job, NULL);
}

sefl_status clear_central_noise(engine_noise *out, const clear_facts *c)
{
    dgauss g;
    seeded gen;
    SEFL_PASS(own_law(&g, c->task));
    named_coins_replay(&gen, "AS", c->seed, "cdp", c->round, 1);
    *out = (engine_noise){ .num = g.num, .den = g.den, .t = g.t };
    memcpy(out->key, gen.key, sizeof out->key);
    return SEFL_OK;
}

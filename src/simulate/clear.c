#include "simulate/clear.h"

#include "base/alloc.h"
#include "crypto/prg/prg.h"
#include "mpc/noise/shares_plain.h"
#include "simulate/named_coins.h"
#include "sum/own_noise.h"

#include <string.h>

/* The joint noise of this attempt, as both servers' shares add up to it. */
static sefl_status joint_noise(uint8_t *x, const task *t, uint64_t seed, const noise_params *p)
{
    seeded gen[2];
    sefl_rng rng[2];
    for (int i = 0; i < 2; i++) {
        named_coins_replay(&gen[i], i ? "CSP" : "AS", seed, "noise", p->round, p->attempt);
        rng[i] = seeded_rng(&gen[i]);
    }
    return shares_fill_plain(x, noise_value_bytes(p), t->values, &rng[0], &rng[1]);
}

/* Both servers' pure functions of noise/online.h, one after the other. */
static sefl_status noisy(int64_t *out, const task *t, uint64_t seed, const noise_params *p,
                         const uint64_t *v, const uint64_t *m, const uint8_t as_coins[NOISE_COINS],
                         bool joint)
{
    sefl_status st = SEFL_OK;
    noise_digits dv = noise_digits_of(v), dm = noise_digits_of(m);
    unsigned each = noise_value_bytes(p);
    uint8_t *reply = NULL, *x[2] = { NULL, NULL };
    own_noise o;
    noise_taken taken[2];
    noise_source add[2];
    seeded gen;
    prg coins;
    size_t bytes;
    prg_init(&coins, as_coins, "own noise");
    SEFL_TRY(own_noise_init(&o, t));
    SEFL_TRY(noise_reply_bytes(&bytes, p));
    SEFL_TRY(sefl_new(&reply, bytes, 1));
    for (int i = 0; i < 2; i++) {
        SEFL_TRY(sefl_new(&x[i], p->own ? 0 : t->values, each));
        taken[i] = (noise_taken){ x[i], each };
        add[i] = p->own ? own_noise_of(&o) : noise_taken_of(&taken[i]);
    }
    if (!p->own && joint)
        SEFL_TRY(joint_noise(x[1], t, seed, p)); /* AS's share is zero: only the sum matters */
    named_coins_replay(&gen, "CSP", seed, "reply", p->round, p->attempt);
    o.rng = seeded_rng(&gen);
    SEFL_TRY(noise_reply_make(reply, p, &dm, &add[1], &o.rng));
    o.rng = prg_rng(&coins);
    SEFL_TRY(noise_reply_finish(out, p, span_of(reply, bytes), &dv, &add[0], as_coins));
done:
    prg_clear(&coins);
    sefl_free(reply);
    sefl_free(x[0]);
    sefl_free(x[1]);
    return st;
}

/* ---- public ---------------------------------------------------------------------------------- */

static sefl_status release(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                           uint64_t attempt, const int64_t *sum, bool joint)
{
    sefl_status st = SEFL_OK;
    const ahe_params *p = &t->ahe;
    size_t n = p->units * p->unit_values;
    noise_params np;
    uint64_t *v = NULL, *m = NULL;
    int64_t *all = NULL;
    uint8_t *plain = NULL, mask[AHE_SEED_BYTES], coins[NOISE_COINS];
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
    seeded_fill(&gen, coins, sizeof coins);
    memcpy(all, sum, t->values * sizeof *sum);
    SEFL_TRY(ahe_mask_units(p, plain, 0, p->units, mask));
    ahe_plain_digits(p, v, plain, p->units);
    ahe_plain_add(p, plain, all, p->units);
    ahe_plain_digits(p, m, plain, p->units);
    sefl_free(all), all = NULL;
    sefl_free(plain), plain = NULL;
    SEFL_TRY(noisy(out, t, seed, &np, v, m, coins, joint));
done:
    sefl_free(v);
    sefl_free(m);
    sefl_free(all);
    sefl_free(plain);
    return st;
}

sefl_status clear_release(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                          uint64_t attempt, const int64_t *sum)
{
    return release(out, t, seed, round, attempt, sum, true);
}

sefl_status clear_without_joint(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                                uint64_t attempt, const int64_t *sum)
{
    return release(out, t, seed, round, attempt, sum, false);
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

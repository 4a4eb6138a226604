#include "simulate/clear.h"

#include "base/alloc.h"
#include "mpc/noise/online.h"
#include "mpc/noise/shares_plain.h"
#include "privacy/mechanism/dgauss.h"
#include "simulate/named_coins.h"

#include <string.h>

/* Computes the noise of this attempt: the sum of both servers' shares. */
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

/* Computes the masked sum as CSP would decrypt it. */
static sefl_status mask_sum(uint8_t *plain, const task *t, const int64_t *sum, const uint8_t *seed)
{
    sefl_status st = SEFL_OK;
    const ahe_params *p = &t->ahe;
    int64_t *all = NULL;
    SEFL_TRY(sefl_new(&all, p->units * p->unit_values, sizeof *all));
    memcpy(all, sum, t->values * sizeof *sum);
    SEFL_TRY(ahe_mask_units(p, plain, 0, p->units, seed));
    ahe_plain_add(p, plain, all, p->units);
done:
    sefl_free(all);
    return st;
}

/* Calls both servers' functions of the mode, one after the other. AS's shares are zeros: only the
 * sum of both servers' shares matters. */
static sefl_status release(int64_t *out, const task *t, uint64_t seed, uint64_t round,
                           uint64_t attempt, const int64_t *sum, bool joint)
{
    sefl_status st = SEFL_OK;
    const release_mode *mode = task_mode(t);
    static const uint8_t slice[SHA256_BYTES];
    noise_params p = task_noise_params(t, round, attempt);
    size_t units = t->ahe.units * t->ahe.plain_bytes, bytes, each = noise_value_bytes(&p);
    uint8_t *plain = NULL, *reply = NULL, *x[2] = { NULL, NULL };
    uint8_t mask[AHE_SEED_BYTES], coins[NOISE_COINS];
    seeded gen;
    named_coins_replay(&gen, "AS", seed, "mask", round, attempt);
    seeded_fill(&gen, mask, sizeof mask);
    seeded_fill(&gen, coins, sizeof coins);
    SEFL_TRY(sefl_new(&plain, units, 1));
    SEFL_TRY(mask_sum(plain, t, sum, mask));
    for (int i = 0; i < 2 && mode->shares; i++)
        SEFL_TRY(sefl_new(&x[i], t->values, each));
    if (mode->shares && joint)
        SEFL_TRY(joint_noise(x[1], t, seed, &p));
    SEFL_TRY(task_output_bytes(&bytes, t));
    if (mode->reply) {
        named_coins_replay(&gen, "CSP", seed, "reply", round, attempt);
        SEFL_TRY(sefl_new(&reply, bytes, 1));
        SEFL_TRY(mode->reply(reply, t,
                             &(mode_csp){ .round = round,
                                          .attempt = attempt,
                                          .plain = plain,
                                          .slice = slice,
                                          .shares = x[1],
                                          .rng = seeded_rng(&gen) }));
    }
    SEFL_TRY(mode->finish(out, t, span_of(reply ? reply : plain, bytes),
                          &(mode_as){ .round = round,
                                      .attempt = attempt,
                                      .seed = mask,
                                      .coins = coins,
                                      .slice = slice,
                                      .shares = span_of(x[0], x[0] ? t->values * each : 0) }));
done:
    sefl_free(plain);
    sefl_free(reply);
    sefl_free(x[0]);
    sefl_free(x[1]);
    return st;
}

/* ---- public ---------------------------------------------------------------------------------- */

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
                          uint64_t attempt, const int64_t *sum)
{
    dgauss g;
    seeded gen;
    (void)attempt;
    SEFL_PASS(dgauss_for_grid(&g, &t->grid));
    named_coins_replay(&gen, "AS", seed, "cdp", round, 1);
    sefl_rng rng = seeded_rng(&gen);
    SEFL_PASS(dgauss_fill_vartime(&g, out, t->values, &rng));
    for (size_t i = 0; i < t->values; i++)
        out[i] += sum[i];
    return SEFL_OK;
}

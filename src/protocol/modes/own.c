/* Mode own: each server adds the exact discrete Gaussian of the task's grid with its own coins. */
#include "base/ct.h"
#include "crypto/prg/prg.h"
#include "privacy/mechanism/dgauss.h"
#include "protocol/modes/noisy.h"

#include <math.h>

/* A server's noise: a piece has its own stream. Not constant time (dgauss.h). */
typedef struct own_noise {
    dgauss law;
    prg coins;
} own_noise;

static sefl_status own_init(own_noise *o, const task *t, const uint8_t seed[PRG_SEED])
{
    prg_init(&o->coins, seed, "own noise");
    return dgauss_for_grid(&o->law, &t->grid);
}

static sefl_status draw(void *ctx, int64_t *e, size_t first, size_t n)
{
    const own_noise *o = ctx;
    prg coins = o->coins;
    prg_at(&coins, first / NOISE_PIECE, 0);
    sefl_rng rng = prg_rng(&coins);
    sefl_status st = dgauss_fill_vartime(&o->law, e, n, &rng);
    prg_clear(&coins);
    return st;
}

static sefl_status derive(task *t)
{
    dgauss g;
    sefl_status st = dgauss_for_grid(&g, &t->grid);
    if (st == SEFL_OK)
        t->sigma_steps = sqrt((double)g.num / (double)g.den);
    return st;
}

static double deviation(const task *t)
{
    return sqrt(2) * t->sigma_steps * t->grid.q;
}

static sefl_status reply(uint8_t *out, const task *t, const mode_csp *in)
{
    sefl_status st = SEFL_OK;
    uint8_t seed[PRG_SEED];
    own_noise o = { 0 };
    noise_source add = { .get = draw, .ctx = &o };
    SEFL_TRY(rng_fill(&in->rng, seed, sizeof seed));
    SEFL_TRY(own_init(&o, t, seed));
    SEFL_TRY(noisy_reply(out, t, in, &add));
done:
    prg_clear(&o.coins);
    sefl_wipe(seed, sizeof seed);
    return st;
}

static sefl_status finish(int64_t *w, const task *t, sefl_span in_reply, const mode_as *in)
{
    sefl_status st = SEFL_OK;
    own_noise o = { 0 };
    noise_source add = { .get = draw, .ctx = &o };
    SEFL_TRY(own_init(&o, t, in->coins));
    SEFL_TRY(noisy_finish(w, t, in_reply, in, &add));
done:
    prg_clear(&o.coins);
    return st;
}

const release_mode mode_own = {
    .name = "own",
    .noisy = true,
    .source = &dp_sources[DP_SOURCE_OWN],
    .shape = &noise_own,
    .value_jumps = 10,
    .deviation = deviation,
    .derive = derive,
    .reply = reply,
    .finish = finish,
    .happens = "Each server adds its own noise; AS learns the sum with the noise of both servers.",
    .as_never = ", the exact sum, CSP's noise",
    .csp_never = "",
};

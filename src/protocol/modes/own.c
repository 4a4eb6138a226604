/* Mode own: each server adds the exact discrete Gaussian of the task's grid with its own coins. */
#include "crypto/prg/prg.h"
#include "privacy/mechanism/dgauss.h"
#include "protocol/modes/noisy.h"

#include <math.h>

/* A server's noise. Not constant time (dgauss.h). */
typedef struct own_noise {
    dgauss law;
    sefl_rng rng;
} own_noise;

static sefl_status draw(void *ctx, int64_t *e, size_t first, size_t n)
{
    own_noise *o = ctx;
    (void)first;
    return dgauss_fill_vartime(&o->law, e, n, &o->rng);
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

static double value(const task *t, int64_t w)
{
    return (double)w * t->ahe.pack.q;
}

static sefl_status reply(uint8_t *out, const task *t, const mode_csp *in)
{
    own_noise o = { .rng = in->rng };
    noise_source add = { .get = draw, .ctx = &o };
    sefl_status st = dgauss_for_grid(&o.law, &t->grid);
    return st == SEFL_OK ? noisy_reply(out, t, in, &add) : st;
}

static sefl_status finish(int64_t *w, const task *t, sefl_span in_reply, const mode_as *in)
{
    prg coins;
    prg_init(&coins, in->coins, "own noise");
    own_noise o = { .rng = prg_rng(&coins) };
    noise_source add = { .get = draw, .ctx = &o };
    sefl_status st = dgauss_for_grid(&o.law, &t->grid);
    if (st == SEFL_OK)
        st = noisy_finish(w, t, in_reply, in, &add);
    prg_clear(&coins);
    return st;
}

const release_mode mode_own = {
    .name = "own",
    .law = DP_NOISE_DISCRETE,
    .noisy = true,
    .noises = 2,
    .value_jumps = 10,
    .deviation = deviation,
    .quantise = noisy_quantise,
    .client_grid = noisy_grid,
    .derive = derive,
    .reply = reply,
    .finish = finish,
    .value = value,
    .happens = "Each server adds its own noise; AS learns the sum with both.",
    .as_never = ", the exact sum, CSP's noise",
    .csp_never = "",
};

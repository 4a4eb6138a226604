/* Mode own: each server adds the exact discrete Gaussian of the task's grid with its own coins.
 *
 * With a filter a server draws its fresh noise W_r on a finer grid, DP_FILTER_OWN_BITS bits below
 * the coarse step, adds H = (-sum of gamma_j W_(r-j) + 2^11) >> 12 on that grid, rounds the sum to
 * the nearest fine step and keeps W_r. Each server decides by itself which rounds it still has. */
#include "protocol/modes/own.h"
#include "base/ct.h"
#include "crypto/prg/prg.h"
#include "privacy/mechanism/dgauss.h"
#include "protocol/modes/noisy.h"

#include <math.h>
#include <string.h>

/* A server's noise: a piece has its own stream. Not constant time (dgauss.h). */
typedef struct own_noise {
    dgauss law;
    prg coins;
    own_filter filter;
    const int64_t *drawn; /* NULL: drawn as it is needed */
    int64_t *out;         /* of draw */
} own_noise;

sefl_status own_law(dgauss *law, const task *t)
{
    SEFL_PASS(dgauss_for_grid(law, &t->grid));
    return t->ahe.pack.g == 0 ? SEFL_OK
                              : dgauss_init(law, law->num + law->num / OWN_RESERVE + 1, law->den);
}

double own_carries(const task *t)
{
    /* eta: twice what a carry moves a digit by, for the difference of two; d2: values over D^2 */
    const double eta = ldexp(2, -(int)t->ahe.pack.g), d2 = (double)t->values / (double)t->grid.s2;
    const double variance = t->grid.z * t->grid.z * (double)t->grid.s2;
    const double c = (double)OWN_ORDER_MAX * OWN_ORDER_MAX / (2 * variance);
    return t->ahe.pack.g == 0 ? 0 : 1.72 * eta * (2 * sqrt(d2) + d2) + 0.1 * c;
}

sefl_status own_filter_init(own_filter *f, dgauss *law, const task *t, uint8_t *memory)
{
    *f = (own_filter){ 0 };
    SEFL_PASS(own_law(law, t));
    if (t->filter.b == 0)
        return SEFL_OK;
    SEFL_NEED(memory, SEFL_EINVAL, "a filter needs a memory");
    *f = (own_filter){ .memory = memory, .bits = t->filter_bits - t->grid.t };
    return dgauss_init(law, law->num << 2 * f->bits, law->den);
}

void own_filter_apply(const own_filter *f, int64_t *e, size_t first, size_t n)
{
    uint8_t *memory = f->memory ? f->memory + first * NOISE_KEPT : NULL;
    for (size_t i = 0; memory && i < n; i++, memory += NOISE_KEPT) {
        /* H modulo 2^52, as a signed number */
        const int64_t back = (int64_t)(load_u64(memory) << NOISE_GAMMA_BITS) >> NOISE_GAMMA_BITS;
        store_u64(memory, (uint64_t)e[i]);
        e[i] = (e[i] + back + ((int64_t)1 << (f->bits - 1))) >> f->bits;
    }
}

static sefl_status own_init(own_noise *o, const task *t, uint8_t *memory,
                            const uint8_t seed[PRG_SEED])
{
    prg_init(&o->coins, seed, "own noise");
    return own_filter_init(&o->filter, &o->law, t, memory);
}

static sefl_status fresh(const own_noise *o, int64_t *e, size_t first, size_t n)
{
    prg coins = o->coins;
    prg_at(&coins, first / NOISE_PIECE, 0);
    sefl_rng rng = prg_rng(&coins);
    sefl_status st = dgauss_fill_vartime(&o->law, e, n, &rng);
    prg_clear(&coins);
    return st;
}

static sefl_status added(void *ctx, int64_t *e, size_t first, size_t n)
{
    const own_noise *o = ctx;
    if (o->drawn)
        memcpy(e, o->drawn + first, n * sizeof *e);
    else
        SEFL_PASS(fresh(o, e, first, n));
    own_filter_apply(&o->filter, e, first, n);
    return SEFL_OK;
}

/* Values [begin, end); begin is a multiple of NOISE_PIECE. */
static sefl_status draw_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const own_noise *o = ctx;
    (void)lane;
    for (size_t at = begin; at < end; at += NOISE_PIECE)
        SEFL_PASS(fresh(o, o->out + at, at, end - at < NOISE_PIECE ? end - at : NOISE_PIECE));
    return SEFL_OK;
}

static sefl_status draw(int64_t *e, const task *t, const uint8_t *seed, pool *threads)
{
    own_noise o = { .out = e };
    uint8_t unused[NOISE_KEPT];
    prg_init(&o.coins, seed, "own noise");
    sefl_status st = own_filter_init(&o.filter, &o.law, t, unused); /* for the law */
    if (st == SEFL_OK)
        st = pool_run(threads, t->values, NOISE_PIECE, draw_piece, &o, NULL);
    prg_clear(&o.coins);
    return st;
}

static sefl_status derive(task *t)
{
    dgauss g;
    SEFL_PASS(own_law(&g, t));
    t->sigma_steps = sqrt((double)g.num / (double)g.den);
    if (!t->claim || t->ahe.pack.g == 0)
        return SEFL_OK;
    SEFL_NEED(own_carries(t) <= 1.0 / OWN_RESERVE, SEFL_EINVAL,
              "task: own noise under paillier: carries between slots would cost %.2g of its "
              "variance, and the reserve is %.2g; use crypto.scheme pad, a smaller privacy.z, or "
              "claim none",
              own_carries(t), 1.0 / OWN_RESERVE);
    return SEFL_OK;
}

static double deviation(const task *t)
{
    return task_noise_gain(t) * sqrt(2) * t->sigma_steps * t->grid.q;
}

static sefl_status reply(uint8_t *out, const task *t, const mode_csp *in)
{
    sefl_status st = SEFL_OK;
    uint8_t seed[PRG_SEED];
    own_noise o = { .drawn = in->drawn };
    noise_source add = { .get = added, .ctx = &o };
    if (in->noise)
        memcpy(seed, in->noise, sizeof seed);
    else
        SEFL_TRY(rng_fill(&in->rng, seed, sizeof seed));
    SEFL_TRY(own_init(&o, t, in->memory, seed));
    SEFL_TRY(noisy_reply(out, t, in, &add));
done:
    prg_clear(&o.coins);
    sefl_wipe(seed, sizeof seed);
    return st;
}

static sefl_status own_finish(int64_t *w, const task *t, sefl_span in_reply, const mode_as *in)
{
    sefl_status st = SEFL_OK;
    own_noise o = { .drawn = in->drawn };
    noise_source add = { .get = added, .ctx = &o };
    SEFL_TRY(own_init(&o, t, in->memory, in->coins));
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
    .draw = draw,
    .reply = reply,
    .finish = own_finish,
    .trust = "one honest server is enough, whichever it is",
    .price = "the model carries the noise of both servers, 1.41 times that of joint",
    .happens = "Each server adds its own noise; AS learns the sum with the noise of both servers.",
    .as_never = ", the exact sum, CSP's noise",
    .csp_never = ", AS's noise",
};

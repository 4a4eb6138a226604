/* Audits the noise: does a server's view hide a client as well as noise of multiplier z does?
 *
 * Samples. Each run is one coordinate of both servers' real code (noise/online.h, fed with the
 * shares of joint noise or with own noise), n times with a client of full norm and n times with
 * zeros in its place. A view is one number, the best guess of the sum by a server that subtracts
 * everything it knows: AS its mask, the dither and its shares; CSP its digits, shares and noise.
 * Only the other server's noise is left in it. (cdp: the sum with the trusted server's noise.)
 *
 * Half-lines. S is what lies above a threshold: 81 of them, every tenth of sigma, up to 4 sigma
 * from the middle between the two means. They are fixed before any sample is drawn.
 *
 * Bounds. If h of n runs are in S, Chernoff's bound, Pr[h/n >= x] <= exp(-n kl(x, p)) for x >= p and
 * the same below, gives a bound on p = Pr[S]: the solution of n kl(h/n, p) = log(1/alpha), which is
 * wrong with odds alpha. alpha = 1e-6 / (2 * 81 * 11): two bounds for every half-line of 11 views.
 * By the union bound all of them hold together, except with odds 1e-6.
 *
 * Violations. With the lower bound on Pr[S | there] and the upper one on Pr[S | gone], an audit
 * reports a violation if for some S
 *
 *     Pr[S | there] > Phi(mu + Phi^-1(Pr[S | gone]))        the curve of Gaussian noise 1 / mu
 *     Pr[S | there] > e^eps Pr[S | gone] + delta            the claims at four deltas, and reversed
 *
 * For the discrete Gaussian (own, cdp) mu = 1 / z is a theorem (docs/PRIVACY.md, section 5). For
 * joint noise the theorem bounds Renyi divergences by those of z / sqrt(1.0048), from which the
 * claims follow, but a single half-line may lie a little above that Gaussian's curve: those of the
 * exact law reach mu = 1.0056 / z. So mu = 1.006 / z, and `exact_laws` checks it. Hence an honest
 * system is reported with odds of at most 1e-6, in all views together.
 *
 * Power. The claims are loose at one release; the curve shows noise that is too small. Every
 * setting also runs with 10 % less noise: joint noise without five of the 27 fair coins of X,
 * discrete noise of 0.81 times the variance. An audit must report each of them. `exact_laws`
 * computes, from the mutants' own laws, that it does except with odds 1e-6 in all views together:
 * it takes one half-line, moves both frequencies as far as Chernoff's bound lets them, and still
 * finds a violation. */
#include "support/check.h"

#include "base/alloc.h"
#include "crypto/prg/prg.h"
#include "mpc/noise/online.h"
#include "privacy/accountant/law.h"
#include "privacy/accountant/pld.h"
#include "privacy/mechanism/dgauss.h"
#include "privacy/mechanism/quantise.h"
#include "support/digits.h"
#include "support/g44.h"
#include "support/law.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 u128;

enum kind { JOINT, OWN, CDP };

enum {
    POINTS = 81,
    SLOTS = 3,  /* packed: the client's norm is in the middle one */
    GUARD = 16, /* packed: guard bits of a digit */
    HEADROOM = 30,
    SPREAD_MAX = 16,
};

static const struct setting {
    const char *name;
    enum kind kind;
    double z;
    unsigned spread; /* coordinates that share the client's norm; a view is their sum */
    bool packed;     /* in slots with carries, as under `paillier`; otherwise as under `pad` */
    size_t runs;     /* as many as `exact_laws` needs, and a few more */
} settings[] = {
    { "joint, z = 0.25", JOINT, 0.25, 1, false, 50000 },
    { "joint, z = 1, packed", JOINT, 1, 1, true, 100000 },
    { "joint, z = 4", JOINT, 4, 1, false, 1400000 },
    { "joint, z = 1, 16 coordinates", JOINT, 1, SPREAD_MAX, false, 120000 },
    { "own, z = 1", OWN, 1, 1, false, 100000 },
    { "cdp, z = 2", CDP, 2, 1, false, 350000 },
};
enum { SETTINGS = sizeof settings / sizeof *settings, VIEWS = 2 * SETTINGS - 1 };

static const double odds = 1e-6;      /* of a false alarm, and of a miss, in all views together */
static const double joint_mu = 1.006; /* times 1 / z */
static const double less = 0.9;       /* the mutants' deviation */

/* G44 without one coin of weight 2 and four of weight 4: the variance of a view falls from 88.92 to
 * 71.92, the deviation to 0.8993. */
static const sampler_profile few_coins = {
    .name = "few coins", .columns = 3, .column = { 3, 3, 16 }, .kick_a = 4, .kick_m = 6
};
static const uint64_t few_bits = ~(UINT64_C(1) << 3 | UINT64_C(15) << 7);

/* ---- bounds ---------------------------------------------------------------------------------- */

static double kl(double a, double b)
{
    double t = 0;
    if (a > 0)
        t += a * log(a / b);
    if (a < 1)
        t += (1 - a) * log((1 - a) / (1 - b));
    return t;
}

/* The farthest probability, upwards or downwards, under which frequency p in n runs has more than
 * these odds; with `outcome`, the farthest frequency that has more under probability p. */
static double farthest(double p, bool up, bool outcome, double n, double alpha)
{
    double lo = up ? p : 0, hi = up ? 1 : p;
    for (int i = 0; i < 100; i++) {
        double mid = (lo + hi) / 2;
        bool inside = n * (outcome ? kl(mid, p) : kl(p, mid)) < log(1 / alpha);
        if (inside == up)
            lo = mid;
        else
            hi = mid;
    }
    return up ? hi : lo;
}

/* bounds on the probabilities of the half-lines: from below with the client, from above without */
typedef struct sweep {
    double there[POINTS], gone[POINTS];
} sweep;

static void bound(sweep *w, double n)
{
    for (size_t k = 0; k < POINTS; k++) {
        w->there[k] = farthest(w->there[k], false, false, n, odds / (2 * POINTS * VIEWS));
        w->gone[k] = farthest(w->gone[k], true, false, n, odds / (2 * POINTS * VIEWS));
    }
}

static bool contradicted(const sweep *w, double eps, double delta)
{
    bool bad = false;
    for (size_t k = 0; k < POINTS; k++) {
        bad |= w->there[k] > exp(eps) * w->gone[k] + delta;
        bad |= 1 - w->gone[k] > exp(eps) * (1 - w->there[k]) + delta;
    }
    return bad;
}

static double normal_above(double x)
{
    return erfc(x * M_SQRT1_2) / 2;
}

static double normal_quantile(double p)
{
    double lo = -40, hi = 40;
    for (int i = 0; i < 60; i++) {
        double mid = (lo + hi) / 2;
        if (normal_above(-mid) < p)
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}

/* As the curve is symmetric, this covers the other ends of the line too. */
static bool above_curve(const sweep *w, double mu)
{
    bool bad = false;
    for (size_t k = 0; k < POINTS; k++)
        if (w->gone[k] < 1)
            bad |= w->there[k] > normal_above(-mu - normal_quantile(w->gone[k]));
    return bad;
}

static double curve_of(const struct setting *s)
{
    return (s->kind == JOINT ? joint_mu : 1) / s->z;
}

/* ---- one setting's numbers ------------------------------------------------------------------- */

/* In units of the view: coarse steps for joint noise, fine steps otherwise. */
typedef struct units {
    dp_grid g;
    double sigma, shift; /* of one coordinate; the shift is that of the client's whole norm */
} units;

static units units_of(const struct setting *s)
{
    units u;
    CHECK_OK(dp_grid_init(
        &u.g, &(dp_grid_config){
                  .z = s->z, .clip = 1, .dim = s->packed ? SLOTS : s->spread, .clients = 100 }));
    u.sigma = s->kind == JOINT ? DP_G44_SIGMA : s->z * sqrt((double)u.g.s2);
    u.shift = s->kind == JOINT ? u.g.r / ldexp(1, (int)u.g.t) : u.g.r;
    return u;
}

static double threshold(const units *u, size_t k)
{
    return u->shift / 2 + ((double)k - (POINTS - 1) / 2.0) * u->sigma / 10;
}

/* ---- the exact laws -------------------------------------------------------------------------- */

/* above[i] is the probability that a view of joint noise (the sum of `spread` of them) is at least
 * i / fine - zero. The grid is coarser than the real one, which changes little: the smoothing by
 * both roundings has variance (1 - 1/fine^2)/6 instead of 1/6. Jumps beyond 200 steps, of
 * probability 7e-9, are left out. */
typedef struct exact {
    double *above, zero;
    size_t n;
    int fine;
} exact;

static exact exact_joint(const sampler_profile *p, unsigned spread)
{
    enum { JUMP = 200 };
    const int fine = spread == 1 ? 256 : 4, values = (int)sampler_max(p) + 1;
    exact x = { .fine = fine, .n = (size_t)((values + 2 * JUMP + 1) * fine) };
    uint64_t count[G44_VALUES];
    double *law;
    CHECK_OK(law_pmf(p, count));
    CHECK_OK(sefl_new(&law, x.n, sizeof *law));
    for (int v = 0; v < values; v++)
        for (int y = -JUMP; y <= JUMP; y++) {
            double both = ldexp((double)count[v], -(int)sampler_random_bits(p));
            both *= g44_jump_probability(y) / ((double)fine * fine);
            for (int j = 1 - fine; j < fine; j++)
                law[(v + y + JUMP + 1) * fine + j] += both * (fine - abs(j));
        }
    x.zero = spread * (JUMP + 1 + (values - 1) / 2.0);
    for (unsigned d = 1; d < spread; d *= 2) {
        double *twice;
        CHECK_OK(sefl_new(&twice, 2 * x.n, sizeof *twice));
        for (size_t i = 0; i < x.n; i++)
            for (size_t j = 0; j < x.n; j++)
                twice[i + j] += law[i] * law[j];
        sefl_free(law);
        law = twice, x.n *= 2;
    }
    for (size_t i = x.n - 1; i-- > 0;)
        law[i] += law[i + 1];
    x.above = law;
    return x;
}

/* Probability of at least `at`; the larger of two candidates on the grid, or the smaller. */
static double exact_above(const exact *x, double at, bool larger)
{
    double i = (at + x->zero) * x->fine;
    i = larger ? floor(i) : ceil(i);
    return i < 0 ? 1 : i >= (double)x->n ? 0 : x->above[(size_t)i];
}

/* Is a violation certain, but for the odds of a miss? Frequencies with the client fall below
 * w->there, and those without rise above w->gone, by as much as these odds allow. */
static bool surely_found(sweep w, double n, double mu)
{
    for (size_t k = 0; k < POINTS; k++) {
        w.there[k] = farthest(w.there[k], false, true, n, odds / (2 * VIEWS));
        w.gone[k] = farthest(w.gone[k], true, true, n, odds / (2 * VIEWS));
    }
    bound(&w, n);
    return above_curve(&w, mu);
}

/* The exact probabilities of the half-lines: too small with the client, too large without, by the
 * width of the grid or by two fine steps. */
static sweep exact_sweep(const struct setting *s, const exact *x, double noise)
{
    const units u = units_of(s);
    const double side = sqrt(s->spread), step = s->kind == JOINT ? ldexp(1, -(int)u.g.t) : 1;
    sweep w;
    for (size_t k = 0; k < POINTS; k++) {
        const double at = threshold(&u, k) * side;
        const double far = at - u.shift * side + 2 * s->spread * step, near = at - 2 * step;
        w.there[k] = x ? exact_above(x, far, false) : normal_above(far / (noise * u.sigma));
        w.gone[k] = x ? exact_above(x, near, true) : normal_above(near / (noise * u.sigma));
    }
    return w;
}

/* The largest z mu of any half-line with both probabilities in [1e-6, 1 - 1e-6], for thresholds at
 * every point of the grid. Smaller probabilities do not matter: the bounds are wider than that. */
static double steepest(const struct setting *s, const exact *x)
{
    const double steps = DP_G44_SIGMA / s->z * sqrt(s->spread) * x->fine, tail = 1e-6;
    const size_t shift = (size_t)ceil(steps);
    double worst = 0;
    for (size_t i = shift; i < x->n; i++)
        if (x->above[i] > tail && x->above[i - shift] < 1 - tail)
            worst =
                fmax(worst, normal_quantile(x->above[i - shift]) - normal_quantile(x->above[i]));
    return worst * steps / (double)shift * s->z;
}

static void exact_laws(void **state)
{
    (void)state;
    for (size_t c = 0; c < SETTINGS; c++) {
        const struct setting *s = &settings[c];
        const bool joint = s->kind == JOINT;
        exact x = { 0 }, mutant = { 0 };
        if (joint) {
            x = exact_joint(&sampler_g44, s->spread), mutant = exact_joint(&few_coins, s->spread);
            const double reach = steepest(s, &x);
            print_message("%s: half-lines reach mu = %.5f / z\n", s->name, reach);
            assert_true(reach > 1 && reach < joint_mu);
        }
        const sweep w = exact_sweep(s, joint ? &mutant : NULL, less);
        if (!surely_found(w, (double)s->runs, curve_of(s)))
            fail_msg("%s: %zu runs are too few to be sure of 10 %% less noise", s->name, s->runs);
        sefl_free(x.above), sefl_free(mutant.above);
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Millions of runs need a generator faster than ChaCha20; xoshiro256** (Blackman, Vigna) passes
 * every statistical test that matters here. Its state comes from the test's seed. */
typedef struct fast {
    uint64_t s[4];
} fast;

static uint64_t rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

static uint64_t fast_u64(fast *f)
{
    uint64_t *s = f->s, out = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0], s[3] ^= s[1], s[1] ^= s[2], s[0] ^= s[3], s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return out;
}

static sefl_status fast_fill(void *self, void *out, size_t n)
{
    uint8_t *p = out;
    for (; n >= 8; n -= 8, p += 8)
        store_u64(p, fast_u64(self));
    for (uint64_t v = fast_u64(self); n > 0; n--, v >>= 8)
        *p++ = (uint8_t)v;
    return SEFL_OK;
}

/* How many outcomes lie in exactly the first k half-lines, without and with the client. */
typedef struct view {
    size_t count[2][POINTS + 1];
} view;

static void look(view *v, bool there, const units *u, double x)
{
    double k = floor((x - threshold(u, 0)) / u->sigma * 10) + 1;
    v->count[there][k < 0 ? 0 : k > POINTS ? POINTS : (size_t)k]++;
}

static sweep swept(const view *v, size_t n)
{
    sweep w;
    size_t there = 0, gone = 0;
    for (size_t k = POINTS; k > 0; k--) {
        gone += v->count[0][k], there += v->count[1][k];
        w.gone[k - 1] = (double)gone / (double)n, w.there[k - 1] = (double)there / (double)n;
    }
    bound(&w, (double)n);
    return w;
}

/* The coordinates of one call of the servers' code. */
enum { AS, CSP, BATCH = 1 << 14 };
static const int64_t others = -1234567; /* the sum of the other clients, which the server knows */

typedef struct batch {
    int64_t sum[BATCH], noise[2][BATCH], w[BATCH];
    uint64_t digit[2][BATCH];
    uint8_t share[2][4 * BATCH], reply[NOISE_REPLY_HEAD + 4 * BATCH];
    uint32_t dither[BATCH];
} batch;

static sefl_status get_noise(void *ctx, int64_t *e, size_t first, size_t n)
{
    memcpy(e, (int64_t *)ctx + first, n * sizeof *e);
    return SEFL_OK;
}

/* Sets b->sum and both servers' digits: of the mask at AS, of the masked sum at CSP. */
static void digits(batch *b, const struct setting *s, const dp_grid *g, bool there, fast *gen)
{
    const sefl_rng rng = { .fill = fast_fill, .self = gen };
    const unsigned w = g->k + g->t, n = s->packed ? SLOTS : s->spread;
    float v[SPREAD_MAX] = { 0 };
    int64_t X[SPREAD_MAX];
    for (unsigned j = 0; j < n; j++)
        v[j] = there && (!s->packed || j == 1) ? (float)(1 / sqrt(s->spread)) : 0;
    for (size_t i = 0; i < BATCH; i += s->spread) {
        CHECK_OK(dp_quantise(X, NULL, g, v, n, NULL, &rng));
        for (unsigned j = 0; j < s->spread && !s->packed; j++) {
            const uint64_t ring = (UINT64_C(1) << w) - 1, mask = fast_u64(gen) & ring;
            b->sum[i + j] = X[j] + others;
            b->digit[AS][i + j] = mask;
            b->digit[CSP][i + j] = ((uint64_t)b->sum[i + j] + mask) & ring;
        }
        if (s->packed) { /* floor(n 2^g / 2^w) mod 2^(w+g), the middle slot */
            const u128 top = (u128)1 << (SLOTS * w), ring = ((u128)1 << (w + GUARD)) - 1;
            const u128 drawn = (u128)fast_u64(gen) << 64 | fast_u64(gen);
            const u128 mask = drawn & ((top << HEADROOM) - 1);
            const __int128 slot = (__int128)1 << w;
            const __int128 sum = ((X[2] - 77777) * slot + X[1] + others) * slot + X[0] + 999;
            b->digit[AS][i] = (uint64_t)(mask >> (w - GUARD) & ring);
            b->digit[CSP][i] = (uint64_t)(((u128)sum + top + mask) >> (w - GUARD) & ring);
        }
    }
}

/* Both servers' noise: shares of X, or a discrete Gaussian each. */
static void noises(batch *b, const struct setting *s, const dp_grid *g, bool mutant, fast *gen)
{
    const sefl_rng rng = { .fill = fast_fill, .self = gen };
    const uint64_t bits = mutant ? few_bits : ~UINT64_C(0);
    const uint32_t same_mean =
        mutant ? (sampler_max(&sampler_g44) - sampler_max(&few_coins)) / 2 : 0;
    dgauss d;
    if (s->kind == JOINT)
        for (size_t i = 0; i < BATCH; i++) {
            uint32_t x = g44_value(fast_u64(gen) & bits) + same_mean, own = (uint32_t)fast_u64(gen);
            store_u32(b->share[AS] + 4 * i, own);
            store_u32(b->share[CSP] + 4 * i, x - own);
        }
    else {
        CHECK_OK(dgauss_for_grid(&d, g));
        if (mutant)
            CHECK_OK(dgauss_init(&d, (uint64_t)((double)d.num * less * less), 1));
        for (int server = AS; server <= (s->kind == OWN ? CSP : AS); server++)
            CHECK_OK(dgauss_fill_vartime(&d, b->noise[server], BATCH, &rng));
    }
}

/* Writes both views of the batch's coordinates; with cdp only the first is used. */
static void guess(double out[2][BATCH], batch *b, const struct setting *s, const dp_grid *g,
                  fast *gen)
{
    const bool joint = s->kind == JOINT;
    const noise_params p = { .count = BATCH,
                             .k = g->k,
                             .t = g->t,
                             .g = s->packed ? GUARD : 0,
                             .shape = joint ? &noise_joint : &noise_own };
    const sefl_rng rng = { .fill = fast_fill, .self = gen };
    const noise_digits digit[2] = { noise_digits_of(b->digit[AS]), noise_digits_of(b->digit[CSP]) };
    noise_taken taken[2] = { { b->share[AS], 4 }, { b->share[CSP], 4 } };
    noise_source add[2];
    uint8_t drawn[NOISE_COINS];
    size_t total;
    prg dither;
    for (int i = 0; i < 2; i++)
        add[i] = joint ? noise_taken_of(&taken[i]) : (noise_source){ get_noise, b->noise[i] };
    CHECK_OK(noise_reply_bytes(&total, &p));
    assert_true(total <= sizeof b->reply);
    CHECK_OK(noise_reply_make(b->reply, &p, &digit[CSP], &add[CSP], NULL, NULL, &rng));
    fast_fill(gen, drawn, sizeof drawn);
    CHECK_OK(noise_reply_finish(b->w, &p, span_of(b->reply, total), &digit[AS], &add[AS], NULL,
                                NULL, drawn));
    prg_init(&dither, b->reply + NOISE_REPLY_HEAD - PRG_SEED, "dither");
    prg_read(&dither, b->dither, sizeof b->dither, 0, 0);
    const unsigned bytes = noise_value_bytes(&p);
    const double known = joint ? ldexp((double)others, -(int)g->t) : (double)others;
    const double ring = ldexp(1, (int)(joint ? g->k : g->k + g->t));
    for (size_t i = 0; i < BATCH; i++) {
        uint8_t value[4] = { 0 };
        memcpy(value, b->reply + NOISE_REPLY_HEAD + i * bytes, bytes);
        double m = load_u32(value), place[2], x[2] = { 0 };
        const uint64_t j = (load_u32(&b->dither[i]) & ((UINT64_C(1) << g->t) - 1)) << p.g;
        for (int server = AS; server <= CSP; server++) {
            const uint64_t digit_j = b->digit[server][i] + (joint ? j : 0);
            place[server] = ldexp((double)digit_j, joint ? -(int)(g->t + p.g) : 0);
            if (joint)
                x[server] = load_u32(b->share[server] + 4 * i) & ((UINT32_C(1) << g->k) - 1);
        }
        const double half = joint ? 0.5 : 0, mean = joint ? G44_OFFSET - 0.5 : 0;
        /* AS: the reply with its share, less where its mask put it. CSP: the release, less what it
         * put into the reply itself. */
        out[AS][i] = remainder(m + x[AS] - mean - place[AS] - known, ring);
        out[CSP][i] = remainder((double)b->w[i] + half - (m - x[CSP]) + place[CSP] - known, ring);
    }
    prg_clear(&dither);
}

static void runs(view v[2], const struct setting *s, const units *u, size_t n, bool mutant,
                 fast *gen)
{
    static batch b;
    static double out[2][BATCH];
    memset(v, 0, 2 * sizeof *v);
    for (int there = 0; there < 2; there++)
        for (size_t done = 0; done < n;) {
            digits(&b, s, &u->g, there, gen);
            noises(&b, s, &u->g, mutant, gen);
            if (s->kind != CDP)
                guess(out, &b, s, &u->g, gen);
            else
                for (size_t i = 0; i < BATCH; i++)
                    out[AS][i] = (double)(b.sum[i] - others + b.noise[AS][i]);
            for (size_t i = 0; i < BATCH && done < n; i += s->spread, done++)
                for (int server = AS; server <= (s->kind == CDP ? AS : CSP); server++) {
                    double sum = 0;
                    for (unsigned j = 0; j < s->spread; j++)
                        sum += out[server][i + j];
                    look(&v[server], there, u, sum / sqrt(s->spread));
                }
        }
}

static void claims_hold(const struct setting *s, const units *u, const sweep *w)
{
    static const double deltas[] = { 1e-5, 1e-3, 1e-2, 0.1 };
    const bool joint = s->kind == JOINT;
    const dp_event ev = { .noise = joint ? DP_NOISE_JOINT : DP_NOISE_DISCRETE,
                          .z = s->z,
                          .rate = 1,
                          .count = 1,
                          .dim = joint ? u->g.dim : 0,
                          .sigma_steps = joint ? 0 : u->sigma };
    for (size_t i = 0; i < 4; i++) {
        dp_claim c;
        CHECK_OK(dp_epsilon(&c, &ev, 1, &(dp_question){ .delta = deltas[i] }));
        assert_true(c.claimed);
        if (contradicted(w, c.epsilon, deltas[i]))
            fail_msg("%s: epsilon %.3f at delta %g is contradicted", s->name, c.epsilon, deltas[i]);
        if (!joint) {
            pld_interval e;
            CHECK_OK(dp_pld_epsilon(&e, &ev, 1, deltas[i]));
            assert_false(contradicted(w, e.upper, deltas[i]));
        }
    }
}

static void audit(enum kind kind)
{
    for (size_t c = 0; c < SETTINGS; c++) {
        const struct setting *s = &settings[c];
        if (s->kind != kind)
            continue;
        const units u = units_of(s);
        const size_t n = test_count(s->runs, 10 * s->runs);
        view v[2];
        fast gen;
        seeded seed;
        test_seed(&seed, s->name);
        seeded_fill(&seed, &gen, sizeof gen);
        for (int mutant = 0; mutant < 2; mutant++) {
            runs(v, s, &u, n, mutant, &gen);
            for (int server = AS; server <= (kind == CDP ? AS : CSP); server++) {
                const char *whose = server == AS ? "AS" : "CSP";
                const sweep w = swept(&v[server], n);
                if (mutant && !above_curve(&w, curve_of(s)))
                    fail_msg("%s, view of %s: 10 %% less noise is not noticed", s->name, whose);
                if (!mutant && above_curve(&w, curve_of(s)))
                    fail_msg("%s, view of %s: less noise than claimed", s->name, whose);
                if (!mutant)
                    claims_hold(s, &u, &w);
            }
        }
    }
}

static void joint_noise(void **state)
{
    (void)state;
    audit(JOINT);
}

static void own_noise(void **state)
{
    (void)state;
    audit(OWN);
}

static void cdp_noise(void **state)
{
    (void)state;
    audit(CDP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_laws),
        cmocka_unit_test(joint_noise),
        cmocka_unit_test(own_noise),
        cmocka_unit_test(cdp_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

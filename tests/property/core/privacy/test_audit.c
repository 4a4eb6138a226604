/* Checks the noise against what is claimed about it: runs the integer path a million times on two
 * worst-case neighbours (one client's vector of full norm, or zeros), and compares the frequencies
 * of half-lines S that were fixed in advance. No S may contradict
 *
 *     Pr[S | there] <= Phi(mu + Phi^-1(Pr[S | gone]))    Gaussian noise, mu = 1/z (sqrt(1.0048)/z)
 *     Pr[S | there] <= e^eps Pr[S | gone] + delta        the claims at four deltas, and reversed
 *
 * The claims are loose at one release; the Gaussian curve is what shows noise that is too small.
 * Each setting is repeated with the same noise made 10 % smaller, which must contradict the curve.
 *
 * Frequencies enter with one-sided bounds (Chernoff, in Kullback-Leibler form) that hold together,
 * for all half-lines and settings, with confidence 1 - 1e-6: an apparent contradiction is real. */
#include "support/check.h"

#include "privacy/accountant/law.h"
#include "privacy/accountant/pld.h"
#include "privacy/mechanism/dgauss.h"
#include "privacy/mechanism/quantise.h"
#include "support/g44.h"

#include <math.h>
#include <string.h>

typedef unsigned __int128 u128;

static double kl(double a, double b)
{
    double t = 0;
    if (a > 0)
        t += a * log(a / b);
    if (a < 1)
        t += (1 - a) * log((1 - a) / (1 - b));
    return t;
}

enum {
    POINTS = 81,    /* half-lines: every tenth of sigma, up to 4 sigma from the middle */
    SETTINGS = 6,   /* samples of this file */
    CONFIDENCE = 6, /* decimal digits */
};

/* the probability farthest from hits/n, upwards or downwards, that n trials do not rule out; union
 * bound over the two bounds of all half-lines of all settings and their mutants */
static double bound(double hits, double n, bool up)
{
    double p = hits / n, lo = up ? p : 0, hi = up ? 1 : p;
    double limit = log(4 * POINTS * SETTINGS * pow(10, CONFIDENCE)) / n;
    for (int i = 0; i < 100; i++) {
        double mid = (lo + hi) / 2;
        bool inside = kl(p, mid) < limit;
        if (inside == up)
            lo = mid;
        else
            hi = mid;
    }
    return up ? hi : lo;
}

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

static sefl_rng fast_rng(fast *f, const char *stream)
{
    seeded gen;
    test_seed(&gen, stream);
    seeded_fill(&gen, f, sizeof *f);
    return (sefl_rng){ .fill = fast_fill, .self = f };
}

/* outcomes in units where the noise has deviation `sigma` and the client moves the mean by `shift`
 */
typedef struct sample {
    const float *there, *gone;
    size_t n;
    double sigma, shift;
} sample;

/* bounds on Pr[outcome >= point]: from below with the client, from above without */
typedef struct sweep {
    double there[POINTS], gone[POINTS];
} sweep;

/* One pass: an outcome belongs to all half-lines that begin at or below it. Outcomes are taken as
 * mean + scale (x - mean). */
static void tail(double out[POINTS], const float *x, const sample *s, double mean, double scale)
{
    const double middle = (POINTS - 1) / 2.0, step = s->sigma / 10;
    size_t count[POINTS + 1] = { 0 };
    for (size_t i = 0; i < s->n; i++) {
        double v = mean + scale * (x[i] - mean) - s->shift / 2;
        double k = floor(v / step + middle) + 1; /* number of half-lines that contain it */
        count[k < 0 ? 0 : k > POINTS ? POINTS : (size_t)k]++;
    }
    double sum = 0;
    for (size_t k = POINTS; k > 0; k--)
        out[k - 1] = sum += (double)count[k];
}

static sweep swept(const sample *s, double scale)
{
    sweep w;
    tail(w.there, s->there, s, s->shift, scale);
    tail(w.gone, s->gone, s, 0, scale);
    for (size_t k = 0; k < POINTS; k++) {
        w.there[k] = bound(w.there[k], (double)s->n, false);
        w.gone[k] = bound(w.gone[k], (double)s->n, true);
    }
    return w;
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

static double normal_quantile(double p)
{
    double lo = -40, hi = 40;
    for (int i = 0; i < 60; i++) {
        double mid = (lo + hi) / 2;
        if (erfc(-mid * M_SQRT1_2) / 2 < p)
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}

/* Is a half-line more probable with the client than noise 1/mu allows? (As the curve is symmetric,
 * this covers the other ends of the line too.) */
static bool above_gaussian(const sweep *w, double mu)
{
    bool bad = false;
    for (size_t k = 0; k < POINTS; k++)
        if (w->gone[k] < 1)
            bad |= w->there[k] > erfc(-(mu + normal_quantile(w->gone[k])) * M_SQRT1_2) / 2;
    return bad;
}

static const double deltas[] = { 1e-5, 1e-3, 1e-2, 0.1 };

static void judge(const char *name, const sample *s, const dp_event *ev)
{
    const bool joint = ev->noise == DP_NOISE_JOINT;
    const double mu = sqrt(joint ? DP_JOINT_FACTOR : 1) / ev->z;
    const sweep w = swept(s, 1), mutant = swept(s, 0.9);
    for (size_t i = 0; i < 4; i++) {
        dp_claim c;
        CHECK_OK(dp_epsilon(&c, ev, 1, &(dp_question){ .delta = deltas[i] }));
        assert_true(c.claimed);
        if (contradicted(&w, c.epsilon, deltas[i]))
            fail_msg("%s: epsilon %.3f at delta %g is contradicted", name, c.epsilon, deltas[i]);
        if (!joint) {
            pld_interval e;
            CHECK_OK(dp_pld_epsilon(&e, ev, 1, deltas[i]));
            assert_false(contradicted(&w, e.upper, deltas[i]));
        }
    }
    if (above_gaussian(&w, mu))
        fail_msg("%s: less noise than z = %g", name, ev->z);
    if (!above_gaussian(&mutant, mu))
        fail_msg("%s: 10 %% less noise is not noticed: the audit has no power", name);
}

/* ---- joint noise over packed, masked and rounded digits, as with Paillier ------------------ */

enum { SLOTS = 3, GUARD = 16, HEADROOM = 30 };

static u128 random_bits(fast *g, unsigned n)
{
    u128 v = (u128)fast_u64(g) << 64 | fast_u64(g);
    return n < 128 ? v & (((u128)1 << n) - 1) : v;
}

static uint64_t digit(u128 n, unsigned i, unsigned w)
{
    /* floor(n 2^g / 2^(w i)) mod 2^(w+g): for i >= 1 no bits are lost below */
    u128 y = i == 0 ? n << GUARD : n >> (w * i - GUARD);
    return (uint64_t)(y & (((u128)1 << (w + GUARD)) - 1));
}

/* the middle slot's released value, in coarse steps */
static int64_t packed_release(const dp_grid *g, const int64_t X[SLOTS], fast *gen,
                              const int32_t y[2])
{
    unsigned w = g->k + g->t;
    __int128 a = 0;
    for (int i = SLOTS - 1; i >= 0; i--)
        a = a * ((__int128)1 << w) + X[i];
    u128 v = random_bits(gen, SLOTS * w + HEADROOM), n = (u128)a + ((u128)1 << (SLOTS * w)) + v;
    uint64_t ring = (UINT64_C(1) << g->k) - 1, drawn = fast_u64(gen), more = fast_u64(gen);
    uint64_t fraction = (UINT64_C(1) << (g->t + GUARD)) - 1;
    uint64_t n1 = g44_round(digit(n, 1, w), drawn & fraction, g->t + GUARD, g->k) + (uint64_t)y[0];
    uint64_t v1 =
        g44_round(digit(v, 1, w), drawn >> 32 & fraction, g->t + GUARD, g->k) - (uint64_t)y[1];
    uint64_t out = (n1 + g44_value(more >> 30) - v1 - G44_OFFSET) & ring;
    return out >> (g->k - 1) ? (int64_t)out - (int64_t)(ring + 1) : (int64_t)out;
}

static float a_there[4000000], a_gone[4000000];

static void joint_packed(void **state)
{
    (void)state;
    static const double zs[] = { 0.25, 1, 4 };
    fast gen;
    sefl_rng rng = fast_rng(&gen, "audit joint");
    size_t n = test_count(1000000, 4000000);
    for (int c = 0; c < 3; c++) {
        dp_grid g;
        CHECK_OK(dp_grid_init(
            &g, &(dp_grid_config){ .z = zs[c], .clip = 1, .dim = SLOTS, .clients = 100 }));
        enum { CHUNK = 1000 };
        int32_t y[2 * CHUNK];
        double scale = ldexp(1, (int)g.t);
        for (int there = 0; there < 2; there++)
            for (size_t i = 0; i < n; i++) {
                /* the others' sum is known to the adversary */
                int64_t X[SLOTS], others = -1234567;
                float v[SLOTS] = { 0, there ? 1.f : 0.f, 0 };
                if (i % CHUNK == 0)
                    CHECK_OK(g44_jumps_vartime(y, 2 * CHUNK, &rng));
                CHECK_OK(dp_quantise(X, NULL, &g, v, SLOTS, NULL, &rng));
                X[0] += 999, X[1] += others, X[2] -= 77777;
                double w = (double)packed_release(&g, X, &gen, y + 2 * (i % CHUNK)) + 0.5;
                (there ? a_there : a_gone)[i] = (float)(w - (double)others / scale);
            }
        sample s = { a_there, a_gone, n, DP_G44_SIGMA, g.r / scale };
        dp_event ev = { .noise = DP_NOISE_JOINT, .z = zs[c], .rate = 1, .count = 1, .dim = SLOTS };
        char name[32];
        snprintf(name, sizeof name, "joint z %g", zs[c]);
        judge(name, &s, &ev);
    }
}

/* one client's norm spread over 16 coordinates, at the bound: a likelihood-ratio test observes the
 * sum of outcomes */
static void joint_vector(void **state)
{
    (void)state;
    enum { D = 16 };
    fast gen;
    sefl_rng rng = fast_rng(&gen, "audit vector");
    size_t n = test_count(200000, 2000000);
    dp_grid g;
    CHECK_OK(dp_grid_init(&g, &(dp_grid_config){ .z = 1, .clip = 1, .dim = D, .clients = 100 }));
    int64_t x = (int64_t)floor(sqrt((double)g.s2 / D)), sum[D], out[D];
    for (int there = 0; there < 2; there++)
        for (size_t i = 0; i < n; i++) {
            double total = 0;
            for (int j = 0; j < D; j++)
                sum[j] = there ? x : 0;
            CHECK_OK(g44_release_vartime(out, &g, sum, D, &rng));
            for (int j = 0; j < D; j++)
                total += (double)out[j] + 0.5;
            (there ? a_there : a_gone)[i] = (float)(total / sqrt(D));
        }
    sample s = { a_there, a_gone, n, DP_G44_SIGMA, sqrt(D) * (double)x / ldexp(1, (int)g.t) };
    dp_event ev = { .noise = DP_NOISE_JOINT, .z = 1, .rate = 1, .count = 1, .dim = D };
    judge("joint, 16 coordinates", &s, &ev);
}

static void discrete(void **state)
{
    (void)state;
    enum { CHUNK = 1000 };
    static int64_t noise[CHUNK];
    static const double zs[] = { 1, 4 };
    fast gen;
    sefl_rng rng = fast_rng(&gen, "audit discrete");
    size_t n = test_count(1000000, 4000000);
    for (int c = 0; c < 2; c++) {
        dp_grid g;
        dgauss d;
        CHECK_OK(
            dp_grid_init(&g, &(dp_grid_config){ .z = zs[c], .clip = 1, .dim = 1, .clients = 100 }));
        CHECK_OK(dgauss_for_grid(&d, &g));
        double sigma = sqrt((double)d.num);
        for (int there = 0; there < 2; there++)
            for (size_t i = 0; i < n; i++) {
                int64_t X;
                float v = there ? 1 : 0;
                if (i % CHUNK == 0)
                    CHECK_OK(dgauss_fill_vartime(&d, noise, CHUNK, &rng));
                CHECK_OK(dp_quantise(&X, NULL, &g, &v, 1, NULL, &rng));
                (there ? a_there : a_gone)[i] = (float)(X + noise[i % CHUNK]);
            }
        sample s = { a_there, a_gone, n, sigma, g.r };
        dp_event ev = {
            .noise = DP_NOISE_DISCRETE, .z = zs[c], .rate = 1, .count = 1, .sigma_steps = sigma
        };
        char name[32];
        snprintf(name, sizeof name, "discrete z %g", zs[c]);
        judge(name, &s, &ev);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joint_packed),
        cmocka_unit_test(joint_vector),
        cmocka_unit_test(discrete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

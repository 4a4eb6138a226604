/* Checks the claimed epsilon against the mechanism itself: runs the integer path a million times on
 * two worst-case neighbours (one client's vector of full norm, or zeros), and compares the
 * frequencies of a set of outcomes that was fixed in advance:
 *
 *     Pr[S | there] <= e^eps Pr[S | gone] + delta        must not be contradicted for the claim,
 *                                                        and must be for half of it.
 *
 * Frequencies enter with one-sided bounds of confidence 1 - 1e-6 (Chernoff, in Kullback-Leibler
 * form), so an apparent contradiction is a real one. The set is a half-line that starts where the
 * likelihood ratio passes e^eps. */
#include "support/check.h"

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

/* the probability farthest from hits/n, upwards or downwards, that n trials do not rule out */
static double bound(double hits, double n, bool up)
{
    double p = hits / n, lo = up ? p : 0, hi = up ? 1 : p, limit = log(1e6) / n;
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
    float *there, *gone;
    size_t n;
    double sigma, shift;
} sample;

static double hits(const float *x, size_t n, double from)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        k += x[i] >= from;
    return (double)k;
}

static bool contradicted(const sample *s, double eps, double delta)
{
    double from = s->sigma * s->sigma * eps / s->shift + s->shift / 2;
    double p = bound(hits(s->there, s->n, from), (double)s->n, false);
    double q = bound(hits(s->gone, s->n, from), (double)s->n, true);
    return p > exp(eps) * q + delta;
}

static const double deltas[] = { 1e-5, 1e-3, 1e-2, 0.1 };

static void judge(const char *name, const sample *s, const dp_event *ev, bool with_pld)
{
    bool half = false, half_pld = !with_pld;
    for (size_t i = 0; i < 4; i++) {
        dp_claim c;
        CHECK_OK(dp_epsilon(&c, ev, 1, &(dp_question){ .delta = deltas[i] }));
        assert_true(c.claimed);
        if (contradicted(s, c.epsilon, deltas[i]))
            fail_msg("%s: epsilon %.3f at delta %g is contradicted", name, c.epsilon, deltas[i]);
        half |= contradicted(s, c.epsilon / 2, deltas[i]);
        if (with_pld) {
            pld_interval e;
            CHECK_OK(dp_pld_epsilon(&e, ev, 1, deltas[i]));
            assert_false(contradicted(s, e.upper, deltas[i]));
            half_pld |= contradicted(s, e.lower / 2, deltas[i]);
        }
    }
    if (!half || !half_pld)
        fail_msg("%s: half of epsilon is not contradicted: the audit has no power", name);
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
        judge(name, &s, &ev, false);
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
    judge("joint, 16 coordinates", &s, &ev, false);
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
        judge(name, &s, &ev, true);
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

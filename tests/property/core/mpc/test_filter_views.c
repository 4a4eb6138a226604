/* Both servers' views of two and three correlated rounds, enumerated on a ring of 16.
 *
 * Claim (docs/PRIVACY.md): given a server's view and the data nothing is hidden, so the numbers y of
 * the other server are functions of both, and the next output has the law of one round around y. So
 * for every view
 *     count(view | data) = product over rounds of count(one round's noise = output_r - y_r)
 * where y_r is computed from the view alone. The test enumerates every coin that is hidden from the
 * server, collects the views and compares each count, exactly. Then it compares two neighbours: the
 * affinity sum sqrt(P Q) of their views is at least the product of those of single rounds at the
 * shifts delta_r = Delta_r + gamma (delta_(r-1)) + xi. Data are adaptive: the aggregate depends on
 * the releases before. In some runs the history of a round is lost.
 *
 * Widths: k = 4, t = 1, F = 2, gamma in quarters (2 bits). One value has the whole arithmetic of
 * noise/noise_filter.h (support/filter_ref.h, which the unit test compares with it). A server's own coins
 * are independent of everything else and part of its view: they are drawn at random, and everything
 * hidden is enumerated for each draw. */
#include "support/check.h"

#include "support/filter_ref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    K = 4,
    T = 1,
    F = 2,
    WEIGHT = 2,
    RING = 1 << K,
    PLACES = 1 << (K + F),
    UNIT = 1 << F,
    XS = 4,
    YS = 3,
    ROUNDS = 3
};

static const unsigned x_count[XS] = { 1, 3, 3, 1 }; /* X = 0 .. 3 */
static const unsigned y_count[YS] = { 1, 6, 1 };    /* Y = -1, 0, 1 */
static const unsigned mean2 = 3;                    /* twice the mean of X */

typedef enum who { AS, CSP } who;

/* A server's own coins and random inputs in a round. */
typedef struct own {
    int share; /* x^A or x^C, modulo 2^(K + WEIGHT) */
    int u, jump;
    int v; /* AS: its mask; CSP: the masked sum n. K + T bits */
    int j; /* CSP: the dither, which it draws */
} own;

typedef struct run {
    who who;
    unsigned rounds;
    uint16_t gamma[2]; /* lags 1 and 2 */
    unsigned lost;     /* bit r: round r leaves out all history; bit r + 4: lag 1 only */
    int data[ROUNDS];  /* the aggregate in half steps; adaptive terms are added */
    own own[ROUNDS];
} run;

/* What the server sees in a round beyond its own coins: J and m (AS), or R (CSP). */
typedef struct seen {
    int j, out;
} seen;

static filter_ref width(void)
{
    return filter_ref_of(K, F, WEIGHT);
}

/* One party's arithmetic in a round. */
typedef struct made {
    wide y, d, kept;
} made;

static bool uses(const run *r, unsigned round, unsigned lag)
{
    return lag <= round && !(r->lost >> round & 1) && !(lag == 1 && r->lost >> (round + 4) & 1);
}

static made step(const run *r, unsigned round, const wide *kept, int digit, int share, int u,
                 int jump, int sign)
{
    const filter_ref f = width();
    wide past[2] = { 0, 0 };
    for (unsigned lag = 1; lag <= 2; lag++)
        if (uses(r, round, lag))
            past[lag - 1] = kept[round - lag];
    made m;
    m.y = filter_ref_y(&f, (wide)digit * (UNIT >> T), filter_ref_h(&f, r->gamma, past, 2), sign);
    m.d = (m.y + u) / UNIT + sign * jump;
    m.kept = filter_ref_keep(&f, share, m.d, m.y, UNIT, sign, mean2);
    return m;
}

/* The aggregate of a round depends on the outputs before. */
static int data_of(const run *r, unsigned round, const seen *s)
{
    return r->data[round] + (round > 0 ? 2 * (s[round - 1].out & 1) : 0);
}

/* ---- enumeration ----------------------------------------------------------------------------- */

enum { PER_ROUND = 2 * RING, VIEWS = PER_ROUND * PER_ROUND * PER_ROUND };

static size_t index_of(const seen *s, unsigned rounds)
{
    size_t at = 0;
    for (unsigned i = 0; i < rounds; i++)
        at = at * PER_ROUND + (size_t)(s[i].j * RING + s[i].out);
    return at;
}

typedef struct state {
    wide own[ROUNDS], other[ROUNDS]; /* kept */
    seen seen[ROUNDS];
} state_t;

/* Adds the weight of every value of the hidden coins to the count of the view that they give. */
static void enumerate(const run *r, unsigned round, const state_t *s, uint64_t weight,
                      uint64_t *count)
{
    const own *o = &r->own[round];
    const int shares = RING << WEIGHT, fine = RING << T;
    if (round == r->rounds) {
        count[index_of(s->seen, r->rounds)] += weight;
        return;
    }
    const int a = data_of(r, round, s->seen);
    for (int j = r->who == AS ? 0 : o->j; j <= (r->who == AS ? 1 : o->j); j++)
        for (int x = 0; x < XS; x++)
            for (int u = 0; u < UNIT; u++)
                for (int y = 0; y < YS; y++) {
                    state_t next = *s;
                    const int other = (x - o->share) & (shares - 1);
                    made as, csp;
                    if (r->who == AS) {
                        as = step(r, round, s->own, o->v + j, o->share, o->u, o->jump, -1);
                        csp = step(r, round, s->other, ((o->v + a) & (fine - 1)) + j, other, u,
                                   y - 1, 1);
                    } else { /* v = n - a */
                        csp = step(r, round, s->own, o->v + j, o->share, o->u, o->jump, 1);
                        as = step(r, round, s->other, ((o->v - a) & (fine - 1)) + j, other, u,
                                  y - 1, -1);
                    }
                    const wide m = csp.d + (r->who == AS ? other : o->share);
                    const wide release = m + (r->who == AS ? o->share : other) - as.d;
                    next.own[round] = r->who == AS ? as.kept : csp.kept;
                    next.other[round] = r->who == AS ? csp.kept : as.kept;
                    next.seen[round].j = j;
                    next.seen[round].out = (int)wide_mod(r->who == AS ? m : release, RING);
                    enumerate(r, round + 1, &next, weight * x_count[x] * y_count[y], count);
                }
}

/* ---- the claim ------------------------------------------------------------------------------- */

/* Counts of one round's output modulo the ring at the place y of the hidden server: X, rounding and
 * jump. */
static void one_round(uint64_t out[RING], int place)
{
    memset(out, 0, RING * sizeof *out);
    for (int x = 0; x < XS; x++)
        for (int u = 0; u < UNIT; u++)
            for (int y = 0; y < YS; y++)
                out[((place + u) / UNIT + y - 1 + x) & (RING - 1)] += x_count[x] * y_count[y];
}

/* The count that the claim gives to a view: y of the other server is computed from the view and the
 * data alone. At CSP the sign of rounding and jump is that of AS, which subtracts. */
static uint64_t claimed(const run *r, const seen *s)
{
    const filter_ref f = width();
    const int fine = RING << T;
    wide kept_own[ROUNDS], kept_other[ROUNDS];
    uint64_t count = 1;
    for (unsigned round = 0; round < r->rounds; round++) {
        const own *o = &r->own[round];
        const int a = data_of(r, round, s), j = s[round].j, sign = r->who == AS ? -1 : 1;
        if (r->who == CSP && j != o->j)
            return 0;
        made me = step(r, round, kept_own, o->v + j, o->share, o->u, o->jump, sign);
        made it = step(r, round, kept_other, ((o->v - sign * a) & (fine - 1)) + j, 0, 0, 0, -sign);
        /* noise + (y_CSP - y_AS) = R, in units of 2^-F; lifted to a small number */
        const int got = r->who == AS ? s[round].out + o->share - (int)me.d : s[round].out; /* R */
        const wide y = r->who == AS ? it.y - me.y : me.y - it.y;
        wide total = wide_signed(2 * (wide)got * UNIT - (wide)mean2 * UNIT - 2 * y, 2 * f.place);
        kept_own[round] = me.kept;
        kept_other[round] = wide_mod(total / 2 - me.kept, f.kept);
        uint64_t law[RING];
        if (r->who == AS) {
            one_round(law, (int)it.y);
            count *= law[(s[round].out + o->share) & (RING - 1)];
        } else { /* R = d_CSP + X - (a - Y'): reflect the law of a - Y' - X */
            uint64_t sum = 0;
            for (int x = 0; x < XS; x++)
                for (int u = 0; u < UNIT; u++)
                    for (int jump = 0; jump < YS; jump++)
                        if (((int)me.d + x - (int)((it.y + u) / UNIT) + jump - 1 - got) % RING == 0)
                            sum += x_count[x] * y_count[jump];
            count *= sum;
        }
    }
    return count;
}

static void draw_own(run *r, seeded *gen)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        r->own[i] = (own){ .share = (int)seeded_below(gen, RING << WEIGHT),
                           .u = (int)seeded_below(gen, UNIT),
                           .jump = (int)seeded_below(gen, YS) - 1,
                           .v = (int)seeded_below(gen, RING << T),
                           .j = (int)seeded_below(gen, 2) };
}

static void check_counts(const run *r, uint64_t *count)
{
    size_t views = r->rounds == 2 ? PER_ROUND * PER_ROUND : VIEWS, seen_views = 0;
    memset(count, 0, views * sizeof *count);
    enumerate(r, 0, &(state_t){ 0 }, 1, count);
    for (size_t at = 0; at < views; at++) {
        seen s[ROUNDS];
        size_t rest = at;
        for (unsigned i = r->rounds; i-- > 0; rest /= PER_ROUND)
            s[i] = (seen){ (int)(rest % PER_ROUND / RING), (int)(rest % RING) };
        seen_views += count[at] > 0;
        assert_true(count[at] == claimed(r, s));
    }
    assert_true(seen_views >= 30); /* nothing but the noise of two rounds */
}

/* ---- neighbours ------------------------------------------------------------------------------ */

/* The smallest affinity of one round over all places, for a shift of the mean by `shift` units of
 * 2^-F: for AS the mean over J, which moves the place by half a step. */
static double least_affinity(int shift, bool dither)
{
    double least = 1;
    for (int place = 0; place < UNIT; place++) {
        double sum = 0;
        for (int j = 0; j < (dither ? 2 : 1); j++) {
            uint64_t p[RING], q[RING];
            const int at = PLACES / 2 + place + j * (UNIT >> T);
            one_round(p, at), one_round(q, at + shift);
            for (int i = 0; i < RING; i++)
                sum += sqrt((double)p[i] * (double)q[i]);
        }
        sum /= 8.0 * 8 * UNIT * (dither ? 2 : 1);
        least = sum < least ? sum : least;
    }
    return least;
}

/* The affinity of two neighbours' views is at least the product of single rounds at the shifts of
 * the recursion; xi is at most one unit. */
static void check_neighbours(const run *r, const int *change, uint64_t *count, uint64_t *other)
{
    size_t views = r->rounds == 2 ? PER_ROUND * PER_ROUND : VIEWS;
    run n = *r;
    double got = 0, total = 0, bound = 1, delta[ROUNDS];
    for (unsigned i = 0; i < r->rounds; i++)
        n.data[i] += change[i];
    memset(count, 0, views * sizeof *count), memset(other, 0, views * sizeof *other);
    enumerate(r, 0, &(state_t){ 0 }, 1, count);
    enumerate(&n, 0, &(state_t){ 0 }, 1, other);
    for (size_t at = 0; at < views; at++) {
        got += sqrt((double)count[at] * (double)other[at]);
        total += (double)count[at];
    }
    for (unsigned i = 0; i < r->rounds; i++) {
        delta[i] = change[i] * (UNIT >> T);
        for (unsigned lag = 1; lag <= 2; lag++)
            if (uses(r, i, lag))
                delta[i] += r->gamma[lag - 1] / 4.0 * delta[i - lag];
        double least = 1;
        for (int s = (int)floor(delta[i]) - (int)i; s <= (int)ceil(delta[i]) + (int)i; s++)
            least = fmin(least, least_affinity(s, r->who == AS));
        bound *= least;
    }
    assert_true(got / total >= bound - 1e-12);
}

static void views(void **state)
{
    (void)state;
    static const uint16_t gammas[][2] = { { 2, 0 }, { 3, 0 }, { 4, 0 }, { 2, 1 } };
    static const unsigned losses[] = { 0, 2, 4, 16 << 2 };
    static const int changes[][ROUNDS] = { { 1, 0, 0 }, { 0, -1, 0 }, { 1, 1, 1 }, { 2, 0, -1 } };
    const size_t two = test_count(12, 4000), three = test_count(1, 40);
    uint64_t *count = calloc(VIEWS, sizeof *count), *other = calloc(VIEWS, sizeof *other);
    seeded gen;
    test_seed(&gen, "filter views");
    assert_true(count && other);
    for (int w = AS; w <= CSP; w++)
        for (size_t g = 0; g < sizeof gammas / sizeof *gammas; g++)
            for (size_t l = 0; l < sizeof losses / sizeof *losses; l++)
                for (size_t i = 0; i < two + three; i++) {
                    run r = { .who = (who)w, .rounds = i < two ? 2 : 3, .lost = losses[l] };
                    memcpy(r.gamma, gammas[g], sizeof r.gamma);
                    for (unsigned k = 0; k < ROUNDS; k++)
                        r.data[k] = (int)seeded_below(&gen, 9) - 4;
                    draw_own(&r, &gen);
                    check_counts(&r, count);
                    check_neighbours(&r, changes[seeded_below(&gen, 4)], count, other);
                }
    free(count), free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(views) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Correlated noise: the identity in every coordinate over 40 rounds, lost history, refusals. */
#include "support/check.h"

#include "mpc/noise/online.h"
#include "support/digits.h"
#include "support/filter_ref.h"
#include "support/law.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = NOISE_PIECE + 700, ROUNDS = 40, LAGS = NOISE_LAGS };

static sefl_status from(void *ctx, int64_t *e, size_t first, size_t n)
{
    memcpy(e, (const int64_t *)ctx + first, n * sizeof *e);
    return SEFL_OK;
}

static sefl_status broken(void *ctx, int64_t *e, size_t first, size_t n)
{
    (void)ctx, (void)e, (void)n;
    return first == 0 ? SEFL_OK : sefl_fail(SEFL_ERANDOM, "no coins");
}

typedef struct side {
    uint8_t kept[LAGS + 1][N * NOISE_KEPT]; /* by round modulo LAGS + 1 */
    int64_t x[N];
    uint8_t *memory;
} side;

static uint8_t *kept_in(side *s, unsigned round)
{
    return s->kept[round % (LAGS + 1)];
}

static void remember(side *s, const noise_params *p)
{
    const unsigned round = (unsigned)p->round;
    const uint8_t *past[LAGS] = { 0 };
    for (unsigned j = 0; j < LAGS; j++)
        if (p->lags >> j & 1)
            past[j] = kept_in(s, round - 1 - j);
    s->memory = kept_in(s, round);
    noise_filter_back(s->memory, p->gamma, p->lags, past, N);
}

/* Shares of X, with the real law. */
static void draw_noise(seeded *gen, side *a, side *c)
{
    for (size_t i = 0; i < N; i++) {
        uint64_t coins = seeded_u64(gen), own = seeded_u64(gen);
        uint8_t bits[34];
        for (unsigned j = 0; j < 34; j++)
            bits[j] = coins >> j & 1;
        uint32_t x = law_value_vartime(&sampler_g44, 32, 0, bits);
        a->x[i] = (int64_t)(own & UINT32_MAX);
        c->x[i] = (int64_t)((x - own) & UINT32_MAX);
    }
}

/* Rounds 9 and 10 are skipped, round 20 loses its first lag, round 30 all. */
static bool is_released(unsigned r)
{
    return r >= 1 && r != 9 && r != 10;
}

static uint8_t lags_of(unsigned r, const uint16_t gamma[LAGS])
{
    unsigned lags = 0;
    for (unsigned j = 0; j < LAGS; j++)
        lags |= r > 1 + j && is_released(r - 1 - j) && gamma[j] > 0 ? 1u << j : 0;
    return (uint8_t)(r == 20 ? lags & 14 : r == 30 ? 0 : lags);
}

/* The state of one run. */
static side as, csp;
static int64_t w[N], sum[N];

static void one_round(const noise_params *p, pool *threads, seeded *gen)
{
    static uint64_t n[N], v[N];
    static uint8_t reply[NOISE_REPLY_HEAD + N * 5];
    const uint64_t ring = (uint64_t)1 << (p->k + p->t + p->g);
    sefl_rng rng = seeded_rng(gen);
    uint8_t coins[NOISE_COINS];
    size_t bytes;
    for (size_t i = 0; i < N; i++) {
        sum[i] = (int64_t)seeded_below(gen, 1 << 20) - (1 << 19);
        v[i] = seeded_below(gen, ring);
        n[i] = (v[i] + ((uint64_t)sum[i] << p->g)) & (ring - 1);
    }
    draw_noise(gen, &as, &csp);
    remember(&as, p), remember(&csp, p);
    noise_digits dn = noise_digits_of(n), dv = noise_digits_of(v);
    CHECK_OK(noise_reply_bytes(&bytes, p));
    CHECK_OK(rng_fill(&rng, coins, sizeof coins));
    CHECK_OK(
        noise_reply_make(reply, p, &dn, &(noise_source){ from, csp.x }, csp.memory, threads, &rng));
    CHECK_OK(noise_reply_finish(w, p, span_of(reply, bytes), &dv, &(noise_source){ from, as.x },
                                as.memory, threads, coins));
}

/* What both servers kept of value i in a round, together. */
static wide noise_of(const filter_ref *f, unsigned round, size_t i)
{
    return wide_signed((wide)load_u64(kept_in(&csp, round) + 8 * i) +
                           load_u64(kept_in(&as, round) + 8 * i),
                       f->kept);
}

/* H of both servers together, by the reference. */
static wide taken_back(const filter_ref *f, const noise_params *p, size_t i)
{
    side *both[2] = { &csp, &as };
    wide h = 0;
    for (int s = 0; s < 2; s++) {
        wide past[LAGS] = { 0 };
        for (unsigned j = 0; j < LAGS; j++)
            if (p->lags >> j & 1)
                past[j] = load_u64(kept_in(both[s], (unsigned)p->round - 1 - j) + 8 * i);
        h += filter_ref_h(f, p->gamma, past, LAGS);
    }
    return wide_signed(h, f->place);
}

/* In every coordinate and round: the two kept numbers add up to (R - mu) 2^F, where mu is the
 * aggregate plus what both servers took back; and that is -gamma / 4096 times the noise of the
 * rounds before, within one unit. Fresh noise has its law, and rounds are independent. */
static void kept_numbers_add_up(void **state)
{
    (void)state;
    static const struct {
        unsigned k, t, g;
        uint16_t gamma[LAGS];
    } cases[] = {
        { 16, 12, 16, { 3700 } },
        { 16, 12, 0, { 2048, 900, 500, 300 } },
        { 20, 14, 16, { 4096 } },
        { 19, 12, 0, { 2048, 0, 700, 1 } },
    };
    seeded gen;
    pool *threads;
    test_seed(&gen, "filter");
    CHECK_OK(pool_new(&threads, 2));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        noise_params p = { .count = N,
                           .k = cases[c].k,
                           .t = cases[c].t,
                           .g = cases[c].g,
                           .attempt = 1,
                           .shape = &noise_joint };
        const filter_ref f = filter_ref_of(p.k, 52 - p.k, 12);
        const wide most = f.unit * 2048;
        double squares = 0, cross = 0, values = 0;
        memcpy(p.gamma, cases[c].gamma, sizeof p.gamma);
        for (unsigned r = 1; r <= ROUNDS; r++) {
            if (!is_released(r))
                continue;
            p.round = r;
            p.lags = lags_of(r, p.gamma);
            one_round(&p, r % 2 ? threads : NULL, &gen);
            for (size_t i = 0; i < N; i++) {
                wide fresh = noise_of(&f, r, i), h = taken_back(&f, &p, i), before = 0;
                wide released = (2 * (wide)w[i] + 1) * f.unit / 2;
                wide mu = (wide)sum[i] * (f.unit >> p.t) + h;
                for (unsigned j = 0; j < LAGS; j++)
                    if (p.lags >> j & 1)
                        before += p.gamma[j] * noise_of(&f, r - 1 - j, i);
                assert_true(wide_mod(released - mu - fresh, f.place) == 0);
                assert_true(fresh > -most && fresh < most); /* nothing wrapped */
                assert_true(h * 4096 + before > -4096 && h * 4096 + before <= 4096);
                double own = (double)fresh / (double)f.unit;
                squares += own * own, values += 1;
                if (p.lags & 1)
                    cross += own * (double)noise_of(&f, r - 1, i) / (double)f.unit;
            }
        }
        printf("variance %.2f, covariance of rounds %.2f\n", squares / values, cross / values);
        /* a jump adds up to some thousands, with probability 2^-17 */
        assert_true(fabs(squares / values - 89.1) < 6 * 130 / sqrt(values) + 0.2);
        assert_true(fabs(cross / values) < 6 * 90 / sqrt(values));
    }
    pool_free(threads);
}

/* The same coins, the same reply, w and kept numbers, with any number of threads. */
static void threads_change_nothing(void **state)
{
    (void)state;
    static uint8_t once[2][N * NOISE_KEPT];
    static int64_t before[N];
    noise_params p = { .round = 1, .count = N, .k = 16, .t = 12, .g = 16, .shape = &noise_joint };
    pool *threads;
    p.gamma[0] = 3000;
    CHECK_OK(pool_new(&threads, 3));
    for (int i = 0; i < 2; i++) {
        seeded gen;
        seeded_init(&gen, 7, "threads");
        for (p.round = 1; p.round <= 2; p.round++) {
            p.lags = p.round == 2;
            one_round(&p, i ? threads : NULL, &gen);
        }
        if (i == 0) {
            memcpy(before, w, sizeof w);
            memcpy(once[0], kept_in(&as, 2), sizeof once[0]);
            memcpy(once[1], kept_in(&csp, 2), sizeof once[1]);
        }
    }
    assert_memory_equal(before, w, sizeof w);
    assert_memory_equal(once[0], kept_in(&as, 2), sizeof once[0]);
    assert_memory_equal(once[1], kept_in(&csp, 2), sizeof once[1]);
    pool_free(threads);
}

/* Shares need 12 bits more than values; replies have the same size with and without a filter. */
static void sizes(void **state)
{
    (void)state;
    noise_params p = { .count = 1, .k = 16, .t = 12, .g = 16, .shape = &noise_joint };
    size_t with, without;
    CHECK_OK(noise_reply_bytes(&without, &p));
    assert_int_equal(noise_share_bytes(&p), 2);
    p.gamma[0] = 1;
    CHECK_OK(noise_reply_bytes(&with, &p));
    assert_int_equal(with, without);
    assert_int_equal(noise_value_bytes(&p), 2);
    assert_int_equal(noise_share_bytes(&p), 4);
    p.k = 20;
    assert_int_equal(noise_share_bytes(&p), 4);
    p.k = 24, p.g = 0;
    assert_int_equal(noise_share_bytes(&p), 5);
}

static void refusals(void **state)
{
    (void)state;
    static uint64_t digit[N];
    static int64_t none[N];
    static uint8_t reply[NOISE_REPLY_HEAD + 2 * N], zeros[N * NOISE_KEPT];
    sefl_rng rng = rng_system();
    noise_params p = { .count = N, .k = 16, .t = 12, .g = 16, .shape = &noise_joint };
    noise_digits d = noise_digits_of(digit);
    noise_source add = { from, none }, bad = { broken, NULL };
    const uint8_t coins[NOISE_COINS] = { 1 };
    size_t bytes;
    p.gamma[0] = 4000, p.gamma[1] = 96;
    CHECK_OK(noise_reply_bytes(&bytes, &p));
    p.round = 3, p.lags = 3;
    remember(&as, &p);
    /* no memory */
    CHECK_STATUS(noise_reply_make(reply, &p, &d, &add, NULL, NULL, &rng), SEFL_EINVAL);
    p.lags = 1;
    CHECK_OK(noise_reply_make(reply, &p, &d, &add, as.memory, NULL, &rng));
    assert_int_equal(reply[59], 16);
    /* the other server uses other lags */
    p.lags = 0;
    CHECK_STATUS(noise_reply_finish(w, &p, span_of(reply, bytes), &d, &add, as.memory, NULL, coins),
                 SEFL_EPROTO);
    p.lags = 1;
    CHECK_STATUS(noise_reply_finish(w, &p, span_of(reply, bytes), &d, &add, NULL, NULL, coins),
                 SEFL_EINVAL);
    /* a failure leaves nothing to keep */
    memset(as.memory, 1, N * NOISE_KEPT);
    CHECK_STATUS(noise_reply_finish(w, &p, span_of(reply, bytes), &d, &bad, as.memory, NULL, coins),
                 SEFL_ERANDOM);
    assert_memory_equal(as.memory, zeros, N * NOISE_KEPT);
    memset(as.memory, 1, N * NOISE_KEPT);
    CHECK_STATUS(noise_reply_make(reply, &p, &d, &bad, as.memory, NULL, &rng), SEFL_ERANDOM);
    assert_memory_equal(as.memory, zeros, N * NOISE_KEPT);
    /* too much, a lag that is not in the filter, too few bits */
    p.lags = 4;
    CHECK_STATUS(noise_reply_bytes(&bytes, &p), SEFL_EINVAL);
    p.lags = 16;
    CHECK_STATUS(noise_reply_bytes(&bytes, &p), SEFL_EINVAL);
    p.lags = 0, p.gamma[2] = 1;
    CHECK_STATUS(noise_reply_bytes(&bytes, &p), SEFL_EINVAL);
    p.gamma[2] = 0, p.k = 25;
    CHECK_STATUS(noise_reply_bytes(&bytes, &p), SEFL_EINVAL);
    p.k = 16, p.shape = &noise_own;
    CHECK_STATUS(noise_reply_bytes(&bytes, &p), SEFL_EINVAL);
    p.gamma[0] = p.gamma[1] = 0;
    CHECK_OK(noise_reply_bytes(&bytes, &p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_numbers_add_up),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(sizes),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

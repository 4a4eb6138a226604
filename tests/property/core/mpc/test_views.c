/* Both servers' views by full enumeration on a small instance: exact counts, no floating point.
 *
 * Claim (docs/PRIVACY.md): for every aggregate y, the view of AS (its share x^A, the dither J, the
 * reply m) for every mask v, even one that AS chooses, and the view of CSP with the release (x^C,
 * n, J, own coins, w) are functions of y + N and of randomness that does not depend on y; N has the
 * same law in both. In counts: with s the number that the claim calls sufficient,
 *   1. every view with the same s has the same count, for every y (and v, for AS);
 *   2. the count of s given y is the count of s - y given 0.
 * The noise is that of the real circuit (plain run), and so is the rounding: noise_quantise is run on coins
 * that are known, and what it makes of every (digit, coin) is what is enumerated. Jumps are left out (they
 * only shift X). The dither has all T bits that are cut. */
#include "support/check.h"

#include "mpc/circuits/plain.h"
#include "mpc/circuits/sampler.h"
#include "mpc/noise/noise_quantise.h"
#include "support/law.h"

#include <stdlib.h>
#include <string.h>

static const sampler_profile tiny = {
    .name = "tiny", .columns = 1, .column = { 2 }, .kick_a = 0, .kick_m = 1
};

enum { K = 3, T = 2, RING = 1 << K, FINE = 1 << (K + T), COINS = 1 << T, R = 4, STRINGS = 1 << R };

static unsigned round_of[FINE][COINS]; /* by noise_quantise */

static unsigned rounded(unsigned y, unsigned u)
{
    return round_of[y][u];
}

/* Runs noise_quantise with T bits to drop, one of them a guard bit, until every digit has met every
 * coin; a coin is the low T bits of the eight bytes that the digit takes from the stream. */
static void rounding_table(void)
{
    enum { TRIALS = 64 * FINE * COINS };
    static uint64_t digit[TRIALS], out[TRIALS];
    uint8_t seed[PRG_SEED] = { 1 }, coin[8];
    unsigned met = 0, up = 0;
    prg g;
    prg_init(&g, seed, "views");
    memset(round_of, 0xff, sizeof round_of);
    for (unsigned i = 0; i < TRIALS; i++)
        out[i] = digit[i] = i % FINE;
    noise_quantise(out, TRIALS, T, &g);
    for (unsigned i = 0; i < TRIALS; i++) {
        out[i] %= RING;
        prg_read(&g, coin, sizeof coin, 0, 8 * (uint64_t)i);
        unsigned *to = &round_of[digit[i]][load_u64(coin) & (COINS - 1)];
        met += *to == ~0u;
        assert_true(*to == ~0u || *to == out[i]); /* a function of digit and coin */
        *to = (unsigned)out[i];
    }
    assert_int_equal(met, FINE * COINS);
    for (unsigned y = 0; y < FINE; y++) { /* up for as many coins as the fraction says */
        up = 0;
        for (unsigned u = 0; u < COINS; u++) {
            unsigned step = (round_of[y][u] - (y >> T)) % RING;
            assert_true(step <= 1);
            up += step;
        }
        assert_int_equal(up, y % COINS);
    }
    prg_clear(&g);
}

static unsigned x_of[STRINGS]; /* X for each string of coins, by the circuit */

static void table(void)
{
    circuit *c;
    plain *p;
    assert_int_equal(sampler_random_bits(&tiny), R);
    CHECK_OK(sampler_offline(&c, &tiny));
    CHECK_OK(plain_new(&p, c));
    for (unsigned r = 0; r < STRINGS; r++) {
        uint64_t in[R][PLAIN_WORDS] = { { 0 } }, out[K][PLAIN_WORDS] = { { 0 } };
        uint8_t bits[R];
        assert_true(c->outputs <= K);
        for (unsigned i = 0; i < R; i++)
            in[i][0] = bits[i] = r >> i & 1;
        plain_run(p, out, (const uint64_t(*)[PLAIN_WORDS])in);
        x_of[r] = 0;
        for (unsigned i = 0; i < c->outputs; i++)
            x_of[r] |= (unsigned)(out[i][0] & 1) << i;
        assert_int_equal(x_of[r], law_value_vartime(&tiny, K, 0, bits));
    }
    plain_free(p);
    circuit_free(c);
    rounding_table();
}

/* law[y][s]: AS's view, mask v, counted over CSP's coins, X and x^A. s = 2^T (m + x^A) - v - J.
 * With `dither` 0 J is always 0. False if a count is not a function of s. */
static bool law_of_as(uint64_t law[FINE][FINE], unsigned v, int dither)
{
    bool is_function = true;
    memset(law, 0, FINE * sizeof law[0]);
    for (unsigned y = 0; y < FINE; y++) {
        static unsigned seen[COINS][RING][RING]; /* J, x^A, m */
        unsigned of_s[FINE], js = dither ? COINS : 1;
        memset(seen, 0, sizeof seen);
        memset(of_s, 0xff, sizeof of_s);
        for (unsigned j = 0; j < js; j++)
            for (unsigned xa = 0; xa < RING; xa++)
                for (unsigned u = 0; u < COINS; u++)
                    for (unsigned r = 0; r < STRINGS; r++) {
                        unsigned xc = (x_of[r] - xa) % RING;
                        seen[j][xa][(rounded((y + v + j) % FINE, u) + xc) % RING]++;
                    }
        for (unsigned j = 0; j < js; j++)
            for (unsigned xa = 0; xa < RING; xa++)
                for (unsigned m = 0; m < RING; m++) {
                    unsigned s = (COINS * (m + xa) - v - j) % FINE, n = seen[j][xa][m];
                    is_function &= of_s[s] == ~0u || of_s[s] == n;
                    of_s[s] = n;
                    law[y][s] += n;
                }
    }
    return is_function;
}

static void shifts_with_the_aggregate(uint64_t law[FINE][FINE])
{
    for (unsigned y = 0; y < FINE; y++)
        for (unsigned s = 0; s < FINE; s++)
            assert_int_equal(law[y][s], law[0][(s - y) % FINE]);
}

/* CSP's view: s = 2^T w + (n + J) - 2^T n'. */
static void law_of_csp(uint64_t law[FINE][FINE])
{
    static unsigned seen[RING][COINS][COINS][FINE][RING]; /* x^C, J, u, n, w */
    memset(law, 0, FINE * sizeof law[0]);
    for (unsigned y = 0; y < FINE; y++) {
        unsigned of_s[FINE];
        memset(seen, 0, sizeof seen);
        memset(of_s, 0xff, sizeof of_s);
        for (unsigned v = 0; v < FINE; v++)
            for (unsigned j = 0; j < COINS; j++)
                for (unsigned u = 0; u < COINS; u++)
                    for (unsigned ua = 0; ua < COINS; ua++)
                        for (unsigned r = 0; r < STRINGS; r++)
                            for (unsigned xc = 0; xc < RING; xc++) {
                                unsigned n = (y + v) % FINE, xa = (x_of[r] - xc) % RING;
                                unsigned m = (rounded((n + j) % FINE, u) + xc) % RING;
                                seen[xc][j][u][n][(m + xa - rounded((v + j) % FINE, ua)) % RING]++;
                            }
        for (unsigned xc = 0; xc < RING; xc++)
            for (unsigned j = 0; j < COINS; j++)
                for (unsigned u = 0; u < COINS; u++)
                    for (unsigned n = 0; n < FINE; n++)
                        for (unsigned w = 0; w < RING; w++) {
                            unsigned at = (n + j) % FINE;
                            unsigned s = (COINS * w + at - COINS * rounded(at, u)) % FINE;
                            unsigned count = seen[xc][j][u][n][w];
                            assert_true(of_s[s] == ~0u || of_s[s] == count);
                            of_s[s] = count;
                            law[y][s] += count;
                        }
    }
}

static void views_depend_on_the_noisy_aggregate_only(void **state)
{
    (void)state;
    static uint64_t as[FINE][FINE], first[FINE][FINE], csp[FINE][FINE];
    uint64_t total[2] = { 0, 0 };
    table();
    for (unsigned v = 0; v < FINE; v++) { /* AS chooses its mask, and so the position of the sum */
        assert_true(law_of_as(as, v, 1));
        shifts_with_the_aggregate(as);
        if (v == 0)
            memcpy(first, as, sizeof as);
        assert_memory_equal(as, first, sizeof as); /* the same law, whatever AS chose */
    }
    law_of_csp(csp);
    shifts_with_the_aggregate(csp);
    for (unsigned s = 0; s < FINE; s++)
        total[0] += first[0][s], total[1] += csp[0][s];
    assert_int_equal(total[0], (uint64_t)COINS * RING * COINS * STRINGS);
    /* the same noise against both: X * 2^T and a difference of two uniforms, up to the reflection
     * of that (symmetric) difference by one fine step */
    uint64_t scale = total[1] / total[0], var[2] = { 0, 0 };
    assert_int_equal(total[1] % total[0], 0);
    for (unsigned s = 0; s < FINE; s++) {
        var[0] += first[0][s] * scale * first[0][s] * scale;
        var[1] += csp[0][s] * csp[0][s];
    }
    assert_int_equal(var[0], var[1]);
}

/* Without the dither, AS selects the law by choosing the mask: on the lattice there is no rounding
 * noise. With a uniform mask (the mean over v) the law is the one above: that is the case of an
 * honest AS. */
static void a_chosen_place_would_show_without_dither(void **state)
{
    (void)state;
    static uint64_t law[FINE][FINE], at0[FINE][FINE], mean[FINE][FINE], with[FINE][FINE];
    unsigned differ = 0;
    table();
    memset(mean, 0, sizeof mean);
    for (unsigned v = 0; v < FINE; v++) {
        law_of_as(law, v, 0);
        if (v == 0)
            memcpy(at0, law, sizeof law);
        differ += memcmp(at0[0], law[0], sizeof law[0]) != 0;
        for (unsigned y = 0; y < FINE; y++)
            for (unsigned s = 0; s < FINE; s++)
                mean[y][s] += law[y][s];
    }
    assert_true(differ >= FINE - FINE / COINS);
    assert_true(law_of_as(with, 0, 1));
    for (unsigned y = 0; y < FINE; y++)
        for (unsigned s = 0; s < FINE; s++)
            assert_int_equal(mean[y][s], with[y][s] * (FINE / COINS));
}

/* The test can fail: without coins at AS (rounding down) CSP's view is not a function of y + N. */
static void rounding_without_coins_would_show(void **state)
{
    (void)state;
    unsigned differ = 0;
    static unsigned count[2][FINE][RING];
    memset(count, 0, sizeof count);
    for (unsigned y = 0; y < 2; y++)
        for (unsigned v = 0; v < FINE; v++)
            for (unsigned r = 0; r < STRINGS; r++) {
                unsigned n = (y + v) % FINE;
                count[y][n][(rounded(n, 0) + x_of[r] - rounded(v, 0)) % RING]++;
            }
    for (unsigned n = 0; n < FINE; n++) {
        unsigned same = 1;
        for (unsigned w = 0; w < RING; w++)
            same &= count[0][n][w] == count[1][n][w];
        differ += !same;
    }
    /* some n tell y = 0 from 1 sharply, others not at all */
    assert_true(differ > 0 && differ < FINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_depend_on_the_noisy_aggregate_only),
        cmocka_unit_test(a_chosen_place_would_show_without_dither),
        cmocka_unit_test(rounding_without_coins_would_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

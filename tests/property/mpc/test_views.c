/* Both servers' views by full enumeration on a small instance: exact counts, no floating point.
 *
 * Claim (docs/PRIVACY.md): whatever the aggregate y, the view of AS (v, own coins, z) and the view
 * of CSP with the release (n, own coins, w) are functions of y + N and of randomness that does not
 * depend on y; N has the same law in both: X * 2^t + (v - rounded v) - ..., a difference of two
 * uniforms added. In counts: with s the number that the claim calls sufficient,
 *   1. every view with the same s has the same count, for every y;
 *   2. the count of s given y is the count of s - y given 0.
 * The circuit is the real one (plain run), and so is the rounding: noise_round is run on coins that
 * are known, and what it makes of every (digit, coin) is what is enumerated. Jumps are left out
 * (they only shift X). */
#include "support/check.h"

#include "mpc/circuits/sampler.h"
#include "mpc/noise/round.h"
#include "mpc/plain/law.h"
#include "mpc/plain/plain.h"

#include <stdlib.h>
#include <string.h>

static const sampler_profile tiny = {
    .name = "tiny", .columns = 1, .column = { 2 }, .kick_a = 0, .kick_m = 1
};

enum { K = 3, T = 2, RING = 1 << K, FINE = 1 << (K + T), COINS = 1 << T, R = 4, STRINGS = 1 << R };

static unsigned round_of[FINE][COINS]; /* by noise_round */

static unsigned rounded(unsigned y, unsigned u)
{
    return round_of[y][u];
}

/* Runs noise_round with T bits to cut, one of them a guard bit, until every digit has met every
 * coin; a coin is the low T bits of the eight bytes that the digit takes from the stream. */
static void rounding_table(void)
{
    enum { TRIALS = 64 * FINE * COINS };
    static uint64_t digit[TRIALS];
    static uint32_t out[TRIALS];
    uint8_t seed[PRG_SEED] = { 1 }, coin[8];
    unsigned met = 0, up = 0;
    prg g;
    prg_init(&g, seed, "views");
    memset(round_of, 0xff, sizeof round_of);
    for (unsigned i = 0; i < TRIALS; i++)
        digit[i] = i % FINE;
    noise_round(out, digit, TRIALS, K, T - 1, 1, &g);
    for (unsigned i = 0; i < TRIALS; i++) {
        prg_read(&g, coin, sizeof coin, 0, 8 * (uint64_t)i);
        unsigned *to = &round_of[digit[i]][load_u64(coin) & (COINS - 1)];
        met += *to == ~0u;
        assert_true(*to == ~0u || *to == out[i]); /* a function of digit and coin */
        *to = out[i];
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
    CHECK_OK(sampler_circuit(&c, &tiny, K));
    CHECK_OK(plain_new(&p, c));
    for (unsigned n = 0; n < RING; n++)
        for (unsigned r = 0; r < STRINGS; r++) {
            uint64_t in[K + R][PLAIN_WORDS] = { { 0 } }, out[K][PLAIN_WORDS];
            uint8_t bits[R];
            unsigned z = 0;
            for (unsigned i = 0; i < K; i++)
                in[i][0] = n >> i & 1;
            for (unsigned i = 0; i < R; i++)
                in[K + i][0] = bits[i] = r >> i & 1;
            plain_run(p, out, (const uint64_t(*)[PLAIN_WORDS])in);
            for (unsigned i = 0; i < K; i++)
                z |= (unsigned)(out[i][0] & 1) << i;
            assert_int_equal(z, law_value_vartime(&tiny, K, n, bits));
            if (n == 0)
                x_of[r] = z;
            assert_int_equal(z, (n + x_of[r]) % RING); /* z = n + X, X independent of n */
        }
    plain_free(p);
    circuit_free(c);
}

/* count[y][own coin][own number][seen], and what s is for each. */
static unsigned seen_as[FINE][COINS][FINE][RING], seen_csp[FINE][COINS][FINE][RING];

static void enumerate(void)
{
    table();
    rounding_table();
    for (unsigned y = 0; y < FINE; y++)
        for (unsigned v = 0; v < FINE; v++)
            for (unsigned uc = 0; uc < COINS; uc++)
                for (unsigned ua = 0; ua < COINS; ua++)
                    for (unsigned r = 0; r < STRINGS; r++) {
                        unsigned n = (y + v) % FINE;
                        unsigned z = (rounded(n, uc) + x_of[r]) % RING;
                        unsigned w = (z - rounded(v, ua)) % RING;
                        seen_as[y][ua][v][z]++;
                        seen_csp[y][uc][n][w]++;
                    }
}

/* law[y][s] with s = 2^T seen + own mod 2^(K+T); own: -v at AS; n - 2^T n' at CSP. */
static void check(unsigned (*seen)[COINS][FINE][RING], int csp, uint64_t law[FINE][FINE])
{
    for (unsigned y = 0; y < FINE; y++) {
        unsigned of_s[FINE];
        memset(of_s, 0xff, sizeof of_s);
        memset(law[y], 0, sizeof law[y]);
        for (unsigned u = 0; u < COINS; u++)
            for (unsigned own = 0; own < FINE; own++)
                for (unsigned s8 = 0; s8 < RING; s8++) {
                    unsigned s = csp ? (COINS * s8 + own - COINS * rounded(own, u)) % FINE
                                     : (COINS * s8 - own) % FINE;
                    unsigned count = seen[y][u][own][s8];
                    if (of_s[s] == ~0u)
                        of_s[s] = count;
                    assert_int_equal(count, of_s[s]); /* 1 */
                    law[y][s] += count;
                }
        for (unsigned s = 0; s < FINE; s++)
            assert_int_equal(law[y][s], law[0][(s - y) % FINE]); /* 2 */
    }
}

static void views_depend_on_the_noisy_aggregate_only(void **state)
{
    (void)state;
    static uint64_t as[FINE][FINE], csp[FINE][FINE];
    uint64_t total = 0;
    enumerate();
    check(seen_as, 0, as);
    check(seen_csp, 1, csp);
    for (unsigned s = 0; s < FINE; s++)
        total += as[0][s];
    assert_int_equal(total, (uint64_t)FINE * COINS * COINS * STRINGS);
    /* the same noise against both: X * 2^T and a difference of two uniforms, up to the reflection
     * of that (symmetric) difference by one fine step */
    uint64_t var[2] = { 0, 0 };
    for (unsigned s = 0; s < FINE; s++)
        var[0] += as[0][s] * as[0][s], var[1] += csp[0][s] * csp[0][s];
    assert_int_equal(var[0], var[1]);
}

/* The test can fail: without coins at AS (rounding down) CSP's view is no function of y + N. */
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
        cmocka_unit_test(rounding_without_coins_would_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* An audit of two correlated rounds: every coordinate is one run of both servers' real code, with and
 * without a client whose vector is one sensitivity long in round 1. The test statistic is the best
 * one against Gaussian noise. The claim (docs/PRIVACY.md, section 11) is one release with noise
 * z / S: the audit must not contradict it at any threshold and epsilon, must come close to it, and
 * must contradict the claim that forgets S. With SEFL_SOAK=1 10^6 runs. */
#include "support/check.h"

#include "mpc/noise/online.h"
#include "support/digits.h"
#include "support/law.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const unsigned gamma_1 = 3000;
enum { SHIFT = 38663 }; /* z = 1: D is the noise's standard deviation, 9.4392 steps */

static void shares(seeded *g, uint8_t *a, uint8_t *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t coins = seeded_u64(g), own = seeded_u64(g);
        uint8_t bits[34];
        for (unsigned j = 0; j < 34; j++)
            bits[j] = coins >> j & 1;
        store_u32(a + 4 * i, (uint32_t)own);
        store_u32(c + 4 * i, law_value_vartime(&sampler_g44, 32, 0, bits) - (uint32_t)own);
    }
}

/* The statistic of n runs whose first aggregate is `shift` fine steps. */
static void runs(double *out, size_t n, uint64_t shift, seeded *g)
{
    const double c = gamma_1 / 4096.0;
    noise_params p = { .count = n, .k = 16, .t = 12, .shape = &noise_joint };
    uint64_t *digit[2] = { malloc(8 * n), malloc(8 * n) };
    uint8_t *x[2] = { malloc(4 * n), malloc(4 * n) }, *reply = malloc(NOISE_REPLY_HEAD + 2 * n);
    uint8_t *kept[2][2], coins[NOISE_COINS];
    int64_t *w[2] = { malloc(8 * n), malloc(8 * n) };
    sefl_rng rng = seeded_rng(g);
    for (int i = 0; i < 4; i++)
        kept[i / 2][i % 2] = malloc(8 * n);
    p.gamma[0] = (uint16_t)gamma_1;
    for (int r = 0; r < 2; r++) {
        p.round = 1 + (uint64_t)r, p.lags = (uint8_t)r;
        for (size_t i = 0; i < n; i++) {
            digit[0][i] = seeded_u64(g) >> 36;
            digit[1][i] = (digit[0][i] + (r ? 0 : shift)) & ((1 << 28) - 1);
        }
        shares(g, x[0], x[1], n);
        noise_taken t[2] = { { x[0], 4 }, { x[1], 4 } };
        noise_source add[2] = { noise_taken_of(&t[0]), noise_taken_of(&t[1]) };
        noise_digits d[2] = { noise_digits_of(digit[0]), noise_digits_of(digit[1]) };
        for (int s = 0; s < 2; s++)
            noise_filter_back(kept[s][r], p.gamma, p.lags,
                              (const uint8_t *const[NOISE_LAGS]){ kept[s][0] }, n);
        CHECK_OK(rng_fill(&rng, coins, sizeof coins));
        CHECK_OK(noise_reply_make(reply, &p, &d[1], &add[1], kept[1][r], NULL, &rng));
        CHECK_OK(noise_reply_finish(w[r], &p, span_of(reply, NOISE_REPLY_HEAD + 2 * n), &d[0],
                                    &add[0], kept[0][r], NULL, coins));
    }
    for (size_t i = 0; i < n; i++) { /* the shift appears as 1 in round 1 and as c in round 2 */
        const double first = (double)w[0][i] + 0.5, second = (double)w[1][i] + 0.5;
        out[i] = first + c * (second + c * first);
    }
    for (int i = 0; i < 2; i++)
        free(digit[i]), free(x[i]), free(w[i]), free(kept[i][0]), free(kept[i][1]);
    free(reply);
}

static double phi(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

/* delta of a Gaussian release with shift over noise mu. */
static double gauss_delta(double mu, double eps)
{
    return phi(mu / 2 - eps / mu) - exp(eps) * phi(-mu / 2 - eps / mu);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static size_t above(const double *sorted, size_t n, double t)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (sorted[mid] > t)
            high = mid;
        else
            low = mid + 1;
    }
    return n - low;
}

static void two_rounds(void **state)
{
    (void)state;
    const size_t n = test_count(150000, 1000000);
    const double c = gamma_1 / 4096.0, s = sqrt(1 + c * c), room = sqrt(1.0048);
    double *with = malloc(n * sizeof *with), *without = malloc(n * sizeof *without);
    bool caught = false;
    seeded g;
    test_seed(&g, "audit of two rounds");
    runs(with, n, SHIFT, &g), runs(without, n, 0, &g);
    qsort(with, n, sizeof *with, by_size), qsort(without, n, sizeof *without, by_size);
    for (double eps = 0; eps <= 3; eps += 0.5) {
        double best = 0, sure = -1;
        for (double t = -40; t < 80; t += 0.25) {
            const double p = (double)above(with, n, t) / (double)n;
            const double q = (double)above(without, n, t) / (double)n;
            const double off = sqrt((p * (1 - p) + exp(2 * eps) * q * (1 - q)) / (double)n);
            best = fmax(best, p - exp(eps) * q);
            sure = fmax(sure, p - exp(eps) * q - 6 * off - 6 / (double)n);
        }
        const double claim = gauss_delta(room * s, eps), forgets = gauss_delta(room, eps);
        printf("epsilon %.1f: delta %.4f found, %.4f claimed, %.4f without S\n", eps, best, claim,
               forgets);
        assert_true(sure <= claim);
        assert_true(best > 0.85 * claim - 0.01);
        caught |= sure > forgets;
    }
    assert_true(caught);
    free(with), free(without);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(two_rounds) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Mode own, CSP deviating, with a hostile client: the release is post-processing of AS's noise.
 *
 * CSP sends a reply without noise, or with any offset; a hostile client shifts a coordinate by any
 * amount, for example to 2^(w-1), where the ring's signed range ends. On a ring of 2^7 this test
 * enumerates every offset, every value of an honest client and every value of AS's noise e',
 * through noise_reply_finish, and compares the law of what AS releases for two neighbours with the
 * discrete Gaussian itself: whatever CSP chooses, it gets no larger delta at any epsilon. */
#include "mpc/noise/online.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { K = 7, RING = 1 << K, TAIL = 63, NOISES = 2 * TAIL + 1, LAST = RING / 2 };
static const double sigma = 4;

/* Coordinates of one call: every noise e' at one place of the sum in the ring. */
typedef struct call {
    int64_t e[NOISES * RING];
    uint64_t mask[NOISES * RING];
} call;

static sefl_status get_mask(void *ctx, uint64_t *digit, size_t first, size_t n)
{
    memcpy(digit, ((const call *)ctx)->mask + first, n * sizeof *digit);
    return SEFL_OK;
}

static sefl_status get_noise(void *ctx, int64_t *e, size_t first, size_t n)
{
    memcpy(e, ((const call *)ctx)->e + first, n * sizeof *e);
    return SEFL_OK;
}

static int64_t released[RING][NOISES]; /* by the sum in the ring, and e' + TAIL */

/* AS's half, as it runs: CSP's reply is the sum plus the mask, without noise. */
static void release_all(void)
{
    static call c;
    const noise_params p = {
        .round = 1, .attempt = 1, .count = NOISES * RING, .k = K, .shape = &noise_own
    };
    const noise_digits mask = { .get = get_mask, .ctx = &c };
    const noise_source add = { .get = get_noise, .ctx = &c };
    const uint8_t coins[NOISE_COINS] = { 3 };
    static uint8_t reply[NOISE_REPLY_HEAD + NOISES * RING];
    static int64_t zero[NOISES * RING];
    size_t bytes;
    CHECK_OK(noise_reply_bytes(&bytes, &p));
    assert_int_equal(bytes, sizeof reply);
    store_u64(reply + 32, p.round);
    store_u64(reply + 40, p.attempt);
    store_u64(reply + 48, p.count);
    store_u32(reply + 56, K | (uint32_t)noise_own.wire << 24);
    for (size_t i = 0; i < p.count; i++) {
        c.e[i] = (int64_t)(i % NOISES) - TAIL;
        c.mask[i] = 37 * i % RING;
        reply[NOISE_REPLY_HEAD + i] = (uint8_t)((i / NOISES + c.mask[i]) % RING);
    }
    CHECK_OK(noise_reply_finish(zero, &p, span_of(reply, bytes), &mask, &add, NULL, NULL, coins));
    memcpy(released, zero, sizeof released);
}

static double weight[NOISES]; /* of e' + TAIL; what is beyond TAIL, 15 deviations, is 1e-55 */

static void weights(void)
{
    double all = 0;
    for (int i = 0; i < NOISES; i++)
        all += weight[i] = exp(-(i - TAIL) * (double)(i - TAIL) / (2 * sigma * sigma));
    for (int i = 0; i < NOISES; i++)
        weight[i] /= all;
}

enum { SPAN = 4 * RING };

/* The law of what AS releases for this sum in the ring, or of sum + e' for integers. */
static void law_of(double law[SPAN], unsigned sum, bool ring)
{
    memset(law, 0, SPAN * sizeof *law);
    for (int i = 0; i < NOISES; i++)
        law[SPAN / 2 + (ring ? released[sum % RING][i] : (int64_t)sum + i - TAIL)] += weight[i];
}

static double delta_of(const double *p, const double *q, size_t n, double eps)
{
    double delta = 0;
    for (size_t i = 0; i < n; i++)
        delta += fmax(0, p[i] - exp(eps) * q[i]);
    return delta;
}

static void no_offset_helps(void **state)
{
    (void)state;
    static const double eps[] = { 0, 0.1, 0.5, 1, 2 };
    static double p[SPAN], q[SPAN], free_p[SPAN], free_q[SPAN];
    double worst = 0;
    for (unsigned shift = 1; shift <= 4; shift++)
        for (unsigned e = 0; e < sizeof eps / sizeof *eps; e++) {
            law_of(free_p, 0, false);
            law_of(free_q, shift, false);
            double gauss = delta_of(free_p, free_q, SPAN, eps[e]);
            for (unsigned at = 0; at < RING; at++) { /* all offsets of CSP and of hostile clients */
                law_of(p, at, true);
                law_of(q, at + shift, true);
                double up = delta_of(p, q, SPAN, eps[e]), down = delta_of(q, p, SPAN, eps[e]);
                worst = fmax(worst, fmax(up, down) - gauss);
                if (fmax(up, down) > gauss + 1e-12)
                    fail_msg("a shift of %u at %u of %d: delta(%.1f) is %.3f, not %.3f", shift, at,
                             RING, eps[e], fmax(up, down), gauss);
            }
        }
    assert_true(worst <= 1e-12);
}

/* Two rounds with a filter, gamma 1/2: AS's second noise is e2 - (e1 / 2 to the nearest). The pair
 * of releases, too, is post-processing of the same pair over the integers. */
static void nor_with_a_filter(void **state)
{
    (void)state;
    enum { FEW = 24, SIDE = 2 * RING, PAIRS = SIDE * SIDE }; /* six deviations of each noise */
    static const unsigned places[] = { 0, 20, LAST - 3, LAST - 1, LAST, LAST + 1, RING - 1 };
    double *law[4];
    const size_t n = sizeof places / sizeof *places;
    for (int i = 0; i < 4; i++)
        assert_non_null(law[i] = calloc(PAIRS, sizeof **law));
    for (size_t a = 0; a < n * n; a++) {
        const unsigned first = places[a / n], second = places[a % n], shift = 2;
        for (int i = 0; i < 4; i++)
            memset(law[i], 0, PAIRS * sizeof **law);
        for (int e1 = -FEW; e1 <= FEW; e1++)
            for (int e2 = -FEW; e2 <= FEW; e2++) {
                const int back = e2 - ((e1 + 2 * RING) / 2 - RING);
                const double both = weight[e1 + TAIL] * weight[e2 + TAIL];
                for (unsigned s = 0; s < 2; s++) { /* the neighbour differs in both rounds */
                    const unsigned x = (first + s * shift) % RING, y = (second + s * shift) % RING;
                    const int64_t r1 = released[x][e1 + TAIL], r2 = released[y][back + TAIL];
                    law[s][(size_t)(r1 + RING) * SIDE + (size_t)(r2 + RING)] += both;
                    law[2 + s][(size_t)(RING + e1 + (int)(s * shift)) * SIDE +
                               (size_t)(RING + back + (int)(s * shift))] += both;
                }
            }
        for (double eps = 0; eps < 2; eps += 0.5) {
            const double gauss = delta_of(law[2], law[3], PAIRS, eps);
            const double got = delta_of(law[0], law[1], PAIRS, eps);
            if (got > gauss + 1e-12)
                fail_msg("places %u, %u: delta(%.1f) is %.4f, not %.4f", first, second, eps, got,
                         gauss);
        }
    }
    for (int i = 0; i < 4; i++)
        free(law[i]);
}

static int setup(void **state)
{
    (void)state;
    weights();
    release_all();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_offset_helps),
        cmocka_unit_test(nor_with_a_filter),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

/* Correlated noise against make_filter.py, which computes with Python's integers. */
#include "support/check.h"

#include "base/span.h"
#include "filter.h"
#include "mpc/noise/noise_filter.h"

#include <string.h>

typedef struct row {
    uint64_t k, t, g, gamma[NOISE_LAGS], kept[2][NOISE_LAGS], digit[2], x[2], u[2], jump[2];
    uint64_t h[2], y[2], d[2], keep[2]; /* expected; [0]: CSP, [1]: AS */
} row;

_Static_assert(sizeof(row) == sizeof filter_rows[0], "one row");

static void rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof filter_rows / sizeof *filter_rows; i++) {
        row r;
        uint16_t gamma[NOISE_LAGS];
        memcpy(&r, filter_rows[i], sizeof r);
        const unsigned f = 52 - (unsigned)r.k, up = f - (unsigned)r.t - (unsigned)r.g;
        unsigned lags = 0;
        for (unsigned j = 0; j < NOISE_LAGS; j++) {
            gamma[j] = (uint16_t)r.gamma[j];
            lags |= gamma[j] ? 1u << j : 0;
        }
        for (int s = 0; s < 2; s++) {
            uint8_t kept[NOISE_LAGS][NOISE_KEPT], m[NOISE_KEPT];
            const uint8_t *past[NOISE_LAGS];
            for (unsigned j = 0; j < NOISE_LAGS; j++) {
                store_u64(kept[j], r.kept[s][j]);
                past[j] = kept[j];
            }
            const noise_filter nf = { .up = up, .F = f, .sign = s ? -1 : 1, .mean2 = 123 };
            uint64_t y = r.digit[s], x = r.x[s];
            noise_filter_back(m, gamma, lags, past, 1);
            assert_true(load_u64(m) == r.h[s]);
            noise_filter_back(kept[s], gamma, lags, past, 1); /* in place */
            assert_true(load_u64(kept[s]) == r.h[s]);
            noise_filter_place(&nf, &y, m, &(int64_t){ (int64_t)x }, 1);
            assert_true(y == r.y[s]);
            uint64_t d = ((y + r.u[s]) >> f) + (s ? 0 - r.jump[s] : r.jump[s]);
            assert_true(d == r.d[s]);
            noise_filter_keep(&nf, m, &d, 1);
            assert_true(load_u64(m) == r.keep[s]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

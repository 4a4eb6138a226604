#include "support/check.h"

#include "mpc/noise/own.h"

#include <stdlib.h>
#include <string.h>

enum { N = 700 };

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

static noise_params params(unsigned g)
{
    return (noise_params){ .round = 4, .attempt = 1, .count = N, .k = 16, .t = 12, .g = g };
}

/* sum + noise of both, exactly; carries between slots below the guard bits change nothing. */
static void both_noises_are_added(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "own");
    for (unsigned g = 0; g <= 16; g += 16) {
        noise_params p = params(g);
        uint64_t n[N], v[N], ring = ((uint64_t)1 << (28 + g)) - 1;
        int64_t sum[N], e[2][N], w[N];
        uint8_t reply[N * 8], got[N * 8];
        channel a, b;
        size_t bytes;
        for (size_t i = 0; i < N; i++) {
            sum[i] = (int64_t)seeded_below(&gen, 1 << 26) - (1 << 25);
            for (int s = 0; s < 2; s++)
                e[s][i] = (int64_t)seeded_below(&gen, 1 << 20) - (1 << 19);
            v[i] = seeded_u64(&gen) & ring;
            uint64_t carry = g ? seeded_below(&gen, 3) - 1 : 0; /* -1, 0, 1 of the guard bits */
            n[i] = (v[i] + ((uint64_t)sum[i] << g) + carry) & ring;
        }
        noise_digits dn = noise_digits_of(n), dv = noise_digits_of(v);
        CHECK_OK(noise_own_bytes(&bytes, &p));
        assert_int_equal(bytes, N * (g ? 6 : 4));
        CHECK_OK(noise_own_make(reply, &p, &dn, &(noise_source){ from, e[0] }));
        CHECK_OK(channel_pair_new(&a, &b, 1000));
        CHECK_OK(noise_own_send(&a, &p, reply));
        CHECK_OK(noise_own_receive(&b, &p, got));
        CHECK_OK(noise_own_finish(w, &p, got, &dv, &(noise_source){ from, e[1] }));
        for (size_t i = 0; i < N; i++)
            assert_int_equal(w[i], sum[i] + e[0][i] + e[1][i]);
        p.round++;
        CHECK_OK(noise_own_send(&a, &p, reply));
        p.round--;
        CHECK_STATUS(noise_own_receive(&b, &p, got), SEFL_EPROTO);
        channel_pair_close(&a);
        channel_pair_close(&b);
    }
}

static void failures_leave_nothing(void **state)
{
    (void)state;
    noise_params p = params(16), bad = params(40);
    uint64_t n[N] = { 0 };
    int64_t w[N];
    uint8_t reply[N * 6], zero[N * 8] = { 0 };
    size_t bytes;
    noise_digits d = noise_digits_of(n);
    memset(reply, 1, sizeof reply);
    CHECK_STATUS(noise_own_make(reply, &p, &d, &(noise_source){ broken, NULL }), SEFL_ERANDOM);
    assert_memory_equal(reply, zero, sizeof reply);
    memset(w, 1, sizeof w);
    CHECK_STATUS(noise_own_finish(w, &p, reply, &d, &(noise_source){ broken, NULL }), SEFL_ERANDOM);
    assert_memory_equal(w, zero, sizeof w);
    CHECK_STATUS(noise_own_bytes(&bytes, &bad), SEFL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_noises_are_added),
        cmocka_unit_test(failures_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "support/check.h"

#include "crypto/ahe/paillier_pack.h"
#include "mpc/noise/own.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 100, UNITS = 7, N = SLOTS * UNITS };

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

/* Packed as Paillier packs: slots of 28 bits in one integer under one mask, 16 guard bits. */
static ahe_params packed(unsigned g)
{
    return (ahe_params){ .pack = { .k = 16, .t = 12, .w = 28, .g = g, .s = 80 },
                         .unit_values = SLOTS,
                         .plain_bytes = 384,
                         .units = UNITS };
}

/* Digits of the mask and of sum + mask, as both servers get them. */
static void pack_digits(uint64_t v[N], uint64_t n[N], const int64_t sum[N], unsigned g, uint8_t s0)
{
    ahe_params p = packed(g);
    uint8_t plain[UNITS * 384], seed[AHE_SEED_BYTES] = { s0, 7 };
    CHECK_OK(paillier_mask_units(&p, plain, 0, UNITS, seed));
    paillier_plain_digits(&p, v, plain, UNITS);
    paillier_plain_add(&p, plain, sum, UNITS);
    paillier_plain_digits(&p, n, plain, UNITS);
}

static uint64_t value_of(const uint8_t *reply, size_t i)
{
    uint8_t v[8] = { 0 };
    memcpy(v, reply + i * 4, 4);
    return load_u64(v);
}

/* sum + noise of both: exactly without guard bits, else within the two roundings and unbiased. */
static void both_noises_are_added(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "own");
    sefl_rng rng = seeded_rng(&gen);
    for (unsigned g = 0; g <= 16; g += 16) {
        noise_params p = params(g);
        static uint64_t n[N], v[N];
        static int64_t sum[N], e[2][N], w[N];
        uint8_t reply[N * 4], got[N * 4];
        int64_t off = 0, steps = 0;
        channel a, b;
        size_t bytes;
        for (size_t i = 0; i < N; i++) {
            sum[i] = (int64_t)seeded_below(&gen, 1 << 26) - (1 << 25);
            for (int s = 0; s < 2; s++)
                e[s][i] = (int64_t)seeded_below(&gen, 1 << 20) - (1 << 19);
        }
        if (g > 0)
            pack_digits(v, n, sum, g, 1);
        for (size_t i = 0; i < N && g == 0; i++) { /* lwe: a slot for itself */
            v[i] = seeded_below(&gen, 1 << 28);
            n[i] = (v[i] + (uint64_t)sum[i]) & ((1 << 28) - 1);
        }
        noise_digits dn = noise_digits_of(n), dv = noise_digits_of(v);
        CHECK_OK(noise_own_bytes(&bytes, &p));
        assert_int_equal(bytes, N * 4);
        CHECK_OK(noise_own_make(reply, &p, &dn, &(noise_source){ from, e[0] }, &rng));
        CHECK_OK(channel_pair_new(&a, &b, 1000));
        CHECK_OK(noise_own_send(&a, &p, reply));
        CHECK_OK(noise_own_receive(&b, &p, got));
        CHECK_OK(noise_own_finish(w, &p, got, &dv, &(noise_source){ from, e[1] }, &rng));
        for (size_t i = 0; i < N; i++) {
            int64_t error = w[i] - sum[i] - e[0][i] - e[1][i];
            assert_true(g == 0 ? error == 0 : error >= -2 && error <= 2);
            off += error;
            steps += error * error;
        }
        if (g > 0) { /* a difference of two uniforms: variance 1/6 + what rounding to steps adds */
            assert_true(off > -85 && off < 85); /* 5.5 sigma of N * 1/3 */
            assert_true(steps > N / 5 && steps < N / 2);
        }
        p.round++;
        CHECK_OK(noise_own_send(&a, &p, reply));
        p.round--;
        CHECK_STATUS(noise_own_receive(&b, &p, got), SEFL_EPROTO);
        channel_pair_close(&a);
        channel_pair_close(&b);
    }
}

/* AS knows v and tries to read slot i - 1 of the sum from the reply of slot i: the guard bits of
 * the digit are the top 16 bits of slot i - 1. (Against a reply that carries them all guesses are
 * right, but for a carry.) And two sums that differ in slot i - 1 only, by as much as fits, move
 * the reply of slot i by half a fine step and two roundings. */
static void slots_below_do_not_show(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "own attack");
    sefl_rng rng = seeded_rng(&gen);
    noise_params p = params(16);
    static uint64_t n[2][N], v[N];
    static int64_t sum[2][N], e[N];
    uint8_t reply[2][N * 8];
    size_t read = 0, bytes;
    for (size_t i = 0; i < N; i++) {
        sum[0][i] = (int64_t)seeded_below(&gen, 1 << 27) - (1 << 26);
        sum[1][i] = i % 2 ? sum[0][i] : -sum[0][i];
        e[i] = (int64_t)seeded_below(&gen, 1 << 20) - (1 << 19);
    }
    CHECK_OK(noise_own_bytes(&bytes, &p));
    for (int s = 0; s < 2; s++) {
        pack_digits(v, n[s], sum[s], 16, 2);
        noise_digits d = noise_digits_of(n[s]);
        CHECK_OK(noise_own_make(reply[s], &p, &d, &(noise_source){ from, e }, &rng));
    }
    for (size_t i = 1; i < N; i++) {
        if (i % SLOTS == 0)
            continue;
        uint8_t got[8] = { 0 };
        memcpy(got, reply[0] + i * (bytes / N), bytes / N);
        uint16_t guess = (uint16_t)(load_u64(got) - v[i]), top = (uint16_t)(sum[0][i - 1] >> 12);
        uint16_t apart = (uint16_t)(guess - top + 2);
        read += apart <= 4;
        if (i % 2) {
            int32_t moved = (int32_t)((value_of(reply[1], i) - value_of(reply[0], i)) << 4) >> 4;
            assert_true(moved >= -2 && moved <= 2);
        }
    }
    assert_true(read < 6); /* by chance: 700 * 5 / 65536 */
}

/* Both servers' coins matter: the share rounded up is the fraction that was cut off. */
static void guard_bits_are_rounded_with_coins(void **state)
{
    (void)state;
    enum { TRIALS = 40 };
    seeded gen;
    test_seed(&gen, "own coins");
    sefl_rng rng = seeded_rng(&gen);
    noise_params p = params(16);
    static uint64_t n[N];
    static int64_t zero[N], w[N];
    uint8_t reply[N * 4], nothing[N * 4] = { 0 };
    noise_digits d = noise_digits_of(n);
    noise_source none = { from, zero };
    int64_t up[2] = { 0, 0 };
    for (size_t i = 0; i < N; i++)
        n[i] = 0x4000; /* a quarter of a fine step */
    for (int trial = 0; trial < TRIALS; trial++) {
        CHECK_OK(noise_own_make(reply, &p, &d, &none, &rng));
        CHECK_OK(noise_own_finish(w, &p, nothing, &d, &none, &rng));
        for (size_t i = 0; i < N; i++) {
            assert_true(value_of(reply, i) <= 1 && (w[i] == 0 || w[i] == -1));
            up[0] += (int64_t)value_of(reply, i);
            up[1] -= w[i];
        }
    }
    for (int s = 0; s < 2; s++) /* 28,000 x 1/4, sigma 72 */
        assert_true(up[s] > 7000 - 400 && up[s] < 7000 + 400);
}

static void failures_leave_nothing(void **state)
{
    (void)state;
    noise_params p = params(16);
    uint64_t n[N] = { 0 };
    int64_t w[N];
    uint8_t reply[N * 4], zero[N * 8] = { 0 };
    size_t bytes;
    sefl_rng rng = rng_system();
    noise_digits d = noise_digits_of(n);
    noise_source bad_noise = { broken, NULL };
    memset(reply, 1, sizeof reply);
    CHECK_STATUS(noise_own_make(reply, &p, &d, &bad_noise, &rng), SEFL_ERANDOM);
    assert_memory_equal(reply, zero, sizeof reply);
    memset(w, 1, sizeof w);
    CHECK_STATUS(noise_own_finish(w, &p, reply, &d, &bad_noise, &rng), SEFL_ERANDOM);
    assert_memory_equal(w, zero, sizeof w);

    /* widths that no shift takes are refused before any shift (the sanitizer watches) */
    static const unsigned bad[][3] = { { 16, 12, 40 }, { 16, 12, 64 }, { 16, 70, 0 }, { 0, 0, 0 },
                                       { 16, 0, ~0u }, { 33, 12, 16 }, { 64, 0, 0 } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        p.k = bad[i][0], p.t = bad[i][1], p.g = bad[i][2];
        CHECK_STATUS(noise_own_bytes(&bytes, &p), SEFL_EINVAL);
        CHECK_STATUS(noise_own_make(reply, &p, &d, &bad_noise, &rng), SEFL_EINVAL);
        CHECK_STATUS(noise_own_finish(w, &p, reply, &d, &bad_noise, &rng), SEFL_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_noises_are_added),
        cmocka_unit_test(slots_below_do_not_show),
        cmocka_unit_test(guard_bits_are_rounded_with_coins),
        cmocka_unit_test(failures_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

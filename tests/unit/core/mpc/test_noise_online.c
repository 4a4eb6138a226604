/* The online step: every value against its formula, the law of the result, refused replies. */
#include "support/check.h"

#include "base/alloc.h"
#include "crypto/ahe/paillier_pack.h"
#include "mpc/noise/noise_quantise.h"
#include "mpc/noise/online.h"
#include "support/chi.h"
#include "support/digits.h"
#include "support/law.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 100, UNITS = 7, N = SLOTS * UNITS, REPLY = NOISE_REPLY_HEAD + N * 4 };

static const uint8_t coins[NOISE_COINS] = { 3 };

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
    return (noise_params){
        .round = 4, .attempt = 1, .count = N, .k = 16, .t = 12, .g = g, .shape = &noise_own
    };
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
    memcpy(v, reply + NOISE_REPLY_HEAD + i * 4, 4);
    return load_u64(v);
}

/* sum + both noises: exact without guard bits, else within the two roundings and unbiased. */
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
        uint8_t reply[REPLY];
        int64_t off = 0, steps = 0;
        size_t bytes;
        for (size_t i = 0; i < N; i++) {
            sum[i] = (int64_t)seeded_below(&gen, 1 << 26) - (1 << 25);
            for (int s = 0; s < 2; s++)
                e[s][i] = (int64_t)seeded_below(&gen, 1 << 20) - (1 << 19);
        }
        if (g > 0)
            pack_digits(v, n, sum, g, 1);
        for (size_t i = 0; i < N && g == 0; i++) { /* pad: each slot separate */
            v[i] = seeded_below(&gen, 1 << 28);
            n[i] = (v[i] + (uint64_t)sum[i]) & ((1 << 28) - 1);
        }
        noise_digits dn = noise_digits_of(n), dv = noise_digits_of(v);
        CHECK_OK(noise_reply_bytes(&bytes, &p));
        assert_int_equal(bytes, REPLY);
        CHECK_OK(noise_reply_make(reply, &p, &dn, &(noise_source){ from, e[0] }, NULL, NULL, &rng));
        CHECK_OK(noise_reply_finish(w, &p, span_of(reply, REPLY), &dv,
                                    &(noise_source){ from, e[1] }, NULL, NULL, coins));
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
    }
}

/* AS knows v and tries to read slot i - 1 of the sum from the reply of slot i: the guard bits of
 * the digit are the top 16 bits of slot i - 1. (Against a reply that contains these bits all
 * guesses are right, except for a carry.) And two sums that differ in slot i - 1 only, by as much
 * as possible, move the reply of slot i by half a fine step and two roundings. */
static void slots_below_do_not_show(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "own attack");
    sefl_rng rng = seeded_rng(&gen);
    noise_params p = params(16);
    static uint64_t n[2][N], v[N];
    static int64_t sum[2][N], e[N];
    uint8_t reply[2][REPLY];
    size_t read = 0;
    for (size_t i = 0; i < N; i++) {
        sum[0][i] = (int64_t)seeded_below(&gen, 1 << 27) - (1 << 26);
        sum[1][i] = i % 2 ? sum[0][i] : -sum[0][i];
        e[i] = (int64_t)seeded_below(&gen, 1 << 20) - (1 << 19);
    }
    for (int s = 0; s < 2; s++) {
        pack_digits(v, n[s], sum[s], 16, 2);
        noise_digits d = noise_digits_of(n[s]);
        CHECK_OK(noise_reply_make(reply[s], &p, &d, &(noise_source){ from, e }, NULL, NULL, &rng));
    }
    for (size_t i = 1; i < N; i++) {
        if (i % SLOTS == 0)
            continue;
        uint16_t guess = (uint16_t)(value_of(reply[0], i) - v[i]),
                 top = (uint16_t)(sum[0][i - 1] >> 12);
        uint16_t apart = (uint16_t)(guess - top + 2);
        read += apart <= 4;
        if (i % 2) {
            int32_t moved = (int32_t)((value_of(reply[1], i) - value_of(reply[0], i)) << 4) >> 4;
            assert_true(moved >= -2 && moved <= 2);
        }
    }
    assert_true(read < 6); /* by chance: 700 * 5 / 65536 */
}

/* Both servers' coins matter: the frequency of rounding up is the fraction that was dropped. */
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
    uint8_t reply[REPLY], nothing[REPLY], seed[NOISE_COINS];
    noise_digits d = noise_digits_of(n);
    noise_source none = { from, zero };
    int64_t up[2] = { 0, 0 };
    for (size_t i = 0; i < N; i++)
        n[i] = 0x4000; /* a quarter of a fine step */
    for (int trial = 0; trial < TRIALS; trial++) {
        CHECK_OK(noise_reply_make(reply, &p, &d, &none, NULL, NULL, &rng));
        CHECK_OK(rng_fill(&rng, seed, sizeof seed));
        memset(nothing + NOISE_REPLY_HEAD, 0, N * 4);
        memcpy(nothing, reply, NOISE_REPLY_HEAD);
        CHECK_OK(noise_reply_finish(w, &p, span_of(nothing, REPLY), &d, &none, NULL, NULL, seed));
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
    enum { MANY = NOISE_PIECE + 3000 };
    noise_params p = params(16);
    uint64_t n[N] = { 0 };
    int64_t w[N], none[N] = { 0 };
    uint8_t reply[REPLY], zero[N * 8] = { 0 };
    size_t bytes;
    sefl_rng rng = rng_system();
    noise_digits d = noise_digits_of(n);
    noise_source good = { from, none }, bad_noise = { broken, NULL };
    static const noise_shape *const shapes[] = { &noise_joint, &noise_own };
    for (int own = 0; own < 2; own++) { /* the second piece fails */
        static uint64_t many[MANY];
        static uint8_t long_reply[NOISE_REPLY_HEAD + MANY * 4], zeros[sizeof long_reply];
        static int64_t out[MANY];
        noise_params q = {
            .round = 4, .count = MANY, .k = 16, .t = 12, .g = 16, .shape = shapes[own]
        };
        noise_digits dm = noise_digits_of(many);
        CHECK_OK(noise_reply_bytes(&bytes, &q));
        memset(long_reply, 1, sizeof long_reply);
        CHECK_STATUS(noise_reply_make(long_reply, &q, &dm, &bad_noise, NULL, NULL, &rng),
                     SEFL_ERANDOM);
        assert_memory_equal(long_reply, zeros, bytes);
        static int64_t zero_noise[MANY];
        CHECK_OK(noise_reply_make(long_reply, &q, &dm, &(noise_source){ from, zero_noise }, NULL,
                                  NULL, &rng));
        memset(out, 1, sizeof out);
        CHECK_STATUS(noise_reply_finish(out, &q, span_of(long_reply, bytes), &dm, &bad_noise, NULL,
                                        NULL, coins),
                     SEFL_ERANDOM);
        assert_memory_equal(out, zeros, MANY);
        /* a reply of any other reveal, size or length is refused without a result */
        for (size_t i = 0; i < NOISE_REPLY_HEAD; i++) {
            bool seed = i >= NOISE_REPLY_HEAD - 32 && !own;
            long_reply[i] ^= 1;
            memset(out, 1, sizeof out);
            CHECK_STATUS(noise_reply_finish(out, &q, span_of(long_reply, bytes), &dm,
                                            &(noise_source){ from, zero_noise }, NULL, NULL, coins),
                         seed ? SEFL_OK : SEFL_EPROTO);
            if (!seed)
                assert_memory_equal(out, zeros, MANY);
            long_reply[i] ^= 1;
        }
        CHECK_STATUS(noise_reply_check(&q, span_of(long_reply, bytes - 1)), SEFL_EPROTO);
        CHECK_STATUS(noise_reply_check(&q, span_of(long_reply, 0)), SEFL_EPROTO);
        CHECK_OK(noise_reply_check(&q, span_of(long_reply, bytes)));
    }
    CHECK_OK(noise_reply_make(reply, &p, &d, &good, NULL, NULL, &rng));
    memset(w, 1, sizeof w);
    p.round++;
    CHECK_STATUS(noise_reply_finish(w, &p, span_of(reply, REPLY), &d, &good, NULL, NULL, coins),
                 SEFL_EPROTO);
    assert_memory_equal(w, zero, sizeof w);

    /* widths that no shift takes are refused before any shift (the sanitizer watches) */
    static const unsigned bad[][3] = {
        { 16, 12, 40 }, { 16, 12, 64 }, { 16, 70, 0 }, { 0, 0, 0 },
        { 16, 0, ~0u }, { 33, 12, 16 }, { 64, 0, 0 },  { 7, 33, 0 }
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        p.k = bad[i][0], p.t = bad[i][1], p.g = bad[i][2];
        CHECK_STATUS(noise_reply_bytes(&bytes, &p), SEFL_EINVAL);
        CHECK_STATUS(noise_reply_make(reply, &p, &d, &good, NULL, NULL, &rng), SEFL_EINVAL);
        CHECK_STATUS(noise_reply_check(&p, span_of(reply, REPLY)), SEFL_EINVAL);
        CHECK_STATUS(noise_reply_finish(w, &p, span_of(reply, REPLY), &d, &good, NULL, NULL, coins),
                     SEFL_EINVAL);
    }
    p = params(16);
    p.shape = NULL;
    CHECK_STATUS(noise_reply_bytes(&bytes, &p), SEFL_EINVAL);
    CHECK_STATUS(noise_reply_make(reply, &p, &d, &good, NULL, NULL, &rng), SEFL_EINVAL);
    CHECK_STATUS(noise_reply_check(&p, span_of(reply, REPLY)), SEFL_EINVAL);
    CHECK_STATUS(noise_reply_finish(w, &p, span_of(reply, REPLY), &d, &good, NULL, NULL, coins),
                 SEFL_EINVAL);
}

/* ---- a shape from elsewhere ------------------------------------------------------------------ */

static void keep_digits(uint64_t *digit, size_t n, unsigned cut, int sign, prg *shape_coins)
{
    uint8_t coin[JUMP_GROUP];
    prg_fill(shape_coins, coin, n);
    for (size_t i = 0; i < n; i++) /* AS subtracts: CSP's 100 minus AS's -3 */
        digit[i] = (digit[i] >> cut) + (sign > 0 ? 100 : (uint64_t)-3) + coin[i];
}

static sefl_status same_coins(void *self, void *out, size_t n)
{
    (void)self;
    memcpy(out, coins, n < sizeof coins ? n : sizeof coins);
    return SEFL_OK;
}

/* A release mode may bring its own shape: neither a dither nor a slice, and its own coins, of which
 * each group of coordinates has its own part. */
static void any_shape_works(void **state)
{
    (void)state;
    enum { MANY = NOISE_PIECE + 1500 };
    static const noise_shape shape = {
        .wire = 7, .coins = "noise test", .coin_bytes = 1, .quantise = keep_digits, .less = 3
    };
    static uint64_t n[MANY], v[MANY];
    static int64_t e[2][MANY], w[MANY];
    static uint8_t reply[NOISE_REPLY_HEAD + 2 * MANY], coin[MANY], zeros[64];
    noise_params p = { .count = MANY, .k = 16, .t = 12, .g = 16, .shape = &shape, .slice = { 1 } };
    noise_digits dn = noise_digits_of(n), dv = noise_digits_of(v);
    sefl_rng rng = { same_coins, NULL };
    prg g;
    for (size_t i = 0; i < MANY; i++) {
        n[i] = (uint64_t)(i % 5000) << 28, v[i] = (uint64_t)(i % 7) << 28;
        e[0][i] = (int64_t)(i % 11) - 5, e[1][i] = (int64_t)(i % 13) - 6;
    }
    CHECK_OK(noise_reply_make(reply, &p, &dn, &(noise_source){ from, e[0] }, NULL, NULL, &rng));
    assert_int_equal(reply[59], 7);
    assert_memory_equal(reply + 60, zeros, 64);
    prg_init(&g, coins, "noise test");
    prg_fill(&g, coin, MANY);
    for (size_t i = 0; i < MANY; i++) {
        uint64_t want = i % 5000 + 100 + coin[i] + (uint64_t)e[0][i];
        const uint8_t *at = reply + NOISE_REPLY_HEAD + 2 * i;
        assert_int_equal(at[0] | at[1] << 8, want & 0xffff);
    }
    /* both servers have the same coins here, so they cancel */
    CHECK_OK(noise_reply_finish(w, &p, span_of(reply, sizeof reply), &dv,
                                &(noise_source){ from, e[1] }, NULL, NULL, coins));
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(w[i], (int64_t)(i % 5000) - (int64_t)(i % 7) + 100 + e[0][i] + e[1][i]);
    p.shape = &noise_joint; /* a reply of another shape is refused */
    CHECK_STATUS(noise_reply_check(&p, span_of(reply, sizeof reply)), SEFL_EPROTO);
}

/* ---- joint ----------------------------------------------------------------------------------- */

/* Shares of noise that the plain sampler draws, `bytes` each; X in x. */
static void plain_shares(seeded *gen, uint32_t *x, uint8_t *a, uint8_t *c, size_t n, unsigned bytes)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t bits[34];
        uint64_t coins_of = seeded_u64(gen), own = seeded_u64(gen);
        for (unsigned j = 0; j < 34; j++)
            bits[j] = coins_of >> j & 1;
        x[i] = law_value_vartime(&sampler_g44, 32, 0, bits);
        for (unsigned b = 0; b < bytes; b++) {
            a[i * bytes + b] = (uint8_t)(own >> (8 * b));
            c[i * bytes + b] = (uint8_t)((x[i] - own) >> (8 * b));
        }
    }
}

/* What a server computes from its digit, by the formula: SR(digit + J) + sign * Y. */
static void reference(uint64_t *out, const noise_params *p, const uint64_t *digit,
                      const uint8_t seed[32], const uint8_t dither[32], int sign)
{
    prg g, j;
    prg_init(&g, seed, "noise joint");
    prg_init(&j, dither, "dither");
    for (size_t at = 0; at < p->count; at += JUMP_GROUP) {
        size_t n = p->count - at < JUMP_GROUP ? p->count - at : JUMP_GROUP;
        uint64_t u[JUMP_GROUP];
        int32_t y[JUMP_GROUP];
        prg_fill(&g, u, n * sizeof *u);
        noise_jumps(y, n, &g);
        for (size_t i = 0; i < n; i++) {
            uint8_t four[4];
            prg_read(&j, four, 4, 0, 4 * (at + i));
            unsigned __int128 cut = (unsigned __int128)1 << (p->t + p->g);
            unsigned __int128 place = digit[at + i];
            place += (load_u32(four) % ((uint64_t)1 << p->t)) * ((uint64_t)1 << p->g);
            place += load_u64(&u[i]) % (uint64_t)cut;
            out[at + i] = (uint64_t)(place / cut) + (uint64_t)((int64_t)sign * y[i]);
        }
    }
}

static sefl_status copy_seed(void *self, void *out, size_t n)
{
    uint8_t *next = self;
    memset(out, (*next)++, n); /* coins all 1, dither seed all 2 */
    return SEFL_OK;
}

/* Every number against the formula, in every width, and w = aggregate + noise. */
static void joint_is_the_formula(void **state)
{
    (void)state;
    enum { MANY = NOISE_PIECE + 2500 };
    static const unsigned width[][3] = { { 16, 12, 16 }, { 16, 12, 0 },  { 20, 14, 16 },
                                         { 7, 0, 0 },    { 32, 12, 16 }, { 24, 32, 6 } };
    seeded gen;
    pool *threads;
    test_seed(&gen, "joint");
    CHECK_OK(pool_new(&threads, 3));
    for (size_t c = 0; c < sizeof width / sizeof *width; c++) {
        noise_params p = {
            .round = 7, .attempt = 2, .count = MANY, .shape = &noise_joint, .slice = { 9 }
        };
        static uint64_t n[MANY], v[MANY], cs[MANY], as[MANY];
        static uint32_t x[MANY];
        static int64_t w[MANY], again[MANY];
        static uint8_t xa[MANY * 4], xc[MANY * 4], reply[NOISE_REPLY_HEAD + MANY * 4];
        static uint8_t other[NOISE_REPLY_HEAD + MANY * 4];
        uint8_t next = 1, one[32], two[32], secret[32] = { 77 };
        sefl_rng rng = { copy_seed, &next };
        size_t bytes;
        p.k = width[c][0], p.t = width[c][1], p.g = width[c][2];
        unsigned bits = p.k + p.t + p.g;
        for (size_t i = 0; i < MANY; i++) {
            v[i] = seeded_u64(&gen) >> (64 - bits);
            n[i] = seeded_u64(&gen) >> (64 - bits);
        }
        plain_shares(&gen, x, xa, xc, MANY, noise_value_bytes(&p));
        noise_taken ta = { xa, noise_value_bytes(&p) }, tc = { xc, noise_value_bytes(&p) };
        noise_source sa = noise_taken_of(&ta), sc = noise_taken_of(&tc);
        noise_digits dn = noise_digits_of(n), dv = noise_digits_of(v);
        CHECK_OK(noise_reply_bytes(&bytes, &p));
        CHECK_OK(noise_reply_make(reply, &p, &dn, &sc, NULL, NULL, &rng));
        memset(one, 1, sizeof one), memset(two, 2, sizeof two);
        assert_memory_equal(reply + NOISE_REPLY_HEAD - 32, two, 32);
        CHECK_OK(noise_reply_finish(w, &p, span_of(reply, bytes), &dv, &sa, NULL, NULL, secret));
        reference(cs, &p, n, one, two, 1);
        reference(as, &p, v, secret, two, -1);
        for (size_t i = 0; i < MANY; i++) {
            uint64_t want = cs[i] + x[i] - as[i] - 62, ring = ((uint64_t)1 << p.k) - 1;
            int64_t half = (int64_t)1 << (p.k - 1);
            assert_int_equal((uint64_t)w[i] & ring, want & ring);
            assert_true(w[i] >= -half && w[i] < half);
        }
        /* the same seeds, the same reply and w with any number of threads; other coins, another */
        next = 1;
        memset(other, 0, sizeof other);
        CHECK_OK(noise_reply_make(other, &p, &dn, &sc, NULL, threads, &rng));
        assert_memory_equal(other, reply, bytes);
        CHECK_OK(
            noise_reply_finish(again, &p, span_of(reply, bytes), &dv, &sa, NULL, threads, secret));
        assert_memory_equal(again, w, sizeof w);
        secret[0] ^= 1;
        CHECK_OK(
            noise_reply_finish(again, &p, span_of(reply, bytes), &dv, &sa, NULL, NULL, secret));
        assert_true(p.t + p.g == 0 || memcmp(again, w, sizeof w) != 0);
    }
    pool_free(threads);
}

/* The generator whose first group has a jump; *at: the coordinate of it. */
static int32_t find_jump(uint8_t seed[NOISE_COINS], unsigned *at)
{
    for (uint64_t i = 1;; i++) {
        prg g;
        int32_t y[JUMP_GROUP];
        uint64_t u[JUMP_GROUP];
        memset(seed, 0, NOISE_COINS);
        store_u64(seed, i);
        prg_init(&g, seed, "noise joint");
        prg_fill(&g, u, sizeof u); /* the coins of the rounding come first */
        noise_jumps(y, JUMP_GROUP, &g);
        for (*at = 0; *at < JUMP_GROUP; ++*at)
            if (y[*at] != 0)
                return y[*at];
        assert_true(i < 100000); /* 256 are the mean */
    }
}

static sefl_status found_seed(void *self, void *out, size_t n)
{
    memcpy(out, self, n);
    return SEFL_OK;
}

/* Each server adds its rare jumps. They have next to no variance, so no other test misses them; but
 * without them the privacy loss of joint noise, which is bounded, has no bound at all at its ends
 * (docs/PRIVACY.md): AS must not know CSP's, and the release must have AS's. */
static void rare_jumps_are_added(void **state)
{
    (void)state;
    const noise_params p = { .count = JUMP_GROUP, .k = 16, .shape = &noise_joint };
    static const uint64_t zero[JUMP_GROUP];
    static const uint8_t none[JUMP_GROUP * 2], calm[NOISE_COINS] = { 0 };
    static uint8_t reply[NOISE_REPLY_HEAD + JUMP_GROUP * 2];
    static int64_t w[JUMP_GROUP];
    uint8_t seed[NOISE_COINS];
    unsigned at;
    noise_taken taken = { none, 2 };
    const noise_source shares = noise_taken_of(&taken);
    const noise_digits digits = noise_digits_of(zero);
    const int32_t y = find_jump(seed, &at);
    const sefl_rng rng = { found_seed, seed };
    CHECK_OK(noise_reply_make(reply, &p, &digits, &shares, NULL, NULL, &rng));
    for (unsigned i = 0; i < JUMP_GROUP; i++) { /* no fraction, no shares, no sum: only jumps */
        int16_t got;
        memcpy(&got, reply + NOISE_REPLY_HEAD + 2 * i, 2);
        assert_int_equal(got, i == at ? y : 0);
    }
    CHECK_OK(noise_reply_finish(w, &p, span_of(reply, sizeof reply), &digits, &shares, NULL, NULL,
                                seed)); /* AS's jump, from the same coins, is a second one */
    assert_int_equal(w[at], 2 * y - 62);
    CHECK_OK(noise_reply_finish(w, &p, span_of(reply, sizeof reply), &digits, &shares, NULL, NULL,
                                calm));
    assert_int_equal(w[at], y - 62);
}

enum { LOW = -700, HIGH = 824, CELLS = HIGH - LOW };

/* The law of X + Y + Y': that of X, and with probability 2^-17 one jump on top of it (two: 2^-36,
 * left out), where a jump is y with probability (31/32)^|y| / 63. */
static void full_law(double law[CELLS])
{
    uint64_t pmf[124];
    CHECK_OK(law_pmf(&sampler_g44, pmf));
    for (int x = 0; x < CELLS; x++)
        law[x] = 0;
    for (int x = 0; x < 124; x++) {
        double p = (double)pmf[x] / 0x1p34;
        law[x - LOW] += p * (1 - 0x1p-17);
        for (int y = -600; y <= 600; y++)
            law[x + y - LOW] += p * 0x1p-17 * pow(31.0 / 32, abs(y)) / 63;
    }
}

/* The law of w: sum and mask at the same position between two lattice points, so that J moves both
 * servers alike; AS chooses the position, 0 to 15 sixteenths. If both are on the lattice (t = g =
 * 0) the law is X + Y + Y'; else both roundings are added: (u - u') uniform on the fraction.
 * Aggregate 0. */
static void joint_has_its_law(void **state)
{
    (void)state;
    const size_t count = test_count(60000, 10000000);
    static double law[CELLS], wide[CELLS];
    seeded gen;
    test_seed(&gen, "law");
    sefl_rng rng = seeded_rng(&gen);
    uint64_t *digit = calloc(count, sizeof *digit);
    uint32_t *x = calloc(count, sizeof *x);
    int64_t *w = calloc(count, sizeof *w);
    uint8_t *xa = malloc(2 * count), *xc = malloc(2 * count),
            *reply = malloc(NOISE_REPLY_HEAD + 2 * count), secret[32];
    full_law(law);
    for (int i = 1; i < CELLS - 1;
         i++) /* two roundings at one uniform place f: f(1-f) up, so down */
        wide[i] = law[i] * (1 - 2.0 / 6) + (law[i - 1] + law[i + 1]) / 6;
    for (int run = 0; run < 4; run++) {
        noise_params p = {
            .count = count, .k = 16, .t = run ? 12 : 0, .g = run ? 16 : 0, .shape = &noise_joint
        };
        uint64_t seen[CELLS] = { 0 };
        double mean = 0, df;
        for (size_t i = 0; i < count; i++) /* AS's place: on the lattice, beside it, between */
            digit[i] = run == 0 ? 0 : run == 1 ? 0 : run == 2 ? (1u << 16) : 5u << 25;
        plain_shares(&gen, x, xa, xc, count, 2);
        noise_taken ta = { xa, 2 }, tc = { xc, 2 };
        noise_source sa = noise_taken_of(&ta), sc = noise_taken_of(&tc);
        noise_digits d = noise_digits_of(digit);
        CHECK_OK(rng_fill(&rng, secret, sizeof secret));
        CHECK_OK(noise_reply_make(reply, &p, &d, &sc, NULL, NULL, &rng));
        CHECK_OK(noise_reply_finish(w, &p, span_of(reply, NOISE_REPLY_HEAD + 2 * count), &d, &sa,
                                    NULL, NULL, secret));
        for (size_t i = 0; i < count; i++) {
            int64_t at = w[i] + 62;
            assert_true(at >= LOW && at < HIGH);
            seen[at - LOW]++;
            mean += (double)at;
        }
        double chi = chi_square(seen, run ? wide : law, CELLS, (double)count, &df);
        printf("chi-square %.1f, %.0f degrees, mean %.3f\n", chi, df, mean / (double)count);
        assert_true(df > 40 && chi < df + 5 * sqrt(2 * df));
        assert_true(fabs(mean / (double)count - 61.5) < 5 * 9.45 / sqrt((double)count) + 0.001);
    }
    free(digit), free(x), free(w), free(xa), free(xc), free(reply);
}

/* A reply is uniform to AS except for the noise: the low byte of m, and the dither's bits. */
static void replies_are_uniform(void **state)
{
    (void)state;
    enum { MANY = 60000 };
    seeded gen;
    test_seed(&gen, "uniform");
    sefl_rng rng = seeded_rng(&gen);
    static uint64_t digit[MANY], seen[256];
    static uint32_t x[MANY];
    static uint8_t xa[2 * MANY], xc[2 * MANY], reply[NOISE_REPLY_HEAD + 2 * MANY];
    double even[256], df;
    noise_params p = { .count = MANY, .k = 16, .t = 12, .g = 16, .shape = &noise_joint };
    plain_shares(&gen, x, xa, xc, MANY, 2);
    noise_taken tc = { xc, 2 };
    noise_source sc = noise_taken_of(&tc);
    noise_digits d = noise_digits_of(digit);
    CHECK_OK(noise_reply_make(reply, &p, &d, &sc, NULL, NULL, &rng));
    for (size_t i = 0; i < MANY; i++)
        seen[reply[NOISE_REPLY_HEAD + 2 * i]]++;
    for (int i = 0; i < 256; i++)
        even[i] = 1.0 / 256;
    double chi = chi_square(seen, even, 256, MANY, &df);
    assert_true(chi < df + 6 * sqrt(2 * df));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_noises_are_added),
        cmocka_unit_test(slots_below_do_not_show),
        cmocka_unit_test(guard_bits_are_rounded_with_coins),
        cmocka_unit_test(failures_leave_nothing),
        cmocka_unit_test(any_shape_works),
        cmocka_unit_test(joint_is_the_formula),
        cmocka_unit_test(rare_jumps_are_added),
        cmocka_unit_test(joint_has_its_law),
        cmocka_unit_test(replies_are_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

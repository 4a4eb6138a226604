#include "noise_pair.h"

#include "mpc/noise/round.h"
#include "mpc/plain/law.h"
#include "mpc/plain/plain.h"

#include <math.h>

/* ---- the result is that of the plain circuit on the same coins ---- */

typedef struct spied {
    uint8_t *a, *b;  /* both halves of the random bits */
    uint32_t *n, *v; /* n' and v' */
    size_t per_coord_bits;
} spied;

static void spy_g(pair_run *r, noise_garbler *g)
{
    spied *x = r->ctx;
    noise_session copy = *noise_garbler_session(g);
    uint64_t *digit = malloc(copy.p.chunk * sizeof *digit);
    noise_digits d = noise_digits_of(r->mask);
    for (size_t c = 0; c < copy.chunks; c++) {
        noise_garbler_coins(g, x->a + c * copy.chunk_blocks * copy.wires_r * 2, c);
        CHECK_OK(noise_own_values(&copy, x->v + c * copy.p.chunk, digit, &d, c, -1));
    }
    free(digit);
}

static void spy_e(pair_run *r, noise_evaluator *e)
{
    spied *x = r->ctx;
    noise_session copy = *noise_evaluator_session(e);
    uint64_t *digit = malloc(copy.p.chunk * sizeof *digit);
    noise_digits d = noise_digits_of(r->masked);
    for (size_t c = 0; c < copy.chunks; c++) {
        noise_evaluator_coins(e, x->b + c * copy.chunk_blocks * copy.wires_r * 2, c);
        CHECK_OK(noise_own_values(&copy, x->n + c * copy.p.chunk, digit, &d, c, 1));
    }
    free(digit);
}

static uint64_t *digits(seeded *g, size_t n, unsigned bits)
{
    uint64_t *d = malloc(n * sizeof *d);
    for (size_t i = 0; i < n; i++)
        d[i] = seeded_u64(g) >> (64 - bits);
    return d;
}

static uint32_t plain_z(plain *p, unsigned k, unsigned nr, uint32_t n, const uint8_t *bits)
{
    uint64_t in[SAMPLER_MAX_RING + 128][PLAIN_WORDS] = { { 0 } },
                                   out[SAMPLER_MAX_RING][PLAIN_WORDS];
    uint32_t z = 0;
    for (unsigned i = 0; i < k; i++)
        in[i][0] = n >> i & 1;
    for (unsigned i = 0; i < nr; i++)
        in[k + i][0] = bits[i];
    plain_run(p, out, (const uint64_t(*)[PLAIN_WORDS])in);
    for (unsigned i = 0; i < k; i++)
        z |= (uint32_t)(out[i][0] & 1) << i;
    return z;
}

/* chi-square over df degrees: five sigma above its mean. */
static double chi_bound(double df)
{
    return df + 5 * sqrt(2 * df);
}

/* Own numbers against the digits they were rounded from: one step at most, up with the probability
 * of the fraction that was cut off (chi-square over 16 classes of it); jumps are rare. */
static void check_rounded(const uint32_t *got, const uint64_t *digit, size_t n, unsigned k,
                          unsigned cut)
{
    double want[16] = { 0 }, var[16] = { 0 }, up[16] = { 0 }, chi = 0, df = 0;
    size_t jumps = 0;
    for (size_t i = 0; i < n; i++) {
        double f = (double)(digit[i] & (((uint64_t)1 << cut) - 1)) / (double)((uint64_t)1 << cut);
        uint32_t step = (got[i] - (uint32_t)(digit[i] >> cut)) << (32 - k) >> (32 - k);
        if (step > 1) {
            jumps++;
            continue;
        }
        assert_true(cut > 0 || step == 0);
        unsigned cell = (unsigned)(f * 16);
        want[cell] += f, var[cell] += f * (1 - f), up[cell] += step;
    }
    assert_true(jumps <= 2);
    for (unsigned c = 0; c < 16 && n >= 1000 && cut > 0; c++)
        chi += (up[c] - want[c]) * (up[c] - want[c]) / var[c], df++;
    if (df > 0 && chi > chi_bound(df))
        fail_msg("rounding: chi-square %.1f over %.0f classes", chi, df);
}

static void check_plain(unsigned k, unsigned t, unsigned g, size_t count, unsigned chunk,
                        unsigned ot_k, const char *dir)
{
    seeded gen;
    pair_run r = { .seed = count, .ready_g = spy_g, .ready_e = spy_e };
    spied x = { 0 };
    size_t padded = count + 128;
    circuit *c;
    plain *p;
    test_seed(&gen, "noise digits");
    r.p = (noise_params){ .round = 3,
                          .attempt = 1,
                          .count = count,
                          .k = k,
                          .t = t,
                          .g = g,
                          .chunk = chunk,
                          .ot_k = ot_k,
                          .store_dir = dir };
    uint64_t *mask = digits(&gen, count, k + t + g), *masked = digits(&gen, count, k + t + g);
    r.mask = mask, r.masked = masked;
    r.w = calloc(count, sizeof *r.w);
    x.a = calloc(padded * 34, 2), x.b = calloc(padded * 34, 2);
    x.n = calloc(padded, 4), x.v = calloc(padded, 4);
    r.v = calloc(padded, 4);
    r.ctx = &x;
    CHECK_OK(pair_go(&r));
    CHECK_OK(r.st[0]);
    CHECK_OK(r.st[1]);
    CHECK_OK(sampler_circuit(&c, &sampler_g44, k));
    CHECK_OK(plain_new(&p, c));
    check_rounded(x.n, masked, count, k, t + g);
    check_rounded(r.v, mask, count, k, t + g);
    uint32_t ring = k == 32 ? UINT32_MAX : (1u << k) - 1;
    for (size_t i = 0; i < count; i++) {
        uint8_t bits[34];
        for (unsigned j = 0; j < 34; j++) {
            size_t at = ((i / 16) * 34 + j) * 2 + i % 16 / 8;
            bits[j] = (x.a[at] ^ x.b[at]) >> (i % 8) & 1;
        }
        assert_int_equal(r.v[i], x.v[i]); /* what was kept is what was used */
        uint32_t z = law_value_vartime(&sampler_g44, k, x.n[i], bits);
        if (i % 16 == 0)
            assert_int_equal(z, plain_z(p, k, 34, x.n[i], bits));
        uint32_t want = (z - x.v[i] - 62) & ring;
        if (((uint32_t)r.w[i] & ring) != want)
            fail_msg("coordinate %zu: %d, wanted %u mod 2^%u", i, r.w[i], want, k);
        assert_true(r.w[i] >= -(int64_t)((uint64_t)ring + 1) / 2 && r.w[i] <= (int64_t)ring / 2);
    }
    plain_free(p);
    circuit_free(c);
    free(mask), free(masked), free(r.w);
    free(x.a), free(x.b), free(x.n), free(x.v), free(r.v);
}

static void result_is_plain(void **state)
{
    (void)state;
    check_plain(16, 12, 16, 3000, 1024, 4, NULL);
    check_plain(16, 12, 16, 1, 128, 4, "/tmp");
    check_plain(16, 12, 0, 1025, 256, 8, "/tmp");
    check_plain(17, 14, 16, 300, 128, 2, NULL);
    check_plain(7, 0, 0, 129, 128, 1, NULL);
    check_plain(32, 12, 16, 200, 1024, 4, NULL);
}

/* ---- the law of the noise, through the whole protocol ---- */

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

/* chi-square of counts against a law, rare cells pooled with their neighbours. */
static double chi_square(const uint64_t *seen, const double *law, size_t cells, double n,
                         double *df)
{
    double chi = 0, want = 0, got = 0, left = n, left_seen = n;
    *df = -1;
    for (size_t i = 0; i < cells; i++) {
        want += law[i] * n, got += (double)seen[i];
        if (want < 10 || left - want < 10) /* the last cell takes the rest */
            continue;
        chi += (got - want) * (got - want) / want, *df += 1;
        left -= want, left_seen -= got;
        want = got = 0;
    }
    *df += 1;
    return chi + (left_seen - left) * (left_seen - left) / left;
}

static void noise_has_its_law(void **state)
{
    (void)state;
    size_t count = test_count(60000, 10000000);
    pair_run r = { .seed = 99, .timeout_ms = 60000 };
    static uint64_t seen[CELLS];
    static double law[CELLS];
    uint64_t *zero = calloc(count, sizeof *zero);
    double mean = 0, var = 0, n = (double)count, df;
    r.p = (noise_params){ .count = count, .k = 16 };
    r.mask = r.masked = zero; /* aggregate 0, t + g = 0: w + 62 = X + Y + Y' */
    r.w = calloc(count, sizeof *r.w);
    CHECK_OK(pair_go(&r));
    for (size_t i = 0; i < count; i++) {
        int x = r.w[i] + 62;
        assert_true(x >= LOW && x < HIGH);
        seen[x - LOW]++;
        mean += x;
        if (x >= 0 && x < 124) /* a jump has 1984: it would hide the rest */
            var += (x - 61.5) * (x - 61.5);
    }
    full_law(law);
    double chi = chi_square(seen, law, CELLS, n, &df);
    printf("chi-square %.1f, %.0f degrees, mean %.3f, variance %.2f\n", chi, df, mean / n, var / n);
    assert_true(df > 40 && chi < chi_bound(df));
    /* five sigma: of the mean 9.42/sqrt(n), of the variance sqrt(2.04) * 88.75/sqrt(n) */
    assert_true(fabs(mean / n - 61.5) < 5 * 9.42 / sqrt(n) + 0.001);
    assert_true(fabs(var / n - 88.75) < 5 * 1.43 * 88.75 / sqrt(n) + 0.01);
    free(zero);
    free(r.w);
}

/* ---- rounding and jumps alone ---- */

static void rounding_is_unbiased(void **state)
{
    (void)state;
    enum { N = 200000 };
    uint8_t seed[PRG_SEED] = { 4 };
    uint64_t *d = malloc(N * sizeof *d);
    uint32_t *out = malloc(N * sizeof *out);
    prg g;
    prg_init(&g, seed, "t");
    double sum = 0;
    for (size_t i = 0; i < N; i++)
        d[i] = (uint64_t)70000 << 28 | (uint64_t)3 << 26; /* 70000.75 of the lattice, k = 16 */
    noise_round(out, d, N, 16, 12, 16, &g);
    for (size_t i = 0; i < N; i++) {
        assert_true(out[i] == (70000 & 0xffff) || out[i] == (70001 & 0xffff));
        sum += out[i] - (70000 & 0xffff);
    }
    assert_true(sum / N > 0.745 && sum / N < 0.755);
    free(d);
    free(out);
}

static void geometric_counts_draws(void **state)
{
    (void)state;
    uint8_t draws[JUMP_DRAWS];
    seeded g;
    test_seed(&g, "geometric");
    for (unsigned trial = 0; trial < 2000; trial++) {
        unsigned want = 0;
        seeded_fill(&g, draws, sizeof draws);
        if (trial == 0)
            memset(draws, 1, sizeof draws);
        if (trial == 1)
            draws[0] = 0xe0;
        while (want < JUMP_DRAWS && (draws[want] & 31))
            want++;
        assert_int_equal(noise_geometric(draws), want);
    }
}

/* Every candidate is geometric with ratio 31/32: chi-square over pooled cells. */
static void geometric_has_its_law(void **state)
{
    (void)state;
    enum { MAX = 1000 };
    static uint64_t seen[MAX];
    static double law[MAX];
    uint8_t seed[PRG_SEED] = { 6 }, draws[JUMP_DRAWS];
    unsigned n = (unsigned)test_count(20000, 1000000);
    double df;
    prg g;
    prg_init(&g, seed, "geometric");
    for (unsigned i = 0; i < MAX; i++)
        law[i] = pow(31.0 / 32, i) / 32;
    for (unsigned i = 0; i < n; i++) {
        prg_fill(&g, draws, sizeof draws);
        uint32_t x = noise_geometric(draws);
        assert_true(x < MAX); /* beyond: 2^-45 */
        seen[x]++;
    }
    double chi = chi_square(seen, law, MAX, n, &df);
    printf("geometric: chi-square %.1f, %.0f degrees\n", chi, df);
    assert_true(df > 80 && chi < chi_bound(df));
}

static void jumps_have_their_law(void **state)
{
    (void)state;
    uint8_t seed[PRG_SEED] = { 5 };
    int32_t y[JUMP_GROUP];
    unsigned groups = (unsigned)test_count(16000, 500000);
    double n = 0, var = 0, sum = 0;
    prg g;
    prg_init(&g, seed, "jumps");
    for (unsigned i = 0; i < groups; i++) {
        noise_jumps(y, JUMP_GROUP, &g);
        for (unsigned j = 0; j < JUMP_GROUP; j++)
            if (y[j]) {
                n++;
                sum += y[j];
                var += (double)y[j] * y[j];
            }
    }
    /* zero has probability (1/32)/(1 + 31/32) = 1/63 among jumps */
    double total = (double)groups * JUMP_GROUP, want = total * 0x1p-18 * 62 / 63;
    printf("%.0f jumps (%.0f), variance %.1f / 2^18 (1984)\n", n, want, var / total * 0x1p18);
    assert_true(fabs(n - want) < 5 * sqrt(want));
    /* var of y^2 is 5 * 2015^2 among those not zero (kurtosis 6); of their mean 2015/n */
    assert_true(fabs(var / n - 2015) < 5 * 2015 * sqrt(5 / n));
    assert_true(fabs(sum / n) < 5 * sqrt(2015 / n));
}

/* What a server hands to the protocol has the jump in it: added at CSP, subtracted at AS. */
static void own_values_have_jumps(void **state)
{
    (void)state;
    enum { N = 1024 };
    static uint64_t zero[N];
    uint64_t digit[N];
    uint8_t seed[PRG_SEED] = { 7 };
    unsigned groups = (unsigned)test_count(8000, 200000);
    double seen = 0, want = groups * (double)N * 0x1p-18 * 62 / 63;
    noise_session s[2] = { { .p = { .count = N, .k = 16, .chunk = N } } };
    noise_digits d = noise_digits_of(zero);
    s[1] = s[0];
    for (int i = 0; i < 2; i++)
        prg_init(&s[i].coins, seed, "own values"); /* the same coins for both signs */
    for (unsigned i = 0; i < groups; i++) {
        uint32_t out[2][N];
        for (int j = 0; j < 2; j++)
            CHECK_OK(noise_own_values(&s[j], out[j], digit, &d, 0, j ? -1 : 1));
        for (unsigned j = 0; j < N; j++) {
            seen += out[0][j] != 0;
            assert_int_equal((out[0][j] + out[1][j]) & 0xffff, 0);
        }
    }
    printf("%.0f of %.0f values jumped (%.0f)\n", seen, groups * (double)N, want);
    assert_true(fabs(seen - want) < 5 * sqrt(want));
}

/* ---- one attempt, once ---- */

static sefl_status broken_hook(void *ctx, const uint8_t id[NOISE_ID])
{
    (void)ctx, (void)id;
    return sefl_fail(SEFL_EIO, "disk full");
}

static sefl_status broken_open(void *ctx, const uint8_t id[NOISE_ID], sefl_span colours,
                               const uint8_t digest[SHA256_BYTES])
{
    (void)ctx, (void)id, (void)colours, (void)digest;
    return sefl_fail(SEFL_EIO, "disk full");
}

static uint64_t zeros[4096];

static pair_run small(int32_t *w)
{
    pair_run r = { .seed = 5, .mask = zeros, .masked = zeros, .w = w };
    r.p = (noise_params){ .count = 200, .k = 16, .t = 12, .g = 16, .chunk = 128, .ot_k = 8 };
    return r;
}

static void reuse_g(pair_run *r, noise_garbler *g)
{
    CHECK_STATUS(noise_garbler_offline(g, &r->ch[0]), SEFL_ESTATE);
    memset(r->w, 1, r->p.count * sizeof *r->w);
    CHECK_STATUS(noise_garbler_output(g, &r->ch[0], r->w), SEFL_ESTATE);
    for (size_t i = 0; i < r->p.count; i++)
        assert_int_equal(r->w[i], 0); /* on every failure */
    /* hooks that are missing are an error, and change nothing */
    noise_digits d = noise_digits_of(r->mask);
    noise_garbler_hooks no_keep = noise_garbler_hooks_none, no_seal = no_keep;
    no_keep.keep = NULL, no_seal.seal = NULL;
    CHECK_STATUS(noise_garbler_online(g, &r->ch[0], &d, NULL), SEFL_EINVAL);
    CHECK_STATUS(noise_garbler_online(g, &r->ch[0], &d, &no_keep), SEFL_EINVAL);
    CHECK_STATUS(noise_garbler_online(g, &r->ch[0], &d, &no_seal), SEFL_EINVAL);
    assert_int_equal(noise_garbler_holds(g), NOISE_HOLDS_WORK | NOISE_HOLDS_OUTPUT);
}

static void reuse_e(pair_run *r, noise_evaluator *e)
{
    CHECK_STATUS(noise_evaluator_offline(e, &r->ch[1]), SEFL_ESTATE);
    CHECK_STATUS(noise_evaluator_output(e, &r->ch[1]), SEFL_ESTATE);
    noise_digits d = noise_digits_of(r->masked);
    noise_evaluator_hooks no_open = { 0 };
    CHECK_STATUS(noise_evaluator_online(e, &r->ch[1], &d, NULL), SEFL_EINVAL);
    CHECK_STATUS(noise_evaluator_online(e, &r->ch[1], &d, &no_open), SEFL_EINVAL);
    assert_int_equal(noise_evaluator_holds(e), NOISE_HOLDS_WORK);
}

static void steps_out_of_order_are_refused(void **state)
{
    (void)state;
    int32_t w[200];
    pair_run r = small(w);
    r.ready_g = reuse_g, r.ready_e = reuse_e;
    CHECK_OK(pair_go(&r));
    assert_int_equal(r.holds[0], 0);                  /* given: nothing is left */
    assert_int_equal(r.holds[1], NOISE_HOLDS_OUTPUT); /* colours, to be sent again */
}

static void failing_hooks_end_the_attempt(void **state)
{
    (void)state;
    int32_t w[200];
    pair_run r = small(w);
    r.gh.seal = broken_hook;
    CHECK_STATUS(pair_go(&r), SEFL_EIO);
    assert_string_equal(r.step[0], "online");
    assert_int_not_equal(r.st[1], SEFL_OK); /* the last table never came */
    assert_string_equal(r.step[1], "online");
    assert_int_equal(r.holds[0], 0); /* a broken attempt is wiped, on both sides */
    assert_int_equal(r.holds[1], 0);

    pair_run s = small(w);
    s.eh.open = broken_open;
    memset(w, 1, sizeof w);
    assert_int_not_equal(pair_go(&s), SEFL_OK);
    CHECK_STATUS(s.st[1], SEFL_EIO);
    assert_string_equal(s.step[1], "online");
    assert_string_equal(s.step[0], "output"); /* not one output byte */
    CHECK_STATUS(s.st[0], SEFL_ECLOSED);
    assert_int_equal(s.holds[1], 0);
    assert_int_equal(s.holds[0], NOISE_HOLDS_OUTPUT); /* it may ask again on another channel */
    for (size_t i = 0; i < 200; i++)
        assert_int_equal(w[i], 0);
}

/* Both ends by hand, in lockstep threads, for what pair_go does not do: another channel for the
 * output, a second use of everything, decoding from what was kept. */
typedef struct kept {
    uint8_t id[NOISE_ID];
    uint8_t decode[2 * 16 * 16];
    uint32_t v[200];
    size_t bytes;
    bool sealed, open;
    uint8_t colours[2 * 16 * 16], digest[SHA256_BYTES];
} kept;

static sefl_status keep(void *ctx, const uint8_t id[NOISE_ID], size_t first, size_t n,
                        sefl_span decode, const uint32_t *v)
{
    kept *k = ctx;
    assert_false(k->sealed);
    memcpy(k->id, id, NOISE_ID);
    memcpy(k->decode + k->bytes, decode.p, decode.n);
    memcpy(k->v + first, v, n * sizeof *v);
    k->bytes += decode.n;
    return SEFL_OK;
}

static sefl_status seal(void *ctx, const uint8_t id[NOISE_ID])
{
    kept *k = ctx;
    assert_memory_equal(k->id, id, NOISE_ID);
    assert_int_equal(k->bytes, 2 * 16 * 16);
    k->sealed = true;
    return SEFL_OK;
}

static sefl_status open_it(void *ctx, const uint8_t id[NOISE_ID], sefl_span colours,
                           const uint8_t digest[SHA256_BYTES])
{
    kept *k = ctx;
    memcpy(k->id, id, NOISE_ID);
    assert_int_equal(colours.n, sizeof k->colours);
    memcpy(k->colours, colours.p, colours.n);
    memcpy(k->digest, digest, SHA256_BYTES);
    k->open = true;
    return SEFL_OK;
}

static void *evaluate_all(void *arg)
{
    channel *ch = arg; /* [0]: all of it; [1]: the output once more */
    noise_evaluator *e;
    seeded gen;
    int32_t w[200];
    pair_run r = small(w);
    static kept k;
    memset(&k, 0, sizeof k);
    noise_evaluator_hooks hooks = { .ctx = &k, .open = open_it };
    noise_digits d = noise_digits_of(zeros);
    seeded_init(&gen, 1, "E");
    sefl_rng rng = seeded_rng(&gen);
    CHECK_OK(noise_evaluator_new(&e, &ch[0], &r.p, &rng));
    CHECK_OK(noise_evaluator_offline(e, &ch[0]));
    CHECK_OK(noise_evaluator_online(e, &ch[0], &d, &hooks));
    assert_true(k.open);
    assert_memory_equal(k.id, noise_evaluator_id(e), NOISE_ID);
    assert_int_equal(noise_evaluator_holds(e), NOISE_HOLDS_OUTPUT);
    CHECK_STATUS(noise_evaluator_online(e, &ch[0], &d, &hooks), SEFL_ESTATE);
    channel_pair_close(&ch[0]);
    uint8_t other[NOISE_ID] = { 0 }; /* first an output of another attempt */
    CHECK_OK(noise_output_send(&ch[1], other, span_of(k.colours, sizeof k.colours), k.digest));
    CHECK_OK(noise_evaluator_output(e, &ch[1]));
    CHECK_OK(noise_evaluator_output(e, &ch[1])); /* the same bytes again */
    CHECK_OK(noise_output_send(&ch[1], k.id, span_of(k.colours, sizeof k.colours), k.digest));
    noise_evaluator_free(e);
    return NULL;
}

static void output_survives_the_connection(void **state)
{
    (void)state;
    channel a[2], b[2];
    pthread_t t;
    noise_garbler *g;
    seeded gen;
    int32_t w[200], again[200];
    pair_run r = small(w);
    kept k = { 0 };
    uint8_t id[2][NOISE_ID], colours[2][2 * 16 * 16], digest[2][SHA256_BYTES];
    size_t bytes;
    noise_garbler_hooks hooks = { .ctx = &k, .keep = keep, .seal = seal };
    noise_digits d = noise_digits_of(zeros);
    seeded_init(&gen, 1, "G");
    sefl_rng rng = seeded_rng(&gen);
    for (int i = 0; i < 2; i++)
        CHECK_OK(channel_pair_new(&a[i], &b[i], 60000));
    assert_int_equal(pthread_create(&t, NULL, evaluate_all, b), 0);
    CHECK_OK(noise_garbler_new(&g, &a[0], &r.p, &rng));
    CHECK_OK(noise_garbler_offline(g, &a[0]));
    CHECK_OK(noise_garbler_online(g, &a[0], &d, &hooks));
    assert_true(k.sealed);
    assert_memory_equal(k.id, noise_garbler_id(g), NOISE_ID);
    assert_int_equal(noise_garbler_holds(g), NOISE_HOLDS_OUTPUT);
    CHECK_STATUS(noise_garbler_output(g, &a[0], w), SEFL_ECLOSED);
    CHECK_STATUS(noise_garbler_online(g, &a[0], &d, &hooks), SEFL_ESTATE);
    CHECK_STATUS(noise_garbler_output(g, &a[1], w), SEFL_EPROTO); /* the other attempt's */
    assert_non_null(strstr(sefl_last_error(), "another attempt"));
    CHECK_OK(noise_garbler_output(g, &a[1], w));
    assert_int_equal(noise_garbler_holds(g), 0);
    CHECK_STATUS(noise_garbler_output(g, &a[1], again), SEFL_ESTATE);
    for (int i = 0; i < 2; i++)
        CHECK_OK(noise_output_receive(&a[1], id[i], colours[i], sizeof colours[i], digest[i]));
    assert_memory_equal(id[0], k.id, NOISE_ID);
    assert_memory_equal(id[1], k.id, NOISE_ID);
    assert_memory_equal(colours[0], colours[1], sizeof colours[0]);
    assert_memory_equal(digest[0], digest[1], SHA256_BYTES);
    CHECK_OK(noise_output_bytes(&bytes, &r.p));
    assert_int_equal(bytes, sizeof colours[0]);
    sefl_span c = span_of(colours[0], bytes), kept_bits = span_of(k.decode, bytes);
    CHECK_OK(noise_output_decode(again, &r.p, id[0], c, k.id, kept_bits, k.v));
    assert_memory_equal(w, again, sizeof w);
    CHECK_STATUS(noise_output_decode(again, &r.p, id[0], span_of(colours[0], bytes - 1), k.id,
                                     kept_bits, k.v),
                 SEFL_EINVAL);
    id[0][31] ^= 1;
    CHECK_STATUS(noise_output_decode(again, &r.p, id[0], c, k.id, kept_bits, k.v), SEFL_ESTATE);
    pthread_join(t, NULL);
    noise_garbler_free(g);
    for (int i = 0; i < 2; i++) {
        channel_pair_close(&a[i]);
        channel_pair_close(&b[i]);
    }
}

/* ---- peers that disagree, messages that are spoiled ---- */

static void *other_params(void *arg)
{
    pair_run *r = arg;
    noise_evaluator *e;
    seeded gen;
    seeded_init(&gen, 1, "E");
    sefl_rng rng = seeded_rng(&gen);
    r->st[1] = noise_evaluator_new(&e, &r->ch[1], &r->p, &rng);
    channel_pair_close(&r->ch[1]);
    return NULL;
}

static void disagreements_are_named(void **state)
{
    (void)state;
    static const char *const says[] = { "task",       "round",         "attempt",      "count",
                                        "ring width", "fraction bits", "OT parameter", "chunk" };
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        int32_t w[200];
        pair_run mine = small(w), theirs = small(w);
        noise_garbler *g;
        pthread_t t;
        seeded gen;
        seeded_init(&gen, 1, "G");
        sefl_rng rng = seeded_rng(&gen);
        noise_params *p = &theirs.p;
        switch (i) {
        case 0:
            p->task[31] = 1;
            break;
        case 1:
            p->round = 9;
            break;
        case 2:
            p->attempt = 9;
            break;
        case 3:
            p->count = 199;
            break;
        case 4:
            p->k = 17;
            break;
        case 5:
            p->t = 13;
            break;
        case 6:
            p->ot_k = 4;
            break;
        default:
            p->chunk = 256;
        }
        CHECK_OK(channel_pair_new(&mine.ch[0], &theirs.ch[1], 60000));
        assert_int_equal(pthread_create(&t, NULL, other_params, &theirs), 0);
        CHECK_STATUS(noise_garbler_new(&g, &mine.ch[0], &mine.p, &rng), SEFL_EPROTO);
        assert_non_null(strstr(sefl_last_error(), says[i]));
        channel_pair_close(&mine.ch[0]);
        pthread_join(t, NULL);
        CHECK_STATUS(theirs.st[1], SEFL_EPROTO);
    }
}

static void bad_params_are_refused(void **state)
{
    (void)state;
    noise_params p[] = {
        { .count = 0, .k = 16 },
        { .count = 1, .k = 6 },
        { .count = 1, .k = 33 },
        { .count = 1, .k = 16, .t = 40, .g = 16 },
        { .count = 1, .k = 16, .ot_k = 3 },
        { .count = 1, .k = 16, .chunk = 100 },
        { .count = (uint64_t)1 << 40, .k = 16 },
        { .count = 1, .k = 16, .t = UINT32_MAX },
    };
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        noise_garbler *g;
        size_t bytes;
        channel ch = { .dead = true };
        sefl_rng rng = rng_system();
        CHECK_STATUS(noise_garbler_new(&g, &ch, &p[i], &rng), SEFL_EINVAL);
        CHECK_STATUS(noise_output_bytes(&bytes, &p[i]), SEFL_EINVAL);
    }
}

/* A chunk whose messages two peers could not have under way together. */
static void large_chunks_are_refused(void **state)
{
    (void)state;
    static const struct {
        unsigned chunk, ot_k;
        sefl_status st; /* the channel is dead: SEFL_ECLOSED means the params were taken */
    } c[] = { { 65536, 4, SEFL_EINVAL },
              { 18176, 4, SEFL_EINVAL },
              { 18048, 4, SEFL_OK },
              { 18048, 1, SEFL_OK },
              { 32768, 1, SEFL_EINVAL } };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        noise_garbler *g;
        channel ch = { .dead = true };
        sefl_rng rng = rng_system();
        noise_params p = { .count = 100000, .k = 16, .chunk = c[i].chunk, .ot_k = c[i].ot_k };
        sefl_status st = noise_garbler_new(&g, &ch, &p, &rng);
        assert_int_not_equal(st, SEFL_OK);
        assert_int_equal(st == SEFL_EINVAL, c[i].st == SEFL_EINVAL);
        if (st == SEFL_EINVAL)
            assert_non_null(strstr(sefl_last_error(), "at most 16777216"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_is_unbiased),
        cmocka_unit_test(geometric_counts_draws),
        cmocka_unit_test(geometric_has_its_law),
        cmocka_unit_test(jumps_have_their_law),
        cmocka_unit_test(own_values_have_jumps),
        cmocka_unit_test(result_is_plain),
        cmocka_unit_test(noise_has_its_law),
        cmocka_unit_test(steps_out_of_order_are_refused),
        cmocka_unit_test(failing_hooks_end_the_attempt),
        cmocka_unit_test(output_survives_the_connection),
        cmocka_unit_test(disagreements_are_named),
        cmocka_unit_test(bad_params_are_refused),
        cmocka_unit_test(large_chunks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

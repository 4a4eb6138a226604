/* Noise shares: the sum of both sides has the sampler's law, each side alone is uniform; a
 * changed message from AS ends the session at CSP, a changed message from CSP never makes AS
 * send anything. */
#include "unit/core/mpc/shares_pair.h"

#include "base/ct.h"
#include "mpc/garble/garble.h"
#include "support/law.h"

#include <math.h>

/* An AS that continues although CSP received other messages than AS made. */
static _Thread_local bool stubborn;

static int close_cmp(const void *a, const void *b, size_t n)
{
    return n == sizeof(audit_seen) && stubborn ? 0 : memcmp(a, b, n);
}

shares_fn own_garble, own_evaluate;
sefl_status own_replay(audit_finding *out, const audit_record *r);
sefl_status own_judge(shares_result *out, const audit_record *r);
sefl_status own_recorded(shares_params *p, const audit_record *r);
sefl_status own_named(uint8_t id[SHARES_ID], shares_params *filled, const shares_params *p,
                      const uint8_t csp_nonce[32], const uint8_t as_nonce[32]);

/* What the garbler of a session in this file uses. */
static struct {
    gc_label key;
    uint64_t and_tweaks, row_tweak, blocks;
} used;

static sefl_status seen_new(gc **out, const circuit *c, const gc_config *cfg, const gc_label *delta)
{
    if (delta) {
        used.key = cfg->hash_key, used.row_tweak = UINT64_MAX, used.blocks = 0;
        CHECK_OK(gc_tweaks(&used.and_tweaks, c, 1));
    }
    return gc_new(out, c, cfg, delta);
}

static sefl_status seen_rows(gc *g, uint8_t *rows, uint64_t *share, const gc_label *zero,
                             unsigned bits, uint64_t first_tweak, uint64_t first_block,
                             size_t blocks)
{
    used.row_tweak = first_tweak < used.row_tweak ? first_tweak : used.row_tweak;
    used.blocks = first_block + blocks;
    return gc_rows_garble(g, rows, share, zero, bits, first_tweak, first_block, blocks);
}

#define gc_new          seen_new
#define gc_rows_garble  seen_rows
#define shares_garble   own_garble
#define shares_evaluate own_evaluate
#define shares_replay   own_replay
#define shares_judge    own_judge
#define shares_recorded own_recorded
#define shares_named    own_named
#define memcmp          close_cmp
#include "mpc/noise/shares.c"
#undef gc_new
#undef gc_rows_garble
#undef shares_garble
#undef shares_evaluate
#undef shares_replay
#undef shares_judge
#undef shares_recorded
#undef shares_named
#undef memcmp

static sefl_status stubborn_evaluate(shares_result *out, uint64_t *x, channel *ch,
                                     const shares_params *p, const sefl_rng *rng)
{
    stubborn = true;
    sefl_status st = own_evaluate(out, x, ch, p, rng);
    stubborn = false;
    return st;
}

static void law(void **state)
{
    (void)state;
    const size_t n = test_count(60000, 4000000);
    const shares_params all[] = { { .count = n },
                                  { .count = n / 4 + 5, .bits = 40, .chunk = 256 } };
    for (int i = 0; i < 2; i++) {
        two t = { 0 };
        double got[124] = { 0 }, want[124], low[2][256] = { { 0 } }, even[256], df;
        uint64_t ring = all[i].bits == 40 ? ((uint64_t)1 << 40) - 1 : UINT32_MAX;
        unsigned bits = all[i].bits == 40 ? 40 : 32;
        uint64_t pmf[124];
        CHECK_OK(law_pmf(&sampler_g44, pmf));
        for (int j = 0; j < 124; j++)
            want[j] = (double)all[i].count * (double)pmf[j] * 0x1p-34;
        two_run(&t, &all[i], 7 + (unsigned)i);
        CHECK_OK(t.csp.st);
        CHECK_OK(t.as.st);
        assert_memory_equal(t.csp.r.id, t.as.r.id, SHARES_ID);
        for (size_t j = 0; j < all[i].count; j++) {
            uint64_t x = (t.csp.x[j] + t.as.x[j]) & ring;
            assert_true(x < 124 && t.csp.x[j] <= ring && t.as.x[j] <= ring);
            got[x]++;
            low[0][t.csp.x[j] & 255]++;
            low[1][t.as.x[j] >> (bits - 8)]++;
        }
        for (int j = 0; j < 256; j++)
            even[j] = (double)all[i].count / 256;
        double chi = chi_square(got, want, 124, &df);
        assert_true(chi < df + 6 * sqrt(2 * df));
        for (int j = 0; j < 2; j++)
            assert_true(chi_square(low[j], even, 256, &df) < 255 + 6 * sqrt(2 * 255.0));
        two_clear(&t);
    }
}

/* Each message of AS with a bit changed: CSP refuses, with zeros for values, or the noise is what
 * it should be: the change was in a part that CSP does not read (the half of an OT that it did not
 * choose). */
static void as_lies(void **state)
{
    (void)state;
    const shares_params p = { .count = 300, .chunk = 128 };
    const unsigned each = (unsigned)test_count(6, 200);
    double got[124] = { 0 }, want[124], df, n = 0;
    uint64_t pmf[124];
    unsigned refused = 0, taken = 0, accepted[16] = { 0 };
    seeded gen;
    test_seed(&gen, "AS lies");
    two good = { 0 };
    two_run(&good, &p, 1);
    CHECK_OK(good.csp.st);
    const size_t messages =
        good.as.wire.seen; /* hello, base OT, trees; corrections, answers; verdict */
    assert_int_equal(messages, 3 + 2 * 3 + 1);
    for (size_t nth = 1; nth <= messages; nth++)
        for (unsigned i = 0; i < each; i++) {
            two t = { .as = { .fn = stubborn_evaluate,
                              .wire = { .nth = nth,
                                        .at = seeded_below(&gen, 1 << 30),
                                        .bit = (unsigned)seeded_below(&gen, 8) } } };
            two_run(&t, &p, nth * 1000 + i);
            if (t.csp.st == SEFL_OK) {
                CHECK_OK(t.as.st);
                for (size_t j = 0; j < p.count; j++) {
                    uint32_t x = (uint32_t)(t.csp.x[j] + t.as.x[j]);
                    assert_true(x < 124);
                    got[x]++, n++;
                }
                accepted[nth]++, taken++;
            } else {
                assert_true(t.csp.st == SEFL_ECRYPTO || t.csp.st == SEFL_EPROTO ||
                            t.csp.st == SEFL_ECLOSED);
                assert_true(all_zero(&t.csp));
                refused++;
            }
            two_clear(&t);
        }
    for (size_t nth = 1; nth <= messages; nth++)
        assert_true(nth == 3 || nth == messages ||
                    accepted[nth] == 0); /* only trees have halves that CSP does not read, and
                                          * without keys it does not read a verdict's signature */
    CHECK_OK(law_pmf(&sampler_g44, pmf));
    for (int j = 0; j < 124; j++)
        want[j] = n * (double)pmf[j] * 0x1p-34;
    if (taken > 0)
        assert_true(chi_square(got, want, 124, &df) < df + 6 * sqrt(2 * df));
    printf("AS lies: %u sessions refused, %u with the right noise\n", refused, taken);
    two_clear(&good);
}

/* A kind, index or length that CSP does not expect, at any of AS's messages, ends the session. */
static void as_says_something_else(void **state)
{
    (void)state;
    const shares_params p = { .count = 300, .chunk = 128 };
    const unsigned each = (unsigned)test_count(4, 128);
    seeded gen;
    test_seed(&gen, "AS says something else");
    two good = { 0 };
    two_run(&good, &p, 1);
    assert_int_equal(good.as.wire.frames, good.as.wire.seen);
    for (size_t nth = 1; nth <= good.as.wire.frames; nth++)
        for (unsigned i = 0; i < each; i++) {
            unsigned bit = each < 128 ? 32 * i + (unsigned)seeded_below(&gen, 32) : i;
            two t = { .as.wire = { .frame = true, .nth = nth, .at = bit / 8, .bit = bit % 8 } };
            two_run(&t, &p, nth * 1000 + i);
            CHECK_STATUS(t.csp.st, SEFL_EPROTO);
            assert_int_equal(t.csp.r.outcome, SHARES_FAILED);
            assert_true(all_zero(&t.csp));
            two_clear(&t);
        }
    two_clear(&good);
}

/* A table or row that changes in transit: AS sends nothing about it before CSP has signed, then
 * reports that CSP signed something else. */
static void csp_lies(void **state)
{
    (void)state;
    const shares_params p = { .count = 700, .chunk = 256 };
    two good = { 0 };
    two_run(&good, &p, 3);
    CHECK_OK(good.as.st);
    assert_int_equal(good.as.r.outcome, SHARES_KEPT);
    assert_int_equal(good.csp.r.outcome, SHARES_KEPT);
    size_t messages = good.csp.wire.seen;
    for (size_t nth = messages; nth > messages - 4; nth--) {
        two t = { .csp.wire = { .nth = nth, .at = 300000 } };
        two_run(&t, &p, 3);
        CHECK_STATUS(t.as.st, SEFL_EPROTO);
        assert_int_equal(t.as.r.outcome, SHARES_FAILED);
        assert_true(t.csp.st != SEFL_OK);
        for (size_t i = 0; i < p.count; i++)
            assert_true(t.as.x[i] == 0 && t.csp.x[i] == 0);
        assert_int_equal(t.as.wire.seen, good.as.wire.seen - 1); /* all but the verdict */
        two_clear(&t);
    }
    two_clear(&good);
}

static void params(void **state)
{
    (void)state;
    static const struct {
        shares_params p;
    } bad[] = {
        { { .count = 0 } },
        { { .count = SHARES_COUNT_MAX + 1ULL } },
        { { .count = 1, .bits = 33 } },
        { { .count = 1, .ot_k = 3 } },
        { { .count = 1, .chunk = 100 } },
        { { .count = 1, .chunk = 1 << 14 } },
    };
    channel a, b;
    sefl_rng rng = rng_system();
    shares_result r;
    uint64_t x = 5;
    CHECK_OK(channel_pair_new(&a, &b, 1000));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_STATUS(shares_garble(&r, &x, &a, &bad[i].p, &rng), SEFL_EINVAL);
    channel_pair_close(&a);
    channel_pair_close(&b);
    /* peers that disagree */
    two t = { 0 };
    shares_params p = { .count = 10 };
    two_run(&t, &p, 1);
    CHECK_OK(t.as.st);
    two_clear(&t);
}

/* The row itself, for every colour, value and lane: the shares add up to 2^e times the value. */
static void rows(void **state)
{
    (void)state;
    circuit *c;
    gc *g;
    gc *e;
    gc_label delta, zero[7 * GC_LANES], active[7 * GC_LANES], lanes[GC_LANES];
    seeded gen;
    test_seed(&gen, "rows");
    sefl_rng rng = seeded_rng(&gen);
    gc_config cfg = { 0 };
    CHECK_OK(sampler_offline(&c, &sampler_g44));
    assert_int_equal(c->outputs, 7);
    CHECK_OK(gc_delta_draw(&delta, &rng));
    for (aes_path path = AES_SOFT; path < AES_PATHS; path++) {
        if (!aes_path_has(path))
            continue;
        CHECK_OK(gc_new(&g, c, &cfg, &delta));
        CHECK_OK(gc_new(&e, c, &cfg, NULL));
        gc_set_path(g, path);
        gc_set_path(e, path);
        CHECK_OK(rng_fill(&rng, lanes, sizeof lanes));
        gc_set_lanes(g, lanes);
        gc_set_lanes(e, lanes);
        for (uint64_t block = 0; block < 128; block++) {
            uint8_t row[7 * GC_LANES * 5];
            uint64_t cs[GC_LANES], as[GC_LANES];
            CHECK_OK(rng_fill(&rng, zero, sizeof zero));
            for (unsigned w = 0; w < 7; w++)
                for (unsigned l = 0; l < GC_LANES; l++) {
                    gc_label *z = &zero[w * GC_LANES + l], *a = &active[w * GC_LANES + l];
                    z->w[0] = (z->w[0] & ~1ULL) | (l >> (w % 4) & 1); /* both colours */
                    uint64_t m = 0 - (block >> w & 1);                /* value: block's bits */
                    *a = (gc_label){ { z->w[0] ^ (delta.w[0] & m), z->w[1] ^ (delta.w[1] & m) } };
                }
            CHECK_OK(gc_rows_garble(g, row, cs, zero, 40, 1000, block, 1));
            gc_rows_evaluate(e, as, row, active, 40, 1000, block, 1);
            for (unsigned l = 0; l < GC_LANES; l++)
                assert_int_equal((cs[l] + as[l]) & 0xffffffffff, block);
        }
        uint8_t row[7 * GC_LANES * 5];
        uint64_t cs[GC_LANES];
        CHECK_STATUS(gc_rows_garble(g, row, cs, zero, 40, 1000, 5, 1), SEFL_ESTATE);
        gc_free(g);
        gc_free(e);
    }
    circuit_free(c);
}

/* Every row hashes under a tweak of its own. AS has one of the two labels of a wire; if two rows
 * with related labels had one tweak, the two unknown hashes would cancel in the difference of the
 * rows, and AS would learn a bit of the noise. With equal labels everywhere nothing but the tweak
 * and the lane's key differs. */
static void rows_have_their_own_tweaks(void **state)
{
    (void)state;
    enum { BLOCKS = 3, WIRES = 7, ROWS = BLOCKS * WIRES * GC_LANES };
    circuit *c;
    gc *g;
    gc_label delta, one, lanes[GC_LANES], zero[ROWS];
    seeded gen;
    test_seed(&gen, "row tweaks");
    sefl_rng rng = seeded_rng(&gen);
    gc_config cfg = { 0 };
    static uint8_t row[ROWS * 8];
    uint64_t share[BLOCKS * GC_LANES], hash[ROWS];
    CHECK_OK(sampler_offline(&c, &sampler_g44));
    assert_int_equal(c->outputs, WIRES);
    CHECK_OK(gc_delta_draw(&delta, &rng));
    CHECK_OK(rng_fill(&rng, lanes, sizeof lanes));
    CHECK_OK(rng_fill(&rng, &one, sizeof one));
    one.w[0] &= ~1ULL; /* colour 0 */
    for (unsigned i = 0; i < ROWS; i++)
        zero[i] = one;
    CHECK_OK(gc_new(&g, c, &cfg, &delta));
    gc_set_lanes(g, lanes);
    for (unsigned b = 0; b < BLOCKS; b += b + 1) /* block 0, then blocks 1 and 2, like two chunks */
        CHECK_OK(gc_rows_garble(g, row + 8 * b * WIRES * GC_LANES, share + b * GC_LANES,
                                zero + b * WIRES * GC_LANES, 64, 1000, b, b + 1));
    for (unsigned i = 0; i < ROWS; i++) /* G_0 - G_1, without the wire's weight */
        hash[i] = load_u64(row + 8 * i) - ((uint64_t)1 << i / GC_LANES % WIRES);
    for (unsigned i = 0; i < ROWS; i++)
        for (unsigned k = 0; k < i; k++)
            assert_true(hash[i] != hash[k]);
    gc_free(g);
    circuit_free(c);
}

/* A session's key S is new, and its rows begin after the tweaks of all its ANDs. S separates
 * sessions: the proof counts the calls of AES under one S (docs/PROTOCOL.md), so with the same S in
 * all sessions one search of keys would serve all of them. A tweak that an AND and a row share
 * would make their hashes equal if their labels are. */
static void sessions_have_their_own_key(void **state)
{
    (void)state;
    const shares_params p = { .count = 5000 };
    gc_label key[3];
    for (unsigned i = 0; i < 3; i++) {
        two t = { .csp.fn = own_garble };
        two_run(&t, &p, 10 + i);
        CHECK_OK(t.csp.st);
        CHECK_OK(t.as.st);
        key[i] = used.key;
        assert_true(used.blocks >= p.count / GC_LANES);
        assert_true(used.row_tweak >= used.and_tweaks * used.blocks);
        for (unsigned k = 0; k < i; k++)
            assert_memory_not_equal(&key[i], &key[k], sizeof key[i]);
        two_clear(&t);
    }
}

/* The goal of a malicious evaluator that makes its own OT trees: labels of one wire in two lanes
 * that differ by what the lanes mix in. With the lane number both lanes hash alike, and two rows of
 * the table differ by delta, which it can read; with lane keys, drawn after the labels are fixed,
 * they do not. */
static void chosen_labels(void **state)
{
    (void)state;
    circ_builder *b;
    circuit *c;
    gc_label delta, in[2][GC_LANES], out[GC_LANES], lanes[GC_LANES];
    uint8_t table[GC_LANES * GC_AND_BYTES];
    const gc_label(*row)[GC_LANES] = (const gc_label(*)[GC_LANES])table;
    gc_config cfg = { 0 };
    seeded gen;
    unsigned read = 0, runs = 200;
    test_seed(&gen, "chosen labels");
    sefl_rng rng = seeded_rng(&gen);
    CHECK_OK(circ_builder_new(&b));
    circ_wire x = circ_input(b, CIRC_JOINT), y = circ_input(b, CIRC_JOINT);
    circ_output(b, circ_and(b, x, y));
    CHECK_OK(circ_finish(b, &c));
    for (int keys = 0; keys < 2; keys++, read = 0) {
        for (unsigned i = 0; i < runs; i++) {
            gc *g;
            CHECK_OK(gc_delta_draw(&delta, &rng));
            CHECK_OK(rng_fill(&rng, &cfg.hash_key, sizeof cfg.hash_key));
            CHECK_OK(rng_fill(&rng, in, sizeof in));
            /* s(d, d) = (0, d): lanes 1 and 3 differ by the number 2 */
            in[0][3] = (gc_label){ { in[0][1].w[0] ^ 2, in[0][1].w[1] ^ 2 } };
            CHECK_OK(gc_new(&g, c, &cfg, &delta));
            if (keys) {
                CHECK_OK(rng_fill(&rng, lanes, sizeof lanes));
                gc_set_lanes(g, lanes);
            }
            CHECK_OK(gc_garble(g, table, sizeof table, out, in[0], 0, 1));
            read += (row[0][1].w[0] ^ row[0][3].w[0]) == delta.w[0] &&
                    (row[0][1].w[1] ^ row[0][3].w[1]) == delta.w[1];
            gc_free(g);
        }
        if (keys)
            assert_int_equal(read, 0);
        else
            assert_true(read > runs / 4 &&
                        read < 3 * runs / 4); /* probability 1/2: colours of the other wire */
    }
    circuit_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(rows_have_their_own_tweaks),
        cmocka_unit_test(sessions_have_their_own_key),
        cmocka_unit_test(params),
        cmocka_unit_test(law),
        cmocka_unit_test(as_lies),
        cmocka_unit_test(as_says_something_else),
        cmocka_unit_test(csp_lies),
        cmocka_unit_test(chosen_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

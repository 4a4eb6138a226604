/* Half-gates: the definition of garble.h spelled out, wrong labels and tables, tweaks, refusals,
 * faults. */
#include "support/check.h"

#include "base/alloc.h"
#include "crypto/prg/aes.h"
#include "mpc/garble/garble.h"
#include "support/circ_blocks.h"

#include <string.h>

typedef struct setup {
    circuit *c;
    gc_config cfg;
    gc_label delta;
    gc *g;
    gc *e;
    gc_label *in, *active, *out, *result;
    uint8_t *bits, *tables;
    size_t bytes, ins, outs;
} setup;

static circuit *and_circuit(void)
{
    circ_builder *b;
    circuit *c;
    CHECK_OK(circ_builder_new(&b));
    circ_wire x = circ_input(b, CIRC_GARBLER), y = circ_input(b, CIRC_EVALUATOR);
    circ_output(b, circ_and(b, x, y));
    CHECK_OK(circ_finish(b, &c));
    return c;
}

static circuit *sampler16(void)
{
    circuit *c;
    CHECK_OK(sampler_circuit(&c, &sampler_g44, 16));
    return c;
}

/* Garbles `blocks` blocks of c on random inputs; takes c. */
static void begin(setup *s, circuit *c, size_t blocks, seeded *gen)
{
    sefl_rng rng = seeded_rng(gen);
    memset(s, 0, sizeof *s);
    s->c = c;
    s->ins = blocks * GC_LANES * c->inputs;
    s->outs = blocks * GC_LANES * c->outputs;
    CHECK_OK(gc_table_bytes(&s->bytes, c, blocks));
    assert_int_equal(s->bytes, blocks * GC_LANES * 32 * c->ands);
    CHECK_OK(sefl_new(&s->in, s->ins, sizeof(gc_label)));
    CHECK_OK(sefl_new(&s->active, s->ins, sizeof(gc_label)));
    CHECK_OK(sefl_new(&s->out, s->outs, sizeof(gc_label)));
    CHECK_OK(sefl_new(&s->result, s->outs, sizeof(gc_label)));
    CHECK_OK(sefl_new(&s->bits, s->ins / 8, 1));
    CHECK_OK(sefl_new(&s->tables, s->bytes, 1));
    CHECK_OK(gc_delta_draw(&s->delta, &rng));
    seeded_fill(gen, &s->cfg.hash_key, sizeof s->cfg.hash_key);
    seeded_fill(gen, s->in, s->ins * sizeof(gc_label));
    seeded_fill(gen, s->bits, s->ins / 8);
    gc_encode(s->active, s->in, s->bits, s->ins, &s->delta);
    CHECK_OK(gc_new(&s->g, c, &s->cfg, &s->delta));
    CHECK_OK(gc_new(&s->e, c, &s->cfg, NULL));
    CHECK_OK(gc_garble(s->g, s->tables, s->bytes, s->out, s->in, 0, blocks));
}

static void end(setup *s)
{
    gc_free(s->g);
    gc_free(s->e);
    circuit_free(s->c);
    sefl_free(s->in);
    sefl_free(s->active);
    sefl_free(s->out);
    sefl_free(s->result);
    sefl_free(s->bits);
    sefl_free(s->tables);
}

/* -1: neither label of the wire */
static int decode(gc_label got, gc_label zero, gc_label delta)
{
    uint64_t a = got.w[0] ^ zero.w[0], b = got.w[1] ^ zero.w[1];
    if (a == 0 && b == 0)
        return 0;
    return a == delta.w[0] && b == delta.w[1] ? 1 : -1;
}

static gc_label x2(gc_label a, gc_label b)
{
    return (gc_label){ { a.w[0] ^ b.w[0], a.w[1] ^ b.w[1] } };
}

/* H from its definition, with the ordinary AES interface, one lane at a time. */
static gc_label h(gc_label x, uint64_t tweak, unsigned lane, gc_label key)
{
    uint64_t y[2] = { x.w[1] ^ lane, x.w[1] ^ x.w[0] };
    uint8_t k[16], block[16];
    aes128 a;
    store_u64(k, key.w[0] ^ tweak);
    store_u64(k + 8, key.w[1]);
    store_u64(block, y[0]);
    store_u64(block + 8, y[1]);
    aes128_init(&a, k);
    aes128_ecb_soft(&a, block, block, 1);
    return (gc_label){ { load_u64(block) ^ y[0], load_u64(block + 8) ^ y[1] } };
}

static void definition(void **state)
{
    (void)state;
    enum { BLOCKS = 3 };
    seeded gen;
    setup s;
    test_seed(&gen, "definition");
    begin(&s, and_circuit(), BLOCKS, &gen);
    const gc_label zero = { { 0, 0 } }, d = s.delta, key = s.cfg.hash_key;
    for (unsigned b = 0; b < BLOCKS; b++) {
        gc_label ref[GC_LANES];
        gc_hash_ref(ref, s.in + 32 * b, &key, 2 * b);
        for (unsigned l = 0; l < GC_LANES; l++) {
            gc_label a = s.in[32 * b + l], c = s.in[32 * b + 16 + l], tg, te, w;
            uint64_t t = 2 * b;
            gc_label ha = h(a, t, l, key), hb = h(c, t + 1, l, key);
            assert_memory_equal(&ha, &ref[l], 16);
            tg = x2(x2(ha, h(x2(a, d), t, l, key)), c.w[0] & 1 ? d : zero);
            te = x2(x2(hb, h(x2(c, d), t + 1, l, key)), a);
            w = x2(x2(ha, a.w[0] & 1 ? tg : zero), x2(hb, c.w[0] & 1 ? x2(te, a) : zero));
            assert_memory_equal(s.tables + 512 * b + 16 * l, &tg, 16);
            assert_memory_equal(s.tables + 512 * b + 256 + 16 * l, &te, 16);
            assert_memory_equal(&s.out[16 * b + l], &w, 16);
        }
    }
    end(&s);
}

/* A label that is neither of the wire's two gives an output that is neither: the check over output
 * labels detects it. */
static void wrong_labels(void **state)
{
    (void)state;
    seeded gen;
    setup s;
    test_seed(&gen, "wrong labels");
    begin(&s, sampler16(), 1, &gen);
    for (unsigned wire = 0; wire < s.c->inputs; wire++) {
        unsigned lane = (unsigned)seeded_below(&gen, GC_LANES), bad = 0;
        gc_label *x = &s.active[wire * GC_LANES + lane], old = *x;
        x->w[seeded_below(&gen, 2)] ^= 1ULL << seeded_below(&gen, 64);
        CHECK_OK(gc_evaluate(s.e, s.result, s.tables, s.bytes, s.active, 0, 1));
        for (unsigned o = 0; o < s.c->outputs; o++)
            for (unsigned l = 0; l < GC_LANES; l++) {
                int v = decode(s.result[o * GC_LANES + l], s.out[o * GC_LANES + l], s.delta);
                assert_true(v >= 0 || l == lane); /* other copies are not touched */
                bad += v < 0;
            }
        assert_true(bad > 0);
        *x = old;
    }
    /* ... and adding delta gives the wire's other label: a shifted input is another valid input */
    s.active[0] = x2(s.active[0], s.delta);
    CHECK_OK(gc_evaluate(s.e, s.result, s.tables, s.bytes, s.active, 0, 1));
    for (unsigned o = 0; o < s.c->outputs * GC_LANES; o++)
        assert_true(decode(s.result[o], s.out[o], s.delta) >= 0);
    end(&s);
}

static unsigned count_bad(const setup *s)
{
    unsigned bad = 0;
    for (size_t o = 0; o < s->outs; o++)
        bad += decode(s->result[o], s->out[o], s->delta) < 0;
    return bad;
}

/* Tables of one half-gate, the wrong key, tweak base or block number: noise instead of labels. */
static void wrong_tables(void **state)
{
    (void)state;
    seeded gen;
    setup s;
    gc *other;
    gc_config cfg;
    test_seed(&gen, "wrong tables");
    begin(&s, sampler16(), 1, &gen);
    CHECK_OK(gc_evaluate(s.e, s.result, s.tables, s.bytes, s.active, 0, 1));
    assert_int_equal(count_bad(&s), 0);
    unsigned seen = 0, tries = 200;
    for (unsigned i = 0; i < tries; i++) { /* half of the rows are read in a run */
        size_t at = seeded_below(&gen, s.bytes);
        s.tables[at] ^= 0x10;
        CHECK_OK(gc_evaluate(s.e, s.result, s.tables, s.bytes, s.active, 0, 1));
        seen += count_bad(&s) > 0;
        s.tables[at] ^= 0x10;
    }
    assert_true(seen > tries / 4 && seen < tries * 3 / 4);
    CHECK_OK(gc_evaluate(s.e, s.result, s.tables, s.bytes, s.active, 1, 1));
    assert_true(count_bad(&s) > s.outs / 2);
    cfg = s.cfg, cfg.hash_key.w[1] ^= 1;
    CHECK_OK(gc_new(&other, s.c, &cfg, NULL));
    CHECK_OK(gc_evaluate(other, s.result, s.tables, s.bytes, s.active, 0, 1));
    assert_true(count_bad(&s) > s.outs / 2);
    gc_free(other);
    cfg = s.cfg, cfg.tweak_base = 2;
    CHECK_OK(gc_new(&other, s.c, &cfg, NULL));
    CHECK_OK(gc_evaluate(other, s.result, s.tables, s.bytes, s.active, 0, 1));
    assert_true(count_bad(&s) > s.outs / 2);
    gc_free(other);
    end(&s);
}

/* Equal labels everywhere: every lane, block and gate still has different rows, because no two
 * share (tweak, lane). Block n of base 0 is block 0 of base 2 n A. */
static void tweaks_are_unique(void **state)
{
    (void)state;
    enum { BLOCKS = 4 };
    seeded gen;
    test_seed(&gen, "tweaks");
    circ_builder *b;
    circuit *c;
    CHECK_OK(circ_builder_new(&b));
    circ_wire x = circ_input(b, CIRC_GARBLER), y = circ_input(b, CIRC_EVALUATOR);
    for (int i = 0; i < 5; i++)
        circ_output(b, circ_and(b, x, y)); /* the same gate five times */
    CHECK_OK(circ_finish(b, &c));
    assert_int_equal(c->ands, 5);
    setup s;
    begin(&s, c, BLOCKS, &gen);
    for (size_t i = 1; i < s.ins; i++)
        s.in[i] = s.in[0];
    CHECK_OK(gc_garble(s.g, s.tables, s.bytes, s.out, s.in, BLOCKS, BLOCKS));
    for (size_t i = 0; i < s.bytes / 16; i++)
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(s.tables + 16 * i, s.tables + 16 * j, 16);
    uint64_t skip;
    CHECK_OK(gc_tweaks(&skip, c, BLOCKS + 1));
    assert_int_equal(skip, 2 * 5 * (BLOCKS + 1));
    gc_config cfg = s.cfg;
    cfg.tweak_base = skip;
    gc *g;
    uint8_t one[5 * 512];
    gc_label out[5 * GC_LANES];
    CHECK_OK(gc_new(&g, c, &cfg, &s.delta));
    CHECK_OK(gc_garble(g, one, sizeof one, out, s.in, 0, 1));
    assert_memory_equal(one, s.tables + sizeof one, sizeof one);
    gc_free(g);
    end(&s);
}

static void refusals(void **state)
{
    (void)state;
    seeded gen;
    setup s;
    test_seed(&gen, "refusals");
    begin(&s, sampler16(), 2, &gen);
    gc *g = NULL;
    gc *e = NULL;
    /* sizes */
    for (size_t cut = 0; cut < 3; cut++) {
        static const long off[] = { -1, 1, -512 };
        size_t n = s.bytes + (size_t)off[cut];
        memset(s.result, 0x5a, s.outs * sizeof *s.result);
        CHECK_STATUS(gc_evaluate(s.e, s.result, s.tables, n, s.active, 0, 2), SEFL_EPROTO);
        for (size_t i = 0; i < s.outs; i++)
            assert_int_equal(s.result[i].w[0], 0x5a5a5a5a5a5a5a5a);
        CHECK_STATUS(gc_garble(s.g, s.tables, n, s.out, s.in, 2, 2), SEFL_EINVAL);
    }
    CHECK_STATUS(gc_evaluate(s.e, s.result, s.tables, 0, s.active, 0, 1), SEFL_EPROTO);
    size_t bytes;
    uint64_t tweaks;
    CHECK_STATUS(gc_table_bytes(&bytes, s.c, SIZE_MAX / 2), SEFL_ERANGE);
    CHECK_STATUS(gc_tweaks(&tweaks, s.c, UINT64_MAX / 2), SEFL_ERANGE);
    CHECK_STATUS(gc_evaluate(s.e, s.result, s.tables, s.bytes, s.active, UINT64_MAX, 2),
                 SEFL_ERANGE);
    CHECK_STATUS(gc_evaluate(s.e, s.result, s.tables, s.bytes, s.active, UINT64_MAX / 88, 2),
                 SEFL_ERANGE);
    /* a block is garbled once */
    CHECK_STATUS(gc_garble(s.g, s.tables, s.bytes, s.out, s.in, 0, 2), SEFL_ESTATE);
    CHECK_STATUS(gc_garble(s.g, s.tables, s.bytes, s.out, s.in, 1, 2), SEFL_ESTATE);
    CHECK_OK(gc_garble(s.g, s.tables, s.bytes, s.out, s.in, 2, 2));
    CHECK_OK(gc_garble(s.g, s.tables, s.bytes, s.out, s.in, 10, 2));
    CHECK_STATUS(gc_garble(s.g, s.tables, s.bytes, s.out, s.in, 4, 2), SEFL_ESTATE);
    /* settings */
    gc_label even = s.delta;
    even.w[0] &= ~1ULL;
    CHECK_STATUS(gc_new(&g, s.c, &s.cfg, &even), SEFL_EINVAL);
    gc_config cfg = s.cfg;
    cfg.tweak_base = 7;
    CHECK_STATUS(gc_new(&g, s.c, &cfg, &s.delta), SEFL_EINVAL);
    CHECK_STATUS(gc_new(&e, s.c, &cfg, NULL), SEFL_EINVAL);
    cfg.tweak_base = UINT64_MAX - 1;
    CHECK_OK(gc_new(&e, s.c, &cfg, NULL));
    CHECK_STATUS(gc_evaluate(e, s.result, s.tables, s.bytes, s.active, 0, 2), SEFL_ERANGE);
    gc_free(e);
    s.c->ands++;
    CHECK_STATUS(gc_new(&g, s.c, &s.cfg, &s.delta), SEFL_EINVAL);
    s.c->ands--;
    assert_null(g);
    gc_free(NULL);
    gc_free(NULL);
    end(&s);
}

static void labels(void **state)
{
    (void)state;
    enum { N = 149, BYTES = (N + 7) / 8 };
    seeded gen;
    test_seed(&gen, "labels");
    sefl_rng rng = seeded_rng(&gen);
    gc_label zero[N], active[N], delta;
    uint8_t bits[BYTES];
    for (int i = 0; i < 100; i++) {
        CHECK_OK(gc_delta_draw(&delta, &rng));
        assert_int_equal(delta.w[0] & 1, 1);
        seeded_fill(&gen, zero, sizeof zero);
        seeded_fill(&gen, bits, sizeof bits);
        gc_encode(active, zero, bits, N, &delta);
        for (unsigned j = 0; j < N; j++) {
            assert_int_equal(decode(active[j], zero[j], delta), bits[j / 8] >> (j % 8) & 1);
            assert_int_equal((active[j].w[0] ^ zero[j].w[0]) & 1, bits[j / 8] >> (j % 8) & 1);
        }
        gc_encode(zero, zero, bits, N, &delta); /* in place */
        assert_memory_equal(zero, active, sizeof zero);
    }
}

static void faults(void **state)
{
    (void)state;
    seeded gen;
    test_seed(&gen, "faults");
    circuit *c = sampler16();
    gc_config cfg = { .tweak_base = 0 };
    gc_label delta = { { 1, 2 } };
    gc *g = NULL;
    gc *e = NULL;
    (void)cfg, (void)delta, (void)g, (void)e; /* the rest needs fault injection */
    TEST_FAULTS(FAULT_ALLOC, st = gc_new(&g, c, &cfg, &delta), gc_free(g));
    TEST_FAULTS(FAULT_ALLOC, st = gc_new(&e, c, &cfg, NULL), gc_free(e));
    sefl_rng rng = rng_system();
    (void)rng;
    TEST_FAULTS(FAULT_RANDOM, st = gc_delta_draw(&delta, &rng), (void)0);
    circuit_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(definition),   cmocka_unit_test(wrong_labels),
        cmocka_unit_test(wrong_tables), cmocka_unit_test(tweaks_are_unique),
        cmocka_unit_test(refusals),     cmocka_unit_test(labels),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

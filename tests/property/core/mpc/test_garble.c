/* Garbled = plain: random circuits on every path, small ones exhaustively, the sampler whole and
 * split. */
#include "support/check.h"

#include "base/alloc.h"
#include "mpc/circuits/plain.h"
#include "mpc/circuits/sampler.h"
#include "mpc/garble/garble.h"
#include "support/circ_blocks.h"

#include <string.h>

enum { BLOCKS = PLAIN_COPIES / GC_LANES };
typedef uint64_t word4[PLAIN_WORDS];

/* bit of copy i on a wire, i = 16 * block + lane */
static unsigned bit_of(const word4 *w, unsigned wire, unsigned copy)
{
    return (unsigned)(w[wire][copy / 64] >> (copy % 64) & 1);
}

/* Labels of `wires` wires in 256 copies from plain bits. */
static void to_labels(gc_label *active, const gc_label *zero, const word4 *bits, unsigned wires,
                      const gc_label *delta)
{
    for (unsigned c = 0; c < PLAIN_COPIES; c++)
        for (unsigned w = 0; w < wires; w++) {
            size_t at = ((size_t)(c / GC_LANES) * wires + w) * GC_LANES + c % GC_LANES;
            uint8_t bit = (uint8_t)bit_of(bits, w, c);
            gc_encode(active + at, zero + at, &bit, 1, delta);
        }
}

/* Every active output label must be the label of the plain value: zero ^ v * delta exactly. */
static void check_outputs(const gc_label *active, const gc_label *zero, const word4 *want,
                          unsigned wires, const gc_label *delta)
{
    size_t n = (size_t)wires * PLAIN_COPIES;
    gc_label *expect;
    CHECK_OK(sefl_new(&expect, n, sizeof *expect));
    to_labels(expect, zero, want, wires, delta);
    assert_memory_equal(active, expect, n * sizeof *expect);
    for (unsigned c = 0; c < PLAIN_COPIES; c++)
        for (unsigned w = 0; w < wires; w++) {
            size_t at = ((size_t)(c / GC_LANES) * wires + w) * GC_LANES + c % GC_LANES;
            assert_int_equal((active[at].w[0] ^ zero[at].w[0]) & 1, bit_of(want, w, c));
        }
    sefl_free(expect);
}

typedef struct side {
    gc_label *in_zero, *in_active, *out_zero, *out_active;
    uint8_t *tables;
    size_t table_bytes;
} side;

static void side_new(side *s, const circuit *c)
{
    CHECK_OK(sefl_new(&s->in_zero, (size_t)PLAIN_COPIES * c->inputs, sizeof(gc_label)));
    CHECK_OK(sefl_new(&s->in_active, (size_t)PLAIN_COPIES * c->inputs, sizeof(gc_label)));
    CHECK_OK(sefl_new(&s->out_zero, (size_t)PLAIN_COPIES * c->outputs, sizeof(gc_label)));
    CHECK_OK(sefl_new(&s->out_active, (size_t)PLAIN_COPIES * c->outputs, sizeof(gc_label)));
    CHECK_OK(gc_table_bytes(&s->table_bytes, c, BLOCKS));
    CHECK_OK(sefl_new(&s->tables, s->table_bytes, 1));
}

static void side_free(side *s)
{
    sefl_free(s->in_zero);
    sefl_free(s->in_active);
    sefl_free(s->out_zero);
    sefl_free(s->out_active);
    sefl_free(s->tables);
}

/* Garbles on one path, evaluates on another, in two calls each, and compares with the plain run. */
static void garbled_is_plain(seeded *g, const circuit *c, const word4 *in, aes_path gp, aes_path ep)
{
    side s;
    gc_config cfg = { .tweak_base = seeded_u64(g) >> 1 & ~1ULL };
    gc_label delta;
    gc *ga;
    gc *ev;
    plain *p;
    word4 *want;
    sefl_rng rng = seeded_rng(g);
    uint64_t first = seeded_below(g, 1000);
    size_t cut = seeded_below(g, BLOCKS + 1);
    side_new(&s, c);
    CHECK_OK(sefl_new(&want, c->outputs, sizeof *want));
    CHECK_OK(plain_new(&p, c));
    plain_run(p, want, in);
    CHECK_OK(gc_delta_draw(&delta, &rng));
    seeded_fill(g, &cfg.hash_key, sizeof cfg.hash_key);
    seeded_fill(g, s.in_zero, (size_t)PLAIN_COPIES * c->inputs * sizeof(gc_label));
    CHECK_OK(gc_new(&ga, c, &cfg, &delta));
    CHECK_OK(gc_new(&ev, c, &cfg, NULL));
    gc_set_path(ga, gp);
    gc_set_path(ev, ep);
    size_t half = s.table_bytes / BLOCKS * cut, in_at = cut * GC_LANES * c->inputs;
    size_t out_at = cut * GC_LANES * c->outputs;
    CHECK_OK(gc_garble(ga, s.tables, half, s.out_zero, s.in_zero, first, cut));
    CHECK_OK(gc_garble(ga, s.tables + half, s.table_bytes - half, s.out_zero + out_at,
                       s.in_zero + in_at, first + cut, BLOCKS - cut));
    to_labels(s.in_active, s.in_zero, in, c->inputs, &delta);
    CHECK_OK(gc_evaluate(ev, s.out_active, s.tables, s.table_bytes, s.in_active, first, BLOCKS));
    check_outputs(s.out_active, s.out_zero, (const word4 *)want, c->outputs, &delta);
    gc_free(ga);
    gc_free(ev);
    plain_free(p);
    sefl_free(want);
    side_free(&s);
}

static circuit *random_circuit(seeded *g)
{
    enum { MAX = 160 };
    circ_builder *b;
    circ_wire w[MAX];
    size_t n = 1 + seeded_below(g, 12), gates = seeded_below(g, MAX - n), outs;
    CHECK_OK(circ_builder_new(&b));
    for (size_t i = 0; i < n; i++)
        w[i] = circ_input(b, (circ_kind)seeded_below(g, CIRC_KINDS));
    for (size_t i = 0; i < gates; i++, n++) {
        circ_wire x = w[seeded_below(g, n)], y = w[seeded_below(g, n)];
        switch (seeded_below(g, 8)) {
        case 0:
            w[n] = circ_not(b, x);
            break;
        case 1:
            w[n] = circ_const(b, seeded_below(g, 2));
            break;
        case 2:
        case 3:
        case 4:
            w[n] = circ_xor(b, x, y);
            break;
        default:
            w[n] = circ_and(b, x, y);
        }
    }
    outs = 1 + seeded_below(g, 10);
    for (size_t i = 0; i < outs; i++)
        circ_output(b, w[n - 1 - seeded_below(g, n < 20 ? n : 20)]);
    circuit *c;
    CHECK_OK(circ_finish(b, &c));
    return c;
}

static void random_circuits(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "random circuits");
    unsigned long n = test_count(400, 40000);
    for (unsigned long i = 0; i < n; i++) {
        circuit *c = random_circuit(&g);
        word4 in[16];
        seeded_fill(&g, in, sizeof in);
        aes_path gp, ep;
        do
            gp = (aes_path)(i % 20 == 0 ? AES_SOFT : AES_NI + seeded_below(&g, AES_PATHS - 1));
        while (i % 20 != 0 && !aes_path_has(gp) && aes_path_best() != AES_SOFT);
        if (!aes_path_has(gp))
            gp = AES_SOFT;
        do
            ep = (aes_path)(i % 20 == 1 ? AES_SOFT : AES_NI + seeded_below(&g, AES_PATHS - 1));
        while (i % 20 != 1 && !aes_path_has(ep) && aes_path_best() != AES_SOFT);
        if (!aes_path_has(ep))
            ep = AES_SOFT;
        garbled_is_plain(&g, c, (const word4 *)in, gp, ep);
        circuit_free(c);
    }
}

/* All inputs of an AND in each polarity, a full set of 3-bit numbers through every block of
 * arith.h. */
static void exhaustive(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "exhaustive");
    for (aes_path p = AES_SOFT; p < AES_PATHS; p++) {
        if (!aes_path_has(p))
            continue;
        circ_builder *b;
        circ_wire x[4], y[4], z[4];
        circuit *c;
        word4 in[8] = { { 0 } };
        CHECK_OK(circ_builder_new(&b));
        circ_inputs(b, x, 4, CIRC_GARBLER);
        circ_inputs(b, y, 4, CIRC_EVALUATOR);
        for (unsigned neg = 0; neg < 8; neg++) {
            circ_wire u = neg & 1 ? circ_not(b, x[0]) : x[0];
            circ_wire v = neg & 2 ? circ_not(b, y[0]) : y[0], t = circ_and(b, u, v);
            circ_output(b, neg & 4 ? circ_not(b, t) : t);
        }
        circ_add(b, z, x, y, 4);
        circ_outputs(b, z, 4);
        circ_sub(b, z, x, y, 4);
        circ_outputs(b, z, 4);
        circ_mux(b, z, x[3], x, y, 4);
        circ_outputs(b, z, 4);
        circ_output(b, circ_less(b, x, y, 4));
        CHECK_OK(circ_finish(b, &c));
        for (unsigned copy = 0; copy < 256; copy++) /* the copy's number is its input */
            for (unsigned w = 0; w < 8; w++)
                in[w][copy / 64] |= (uint64_t)(copy >> w & 1) << (copy % 64);
        garbled_is_plain(&g, c, (const word4 *)in, p, p);
        circuit_free(c);
    }
}

/* The five gates of a full adder with the two inputs of each in either order: the fast kernels run
 * all five as one step, the plain kernel gate by gate; the two must be compatible. */
static void adders_in_any_order(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "adders");
    circ_builder *b;
    circ_wire x[3], z[2];
    circ_columns *cols;
    circuit *c;
    word4 in[3];
    CHECK_OK(circ_builder_new(&b));
    CHECK_OK(circ_columns_new(&cols, 2));
    circ_inputs(b, x, 3, CIRC_JOINT);
    for (int i = 0; i < 3; i++)
        circ_columns_put(cols, 0, x[i]);
    circ_columns_sum(b, cols, z);
    circ_columns_free(cols);
    circ_outputs(b, z, 2);
    CHECK_OK(circ_finish(b, &c));
    assert_int_equal(c->gates, 5);
    seeded_fill(&g, in, sizeof in);
    for (unsigned order = 0; order < 32; order++) {
        for (unsigned i = 0; i < 5; i++)
            if (order >> i & 1) {
                uint16_t t = c->gate[i].a;
                c->gate[i].a = c->gate[i].b;
                c->gate[i].b = t;
            }
        for (aes_path p = AES_SOFT; p < AES_PATHS; p++)
            if (aes_path_has(p)) {
                garbled_is_plain(&g, c, (const word4 *)in, p, AES_SOFT);
                garbled_is_plain(&g, c, (const word4 *)in, AES_SOFT, p);
            }
    }
    circuit_free(c);
}

static void sampler(void **state)
{
    (void)state;
    static const unsigned rings[] = { 12, 16, 20, 24 };
    seeded g;
    test_seed(&g, "sampler");
    for (unsigned i = 0; i < 4; i++)
        for (aes_path p = AES_SOFT; p < AES_PATHS; p++) {
            if (!aes_path_has(p))
                continue;
            unsigned k = rings[i];
            circuit *c;
            word4 in[64];
            seeded_fill(&g, in, sizeof in);
            for (unsigned w = 27; w < 33; w++) /* the kick in half of the copies */
                in[k + w][0] = in[k + w][1] = UINT64_MAX;
            CHECK_OK(sampler_circuit(&c, &sampler_g44, k));
            garbled_is_plain(&g, c, (const word4 *)in, p, p);
            circuit_free(c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_circuits),
        cmocka_unit_test(exhaustive),
        cmocka_unit_test(adders_in_any_order),
        cmocka_unit_test(sampler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

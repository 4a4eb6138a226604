/* Plain runs: arithmetic against C's own, the sampler against its formula and its exact law. */
#include "support/check.h"

#include "base/alloc.h"
#include "mpc/circuits/plain.h"
#include "support/circ_blocks.h"
#include "support/law.h"

#include <math.h>
#include <string.h>

enum { MAX_WIRES = 256 };
typedef uint64_t word4[PLAIN_WORDS];

static uint64_t get(word4 *w, unsigned n, unsigned copy)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v |= (w[i][copy / 64] >> (copy % 64) & 1) << i;
    return v;
}

static void arithmetic(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "arithmetic");
    for (unsigned k = 1; k <= 64; k++) {
        circ_builder *b;
        circ_wire x[64], y[64], z[64], s;
        circuit *c;
        plain *p;
        word4 in[MAX_WIRES], out[MAX_WIRES];
        CHECK_OK(circ_builder_new(&b));
        circ_inputs(b, x, k, CIRC_GARBLER);
        circ_inputs(b, y, k, CIRC_EVALUATOR);
        s = circ_input(b, CIRC_GARBLER);
        circ_add(b, z, x, y, k);
        circ_outputs(b, z, k);
        circ_sub(b, z, x, y, k);
        circ_outputs(b, z, k);
        circ_mux(b, z, s, x, y, k);
        circ_outputs(b, z, k);
        circ_output(b, circ_less(b, x, y, k));
        CHECK_OK(circ_finish(b, &c));
        CHECK_OK(plain_new(&p, c));
        seeded_fill(&g, in, sizeof in);
        if (k > 3) /* equal high halves in some copies, so that long carries and ties occur */
            for (unsigned i = k / 2; i < k; i++)
                in[k + i][0] = in[i][0];
        plain_run(p, out, (const word4 *)in);
        uint64_t mask = k == 64 ? UINT64_MAX : (1ULL << k) - 1;
        for (unsigned i = 0; i < PLAIN_COPIES; i++) {
            uint64_t u = get(in, k, i), v = get(in + k, k, i), sel = get(in + 2 * k, 1, i);
            assert_true(get(out, k, i) == ((u + v) & mask));
            assert_true(get(out + k, k, i) == ((u - v) & mask));
            assert_true(get(out + 2 * k, k, i) == (sel ? u : v));
            assert_true(get(out + 3 * k, 1, i) == (u < v));
        }
        plain_free(p);
        circuit_free(c);
    }
}

static void set_bit(word4 *w, unsigned wire, unsigned copy, unsigned bit)
{
    w[wire][copy / 64] &= ~(1ULL << (copy % 64));
    w[wire][copy / 64] |= (uint64_t)bit << (copy % 64);
}

/* The three vectors of the design, then random inputs; the chain forced to ones in half of them. */
static void sampler_formula(void **state)
{
    (void)state;
    static const unsigned rings[] = { 7, 12, 16, 20, 24, 32 };
    seeded g;
    test_seed(&g, "sampler");
    for (size_t ri = 0; ri < sizeof rings / sizeof rings[0]; ri++) {
        unsigned k = rings[ri];
        circuit *whole, *off;
        plain *pw, *poff;
        word4 in[MAX_WIRES], out[MAX_WIRES], x[MAX_WIRES];
        CHECK_OK(sampler_circuit(&whole, &sampler_g44, k));
        CHECK_OK(sampler_offline(&off, &sampler_g44));
        CHECK_OK(plain_new(&pw, whole));
        CHECK_OK(plain_new(&poff, off));
        unsigned long runs = test_count(40, 4000);
        for (unsigned long run = 0; run < runs; run++) {
            seeded_fill(&g, in, sizeof in);
            for (unsigned i = 0; i < 6; i++) /* copies 0..127 */
                in[k + 27 + i][0] = in[k + 27 + i][1] = UINT64_MAX;
            if (run == 0) { /* vectors in copies 0, 1, 2 */
                for (unsigned i = 0; i < k + 34; i++) {
                    set_bit(in, i, 0, 0);
                    set_bit(in, i, 1, i >= k);
                    set_bit(in, i, 2, i < k ? i < 16 : (i - k) % 2 == 0);
                }
            }
            plain_run(pw, out, (const word4 *)in);
            if (run == 0 && k == 16) {
                assert_int_equal(get(out, k, 0), 16);
                assert_int_equal(get(out, k, 1), 123);
                assert_int_equal(get(out, k, 2), 61);
            }
            unsigned kicks = 0;
            for (unsigned i = 0; i < PLAIN_COPIES; i++) {
                uint8_t r[34];
                for (unsigned j = 0; j < 34; j++)
                    r[j] = (uint8_t)get(in + k + j, 1, i);
                kicks += get(in + k + 27, 6, i) == 63;
                assert_int_equal(get(out, k, i),
                                 law_value_vartime(&sampler_g44, k, (uint32_t)get(in, k, i), r));
            }
            assert_true(run == 0 || kicks >= PLAIN_COPIES / 2);
            plain_run(poff, x, (const word4 *)in + k);
            for (unsigned i = 0; i < PLAIN_COPIES; i++) /* the sampler alone, added outside */
                assert_int_equal((get(in, k, i) + get(x, 7, i)) & (((uint64_t)1 << k) - 1),
                                 get(out, k, i));
        }
        plain_free(pw), plain_free(poff);
        circuit_free(whole), circuit_free(off);
    }
}

static void exact_law(void **state)
{
    (void)state;
    uint64_t count[124], total = 0;
    CHECK_OK(law_pmf(&sampler_g44, count));
    double mean = 0, var = 0, fourth = 0, scale = 1.0 / (double)(1ULL << 34);
    for (int x = 0; x <= 123; x++) {
        assert_int_equal(count[x], count[123 - x]); /* symmetric about 61.5 */
        total += count[x];
        mean += x * (double)count[x] * scale;
    }
    assert_true(total == 1ULL << 34);
    for (int x = 0; x <= 123; x++) {
        double d = x - 61.5;
        var += d * d * (double)count[x] * scale;
        fourth += d * d * d * d * (double)count[x] * scale;
    }
    assert_true(fabs(mean - 61.5) < 1e-9);
    assert_true(fabs(var - 88.75) < 1e-9);
    assert_true(fabs(fourth / (var * var) - 3 - 0.0416) < 5e-5);
    assert_int_equal(count[0], 1); /* all ordinary bits 0, all chain bits 1, sign 0 */
}

/* The law by brute force over all coins of small profiles. */
static void law_by_enumeration(void **state)
{
    (void)state;
    static const sampler_profile small[] = {
        { .name = "a", .columns = 2, .column = { 3, 2 }, .kick_a = 1, .kick_m = 3 },
        { .name = "b", .columns = 3, .column = { 1, 0, 4 }, .kick_a = 3, .kick_m = 1 },
        { .name = "c", .columns = 1, .column = { 7 }, .kick_a = 0, .kick_m = 2 },
    };
    for (size_t s = 0; s < 3; s++) {
        const sampler_profile *p = &small[s];
        unsigned n = sampler_random_bits(p), max = sampler_max(p), k = sampler_bits(p);
        uint64_t want[128] = { 0 }, got[128];
        circuit *c;
        plain *run;
        CHECK_OK(sampler_offline(&c, p));
        CHECK_OK(plain_new(&run, c));
        for (uint32_t coins = 0; coins < 1u << n; coins += PLAIN_COPIES) {
            word4 in[MAX_WIRES], out[MAX_WIRES];
            for (unsigned i = 0; i < PLAIN_COPIES; i++)
                for (unsigned j = 0; j < n; j++)
                    set_bit(in, j, i, (coins + i) >> j & 1);
            plain_run(run, out, (const word4 *)in);
            for (unsigned i = 0; i < PLAIN_COPIES && coins + i < 1u << n; i++)
                want[get(out, k, i)]++;
        }
        CHECK_OK(law_pmf(p, got));
        assert_memory_equal(got, want, (max + 1) * sizeof *got);
        plain_free(run);
        circuit_free(c);
    }
}

/* 10^7 samples by the circuit: Pearson's chi-square over cells of at least 20 expected counts. */
static void chi_square(void **state)
{
    (void)state;
    circuit *c;
    plain *p;
    uint64_t count[124], seen[128] = { 0 };
    static word4 in[34], out[7];
    seeded g;
    test_seed(&g, "chi-square");
    CHECK_OK(law_pmf(&sampler_g44, count));
    CHECK_OK(sampler_offline(&c, &sampler_g44));
    CHECK_OK(plain_new(&p, c));
    unsigned long runs = test_count(40000, 4000000), n = runs * PLAIN_COPIES;
    for (unsigned long r = 0; r < runs; r++) {
        seeded_fill(&g, in, sizeof in);
        plain_run(p, out, (const word4 *)in);
        for (unsigned w = 0; w < PLAIN_WORDS; w++)
            for (unsigned i = 0; i < 64; i++) {
                unsigned x = 0;
                for (unsigned b = 0; b < 7; b++)
                    x |= (unsigned)(out[b][w] >> i & 1) << b;
                seen[x]++;
            }
    }
    double chi = 0, want = 0, have = 0, mean = 0, var = 0;
    unsigned cells = 0;
    for (int x = 0; x <= 123; x++) {
        mean += x * (double)seen[x] / (double)n;
        var += (x - 61.5) * (x - 61.5) * (double)seen[x] / (double)n;
        want += (double)count[x] / (double)(1ULL << 34) * (double)n;
        have += (double)seen[x];
        if (want >= 20 || x == 123) { /* rare values share a cell with their neighbours */
            chi += (have - want) * (have - want) / want;
            want = have = 0;
            cells++;
        }
    }
    assert_int_equal(seen[124] + seen[125] + seen[126] + seen[127], 0);
    double df = cells - 1, z = (chi - df) / sqrt(2 * df);
    print_message(
        "%lu samples: chi-square %.1f on %.0f degrees of freedom (%.2f sigma), mean %.4f, "
        "variance %.4f\n",
        n, chi, df, z, mean, var);
    assert_true(fabs(z) < 5);
    assert_true(fabs(mean - 61.5) < 5 * sqrt(88.75 / (double)n));
    assert_true(fabs(var - 88.75) < 5 * 88.75 * sqrt(2.05 / (double)n));
    plain_free(p);
    circuit_free(c);
}

static void faults(void **state)
{
    (void)state;
    circuit *c;
    plain *p = NULL;
    CHECK_OK(sampler_offline(&c, &sampler_g44));
    TEST_FAULTS(FAULT_ALLOC, st = plain_new(&p, c), plain_free(p));
    c->ands++;
    CHECK_STATUS(plain_new(&p, c), SEFL_EINVAL);
    assert_null(p);
    circuit_free(c);
    sampler_profile big = { .name = "big", .columns = 1, .column = { 62 }, .kick_m = 1 };
    uint64_t count[256];
    CHECK_STATUS(law_pmf(&big, count), SEFL_ERANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic), cmocka_unit_test(sampler_formula),
        cmocka_unit_test(exact_law),  cmocka_unit_test(law_by_enumeration),
        cmocka_unit_test(chi_square), cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

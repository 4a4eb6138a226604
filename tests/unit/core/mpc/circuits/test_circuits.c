/* The builder: folding, dead gates, slots, counts, faults; ANDs of each block and the sampler. */
#include "support/check.h"

#include "base/alloc.h"
#include "mpc/circuits/sampler.h"
#include "support/circ_blocks.h"

static circ_builder *begin(void)
{
    circ_builder *b;
    CHECK_OK(circ_builder_new(&b));
    return b;
}

static void folds_constants(void **state)
{
    (void)state;
    circ_builder *b = begin();
    circ_wire x = circ_input(b, CIRC_GARBLER), y = circ_input(b, CIRC_EVALUATOR);
    circ_wire zero = circ_const(b, false), one = circ_const(b, true);
    assert_int_equal(circ_not(b, zero), one);
    assert_int_equal(circ_xor(b, x, x), zero);
    assert_int_equal(circ_xor(b, x, circ_not(b, x)), one);
    assert_int_equal(circ_xor(b, x, one), circ_not(b, x));
    assert_int_equal(circ_xor(b, one, x), circ_not(b, x));
    assert_int_equal(circ_xor(b, zero, x), x);
    assert_int_equal(circ_xor(b, x, zero), x);
    assert_int_equal(circ_and(b, x, x), x);
    assert_int_equal(circ_and(b, x, circ_not(b, x)), zero);
    assert_int_equal(circ_and(b, x, zero), zero);
    assert_int_equal(circ_and(b, one, y), y);
    assert_int_equal(circ_and(b, y, one), y);
    circ_output(b, zero);
    circ_output(b, one);
    circ_output(b, circ_not(b, x));
    circ_and(b, x, y); /* reaches no output */
    circuit *c;
    CHECK_OK(circ_finish(b, &c));
    assert_int_equal(c->ands, 0);
    assert_int_equal(c->gates, 2); /* 0 = 1 ^ 1, ~x = x ^ 1 */
    assert_int_equal(c->kind[0], CIRC_GARBLER);
    assert_int_equal(c->kind[1], CIRC_EVALUATOR);
    circuit_free(c);
}

static circuit *two_numbers(size_t k, int what)
{
    circ_builder *b = begin();
    circ_wire x[64], y[64], s;
    circ_inputs(b, x, k, CIRC_GARBLER);
    circ_inputs(b, y, k, CIRC_EVALUATOR);
    s = circ_input(b, CIRC_GARBLER);
    if (what == 0)
        circ_add(b, x, x, y, k);
    else if (what == 1)
        circ_sub(b, x, x, y, k);
    else if (what == 2)
        circ_mux(b, x, s, x, y, k);
    else
        x[0] = circ_less(b, x, y, k);
    circ_outputs(b, x, what == 3 ? 1 : k);
    circuit *c;
    CHECK_OK(circ_finish(b, &c));
    return c;
}

static void costs(void **state)
{
    (void)state;
    for (size_t k = 1; k <= 64; k++) {
        const size_t want[] = { k - 1, k - 1, k, k };
        for (int what = 0; what < 4; what++) {
            circuit *c = two_numbers(k, what);
            assert_int_equal(c->ands, want[what]);
            assert_true(c->slots <= 2 * k + 2 + 2 * k + 4);
            circuit_free(c);
        }
    }
}

static void sampler_costs(void **state)
{
    (void)state;
    static const unsigned want[][2] = { { 12, 40 }, { 16, 44 }, { 20, 48 }, { 24, 52 } };
    circuit *c;
    for (size_t i = 0; i < 4; i++) {
        unsigned k = want[i][0];
        CHECK_OK(sampler_circuit(&c, &sampler_g44, k));
        assert_int_equal(c->ands, want[i][1]);
        assert_int_equal(c->inputs, k + 34);
        assert_int_equal(c->outputs, k);
        circuit_free(c);
    }
    CHECK_OK(sampler_offline(&c, &sampler_g44));
    assert_int_equal(c->ands, 29);
    assert_int_equal(c->inputs, 34);
    assert_int_equal(c->outputs, 7);
    for (int i = 0; i < 34; i++)
        assert_int_equal(c->kind[i], CIRC_JOINT);
    print_message("offline: %u gates, %u slots\n", c->gates, c->slots);
    circuit_free(c);
    assert_int_equal(sampler_random_bits(&sampler_g44), 34);
    assert_int_equal(sampler_max(&sampler_g44), 123);
    assert_int_equal(sampler_bits(&sampler_g44), 7);
}

/* Slots are reused: a chain of a thousand gates needs only a few. */
static void slots_are_reused(void **state)
{
    (void)state;
    circ_builder *b = begin();
    circ_wire x = circ_input(b, CIRC_GARBLER), y = circ_input(b, CIRC_EVALUATOR);
    for (int i = 0; i < 1000; i++) {
        circ_wire t = circ_and(b, x, circ_not(b, y));
        y = circ_xor(b, x, y);
        x = t;
    }
    circ_output(b, x);
    circuit *c;
    CHECK_OK(circ_finish(b, &c));
    assert_int_equal(c->ands, 1000);
    assert_true(c->slots <= 8);
    circuit_free(c);
}

static void validation(void **state)
{
    (void)state;
    circuit *c = two_numbers(4, 0);
    CHECK_OK(circuit_validate(c));
#define BREAK(field, value)                                 \
    do {                                                    \
        circuit copy = *c;                                  \
        circ_gate g0 = c->gate[0];                          \
        uint16_t o0 = c->out[0];                            \
        uint8_t k0 = c->kind[0];                            \
        copy.field = (value);                               \
        CHECK_STATUS(circuit_validate(&copy), SEFL_EINVAL); \
        c->gate[0] = g0, c->out[0] = o0, c->kind[0] = k0;   \
    } while (0)
    BREAK(ands, 2);
    BREAK(slots, c->inputs);
    BREAK(slots, 70000);
    BREAK(outputs, 0);
    BREAK(gate[0].op, 2);
    BREAK(gate[0].a, (uint16_t)c->slots);
    BREAK(gate[0].a, (uint16_t)(c->slots - 1));
    BREAK(gate[0].dst, 1);
    BREAK(gate[0].dst, 0);
    BREAK(out[0], (uint16_t)c->slots);
    BREAK(kind[0], CIRC_KINDS);
#undef BREAK
    for (uint32_t i = 0; i < c->gates; i++)
        if (c->gate[i].op == CIRC_AND) {
            c->gate[i].b = 0; /* the constant */
            CHECK_STATUS(circuit_validate(c), SEFL_EINVAL);
            break;
        }
    circuit_free(c);
}

static void refusals(void **state)
{
    (void)state;
    circuit *c = NULL;
    circ_builder *b = begin();
    circ_input(b, CIRC_GARBLER);
    CHECK_STATUS(circ_finish(b, &c), SEFL_EINVAL); /* no output */
    assert_null(c);
    CHECK_STATUS(sampler_circuit(&c, &sampler_g44, 6), SEFL_EINVAL);
    CHECK_STATUS(sampler_circuit(&c, &sampler_g44, 33), SEFL_EINVAL);
    sampler_profile p = sampler_g44;
    p.columns = 0;
    CHECK_STATUS(sampler_offline(&c, &p), SEFL_EINVAL);
    p = sampler_g44, p.column[1] = 65;
    CHECK_STATUS(sampler_offline(&c, &p), SEFL_EINVAL);
    p = sampler_g44, p.kick_m = 0;
    CHECK_STATUS(sampler_offline(&c, &p), SEFL_EINVAL);
    p = sampler_g44, p.kick_a = 16;
    CHECK_STATUS(sampler_offline(&c, &p), SEFL_EINVAL);
    assert_null(c);
    /* more live wires than slots */
    b = begin();
    circ_wire x = circ_input(b, CIRC_GARBLER);
    for (int i = 0; i < 70000; i++) {
        x = circ_and(b, x, circ_input(b, CIRC_GARBLER));
        circ_output(b, x);
    }
    CHECK_STATUS(circ_finish(b, &c), SEFL_ERANGE);
}

static void faults(void **state)
{
    (void)state;
    circuit *c = NULL;
    (void)c; /* the rest needs fault injection */
    TEST_FAULTS(FAULT_ALLOC, st = sampler_circuit(&c, &sampler_g44, 16), circuit_free(c));
    TEST_FAULTS(FAULT_ALLOC, st = sampler_offline(&c, &sampler_g44), circuit_free(c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folds_constants), cmocka_unit_test(costs),
        cmocka_unit_test(sampler_costs),   cmocka_unit_test(slots_are_reused),
        cmocka_unit_test(validation),      cmocka_unit_test(refusals),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

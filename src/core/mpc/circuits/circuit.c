#include "mpc/circuits/circuit.h"

#include "base/alloc.h"

void circuit_free(circuit *c)
{
    if (!c)
        return;
    sefl_free(c->kind);
    sefl_free(c->out);
    sefl_free(c->gate);
    sefl_free(c);
}

sefl_status circuit_validate(const circuit *c)
{
    sefl_status st = SEFL_OK;
    uint8_t *set = NULL;
    uint32_t ands = 0;
    SEFL_CHECK(c->slots <= CIRC_MAX_SLOTS && c->inputs < c->slots, SEFL_EINVAL,
               "circuit: %u slots for %u inputs", c->slots, c->inputs);
    SEFL_CHECK(c->outputs > 0, SEFL_EINVAL, "circuit: no output");
    SEFL_TRY(sefl_new(&set, c->slots, 1));
    for (uint32_t i = 0; i <= c->inputs; i++)
        set[i] = 1;
    for (uint32_t i = 0; i < c->inputs; i++)
        SEFL_CHECK(c->kind[i] < CIRC_KINDS, SEFL_EINVAL, "circuit: input %u of kind %u", i,
                   c->kind[i]);
    for (uint32_t i = 0; i < c->gates; i++) {
        const circ_gate *g = &c->gate[i];
        SEFL_CHECK(g->op == CIRC_XOR || g->op == CIRC_AND, SEFL_EINVAL,
                   "circuit: gate %u has operation %u", i, g->op);
        SEFL_CHECK(g->a < c->slots && g->b < c->slots && g->dst < c->slots, SEFL_EINVAL,
                   "circuit: gate %u uses a slot beyond %u", i, c->slots);
        SEFL_CHECK(set[g->a] && set[g->b], SEFL_EINVAL, "circuit: gate %u reads an unset slot", i);
        SEFL_CHECK(g->dst > c->inputs, SEFL_EINVAL, "circuit: gate %u writes an input", i);
        SEFL_CHECK(g->op == CIRC_XOR || (g->a != 0 && g->b != 0), SEFL_EINVAL,
                   "circuit: gate %u is an AND with a constant", i);
        set[g->dst] = 1;
        ands += g->op == CIRC_AND;
    }
    SEFL_CHECK(ands == c->ands, SEFL_EINVAL, "circuit: %u ANDs, %u stated", ands, c->ands);
    for (uint32_t i = 0; i < c->outputs; i++)
        SEFL_CHECK(c->out[i] < c->slots && set[c->out[i]], SEFL_EINVAL,
                   "circuit: output %u is an unset slot", i);
done:
    sefl_free(set);
    return st;
}

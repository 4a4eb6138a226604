/* 1. A wire is 2*node + negated: NOT costs nothing until a gate needs the negated value itself.
 * 2. Node 0 is the constant 1; so wire 0 is the constant 1 and wire 1 the constant 0.
 * 3. Nodes refer to earlier nodes only: index order is an order of evaluation.
 * 4. After the first failure st is set, every function gives CONST0, nothing grows. */
#include "mpc/circuits/circuit.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

enum { NODE_CONST, NODE_INPUT, NODE_XOR, NODE_AND };

enum { CONST1 = 0, CONST0 = 1, MAX_NODES = 1 << 24 };

typedef struct node {
    uint32_t op;
    circ_wire a, b; /* a of an input: its kind */
} node;

struct circ_builder {
    sefl_status st;
    node *nodes;
    size_t n, cap;
    circ_wire *outs;
    size_t nouts, outs_cap;
    size_t inputs;
};

sefl_status circ_builder_new(circ_builder **out)
{
    SEFL_MAKE(circ_builder, b, out);
    SEFL_TRY(sefl_room(&b->nodes, &b->cap, 64, sizeof *b->nodes));
    b->nodes[b->n++] = (node){ .op = NODE_CONST };
    SEFL_HAND_OVER(out, b, circ_builder_free);
}

void circ_builder_free(circ_builder *b)
{
    if (!b)
        return;
    sefl_free(b->nodes);
    sefl_free(b->outs);
    sefl_free(b);
}

static circ_wire add_node(circ_builder *b, node x)
{
    if (b->st != SEFL_OK)
        return CONST0;
    b->st = b->n < MAX_NODES ? sefl_room(&b->nodes, &b->cap, b->n + 1, sizeof x)
                             : sefl_fail(SEFL_ERANGE, "circuit: more than %d gates", MAX_NODES);
    if (b->st != SEFL_OK)
        return CONST0;
    b->nodes[b->n] = x;
    return (circ_wire)(2 * b->n++);
}

circ_wire circ_input(circ_builder *b, circ_kind kind)
{
    circ_wire w = add_node(b, (node){ .op = NODE_INPUT, .a = kind });
    if (b->st == SEFL_OK)
        b->inputs++;
    return w;
}

void circ_inputs(circ_builder *b, circ_wire *w, size_t n, circ_kind kind)
{
    for (size_t i = 0; i < n; i++)
        w[i] = circ_input(b, kind);
}

circ_wire circ_const(circ_builder *b, bool one)
{
    (void)b;
    return one ? CONST1 : CONST0;
}

circ_wire circ_not(circ_builder *b, circ_wire x)
{
    (void)b;
    return x ^ 1;
}

circ_wire circ_xor(circ_builder *b, circ_wire x, circ_wire y)
{
    circ_wire neg = (x ^ y) & 1, a = x & ~1u, c = y & ~1u;
    if (a == c)
        return CONST0 ^ neg;
    if (a == CONST1)
        return y ^ 1 ^ (x & 1);
    if (c == CONST1)
        return x ^ 1 ^ (y & 1);
    circ_wire w = add_node(b, (node){ .op = NODE_XOR, .a = a, .b = c });
    return b->st == SEFL_OK ? w ^ neg : CONST0;
}

circ_wire circ_and(circ_builder *b, circ_wire x, circ_wire y)
{
    if (x == CONST0 || y == CONST0 || x == (y ^ 1))
        return CONST0;
    if (x == CONST1 || x == y)
        return y;
    if (y == CONST1)
        return x;
    return add_node(b, (node){ .op = NODE_AND, .a = x, .b = y });
}

void circ_output(circ_builder *b, circ_wire w)
{
    if (b->st == SEFL_OK)
        b->st = sefl_room(&b->outs, &b->outs_cap, b->nouts + 1, sizeof w);
    if (b->st == SEFL_OK)
        b->outs[b->nouts++] = w;
}

void circ_outputs(circ_builder *b, const circ_wire *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        circ_output(b, w[i]);
}

/* ---- from nodes to slots ------------------------------------------------------------------ */

/* Both polarities of a node may be needed as separate values (an AND or an output that wants
 * the negated one): they are separate wires here, numbered like circ_wire, each with uses and a
 * slot. NONE: no slot yet. */
enum { NONE = 0xffffffff };

typedef struct plan {
    circuit *c;
    const circ_builder *b;
    uint32_t *uses; /* (2n) reads still to come */
    uint32_t *slot; /* (2n) */
    uint16_t *idle; /* stack of scratch slots free for use */
    size_t idles;
} plan;

/* Marks what outputs need, from the last node to the first. */
static void mark(plan *p)
{
    const circ_builder *b = p->b;
    for (size_t i = 0; i < b->nouts; i++)
        p->uses[b->outs[i]]++;
    for (size_t i = b->n; i-- > 0;) {
        const node *x = &b->nodes[i];
        circ_wire pos = (circ_wire)(2 * i);
        if (p->uses[pos + 1] > 0 && i > 0) /* ~w is made by one XOR of w and the constant */
            p->uses[pos]++;
        if (p->uses[pos] == 0)
            continue;
        if (x->op == NODE_XOR || x->op == NODE_AND) {
            p->uses[x->a]++;
            p->uses[x->b]++;
        }
    }
}

static sefl_status take_slot(plan *p, uint32_t *slot)
{
    if (p->idles > 0) {
        *slot = p->idle[--p->idles];
        return SEFL_OK;
    }
    SEFL_NEED(p->c->slots < CIRC_MAX_SLOTS, SEFL_ERANGE, "circuit: needs more than %d live wires",
              CIRC_MAX_SLOTS);
    *slot = p->c->slots++;
    return SEFL_OK;
}

static void used(plan *p, circ_wire w)
{
    uint32_t s = p->slot[w];
    assert(s != NONE && p->uses[w] > 0);
    if (--p->uses[w] == 0 && s > p->c->inputs)
        p->idle[p->idles++] = (uint16_t)s;
}

static sefl_status emit(plan *p, circ_op op, circ_wire dst, circ_wire x, circ_wire y)
{
    circ_gate g = { .op = (uint16_t)op, .a = (uint16_t)p->slot[x], .b = (uint16_t)p->slot[y] };
    /* Sources are released first: a gate may write over its own input. */
    if (x != CONST1)
        used(p, x);
    if (y != CONST1)
        used(p, y);
    SEFL_PASS(take_slot(p, &p->slot[dst]));
    g.dst = (uint16_t)p->slot[dst];
    p->c->gate[p->c->gates++] = g;
    p->c->ands += op == CIRC_AND;
    return SEFL_OK;
}

static sefl_status lower(plan *p)
{
    const circ_builder *b = p->b;
    circuit *c = p->c;
    p->slot[CONST1] = 0;
    uint32_t input = 0;
    for (size_t i = 0; i < b->n; i++) { /* inputs first: they own slots 1 .. inputs */
        if (b->nodes[i].op == NODE_INPUT) {
            c->kind[input] = (uint8_t)b->nodes[i].a;
            p->slot[2 * i] = ++input;
        }
    }
    for (size_t i = 0; i < b->n; i++) {
        const node *x = &b->nodes[i];
        circ_wire pos = (circ_wire)(2 * i);
        if (p->uses[pos] > 0 && (x->op == NODE_XOR || x->op == NODE_AND))
            SEFL_PASS(emit(p, x->op == NODE_AND ? CIRC_AND : CIRC_XOR, pos, x->a, x->b));
        if (p->uses[pos + 1] > 0) /* also the constant 0 = 1 ^ 1 */
            SEFL_PASS(emit(p, CIRC_XOR, pos + 1, pos, CONST1));
    }
    for (size_t i = 0; i < b->nouts; i++)
        c->out[i] = (uint16_t)p->slot[b->outs[i]];
    return SEFL_OK;
}

sefl_status circ_finish(circ_builder *b, circuit **out)
{
    sefl_status st = SEFL_OK;
    plan p = { .b = b };
    *out = NULL;
    SEFL_TRY(b->st);
    SEFL_CHECK(b->inputs < CIRC_MAX_SLOTS, SEFL_ERANGE, "circuit: %zu inputs", b->inputs);
    SEFL_CHECK(b->nouts > 0, SEFL_EINVAL, "circuit: no output");
    SEFL_TRY(sefl_new(&p.c, 1, sizeof *p.c));
    p.c->inputs = (uint32_t)b->inputs;
    p.c->outputs = (uint32_t)b->nouts;
    p.c->slots = p.c->inputs + 1;
    SEFL_TRY(sefl_new(&p.c->kind, b->inputs, 1));
    SEFL_TRY(sefl_new(&p.c->out, b->nouts, sizeof *p.c->out));
    SEFL_TRY(sefl_new(&p.c->gate, 2 * b->n, sizeof *p.c->gate));
    SEFL_TRY(sefl_new(&p.uses, 2 * b->n, sizeof *p.uses));
    SEFL_TRY(sefl_new(&p.slot, 2 * b->n, sizeof *p.slot));
    size_t most = 2 * b->n < CIRC_MAX_SLOTS ? 2 * b->n : CIRC_MAX_SLOTS; /* a slot a wire */
    SEFL_TRY(sefl_new(&p.idle, most, sizeof *p.idle));
    memset(p.slot, 0xff, 2 * b->n * sizeof *p.slot);
    mark(&p);
    SEFL_TRY(lower(&p));
    SEFL_TRY(circuit_validate(p.c));
    *out = p.c, p.c = NULL;
done:
    circuit_free(p.c);
    sefl_free(p.uses);
    sefl_free(p.slot);
    sefl_free(p.idle);
    circ_builder_free(b);
    return st;
}

/* 1. A step reads all its inputs (for a chunk of lanes) before it writes dst and sum. So gates may
 *    be put together when the values in between are read by these gates alone: `reads` counts.
 * 2. The slots of values in between are not written; by 1 nothing reads them.
 * 3. Where slots coincide in a way that makes a name mean two values, gates stay separate. */
#include "mpc/garble/program.h"

#include "base/alloc.h"

#include <string.h>

static bool is_xor(const circ_gate *g, unsigned a, unsigned b)
{
    return g->op == CIRC_XOR && ((g->a == a && g->b == b) || (g->a == b && g->b == a));
}

/* Five gates of a full adder? reads[i]: how often gate i's result is read. */
static bool full_adder(gc_step *s, const circ_gate *g, const uint32_t *reads)
{
    if (g[0].op != CIRC_XOR || g[1].op != CIRC_XOR || g[2].op != CIRC_AND || g[3].op != CIRC_XOR ||
        g[4].op != CIRC_XOR)
        return false;
    if (reads[0] != 2 || reads[1] != 1 || reads[2] != 1)
        return false;
    for (int swap = 0; swap < 4; swap++) {
        unsigned x = swap & 1 ? g[0].b : g[0].a, y = swap & 1 ? g[0].a : g[0].b;
        unsigned x1 = swap & 2 ? g[1].b : g[1].a, d = swap & 2 ? g[1].a : g[1].b;
        unsigned t1 = g[0].dst, t2 = g[1].dst, t3 = g[2].dst, c = g[3].dst, z = g[4].dst;
        bool order = g[2].a == t1 && g[2].b == t2, turned = g[2].a == t2 && g[2].b == t1;
        if (x != x1 || !(order || turned) || !is_xor(&g[3], x, t3) || !is_xor(&g[4], t1, d))
            continue;
        /* each name must still mean the same value where it is read */
        if (t1 == x || t1 == d || t2 == x || t2 == d || t2 == t1 || t3 == x || t3 == d ||
            t3 == t1 || c == d || c == t1 || c == z)
            continue;
        *s = (gc_step){ .kind = order ? GC_FA : GC_FA2,
                        .dst = (uint16_t)c,
                        .sum = (uint16_t)z,
                        .a = (uint16_t)x,
                        .b = (uint16_t)y,
                        .d = (uint16_t)d };
        return true;
    }
    return false;
}

/* An AND and a XOR of the same two wires, in either order. */
static bool half_adder(gc_step *s, const circ_gate *g)
{
    const circ_gate *carry = g[0].op == CIRC_AND ? &g[0] : &g[1];
    const circ_gate *sum = g[0].op == CIRC_AND ? &g[1] : &g[0];
    unsigned a = carry->a, b = carry->b;
    if (carry->op != CIRC_AND || !is_xor(sum, a, b))
        return false;
    if (g[0].dst == a || g[0].dst == b || g[0].dst == g[1].dst)
        return false;
    *s = (gc_step){
        .kind = GC_HA, .dst = carry->dst, .sum = sum->dst, .a = carry->a, .b = carry->b
    };
    return true;
}

sefl_status gc_program_init(gc_program *p, const circuit *c)
{
    sefl_status st = SEFL_OK;
    enum { NOBODY = 0xffffffff };
    uint32_t *reads = NULL, *writer = NULL;
    memset(p, 0, sizeof *p);
    SEFL_TRY(sefl_new(&p->step, c->gates, sizeof *p->step));
    SEFL_TRY(sefl_new(&reads, c->gates, sizeof *reads));
    SEFL_TRY(sefl_new(&writer, c->slots, sizeof *writer));
    for (uint32_t i = 0; i < c->slots; i++)
        writer[i] = NOBODY;
    for (uint32_t i = 0; i < c->gates; i++) {
        const circ_gate *g = &c->gate[i];
        if (writer[g->a] != NOBODY)
            reads[writer[g->a]]++;
        if (writer[g->b] != NOBODY)
            reads[writer[g->b]]++;
        writer[g->dst] = i;
    }
    for (uint32_t i = 0; i < c->outputs; i++)
        if (writer[c->out[i]] != NOBODY)
            reads[writer[c->out[i]]]++;
    for (uint32_t i = 0; i < c->gates;) {
        const circ_gate *g = &c->gate[i];
        gc_step *s = &p->step[p->steps++];
        if (c->gates - i >= 5 && full_adder(s, g, reads + i)) {
            i += 5;
        } else if (c->gates - i >= 2 && half_adder(s, g)) {
            i += 2;
        } else {
            *s = (gc_step){
                .kind = g->op == CIRC_AND ? GC_AND : GC_XOR, .dst = g->dst, .a = g->a, .b = g->b
            };
            i++;
        }
    }
done:
    sefl_free(reads);
    sefl_free(writer);
    if (st != SEFL_OK)
        gc_program_clear(p);
    return st;
}

void gc_program_clear(gc_program *p)
{
    sefl_free(p->step);
    memset(p, 0, sizeof *p);
}

#include "mpc/circuits/plain.h"

#include "base/alloc.h"

#include <string.h>

typedef struct wire {
    uint64_t w[PLAIN_WORDS];
} wire;

struct plain {
    const circuit *c;
    wire *slot;
};

sefl_status plain_new(plain **out, const circuit *c)
{
    SEFL_MAKE(plain, p, out);
    p->c = c;
    SEFL_TRY(circuit_validate(c));
    SEFL_TRY(sefl_new(&p->slot, c->slots, sizeof *p->slot));
    memset(&p->slot[0], 0xff, sizeof p->slot[0]);
    SEFL_HAND_OVER(out, p, plain_free);
}

void plain_free(plain *p)
{
    if (!p)
        return;
    sefl_free_secret(p->slot, p->c->slots * sizeof *p->slot);
    sefl_free(p);
}

void plain_run(plain *p, uint64_t (*out)[PLAIN_WORDS], const uint64_t (*in)[PLAIN_WORDS])
{
    const circuit *c = p->c;
    wire *s = p->slot;
    if (c->inputs > 0)
        memcpy(s + 1, in, c->inputs * sizeof *in);
    for (uint32_t i = 0; i < c->gates; i++) {
        const circ_gate g = c->gate[i];
        if (g.op == CIRC_AND)
            for (int w = 0; w < PLAIN_WORDS; w++)
                s[g.dst].w[w] = s[g.a].w[w] & s[g.b].w[w];
        else
            for (int w = 0; w < PLAIN_WORDS; w++)
                s[g.dst].w[w] = s[g.a].w[w] ^ s[g.b].w[w];
    }
    for (uint32_t i = 0; i < c->outputs; i++)
        memcpy(out[i], s[c->out[i]].w, sizeof *out);
}

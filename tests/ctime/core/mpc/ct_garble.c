/* No branch or address of garbling, evaluation or encoding depends on labels, delta, input
 * bits or tables before they are sent. */
#include "base/ct.h"
#include "mpc/garble/garble.h"
#include "support/circ_blocks.h"

#include <stdlib.h>
#include <string.h>

enum { INS = 50 * GC_LANES, OUTS = 16 * GC_LANES };

static gc_label in[INS], active[INS], out[OUTS], result[OUTS];
static uint8_t tables[44 * 512], bits[INS / 8];

int main(void)
{
    circuit *c;
    gc *g;
    gc *e;
    gc_config cfg = { .hash_key = { { 3, 4 } }, .tweak_base = 0 };
    if (sampler_circuit(&c, &sampler_g44, 16) != SEFL_OK)
        return 1;
    for (aes_path p = AES_SOFT; p <= AES_NI; p++) {
        if (!aes_path_has(p))
            continue;
        gc_label delta = { { 0x123456789abcdef1, 0xfedcba9876543210 } };
        for (size_t i = 0; i < INS; i++)
            in[i] = (gc_label){ { i * 0x9e3779b97f4a7c15, i + 1 } };
        CT_SECRET(in, sizeof in);
        CT_SECRET(bits, sizeof bits);
        CT_SECRET(&delta, sizeof delta);
        if (gc_new(&g, c, &cfg, &delta) != SEFL_OK || gc_new(&e, c, &cfg, NULL) != SEFL_OK)
            return 1;
        gc_set_path(g, p);
        gc_set_path(e, p);
        gc_encode(active, in, bits, INS, &delta);
        if (gc_garble(g, tables, sizeof tables, out, in, 0, 1) != SEFL_OK)
            return 1;
        if (gc_evaluate(e, result, tables, sizeof tables, active, 0, 1) != SEFL_OK)
            return 1;
        gc_free(g);
        gc_free(e);
        CT_PUBLIC(in, sizeof in); /* the next path starts from fresh state */
        CT_PUBLIC(bits, sizeof bits);
    }
    circuit_free(c);
    return 0;
}

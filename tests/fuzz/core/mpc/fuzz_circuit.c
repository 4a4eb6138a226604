/* A gate list from any bytes: circuit_validate accepts only sound lists, and for those plain and
 * garbled runs agree, on the fast path (whose steps join gates, so aliased slots matter) and, for
 * some inputs (fuzz/some.h), on the plain one, with the same tables.
 *
 * Input: inputs, scratch slots, outputs, then outputs bytes (slots), then 4 bytes per gate: op,
 * dst, a, b. */
#include "base/alloc.h"
#include "fuzz/some.h"
#include "mpc/circuits/plain.h"
#include "mpc/garble/garble.h"
#include "support/must.h"

#include <string.h>

enum { MAX_GATES = 256, MAX_IN = 64, MAX_OUT = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static gc_label mix(uint64_t i)
{
    i = (i + 1) * 0x9e3779b97f4a7c15;
    return (gc_label){ { i ^ i >> 29, (i ^ i >> 31) * 0xbf58476d1ce4e5b9 } };
}

/* Runs one block on a path. */
static void garbled(const circuit *c, aes_path path, uint8_t *tables, size_t bytes, gc_label *out,
                    gc_label *result, const gc_label *zero, const gc_label *active)
{
    gc_config cfg = { .hash_key = { { 1, 2 } }, .tweak_base = 4 };
    gc_label delta = mix(999);
    gc *g;
    gc *e;
    delta.w[0] |= 1;
    MUST(gc_new(&g, c, &cfg, &delta) == SEFL_OK);
    MUST(gc_new(&e, c, &cfg, NULL) == SEFL_OK);
    gc_set_path(g, path);
    gc_set_path(e, path);
    MUST(gc_garble(g, tables, bytes, out, zero, 3, 1) == SEFL_OK);
    MUST(gc_evaluate(e, result, tables, bytes, active, 3, 1) == SEFL_OK);
    gc_free(g);
    gc_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static circ_gate gates[MAX_GATES];
    static uint8_t kind[MAX_IN], tables[2][MAX_GATES * 512];
    static uint16_t outs[MAX_OUT];
    static gc_label zero[MAX_IN * GC_LANES], active[MAX_IN * GC_LANES];
    static gc_label out[2][MAX_OUT * GC_LANES], result[2][MAX_OUT * GC_LANES];
    static uint64_t in[MAX_IN][PLAIN_WORDS], want[MAX_OUT][PLAIN_WORDS];
    if (size < 3)
        return 0;
    bool soft = some(data, size, 8);
    circuit c = { .inputs = data[0], .outputs = data[2], .kind = kind, .out = outs, .gate = gates };
    c.slots = c.inputs + 1u + data[1];
    if (c.inputs > MAX_IN || c.outputs > MAX_OUT || size < 3u + c.outputs)
        return 0;
    data += 3, size -= 3;
    for (uint32_t i = 0; i < c.outputs; i++)
        outs[i] = data[i];
    data += c.outputs, size -= c.outputs;
    for (; size >= 4 && c.gates < MAX_GATES; data += 4, size -= 4) {
        gates[c.gates++] = (circ_gate){ data[0], data[1], data[2], data[3] };
        c.ands += data[0] == CIRC_AND;
    }
    if (circuit_validate(&c) != SEFL_OK)
        return 0;
    gc_label delta = mix(999);
    delta.w[0] |= 1;
    uint64_t coins = 0x243f6a8885a308d3;
    for (uint32_t i = 0; i < c.inputs; i++) {
        coins = coins * 6364136223846793005 + 1442695040888963407;
        in[i][0] = coins >> 32;
        for (unsigned l = 0; l < GC_LANES; l++) {
            uint8_t bit = (uint8_t)(in[i][0] >> l & 1);
            size_t at = (size_t)GC_LANES * i + l;
            zero[at] = mix(at);
            gc_encode(&active[at], &zero[at], &bit, 1, &delta);
        }
    }
    plain *p;
    MUST(plain_new(&p, &c) == SEFL_OK);
    plain_run(p, want, (const uint64_t(*)[PLAIN_WORDS])in);
    plain_free(p);
    size_t bytes = (size_t)c.ands * 512;
    garbled(&c, aes_path_best(), tables[0], bytes, out[0], result[0], zero, active);
    if (soft) {
        size_t labels = sizeof(gc_label) * GC_LANES * c.outputs;
        garbled(&c, AES_SOFT, tables[1], bytes, out[1], result[1], zero, active);
        MUST(memcmp(tables[0], tables[1], bytes) == 0);
        MUST(memcmp(out[0], out[1], labels) == 0);
        MUST(memcmp(result[0], result[1], labels) == 0);
    }
    for (uint32_t i = 0; i < c.outputs; i++)
        for (unsigned l = 0; l < GC_LANES; l++) {
            gc_label expect;
            uint8_t bit = (uint8_t)(want[i][0] >> l & 1);
            size_t at = (size_t)GC_LANES * i + l;
            gc_encode(&expect, &out[0][at], &bit, 1, &delta);
            MUST(memcmp(&expect, &result[0][at], sizeof expect) == 0);
        }
    return 0;
}

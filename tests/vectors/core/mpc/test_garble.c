/* Known answers: the same seeds give the same tables and labels on every path, today and tomorrow.
 * The digests were made by this program (SEFL_CPU=portable, plain C reference); a change of hash,
 * tweaks, table order or circuit shows here and is a change of the wire format. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/sha256.h"
#include "crypto/prg/prg.h"
#include "mpc/garble/garble.h"
#include "support/circ_blocks.h"

#include <string.h>

enum { BLOCKS = 3, FIRST = 5 };

static void digest_of(char hex[65], const circuit *c, aes_path path, uint64_t tweak_base)
{
    uint8_t seed[PRG_SEED] = "known answers of half-gates", *tables, digest[32];
    gc_label *in, *active, *out, *result, delta;
    uint8_t *bits;
    gc_config cfg = { .tweak_base = tweak_base };
    gc *g;
    gc *e;
    prg coins;
    sha256 h;
    size_t bytes, ins = (size_t)BLOCKS * GC_LANES * c->inputs;
    size_t outs = (size_t)BLOCKS * GC_LANES * c->outputs;
    CHECK_OK(gc_table_bytes(&bytes, c, BLOCKS));
    CHECK_OK(sefl_new(&tables, bytes, 1));
    CHECK_OK(sefl_new(&in, ins, sizeof *in));
    CHECK_OK(sefl_new(&active, ins, sizeof *in));
    CHECK_OK(sefl_new(&out, outs, sizeof *in));
    CHECK_OK(sefl_new(&result, outs, sizeof *in));
    CHECK_OK(sefl_new(&bits, ins / 8, 1));
    prg_init(&coins, seed, "garble vectors");
    sefl_rng rng = prg_rng(&coins);
    CHECK_OK(gc_delta_draw(&delta, &rng));
    prg_fill(&coins, &cfg.hash_key, sizeof cfg.hash_key);
    prg_fill(&coins, in, ins * sizeof *in);
    prg_fill(&coins, bits, ins / 8);
    gc_encode(active, in, bits, ins, &delta);
    CHECK_OK(gc_new(&g, c, &cfg, &delta));
    CHECK_OK(gc_new(&e, c, &cfg, NULL));
    gc_set_path(g, path);
    gc_set_path(e, path);
    CHECK_OK(gc_garble(g, tables, bytes, out, in, FIRST, BLOCKS));
    CHECK_OK(gc_evaluate(e, result, tables, bytes, active, FIRST, BLOCKS));
    sha256_init(&h);
    sha256_add(&h, span_of(tables, bytes));
    sha256_add(&h, span_of(out, outs * sizeof *out));
    sha256_add(&h, span_of(result, outs * sizeof *result));
    sha256_end(&h, digest);
    for (int i = 0; i < 32; i++)
        sprintf(hex + 2 * i, "%02x", digest[i]);
    gc_free(g);
    gc_free(e);
    sefl_free(tables);
    sefl_free(in);
    sefl_free(active);
    sefl_free(out);
    sefl_free(result);
    sefl_free(bits);
}

static void check(circuit *c, uint64_t tweak_base, const char *want)
{
    for (aes_path p = AES_SOFT; p < AES_PATHS; p++) {
        if (!aes_path_has(p))
            continue;
        char hex[65];
        digest_of(hex, c, p, tweak_base);
        assert_string_equal(hex, want);
    }
    circuit_free(c);
}

static void transcripts(void **state)
{
    (void)state;
    circuit *c;
    CHECK_OK(sampler_circuit(&c, &sampler_g44, 16));
    check(c, 0, "dbff8950a38f26b43881025fd715468f3312e8121ddab1f3f7922055a6764f7d");
    CHECK_OK(sampler_offline(&c, &sampler_g44));
    check(c, 0, "35d8b8869890eb5e320004d44556f474f8a8cf62ea714c03c2d42f61faab7926");
    CHECK_OK(sampler_circuit(&c, &sampler_g44, 24)); /* tweaks near the end of their range */
    check(c, UINT64_MAX - 2 * 52 * (FIRST + BLOCKS) - 1,
          "999db5360c3d1525026480ae2ff1aa2e171ac2736aa916d4ede267dacd87d8dc");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(transcripts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

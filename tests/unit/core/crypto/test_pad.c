/* The streams of the pad: which part of the generator's output covers which unit. */
#include "crypto/ahe/ahe.h"

#include "crypto/prg/prg.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

enum { UNITS = 3, N = 2048 };

static const uint8_t seed[AHE_SEED_BYTES] = { 4, 4, 4 };

static sefl_status same_seed(void *self, void *out, size_t n)
{
    (void)self;
    memcpy(out, seed, n);
    return SEFL_OK;
}

/* The units of zeros, which are the pad, for a context that begins with n0. */
static uint8_t *pad_of(const ahe_params *p, uint64_t n0)
{
    const sefl_rng rng = { same_seed, NULL };
    uint8_t context[AHE_CONTEXT_BYTES] = { 0 };
    int64_t *zeros = calloc(p->units * p->unit_values, sizeof *zeros);
    uint8_t *out = malloc(ahe_body_bytes(p));
    ahe_enc *enc;
    ahe_upload *up;
    ahe_seed got;
    assert_true(zeros && out);
    store_u64(context, n0);
    CHECK_OK(ahe_enc_new(&enc, NULL, p, NULL, NULL));
    CHECK_OK(ahe_upload_new(&up, p, enc, context, &rng));
    CHECK_OK(ahe_upload_units(p, up, out, zeros, p->units, NULL, NULL));
    ahe_upload_seed(p, up, &got);
    assert_true(got.stream == n0);
    ahe_upload_free(p, up);
    ahe_enc_free(p, enc);
    free(zeros);
    return out;
}

/* Unit u is stream n0 + u, and n0 is of the context: of task, round and client. Without n0 both
 * servers would still agree, but all clients of all rounds would use the streams 0, 1, ...: one
 * search of AES keys would then attack every upload at once, and two uploads with equal seeds (a
 * client's machine that was cloned) would have equal pads, so that AS could subtract them. */
static void streams_begin_at_the_context(void **state)
{
    (void)state;
    static const uint64_t starts[] = { 0, 1, 12345, UINT64_MAX - UNITS };
    const ahe_scheme *s;
    ahe_params p;
    pack pk;
    CHECK_OK(ahe_scheme_find(&s, "pad"));
    CHECK_OK(pack_init(&pk, &(pack_config){ .scheme = PACK_PAD,
                                            .clients = 10,
                                            .dimension = UNITS * N,
                                            .clip = PACK_ONE,
                                            .fraction_bits = 12 }));
    CHECK_OK(ahe_params_init(&p, s, &pk, NULL, UNITS * N));
    uint8_t *want = malloc(p.unit_bytes);
    prg g;
    assert_non_null(want);
    prg_init(&g, seed, "pad");
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        uint8_t *got = pad_of(&p, starts[i]);
        for (size_t u = 0; u < UNITS; u++) {
            prg_read(&g, want, p.unit_bytes, starts[i] + u, 0);
            assert_memory_equal(got + u * p.unit_bytes, want, p.unit_bytes);
        }
        free(got);
    }
    prg_clear(&g);
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(streams_begin_at_the_context) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

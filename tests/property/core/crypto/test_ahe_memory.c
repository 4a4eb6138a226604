/* 950,000 values (with SEFL_SOAK 14,000,000) streamed through an upload of either scheme: the memory
 * of the process does not grow with the vector. */
#include "support/check.h"

#include "base/alloc.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/paillier.h"

#include <string.h>
#include <sys/resource.h>

enum { BITS = 2048, CHUNK_VALUES = 1 << 17 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMIT_KIB = 64 * 1024 }; /* sanitizers keep freed memory, and shadow memory */
#else
enum { LIMIT_KIB = 4 * 1024 }; /* a vector of 950,000 values has 7.6 MB */
#endif

static paillier_sec *sec;

static int make(void **state)
{
    seeded gen;
    (void)state;
    test_seed(&gen, "ahe memory");
    sefl_rng rng = seeded_rng(&gen);
    CHECK_OK(paillier_keygen_vartime(&sec, BITS, &rng, NULL));
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    paillier_sec_free(sec);
    return 0;
}

static long peak_kib(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return r.ru_maxrss;
}

static void stream(const char *name)
{
    static const uint8_t context[AHE_CONTEXT_BYTES];
    const ahe_pub *pub = paillier_sec_pub(sec);
    const size_t count = test_count(950000, 14000000);
    const ahe_scheme *scheme;
    pack packing;
    ahe_params p;
    ahe_enc *enc;
    ahe_upload *u;
    int64_t *values;
    uint8_t *out;
    seeded gen;
    test_seed(&gen, name);
    sefl_rng rng = seeded_rng(&gen);
    CHECK_OK(ahe_scheme_find(&scheme, name));
    pack_config c = { .scheme = scheme == &ahe_pad ? PACK_PAD : PACK_PAILLIER,
                      .clients = 10000,
                      .dimension = count,
                      .clip = PACK_ONE,
                      .noise = PACK_ONE / 2 };
    CHECK_OK(pack_init(&packing, &c));
    CHECK_OK(ahe_params_init(&p, scheme, &packing, pub, count));
    CHECK_OK(ahe_enc_new(&enc, pub, &p, NULL, NULL)); /* tables: by the key, not by the vector */
    size_t step = CHUNK_VALUES / p.unit_values;
    CHECK_OK(sefl_new(&values, step * p.unit_values, sizeof *values));
    CHECK_OK(sefl_new(&out, step * p.unit_bytes, 1));
    memset(values, 0, step * p.unit_values * sizeof *values);
    memset(out, 1, step * p.unit_bytes);
    long before = peak_kib();
    CHECK_OK(ahe_upload_new(&u, &p, enc, context, &rng));
    for (size_t at = 0; at < p.units; at += step)
        CHECK_OK(ahe_upload_units(&p, u, out, values, p.units - at < step ? p.units - at : step,
                                  NULL, NULL));
    CHECK_STATUS(ahe_upload_units(&p, u, out, values, 1, NULL, NULL), SEFL_ESTATE);
    long grown = peak_kib() - before;
    printf("%s: %zu values, the peak grew by %ld KiB\n", name, count, grown);
    assert_true(grown < LIMIT_KIB);
    ahe_upload_free(&p, u);
    ahe_enc_free(&p, enc);
    sefl_free(values);
    sefl_free(out);
}

/* pad first: its peak is the lower one. */
static void pad(void **state)
{
    (void)state;
    stream("pad");
}

static void paillier(void **state)
{
    (void)state;
    stream("paillier");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(pad), cmocka_unit_test(paillier) };
    return cmocka_run_group_tests(tests, make, unmake);
}

/* Both schemes through the one interface, with packings as a task derives them: exact sums of
 * extreme and random values for the maximum number of clients, for any number of threads; and the
 * misuse that ahe.c refuses, with real objects. The caller's code is the same for both. */
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/paillier.h"

#include "base/alloc.h"
#include "support/check.h"

#include <string.h>

enum { CLIENTS = 4, VALUES = 2500 };

static paillier_sec *sec;
static seeded gen;
static sefl_rng rng;

static int make(void **state)
{
    (void)state;
    test_seed(&gen, "ahe schemes");
    rng = seeded_rng(&gen);
    CHECK_OK(paillier_keygen_vartime(&sec, 2048, &rng, NULL));
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    paillier_sec_free(sec);
    return 0;
}

static const ahe_scheme *const schemes[] = {
    [PACK_PAILLIER] = &ahe_paillier, [PACK_PAD] = &ahe_pad
};

static void params(ahe_params *p, pack_scheme which, const char *noise)
{
    pack packing;
    pack_config c = { .scheme = which, .clients = CLIENTS, .dimension = VALUES, .clip = PACK_ONE };
    CHECK_OK(pack_decimal(&c.noise, noise));
    CHECK_OK(pack_init(&packing, &c));
    CHECK_OK(ahe_params_init(p, schemes[which], &packing, paillier_sec_pub(sec), VALUES));
}

/* Fills v with the extremes of both signs, then random values in range. */
static void draw(const ahe_params *p, int64_t *v)
{
    int64_t max = p->pack.value_max;
    for (size_t i = 0; i < VALUES; i++)
        v[i] = i < 600    ? max
               : i < 1200 ? -max
                          : (int64_t)seeded_below(&gen, 2 * (uint64_t)max + 1) - max;
}

/* Three processes make the same sum together; one of them has no client. masked: what one process
 * writes. */
static void parts_equal(const ahe_params *p, ahe_sum *part[3], const uint8_t *masked,
                        const uint8_t seed[AHE_SEED_BYTES], pool *workers)
{
    const ahe_pub *pub = paillier_sec_pub(sec);
    const size_t n = ahe_body_bytes(p);
    uint8_t *all = NULL, *more = NULL;
    ahe_sum *sum = NULL;
    CHECK_OK(sefl_new(&all, n, 1));
    CHECK_OK(sefl_new(&more, n, 1));
    CHECK_OK(ahe_sum_write_partial(p, part[0], all, workers));
    CHECK_STATUS(ahe_sum_begin(p, part[0]), SEFL_ESTATE); /* closed */
    for (int i = 1; i < 3; i++) {
        CHECK_OK(ahe_sum_write_partial(p, part[i], more, workers));
        ahe_units_add(p, pub, all, more, p->units - 1);
        const size_t last = (p->units - 1) * p->unit_bytes;
        ahe_units_add(p, pub, all + last, more + last, 1);
    }
    CHECK_OK(ahe_sum_new(&sum, p, pub));
    CHECK_STATUS(ahe_sum_add_partial(p, sum, all, 0, workers), SEFL_ERANGE);
    CHECK_STATUS(ahe_sum_add_partial(p, sum, all, CLIENTS + 1, workers), SEFL_ERANGE);
    CHECK_OK(ahe_sum_add_partial(p, sum, all, CLIENTS, workers));
    CHECK_STATUS(ahe_sum_begin(p, sum), SEFL_ERANGE);
    CHECK_OK(ahe_sum_close(p, sum));
    CHECK_OK(ahe_sum_write_units(p, sum, all, 0, p->units, seed, workers));
    assert_memory_equal(all, masked, n);
    for (int i = 0; i < 3; i++)
        ahe_sum_free(p, part[i]);
    ahe_sum_free(p, sum);
    sefl_free(all), sefl_free(more);
}

static void sum_is_exact(pack_scheme which, const char *noise, unsigned threads)
{
    uint8_t context[AHE_CONTEXT_BYTES] = { 9 };
    ahe_seed seeds[CLIENTS + 1] = { 0 };
    uint8_t seed[AHE_SEED_BYTES], *body = NULL, *masked = NULL, *plain = NULL, *mask = NULL;
    int64_t *v = NULL, *want = NULL, *got = NULL;
    ahe_params p;
    ahe_enc *enc = NULL;
    ahe_sum *sum = NULL, *part[3];
    ahe_dec *dec = NULL;
    pool *workers = NULL;
    const ahe_pub *pub = paillier_sec_pub(sec);

    params(&p, which, noise);
    CHECK_OK(pool_new(&workers, threads));
    size_t padded = p.units * p.unit_values;
    CHECK_OK(sefl_new(&v, padded, sizeof *v));
    CHECK_OK(sefl_new(&want, padded, sizeof *want));
    CHECK_OK(sefl_new(&got, padded, sizeof *got));
    CHECK_OK(sefl_new(&body, ahe_body_bytes(&p), 1));
    CHECK_OK(sefl_new(&masked, ahe_body_bytes(&p), 1));
    CHECK_OK(sefl_new(&plain, p.units, p.plain_bytes));
    CHECK_OK(sefl_new(&mask, p.units, p.plain_bytes));
    CHECK_OK(ahe_enc_new(&enc, pub, &p, workers, NULL));
    CHECK_OK(ahe_sum_new(&sum, &p, pub));
    for (int i = 0; i < 3; i++)
        CHECK_OK(ahe_sum_new(&part[i], &p, pub));
    for (int c = 0; c < CLIENTS; c++) {
        ahe_upload *up = NULL;
        draw(&p, v);
        for (size_t i = 0; i < VALUES; i++)
            want[i] += v[i];
        context[1] = p.scheme == &ahe_pad ? (uint8_t)c : 0; /* a client's own, or the round's */
        CHECK_OK(ahe_upload_new(&up, &p, enc, context, &rng));
        if (p.scheme == &ahe_pad)
            ahe_upload_seed(&p, up, &seeds[c]);
        uint8_t *units = body;
        want[VALUES - 1] -= v[VALUES - 1];
        v[VALUES - 1] = p.pack.value_max + 1;
        CHECK_STATUS(ahe_upload_units(&p, up, units, v, p.units, workers, NULL), SEFL_ERANGE);
        v[VALUES - 1] = 0;
        CHECK_OK(ahe_upload_units(&p, up, units, v, p.units, workers, NULL));
        CHECK_STATUS(ahe_upload_units(&p, up, units, v, 1, workers, NULL), SEFL_ESTATE);
        ahe_upload_free(&p, up);
        CHECK_OK(ahe_sum_check_units(&p, sum, units, p.units));
        CHECK_OK(ahe_sum_begin(&p, sum));
        CHECK_STATUS(ahe_sum_begin(&p, sum), SEFL_ESTATE);
        CHECK_OK(ahe_sum_add_units(&p, sum, 0, units, p.units, workers));
        CHECK_STATUS(ahe_sum_add_units(&p, sum, 0, units, 1, workers), SEFL_ESTATE);
        CHECK_OK(ahe_sum_begin(&p, part[c % 2]));
        CHECK_OK(ahe_sum_add_units(&p, part[c % 2], 0, units, p.units, workers));
    }
    CHECK_STATUS(ahe_sum_begin(&p, sum), SEFL_ERANGE); /* one client too many */
    uint8_t *units = masked;
    CHECK_OK(rng_fill(&rng, seed, sizeof seed));
    CHECK_STATUS(ahe_sum_write_units(&p, sum, units, 0, p.units, seed, workers), SEFL_ESTATE);
    CHECK_OK(ahe_sum_close(&p, sum));
    CHECK_OK(ahe_sum_write_units(&p, sum, units, 0, p.units, seed, workers));
    parts_equal(&p, part, masked, seed, workers);

    CHECK_OK(ahe_dec_new(&dec, &p, sec, context));
    if (p.scheme == &ahe_pad) {
        CHECK_STATUS(ahe_dec_units(&p, dec, plain, 0, units, 1, workers, NULL), SEFL_ESTATE);
        CHECK_OK(ahe_dec_add(&p, dec, seeds, 1, workers)); /* in any pieces, in any order */
        CHECK_STATUS(ahe_dec_add(&p, dec, seeds, CLIENTS, workers), SEFL_ERANGE);
        CHECK_OK(ahe_dec_add(&p, dec, seeds + 1, CLIENTS - 1, workers));
    }
    CHECK_OK(ahe_dec_units(&p, dec, plain, 0, units, p.units, workers, NULL));
    CHECK_STATUS(ahe_dec_add(&p, dec, seeds, 0, workers),
                 p.scheme == &ahe_pad ? SEFL_ESTATE : SEFL_EINVAL);
    CHECK_OK(ahe_mask_units(&p, mask, 0, p.units, seed));
    ahe_plain_unmask(&p, got, plain, mask, p.units);
    for (size_t i = 0; i < padded; i++)
        if (got[i] != want[i])
            fail_msg("%s, z = %s: value %zu is %lld, not %lld", p.scheme->name, noise, i,
                     (long long)got[i], (long long)want[i]);
    ahe_dec_free(&p, dec);
    ahe_sum_free(&p, sum);
    ahe_enc_free(&p, enc);
    pool_free(workers);
    sefl_free(v), sefl_free(want), sefl_free(got);
    sefl_free(body), sefl_free(masked), sefl_free(plain), sefl_free(mask);
}

static void test_sums(void **state)
{
    (void)state;
    for (pack_scheme s = PACK_PAILLIER; s <= PACK_PAD; s++)
        for (unsigned threads = 1; threads <= 2; threads++) {
            sum_is_exact(s, "1", threads);
            sum_is_exact(s, "0", threads);
        }
    sum_is_exact(PACK_PAILLIER, "4", 1);
}

/* Adding and then subtracting leaves no trace: sums of rows at AS and of pads at CSP, for any
 * subset, open or closed, with one thread or two. */
static void take_leaves_no_trace(unsigned threads, bool closed)
{
    enum { ALL = CLIENTS };
    uint8_t context[AHE_CONTEXT_BYTES] = { 3 }, mask[AHE_SEED_BYTES] = { 5 };
    uint8_t *body[ALL], *out[2], *plain[2];
    ahe_seed seeds[ALL];
    ahe_params p;
    ahe_enc *enc = NULL;
    pool *workers = NULL;
    int64_t v[VALUES];
    params(&p, PACK_PAD, "1");
    CHECK_OK(pool_new(&workers, threads));
    CHECK_OK(ahe_enc_new(&enc, NULL, &p, NULL, NULL));
    for (int c = 0; c < ALL; c++) {
        ahe_upload *up = NULL;
        draw(&p, v);
        context[1] = (uint8_t)c;
        CHECK_OK(sefl_new(&body[c], p.units, p.unit_bytes));
        CHECK_OK(ahe_upload_new(&up, &p, enc, context, &rng));
        ahe_upload_seed(&p, up, &seeds[c]);
        CHECK_OK(ahe_upload_units(&p, up, body[c], v, p.units, NULL, NULL));
        ahe_upload_free(&p, up);
    }
    for (unsigned keep = 1; keep < 1u << ALL; keep++) {
        for (int with = 0; with < 2; with++) { /* 1: all are added, some subtracted */
            ahe_sum *sum = NULL;
            ahe_dec *dec = NULL;
            CHECK_OK(sefl_new(&out[with], p.units, p.unit_bytes));
            CHECK_OK(sefl_new(&plain[with], p.units, p.plain_bytes));
            CHECK_OK(ahe_sum_new(&sum, &p, NULL));
            CHECK_OK(ahe_dec_new(&dec, &p, NULL, context));
            for (int c = 0; c < ALL; c++)
                if (with || keep >> c & 1) {
                    CHECK_OK(ahe_sum_begin(&p, sum));
                    CHECK_OK(ahe_sum_add_units(&p, sum, 0, body[c], p.units, workers));
                    CHECK_OK(ahe_dec_add(&p, dec, &seeds[c], 1, workers));
                }
            if (closed)
                CHECK_OK(ahe_sum_close(&p, sum));
            for (int c = 0; c < ALL && with; c++)
                if (!(keep >> c & 1)) {
                    CHECK_STATUS(ahe_sum_take(&p, sum, 1, body[c], 1, workers), SEFL_ESTATE);
                    CHECK_OK(ahe_sum_take(&p, sum, 0, body[c], 1, workers));
                    CHECK_STATUS(closed ? ahe_sum_write_units(&p, sum, out[1], 0, 1, mask, NULL)
                                        : ahe_sum_begin(&p, sum),
                                 SEFL_ESTATE); /* half of it is still in the sum */
                    if (p.units > 1)
                        CHECK_OK(
                            ahe_sum_take(&p, sum, 1, body[c] + p.unit_bytes, p.units - 1, workers));
                    CHECK_OK(ahe_dec_take(&p, dec, &seeds[c], 1, workers));
                }
            if (!closed)
                CHECK_OK(ahe_sum_close(&p, sum));
            CHECK_OK(ahe_sum_write_units(&p, sum, out[with], 0, p.units, mask, workers));
            CHECK_OK(ahe_dec_units(&p, dec, plain[with], 0, out[with], p.units, workers, NULL));
            CHECK_STATUS(ahe_dec_take(&p, dec, seeds, 1, workers), SEFL_ESTATE);
            ahe_sum_free(&p, sum);
            ahe_dec_free(&p, dec);
        }
        assert_memory_equal(out[0], out[1], p.units * p.unit_bytes);
        assert_memory_equal(plain[0], plain[1], p.units * p.plain_bytes);
        for (int i = 0; i < 2; i++)
            sefl_free(out[i]), sefl_free(plain[i]);
    }
    for (int c = 0; c < ALL; c++)
        sefl_free(body[c]);
    ahe_enc_free(&p, enc);
    pool_free(workers);
}

static void test_take(void **state)
{
    ahe_params p;
    ahe_sum *sum = NULL;
    ahe_dec *dec = NULL;
    uint8_t byte = 0, context[AHE_CONTEXT_BYTES] = { 0 };
    ahe_seed seed = { 0 };
    (void)state;
    for (unsigned threads = 1; threads <= 2; threads++)
        for (int closed = 0; closed < 2; closed++)
            take_leaves_no_trace(threads, closed);
    params(&p, PACK_PAD, "1");
    CHECK_OK(ahe_sum_new(&sum, &p, NULL));
    CHECK_STATUS(ahe_sum_take(&p, sum, 0, &byte, 1, NULL), SEFL_ESTATE); /* it is empty */
    ahe_sum_free(&p, sum);
    CHECK_OK(ahe_dec_new(&dec, &p, NULL, context));
    CHECK_STATUS(ahe_dec_take(&p, dec, &seed, 1, NULL), SEFL_ERANGE);
    ahe_dec_free(&p, dec);
    params(&p, PACK_PAILLIER, "1");
    CHECK_OK(ahe_sum_new(&sum, &p, paillier_sec_pub(sec)));
    CHECK_STATUS(ahe_sum_take(&p, sum, 0, &byte, 1, NULL), SEFL_EUNSUPPORTED);
    ahe_sum_free(&p, sum);
}

static void test_find(void **state)
{
    const ahe_scheme *s = &ahe_pad;
    (void)state;
    CHECK_OK(ahe_scheme_find(&s, "paillier"));
    assert_ptr_equal(s, &ahe_paillier);
    CHECK_STATUS(ahe_scheme_find(&s, "rsa"), SEFL_EINVAL);
    assert_null(s);
    assert_non_null(strstr(sefl_last_error(), "pad or paillier"));
}

/* A packing belongs to its scheme, and every packing has enough mask headroom. */
static void test_packs(void **state)
{
    const ahe_pub *pub = paillier_sec_pub(sec);
    ahe_params a, b, p;
    (void)state;
    for (int noise = 0; noise < 2; noise++) {
        params(&a, PACK_PAILLIER, noise ? "1" : "0");
        params(&b, PACK_PAD, noise ? "1" : "0");
        CHECK_STATUS(ahe_params_init(&p, &ahe_pad, &a.pack, pub, VALUES), SEFL_EINVAL);
        CHECK_STATUS(ahe_params_init(&p, &ahe_paillier, &b.pack, pub, VALUES), SEFL_EINVAL);
        assert_non_null(strstr(sefl_last_error(), "for another scheme"));
        pack thin = a.pack;
        thin.s = 79;
        CHECK_STATUS(ahe_params_init(&p, &ahe_paillier, &thin, pub, VALUES), SEFL_EINVAL);
        thin = a.pack, thin.g = 15;
        CHECK_STATUS(ahe_params_init(&p, &ahe_paillier, &thin, pub, VALUES),
                     noise ? SEFL_EINVAL : SEFL_OK);
        thin = b.pack, thin.scheme = PACK_PAILLIER; /* as if it had no name: no mask at all */
        CHECK_STATUS(ahe_params_init(&p, &ahe_paillier, &thin, pub, VALUES), SEFL_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_find), cmocka_unit_test(test_sums),
                                        cmocka_unit_test(test_take), cmocka_unit_test(test_packs) };
    return cmocka_run_group_tests(tests, make, unmake);
}

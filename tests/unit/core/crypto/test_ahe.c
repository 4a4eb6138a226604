/* The guarantees of ahe.c for every scheme, tested with a toy scheme that encrypts nothing:
 * order, counts, ranges, and that no call succeeds after a failure. A value is 8 bytes, a unit 3
 * values. */
#include "crypto/ahe/ahe.h"

#include "base/alloc.h"
#include "support/check.h"

#include <string.h>

enum { UNIT = 3, VALUES = 200, UNITS = 67, CLIENTS = 3, MAX = 1000 };

/* ---- the toy scheme -------------------------------------------------------------------------- */

typedef struct toy_sum {
    ahe_sum head;
    int64_t *v;
} toy_sum;

static bool broken;    /* the next call that does work fails */
static unsigned calls; /* of scheme functions that do work */

static sefl_status work(void)
{
    calls++;
    return broken ? sefl_fail(SEFL_ECRYPTO, "toy: broken") : SEFL_OK;
}

static sefl_status toy_params(ahe_params *p, const ahe_pub *pub)
{
    (void)pub;
    p->unit_values = p->pack.w > 40 ? 0 : UNIT;
    p->unit_bytes = p->plain_bytes = 8 * UNIT;
    return work();
}
static sefl_status toy_enc_init(ahe_enc *e, const ahe_pub *pub, pool *pl,
                                const sefl_progress *progress)
{
    (void)e, (void)pub, (void)pl, (void)progress;
    return work();
}
static sefl_status toy_upload_init(ahe_upload *u, const ahe_enc *e, const uint8_t *context,
                                   const sefl_rng *rng)
{
    (void)u, (void)e, (void)context;
    uint8_t coins[16];
    return rng_fill(rng, coins, sizeof coins);
}
static sefl_status toy_upload_units(ahe_upload *u, uint8_t *out, const int64_t *values,
                                    size_t units, pool *pl, const sefl_progress *progress)
{
    (void)pl, (void)progress;
    for (size_t i = 0; i < units * UNIT; i++) {
        size_t at = u->next * UNIT + i;
        store_u64(out + 8 * i, at < u->p->values ? (uint64_t)values[i] : 0);
    }
    assert_true(u->next + units <= u->p->units);
    return work();
}
static sefl_status toy_sum_init(ahe_sum *s, const ahe_pub *pub)
{
    (void)pub;
    SEFL_PASS(work());
    return sefl_new(&((toy_sum *)s)->v, s->p->units * UNIT, sizeof(int64_t));
}
static sefl_status toy_check_units(const ahe_sum *s, const uint8_t *bytes, size_t units)
{
    (void)s, (void)bytes, (void)units;
    return work();
}
static sefl_status toy_add_units(ahe_sum *s, size_t first, const uint8_t *bytes, size_t units,
                                 pool *pl)
{
    (void)pl;
    for (size_t i = 0; i < units * UNIT; i++)
        ((toy_sum *)s)->v[first * UNIT + i] += (int64_t)load_u64(bytes + 8 * i);
    return work();
}
static sefl_status toy_sum_close(ahe_sum *s)
{
    (void)s;
    return work();
}
static sefl_status toy_mask(const ahe_params *p, uint8_t *plain, size_t first, size_t units,
                            const uint8_t *seed)
{
    (void)p;
    for (size_t i = 0; i < units * UNIT; i++)
        store_u64(plain + 8 * i, load_u64(seed) * (first * UNIT + i + 1));
    return work();
}
static sefl_status toy_write_units(ahe_sum *s, uint8_t *out, size_t first, size_t units,
                                   const uint8_t *seed, pool *pl)
{
    (void)pl;
    sefl_status st = toy_mask(s->p, out, first, units, seed);
    for (size_t i = 0; i < units * UNIT; i++)
        store_u64(out + 8 * i,
                  load_u64(out + 8 * i) + (uint64_t)((toy_sum *)s)->v[first * UNIT + i]);
    return st;
}
static void toy_sum_clear(ahe_sum *s)
{
    sefl_free(((toy_sum *)s)->v);
}
static sefl_status toy_dec_init(ahe_dec *d, const ahe_sec *sec, const uint8_t *context)
{
    (void)d, (void)sec, (void)context;
    return SEFL_OK;
}
static sefl_status toy_dec_units(ahe_dec *d, uint8_t *plain, size_t first, const uint8_t *bytes,
                                 size_t units, pool *pl, const sefl_progress *progress)
{
    (void)first, (void)pl, (void)progress;
    memcpy(plain, bytes, units * d->p->plain_bytes);
    return work();
}
static void toy_unmask(const ahe_params *p, int64_t *values, const uint8_t *masked,
                       const uint8_t *mask, size_t units)
{
    (void)p;
    for (size_t i = 0; i < units * UNIT; i++)
        values[i] = (int64_t)(load_u64(masked + 8 * i) - load_u64(mask + 8 * i));
}

static const ahe_scheme toy = {
    .name = "toy",
    .params = toy_params,
    .enc_bytes = sizeof(ahe_enc),
    .upload_bytes = sizeof(ahe_upload),
    .sum_bytes = sizeof(toy_sum),
    .dec_bytes = sizeof(ahe_dec),
    .enc_init = toy_enc_init,
    .upload_init = toy_upload_init,
    .upload_units = toy_upload_units,
    .sum_init = toy_sum_init,
    .sum_check_units = toy_check_units,
    .sum_add_units = toy_add_units,
    .sum_close = toy_sum_close,
    .sum_write_units = toy_write_units,
    .sum_clear = toy_sum_clear,
    .dec_init = toy_dec_init,
    .dec_units = toy_dec_units,
    .mask_units = toy_mask,
    .plain_unmask = toy_unmask,
};

/* ---- a task and its objects ------------------------------------------------------------------ */

static const uint8_t context[AHE_CONTEXT_BYTES] = { 1 }, seed[AHE_SEED_BYTES] = { 77, 3 };
static const pack packing = { .k = 13, .w = 13, .clients = CLIENTS, .value_max = MAX };

typedef struct fixture {
    ahe_params p;
    ahe_enc *enc;
    ahe_upload *up;
    ahe_sum *sum;
    ahe_dec *dec;
    int64_t values[UNITS * UNIT];
    uint8_t body[8 * UNIT * UNITS];
    seeded gen;
} fixture;

static sefl_status begin(fixture *f)
{
    sefl_status st = SEFL_OK;
    memset(f, 0, sizeof *f);
    seeded_init(&f->gen, 1, "ahe");
    sefl_rng rng = seeded_rng(&f->gen);
    SEFL_TRY(ahe_params_init(&f->p, &toy, &packing, NULL, VALUES));
    for (size_t i = 0; i < VALUES; i++)
        f->values[i] = (int64_t)(i * 10) % (2 * MAX + 1) - MAX;
    for (size_t i = VALUES; i < UNITS * UNIT; i++)
        f->values[i] = INT64_MAX; /* beyond the vector: not read */
    SEFL_TRY(ahe_enc_new(&f->enc, NULL, &f->p, NULL, NULL));
    SEFL_TRY(ahe_upload_new(&f->up, &f->p, f->enc, context, &rng));
    SEFL_TRY(ahe_sum_new(&f->sum, &f->p, NULL));
    SEFL_TRY(ahe_dec_new(&f->dec, &f->p, NULL, context));
done:
    return st;
}

static void end(fixture *f)
{
    ahe_dec_free(&f->p, f->dec);
    ahe_sum_free(&f->p, f->sum);
    ahe_upload_free(&f->p, f->up);
    ahe_enc_free(&f->p, f->enc);
    memset(f, 0, sizeof *f);
}

static void encrypt(fixture *f)
{
    CHECK_OK(ahe_upload_units(&f->p, f->up, f->body, f->values, UNITS, NULL, NULL));
}

static sefl_status add(fixture *f)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(ahe_sum_begin(&f->p, f->sum));
    SEFL_TRY(ahe_sum_add_units(&f->p, f->sum, 0, f->body, UNITS, NULL));
done:
    return st;
}

static int reset(void **state)
{
    (void)state;
    broken = false;
    calls = 0;
    return 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_params(void **state)
{
    ahe_params p;
    pack wrong = packing;
    (void)state;
    CHECK_OK(ahe_params_init(&p, &toy, &packing, NULL, VALUES));
    assert_int_equal(p.units, UNITS);
    assert_int_equal(ahe_body_bytes(&p), UNITS * 24);
    assert_int_equal(ahe_body_bytes(&p), UNITS * 24);
    CHECK_OK(ahe_params_init(&p, &toy, &packing, NULL, 3));
    assert_int_equal(p.units, 1);
    CHECK_OK(ahe_params_init(&p, &toy, &packing, NULL, 4));
    assert_int_equal(p.units, 2);
    CHECK_STATUS(ahe_params_init(&p, &toy, &packing, NULL, 0), SEFL_EINVAL);
    CHECK_STATUS(ahe_params_init(&p, &toy, &packing, NULL, SIZE_MAX), SEFL_EINVAL);
    CHECK_OK(ahe_params_init(&p, &toy, &packing, NULL, (size_t)1 << 32));
    CHECK_STATUS(ahe_params_init(&p, &toy, &packing, NULL, ((size_t)1 << 32) + 1), SEFL_EINVAL);
    wrong.value_max = 2000; /* 3 * 2000 >= 2^12 */
    CHECK_STATUS(ahe_params_init(&p, &toy, &wrong, NULL, VALUES), SEFL_ERANGE);
    wrong = packing, wrong.k = wrong.w = 41; /* the toy's plaintexts have no room for such a slot */
    CHECK_STATUS(ahe_params_init(&p, &toy, &wrong, NULL, VALUES), SEFL_EINVAL);
    broken = true;
    CHECK_STATUS(ahe_params_init(&p, &toy, &packing, NULL, VALUES), SEFL_ECRYPTO);
    assert_null(p.scheme);
}

static void test_round_trip(void **state)
{
    fixture f;
    static uint8_t sum[8 * UNIT * UNITS], plain[8 * UNIT * UNITS], mask[8 * UNIT * UNITS];
    int64_t got[UNITS * UNIT];
    (void)state;
    CHECK_OK(begin(&f));
    encrypt(&f);
    CHECK_OK(ahe_sum_check_units(&f.p, f.sum, f.body, UNITS));
    CHECK_OK(add(&f));
    CHECK_OK(add(&f));
    CHECK_OK(ahe_sum_close(&f.p, f.sum));
    for (size_t i = 0; i < UNITS; i += 10) {
        size_t n = UNITS - i < 10 ? UNITS - i : 10;
        CHECK_OK(ahe_sum_write_units(&f.p, f.sum, sum + 24 * i, i, n, seed, NULL));
    }
    CHECK_OK(ahe_dec_units(&f.p, f.dec, plain, 0, sum, UNITS, NULL, NULL));
    CHECK_OK(ahe_mask_units(&f.p, mask, 0, UNITS, seed));
    ahe_plain_unmask(&f.p, got, plain, mask, UNITS);
    for (size_t i = 0; i < UNITS * UNIT; i++)
        assert_int_equal(got[i], i < VALUES ? 2 * f.values[i] : 0);
    end(&f);
}

static void test_upload_order(void **state)
{
    fixture f;
    (void)state;
    CHECK_OK(begin(&f));
    CHECK_STATUS(ahe_upload_units(&f.p, f.up, f.body, f.values, 0, NULL, NULL), SEFL_EINVAL);
    CHECK_STATUS(ahe_upload_units(&f.p, f.up, f.body, f.values, UNITS + 1, NULL, NULL),
                 SEFL_ESTATE);
    CHECK_STATUS(ahe_upload_units(&f.p, f.up, f.body, f.values, SIZE_MAX, NULL, NULL), SEFL_ESTATE);
    CHECK_OK(ahe_upload_units(&f.p, f.up, f.body, f.values, UNITS - 1, NULL, NULL));
    CHECK_STATUS(ahe_upload_units(&f.p, f.up, f.body, f.values, 2, NULL, NULL), SEFL_ESTATE);
    CHECK_OK(ahe_upload_units(&f.p, f.up, f.body, f.values + (UNITS - 1) * UNIT, 1, NULL, NULL));
    CHECK_STATUS(ahe_upload_units(&f.p, f.up, f.body, f.values, 1, NULL, NULL), SEFL_ESTATE);
    end(&f);
}

static void test_upload_range(void **state)
{
    fixture f;
    (void)state;
    CHECK_OK(begin(&f));
    calls = 0;
    f.values[17] = MAX + 1;
    CHECK_STATUS(ahe_upload_units(&f.p, f.up, f.body, f.values, UNITS, NULL, NULL), SEFL_ERANGE);
    assert_non_null(strstr(sefl_last_error(), "value 17 "));
    assert_int_equal(calls, 0); /* nothing was encrypted and no coin used: */
    f.values[17] = -MAX;
    CHECK_OK(ahe_upload_units(&f.p, f.up, f.body, f.values, 6, NULL, NULL));
    f.values[19] = INT64_MIN; /* index counts from the start of the vector, not of the call */
    CHECK_STATUS(ahe_upload_units(&f.p, f.up, f.body, f.values + 18, UNITS - 6, NULL, NULL),
                 SEFL_ERANGE);
    assert_non_null(strstr(sefl_last_error(), "value 19 "));
    end(&f);
}

static void test_upload_is_spent(void **state)
{
    fixture f;
    (void)state;
    CHECK_OK(begin(&f));
    broken = true;
    CHECK_STATUS(ahe_upload_units(&f.p, f.up, f.body, f.values, 1, NULL, NULL), SEFL_ECRYPTO);
    broken = false;
    CHECK_STATUS(ahe_upload_units(&f.p, f.up, f.body, f.values, 1, NULL, NULL), SEFL_ESTATE);
    end(&f);
}

static void test_sum_order(void **state)
{
    fixture f;
    (void)state;
    CHECK_OK(begin(&f));
    encrypt(&f);
    uint8_t *units = f.body, out[24];
    CHECK_STATUS(ahe_sum_close(&f.p, f.sum), SEFL_ESTATE); /* it is empty */
    CHECK_STATUS(ahe_sum_add_units(&f.p, f.sum, 0, units, 1, NULL), SEFL_ESTATE);
    CHECK_STATUS(ahe_sum_write_units(&f.p, f.sum, out, 0, 1, seed, NULL), SEFL_ESTATE);

    CHECK_OK(ahe_sum_begin(&f.p, f.sum));
    CHECK_STATUS(ahe_sum_begin(&f.p, f.sum), SEFL_ESTATE);                  /* no units yet */
    CHECK_OK(ahe_sum_add_units(&f.p, f.sum, 60, units + 24 * 60, 7, NULL)); /* any order */
    CHECK_STATUS(ahe_sum_add_units(&f.p, f.sum, 66, units + 24 * 66, 1, NULL), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "unit 66 of update 1"));
    CHECK_STATUS(ahe_sum_add_units(&f.p, f.sum, 50, units + 24 * 50, 11, NULL), SEFL_ESTATE);
    CHECK_STATUS(ahe_sum_add_units(&f.p, f.sum, 0, units, UNITS + 1, NULL), SEFL_ERANGE);
    CHECK_STATUS(ahe_sum_add_units(&f.p, f.sum, UNITS, units, 1, NULL), SEFL_ERANGE);
    CHECK_STATUS(ahe_sum_add_units(&f.p, f.sum, SIZE_MAX, units, 2, NULL), SEFL_ERANGE);
    CHECK_STATUS(ahe_sum_add_units(&f.p, f.sum, 0, units, 0, NULL), SEFL_ERANGE);
    CHECK_OK(ahe_sum_add_units(&f.p, f.sum, 0, units, 59, NULL));
    CHECK_STATUS(ahe_sum_close(&f.p, f.sum), SEFL_ESTATE); /* unit 59 is missing */
    assert_non_null(strstr(sefl_last_error(), "66 of its 67 units"));
    CHECK_STATUS(ahe_sum_begin(&f.p, f.sum), SEFL_ESTATE);
    CHECK_OK(ahe_sum_add_units(&f.p, f.sum, 59, units + 24 * 59, 1, NULL));
    CHECK_OK(add(&f));
    CHECK_OK(ahe_sum_close(&f.p, f.sum));
    CHECK_STATUS(ahe_sum_close(&f.p, f.sum), SEFL_ESTATE);
    CHECK_STATUS(ahe_sum_begin(&f.p, f.sum), SEFL_ESTATE);
    CHECK_STATUS(ahe_sum_add_units(&f.p, f.sum, 0, units, 1, NULL), SEFL_ESTATE);
    CHECK_STATUS(ahe_sum_write_units(&f.p, f.sum, out, UNITS, 1, seed, NULL), SEFL_ERANGE);
    CHECK_OK(ahe_sum_write_units(&f.p, f.sum, out, UNITS - 1, 1, seed, NULL));
    CHECK_STATUS(ahe_sum_check_units(&f.p, f.sum, units, UNITS + 1), SEFL_ERANGE);
    end(&f);
}

/* Whole bodies at once: the same sum, the same order of calls, the same limit. */
static void test_bodies(void **state)
{
    fixture f;
    static uint8_t one[24 * UNITS], all[24 * UNITS];
    (void)state;
    for (int together = 0; together < 2; together++) {
        CHECK_OK(begin(&f));
        encrypt(&f);
        const uint8_t *bodies[CLIENTS + 1] = { f.body, f.body, f.body };
        if (together) {
            CHECK_STATUS(ahe_sum_add_bodies(&f.p, f.sum, bodies, CLIENTS + 1, NULL), SEFL_ERANGE);
            CHECK_OK(ahe_sum_add_bodies(&f.p, f.sum, bodies, 0, NULL)); /* none: nothing happens */
            CHECK_STATUS(ahe_sum_close(&f.p, f.sum), SEFL_ESTATE);
            CHECK_OK(ahe_sum_add_bodies(&f.p, f.sum, bodies, CLIENTS - 1, NULL));
            /* units of an update that was not started */
            CHECK_STATUS(ahe_sum_add_units(&f.p, f.sum, 0, f.body, 1, NULL), SEFL_ESTATE);
            CHECK_STATUS(ahe_sum_add_bodies(&f.p, f.sum, bodies, 2, NULL), SEFL_ERANGE);
            CHECK_OK(add(&f)); /* either way after the other */
            CHECK_STATUS(ahe_sum_add_bodies(&f.p, f.sum, bodies, 1, NULL), SEFL_ERANGE);
        } else {
            for (int i = 0; i < CLIENTS; i++)
                CHECK_OK(add(&f));
        }
        CHECK_OK(ahe_sum_close(&f.p, f.sum));
        CHECK_STATUS(ahe_sum_add_bodies(&f.p, f.sum, bodies, 1, NULL), SEFL_ESTATE);
        CHECK_OK(ahe_sum_write_units(&f.p, f.sum, together ? all : one, 0, UNITS, seed, NULL));
        end(&f);
    }
    assert_memory_equal(one, all, sizeof one);

    CHECK_OK(begin(&f));
    encrypt(&f);
    const uint8_t *body = f.body;
    CHECK_OK(ahe_sum_begin(&f.p, f.sum)); /* one is half added */
    CHECK_STATUS(ahe_sum_add_bodies(&f.p, f.sum, &body, 1, NULL), SEFL_ESTATE);
    CHECK_OK(ahe_sum_add_units(&f.p, f.sum, 0, f.body, UNITS, NULL));
    broken = true;
    CHECK_STATUS(ahe_sum_add_bodies(&f.p, f.sum, &body, 1, NULL), SEFL_ECRYPTO);
    broken = false;
    CHECK_STATUS(ahe_sum_add_bodies(&f.p, f.sum, &body, 1, NULL), SEFL_ESTATE);
    CHECK_STATUS(ahe_sum_close(&f.p, f.sum), SEFL_ESTATE);
    end(&f);
}

static void test_too_many_clients(void **state)
{
    fixture f;
    (void)state;
    CHECK_OK(begin(&f));
    encrypt(&f);
    for (int i = 0; i < CLIENTS; i++)
        CHECK_OK(add(&f));
    CHECK_STATUS(add(&f), SEFL_ERANGE);
    assert_non_null(strstr(sefl_last_error(), "3 updates"));
    CHECK_OK(ahe_sum_close(&f.p, f.sum)); /* its content is still valid */
    end(&f);
}

static void test_broken_sum(void **state)
{
    (void)state;
    fixture f;
    CHECK_OK(begin(&f));
    encrypt(&f);
    CHECK_OK(add(&f));
    CHECK_OK(ahe_sum_begin(&f.p, f.sum));
    broken = true;
    CHECK_STATUS(ahe_sum_add_units(&f.p, f.sum, 0, f.body, UNITS, NULL), SEFL_ECRYPTO);
    broken = false;
    CHECK_STATUS(add(&f), SEFL_ESTATE);
    CHECK_STATUS(ahe_sum_add_units(&f.p, f.sum, 0, f.body, UNITS, NULL), SEFL_ESTATE);
    CHECK_STATUS(ahe_sum_close(&f.p, f.sum), SEFL_ESTATE);
    end(&f);
    /* a failed check at closing leaves the sum open and unwritten */
    uint8_t out[24];
    CHECK_OK(begin(&f));
    encrypt(&f);
    CHECK_OK(add(&f));
    broken = true;
    CHECK_STATUS(ahe_sum_close(&f.p, f.sum), SEFL_ECRYPTO);
    broken = false;
    CHECK_STATUS(ahe_sum_write_units(&f.p, f.sum, out, 0, 1, seed, NULL), SEFL_ESTATE);
    end(&f);
}

static void test_dec_order(void **state)
{
    fixture f;
    uint8_t plain[24], unit[24] = { 0 };
    (void)state;
    CHECK_OK(begin(&f));
    CHECK_OK(ahe_dec_units(&f.p, f.dec, plain, UNITS - 1, unit, 1, NULL, NULL));
    CHECK_STATUS(ahe_dec_units(&f.p, f.dec, plain, UNITS, unit, 1, NULL, NULL), SEFL_ERANGE);
    CHECK_STATUS(ahe_dec_units(&f.p, f.dec, plain, 1, unit, SIZE_MAX, NULL, NULL), SEFL_ERANGE);
    CHECK_STATUS(ahe_mask_units(&f.p, plain, UNITS, 1, seed), SEFL_ERANGE);
    end(&f);
}

static void test_faults(void **state)
{
    fixture f;
    (void)state;
    TEST_FAULTS(
        FAULT_ALLOC,
        {
            st = begin(&f);
            if (st != SEFL_OK)
                end(&f);
        },
        end(&f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_params, reset),
        cmocka_unit_test_setup(test_round_trip, reset),
        cmocka_unit_test_setup(test_upload_order, reset),
        cmocka_unit_test_setup(test_upload_range, reset),
        cmocka_unit_test_setup(test_upload_is_spent, reset),
        cmocka_unit_test_setup(test_sum_order, reset),
        cmocka_unit_test_setup(test_bodies, reset),
        cmocka_unit_test_setup(test_too_many_clients, reset),
        cmocka_unit_test_setup(test_broken_sum, reset),
        cmocka_unit_test_setup(test_dec_order, reset),
        cmocka_unit_test_setup(test_faults, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

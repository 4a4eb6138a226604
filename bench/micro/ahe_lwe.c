/* The lwe scheme beside its floors, measured in the same run:
 *   product      a_i*s and a_i*S in the ring: transforms only, data in the first cache
 *   AES          the key stream for one polynomial
 *   encrypt      floor: one product with two digits, two polynomials of AES
 *   decrypt      floor: one product with digits of 14 bits, one polynomial of AES
 *   add          floor: reading and writing 8 bytes a value over a vector of the same length
 *   mask         floor: the AES of a mask */
#include "bench/micro/ahe.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/lwe_unit.h"
#include "crypto/ahe/paillier.h"

#include <string.h>
#include <sys/resource.h>

/* 950,272 values, beyond the caches, as in life; a measured call takes the next 16 units of them,
 * so that it is short against a time slice. */
enum { UNITS = 464, STEP = 16 };

typedef struct job {
    paillier_sec *sec;
    ahe_params p;
    ahe_enc *enc;
    ahe_upload *upload;
    ahe_sum *sum;
    paillier_sum *heads; /* apart: more are added than a sum may hold */
    ahe_dec *dec;
    pool *workers;
    sefl_rng rng;
    int64_t *values;
    uint8_t *head, *c, *masked, *plain;
    uint64_t *plain_sums;
    lwe_plan plan;
    lwe_work *work;
    lwe_spectrum ternary, general;
    prg stream;
    uint64_t next;
    size_t at, step; /* the next call: first unit, units */
} job;

static const uint8_t context[AHE_CONTEXT_BYTES] = "bench";

static size_t turn(job *j)
{
    size_t at = j->at;
    j->at = (at + j->step) % UNITS;
    return at;
}

/* ---- floors ---------------------------------------------------------------------------------- */

static sefl_status product_ternary(void *ctx)
{
    job *j = ctx;
    lwe_ring_mul_add(&j->plan.ring, j->work->c, j->work->a, j->plan.kappa, &j->ternary,
                     &j->work->scratch);
    return SEFL_OK;
}

static sefl_status product_general(void *ctx)
{
    job *j = ctx;
    lwe_ring_mul_add(&j->plan.ring, j->work->c, j->work->a, j->plan.kappa, &j->general,
                     &j->work->scratch);
    return SEFL_OK;
}

static sefl_status product_ref(void *ctx)
{
    job *j = ctx;
    static int32_t s[LWE_N];
    s[j->next++ % LWE_N] ^= 1;
    lwe_ring_mul_add_ref(j->work->c, j->work->a, s);
    return SEFL_OK;
}

static sefl_status key_stream(void *ctx)
{
    job *j = ctx;
    prg_read(&j->stream, j->work->bytes, LWE_N / 8 * LWE_COINS, j->next++, 0);
    return SEFL_OK;
}

static sefl_status read_write(void *ctx)
{
    job *j = ctx;
    uint64_t *sums = j->plain_sums + turn(j) * LWE_N;
    for (size_t i = 0; i < j->step * LWE_N; i++)
        sums[i] += j->at;
    __asm__ __volatile__("" : : "r"(j->plain_sums) : "memory");
    return SEFL_OK;
}

/* ---- the scheme ------------------------------------------------------------------------------ */

/* One short upload without its head: a fresh secret for every call. */
static sefl_status encrypt(void *ctx)
{
    job *j = ctx;
    sefl_status st = SEFL_OK;
    ahe_upload *u = NULL;
    size_t at = turn(j);
    SEFL_TRY(ahe_upload_new(&u, &j->p, j->enc, context, &j->rng));
    SEFL_TRY(ahe_upload_units(&j->p, u, j->c + at * j->p.unit_bytes, j->values + at * LWE_N,
                              j->step, j->workers, NULL));
done:
    ahe_upload_free(&j->p, u);
    return st;
}

static sefl_status encrypt_head(void *ctx)
{
    job *j = ctx;
    sefl_status st = SEFL_OK;
    ahe_upload *u = NULL;
    SEFL_TRY(ahe_upload_new(&u, &j->p, j->enc, context, &j->rng));
    SEFL_TRY(ahe_upload_head(&j->p, u, j->head, j->workers));
done:
    ahe_upload_free(&j->p, u);
    return st;
}

static sefl_status add_head(void *ctx)
{
    job *j = ctx;
    sefl_status st = SEFL_OK;
    const paillier_pub *pub = paillier_sec_pub(j->sec);
    const size_t count = j->p.head_bytes / paillier_cipher_bytes(pub);
    SEFL_TRY(paillier_check(pub, j->head, count));
    SEFL_TRY(paillier_sum_add(j->heads, 0, j->head, count, NULL));
done:
    return st;
}

static sefl_status add(void *ctx)
{
    job *j = ctx;
    size_t at = turn(j);
    return ahe_lwe.sum_add_units(j->sum, at, j->c + at * j->p.unit_bytes, j->step, j->workers);
}

static sefl_status mask(void *ctx)
{
    job *j = ctx;
    static const uint8_t seed[AHE_SEED_BYTES] = { 1 };
    size_t at = turn(j);
    return ahe_lwe.sum_write_units(j->sum, j->masked + at * j->p.sum_unit_bytes, at, j->step, seed,
                                   j->workers);
}

static sefl_status decrypt_head(void *ctx)
{
    job *j = ctx;
    return ahe_lwe.dec_head(j->dec, j->head, j->workers);
}

static sefl_status decrypt(void *ctx)
{
    job *j = ctx;
    size_t at = turn(j);
    return ahe_lwe.dec_units(j->dec, j->plain + at * j->p.plain_bytes, at,
                             j->masked + at * j->p.sum_unit_bytes, j->step, j->workers, NULL);
}

/* What CSP does with one masked sum of the built-in task: the head, then all its units. */
enum { TASK_VALUES = 945510, TASK_UNITS = (TASK_VALUES + LWE_N - 1) / LWE_N };

static sefl_status decrypt_all(void *ctx)
{
    job *j = ctx;
    sefl_status st = SEFL_OK;
    SEFL_TRY(ahe_lwe.dec_head(j->dec, j->head, j->workers));
    SEFL_TRY(ahe_lwe.dec_units(j->dec, j->plain, 0, j->masked, TASK_UNITS, j->workers, NULL));
done:
    return st;
}

static sefl_status set_up(job *j, const bench_ahe_options *o)
{
    sefl_status st = SEFL_OK;
    static int32_t s[LWE_N];
    pack packing = bench_ahe_pack(o);
    packing.scheme = PACK_LWE, packing.g = packing.s = 0;
    j->rng = rng_system();
    j->step = STEP;
    SEFL_TRY(lwe_choose(packing.w, packing.clients, &packing.kappa, &packing.d));
    SEFL_TRY(paillier_keygen_vartime(&j->sec, o->bits, &j->rng, NULL));
    const paillier_pub *pub = paillier_sec_pub(j->sec);
    const size_t values = o->values > UNITS * LWE_N ? o->values : UNITS * LWE_N;
    SEFL_TRY(ahe_params_init(&j->p, &ahe_lwe, &packing, pub, values));
    SEFL_TRY(ahe_enc_new(&j->enc, pub, &j->p, o->pool, NULL));
    SEFL_TRY(ahe_lwe.sum_new(&j->sum, pub, &j->p));
    SEFL_TRY(paillier_sum_new(&j->heads, pub, j->p.head_bytes / paillier_cipher_bytes(pub)));
    SEFL_TRY(ahe_lwe.dec_new(&j->dec, j->sec, &j->p, context));
    SEFL_TRY(sefl_new(&j->values, UNITS * LWE_N, sizeof *j->values));
    for (size_t i = 0; i < (size_t)UNITS * LWE_N; i++)
        j->values[i] =
            (int64_t)(i * 2654435761u % (2 * (uint64_t)packing.value_max + 1)) - packing.value_max;
    SEFL_TRY(sefl_new(&j->head, j->p.head_bytes, 1));
    SEFL_TRY(sefl_new(&j->c, UNITS, j->p.unit_bytes));
    SEFL_TRY(sefl_new(&j->masked, UNITS, j->p.sum_unit_bytes));
    SEFL_TRY(sefl_new(&j->plain, UNITS, j->p.plain_bytes));
    SEFL_TRY(sefl_new(&j->plain_sums, UNITS * LWE_N, sizeof *j->plain_sums));
    SEFL_TRY(sefl_new(&j->work, 1, sizeof *j->work));
    lwe_plan_init(&j->plan, packing.w, packing.kappa, packing.d, lwe_path_best());
    prg_init(&j->stream, context, LWE_PUBLIC);
    lwe_secret_sample(s, context);
    lwe_ring_spectrum(&j->plan.ring, &j->ternary, s, true);
    lwe_ring_spectrum(&j->plan.ring, &j->general, s, false);
    for (size_t i = 0; i < LWE_N; i++)
        j->work->a[i] = i * 0x9e3779b97f4a7c15 >> (64 - packing.kappa);
done:
    return st;
}

static void tear_down(job *j)
{
    void *blocks[] = { j->values, j->head, j->c, j->masked, j->plain, j->plain_sums, j->work };
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        sefl_free(blocks[i]);
    ahe_lwe.sum_free(j->sum);
    paillier_sum_free(j->heads);
    ahe_lwe.dec_free(j->dec);
    ahe_enc_free(&j->p, j->enc);
    paillier_sec_free(j->sec);
}

/* One whole vector, streamed; the same input again and again. */
static sefl_status stream(bench *b, job *j, const bench_ahe_options *o)
{
    sefl_status st = SEFL_OK;
    sefl_clock clock = clock_monotonic();
    ahe_upload *u = NULL;
    struct rusage before, after;
    char name[96];
    getrusage(RUSAGE_SELF, &before);
    uint64_t t0 = clock_ns(&clock);
    SEFL_TRY(ahe_upload_new(&u, &j->p, j->enc, context, &j->rng));
    SEFL_TRY(ahe_upload_head(&j->p, u, j->head, o->pool));
    for (size_t at = 0; at < j->p.units;) {
        size_t k = j->p.units - at < UNITS ? j->p.units - at : UNITS;
        SEFL_TRY(ahe_upload_units(&j->p, u, j->c, j->values, k, o->pool, NULL));
        at += k;
    }
    double s = (double)(clock_ns(&clock) - t0) * 1e-9;
    getrusage(RUSAGE_SELF, &after);
    snprintf(name, sizeof name, "encrypt %zu values, streamed, with head", j->p.values);
    bench_row(b, &(bench_result){ .name = name,
                                  .value = s,
                                  .unit = "s",
                                  .per_value = s / (double)j->p.values,
                                  .threads = b->threads });
    bench_row(b,
              &(bench_result){ .name = "  growth of the peak while encrypting",
                               .value = (double)(after.ru_maxrss - before.ru_maxrss) / 1024 + 1e-9,
                               .unit = "MiB" });
done:
    ahe_upload_free(&j->p, u);
    return st;
}

static sefl_status timed(bench *b, double *us, sefl_status (*fn)(void *), job *j)
{
    bench_timing t = { 0 };
    sefl_status st = bench_time(b, &t, fn, j);
    *us = t.min_s * 1e6; /* short cases: the median shows who else is at work */
    return st;
}

/* Of a function that takes j->step units. */
static sefl_status timed_unit(bench *b, double *us, sefl_status (*fn)(void *), job *j)
{
    sefl_status st = timed(b, us, fn, j);
    *us /= (double)j->step;
    return st;
}

sefl_status bench_ahe_lwe(bench *b, const bench_ahe_options *o)
{
    sefl_status st = SEFL_OK;
    job *j = NULL;
    double two, three, ref, aes, memory, enc, dec, us;
    const double n = LWE_N;
    SEFL_TRY(sefl_new(&j, 1, sizeof *j));
    SEFL_TRY(set_up(j, o));
    bench_note(b, "lwe: kappa %u, d %u, %u clients; %d values a unit; transforms %s, AES %s",
               j->plan.kappa, j->plan.d, j->p.pack.clients, LWE_N, lwe_path_name(j->plan.path),
               aes_path_name(aes_path_best()));

    SEFL_TRY(timed(b, &two, product_ternary, j));
    SEFL_TRY(timed(b, &three, product_general, j));
    SEFL_TRY(timed(b, &ref, product_ref, j));
    SEFL_TRY(timed(b, &aes, key_stream, j));
    SEFL_TRY(timed_unit(b, &memory, read_write, j));
    aes /= LWE_N / 8.0 * LWE_COINS; /* a byte */
    bench_ahe_time(b, "product by a ternary polynomial", two, 0, n, 1);
    bench_ahe_time(b, "product by a sum of secrets", three, 0, n, 1);
    bench_ahe_time(b, "product, schoolbook", ref, 0, n, 1);
    bench_row(
        b, &(bench_result){ .name = "AES-CTR", .value = 1e-3 / aes, .unit = "GB/s", .rate = true });

    const double row = LWE_N / 8.0;
    SEFL_TRY(timed_unit(b, &enc, encrypt, j));
    bench_ahe_time(b, "encrypt a unit (floor: product, AES)", enc,
                   two + aes * row * (LWE_COINS + j->plan.kappa), n, 1);
    SEFL_TRY(timed(b, &us, encrypt_head, j));
    bench_ahe_time(b, "encrypt a head, secret and coins included", us, 0, 0, 1);
    SEFL_TRY(timed(b, &us, add_head, j));
    bench_ahe_time(b, "check and add a head", us, 0, 0, 1);
    SEFL_TRY(timed_unit(b, &us, add, j));
    bench_ahe_time(b, "add a unit (floor: memory)", us, memory, n, 1);
    SEFL_TRY(timed_unit(b, &us, mask, j));
    bench_ahe_time(b, "mask and write a unit (floor: AES)", us, aes * row * j->plan.w, n, 1);
    SEFL_TRY(timed(b, &us, decrypt_head, j));
    bench_ahe_time(b, "decrypt a head", us, 0, 0, 1);
    SEFL_TRY(timed_unit(b, &dec, decrypt, j));
    bench_ahe_time(b, "decrypt a unit (floor: product, AES)", dec,
                   three + aes * row * j->plan.kappa, n, 1);
    SEFL_TRY(timed(b, &us, decrypt_all, j));
    bench_ahe_time(b, "decrypt, head and body, 945,510 values", us, 0, TASK_VALUES, 1);
    bench_row(b, &(bench_result){ .name = "bytes a value, head apart (floor: w/8)",
                                  .value = (double)j->p.unit_bytes / n,
                                  .unit = "bytes",
                                  .floor = j->plan.w / 8.0 });
    bench_row(b, &(bench_result){ .name = "bytes of a head",
                                  .value = (double)j->p.head_bytes,
                                  .unit = "bytes" });
    if (o->pool) { /* the same again, the whole vector on all threads: floor is a perfect split */
        j->at = 0, j->step = UNITS;
        SEFL_TRY(timed_unit(b, &enc, encrypt, j));
        SEFL_TRY(timed_unit(b, &dec, decrypt, j));
        j->workers = o->pool;
        SEFL_TRY(timed_unit(b, &us, encrypt, j));
        bench_ahe_time(b, "encrypt a unit (floor: one thread's / threads)", us, enc / b->threads, n,
                       b->threads);
        SEFL_TRY(timed_unit(b, &us, decrypt, j));
        bench_ahe_time(b, "decrypt a unit (floor: one thread's / threads)", us, dec / b->threads, n,
                       b->threads);
        SEFL_TRY(timed(b, &us, encrypt_head, j));
        bench_ahe_time(b, "encrypt a head", us, 0, 0, b->threads);
    }
    if (o->values > 0)
        SEFL_TRY(stream(b, j, o));
done:
    if (j)
        tear_down(j);
    sefl_free(j);
    return st;
}

/* Paillier beside its floors, all measured in the same run on the same key:
 *   multiplication   mont_mul modulo N^2 in a tight loop, per ciphertext (time over lanes)
 *   encrypt          floor: windows of r, that is multiplications, times the above
 *   add              floor: one multiplication
 *   decrypt          floor: OpenSSL's BN_mod_exp_mont_consttime modulo p^2 with exponent p-1 and
 *                    modulo q^2 with exponent q-1, Montgomery contexts prepared
 *   textbook         r^N mod N^2 by mpz_powm: what one encryption costs without any of this */
#include "bench/micro/ahe.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/paillier_internal.h"

#include <openssl/bn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { UNITS = 64 }; /* ciphertexts per measured call: eight batches */

typedef struct job {
    paillier_sec *sec;
    const paillier_pub *pub;
    ahe_params p, longer; /* longer: of enc, for a long vector */
    ahe_enc *enc;
    paillier_enc *raw_enc;
    paillier_sum *sum;
    pool *workers;
    sefl_rng rng;
    int64_t *values;    /* UNITS * unit_values */
    uint8_t *c, *plain; /* UNITS ciphertexts, plain units */
    uint64_t *x, *y;    /* batches */
    mpz_t r, n, n2, t;
    BN_CTX *bn;
    BIGNUM *base[2], *exp[2], *mod[2], *out;
    BN_MONT_CTX *mont[2];
} job;

/* Times a function and its floor in turn and takes the median of both and of their ratio, so that
 * other load on the machine affects both equally. scale: calls of the floor function per call of
 * fn. The clock is the processor time of one thread, or the wall clock with several threads. */
typedef struct pair {
    double value_s, floor_s, ratio; /* for one call of fn; ratio = value / (floor * scale) */
} pair;

enum { PAIRS = 400 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t thread_ns(void *self)
{
    struct timespec t;
    (void)self;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static sefl_status time_pair(bench *b, pair *out, sefl_status (*fn)(void *),
                             sefl_status (*floor_fn)(void *), double scale, void *ctx)
{
    sefl_status st = SEFL_OK;
    double value[PAIRS], floor_s[PAIRS], ratio[PAIRS];
    const job *j = ctx;
    sefl_clock clock = j->workers ? clock_monotonic() : (sefl_clock){ thread_ns, NULL };
    size_t n = 0;
    uint64_t begin = clock_ns(&clock);
    SEFL_TRY(fn(ctx)); /* warm */
    SEFL_TRY(floor_fn(ctx));
    while (n < PAIRS && (n < 9 || (double)(clock_ns(&clock) - begin) * 1e-9 < b->min_seconds)) {
        unsigned repeat = 0;
        uint64_t t0 = clock_ns(&clock);
        SEFL_TRY(fn(ctx));
        uint64_t t1 = clock_ns(&clock), t2;
        do { /* about as long as fn itself took */
            SEFL_TRY(floor_fn(ctx));
            repeat++;
            t2 = clock_ns(&clock);
        } while (t2 - t1 < t1 - t0 && repeat < 1000);
        value[n] = (double)(t1 - t0) * 1e-9;
        floor_s[n] = (double)(t2 - t1) * 1e-9 / repeat;
        ratio[n] = value[n] / (floor_s[n] * scale);
        n++;
    }
    qsort(value, n, sizeof *value, by_value);
    qsort(floor_s, n, sizeof *floor_s, by_value);
    qsort(ratio, n, sizeof *ratio, by_value);
    *out = (pair){ value[n / 2], floor_s[n / 2], ratio[n / 2] };
done:
    return st;
}

static sefl_status keygen(void *ctx)
{
    job *j = ctx;
    paillier_sec *k;
    sefl_status st = paillier_keygen_vartime(&k, j->pub->bits, &j->rng, NULL);
    if (st == SEFL_OK)
        paillier_sec_free(k);
    return st;
}

static sefl_status multiply(void *ctx)
{
    job *j = ctx;
    for (int i = 0; i < UNITS; i++)
        mont_mul(&j->pub->mod_n2, j->x, j->x, j->y);
    return SEFL_OK;
}

/* A whole upload of UNITS units, packing included. */
static sefl_status encrypt(void *ctx)
{
    job *j = ctx;
    sefl_status st = SEFL_OK;
    static const uint8_t context[AHE_CONTEXT_BYTES];
    ahe_upload *u = NULL;
    SEFL_TRY(ahe_upload_new(&u, &j->p, j->enc, context, &j->rng));
    SEFL_TRY(ahe_upload_units(&j->p, u, j->c, j->values, UNITS, j->workers, NULL));
done:
    ahe_upload_free(&j->p, u);
    return st;
}

static sefl_status check(void *ctx)
{
    job *j = ctx;
    return paillier_check(j->pub, j->c, UNITS);
}

static sefl_status ahe_paillier_add(void *ctx)
{
    job *j = ctx;
    return paillier_sum_add(j->sum, 0, j->c, UNITS, j->workers);
}

static sefl_status decrypt(void *ctx)
{
    job *j = ctx;
    return paillier_decrypt(j->sec, j->plain, j->c, UNITS, j->workers, NULL);
}

static sefl_status alone(job *j, sefl_status (*fn)(void *))
{
    pool *workers = j->workers;
    j->workers = NULL;
    sefl_status st = fn(j);
    j->workers = workers;
    return st;
}

static sefl_status encrypt_alone(void *ctx)
{
    return alone(ctx, encrypt);
}

static sefl_status decrypt_alone(void *ctx)
{
    return alone(ctx, decrypt);
}

static sefl_status write_sum(void *ctx)
{
    job *j = ctx;
    return paillier_sum_write(j->sum, j->c, 0, UNITS, j->plain, j->workers);
}

static sefl_status textbook(void *ctx)
{
    job *j = ctx;
    mpz_powm(j->t, j->r, j->n, j->n2);
    mpz_set(j->r, j->t);
    return SEFL_OK;
}

static sefl_status openssl_halves(void *ctx)
{
    job *j = ctx;
    for (int i = 0; i < 2; i++)
        if (!BN_mod_exp_mont_consttime(j->out, j->base[i], j->exp[i], j->mod[i], j->bn, j->mont[i]))
            return sefl_fail(SEFL_ECRYPTO, "OpenSSL's exponentiation failed");
    return SEFL_OK;
}

static sefl_status openssl_set_up(job *j)
{
    sefl_status st = SEFL_OK;
    unsigned bits = j->pub->bits;
    uint8_t bytes[C_BYTES];
    j->bn = BN_CTX_new();
    j->out = BN_new();
    for (int i = 0; i < 2 && j->bn && j->out; i++) {
        paillier_bytes(bytes, bits / 16, i == 0 ? j->sec->p : j->sec->q);
        j->mod[i] = BN_lebin2bn(bytes, (int)(bits / 16), NULL);
        j->exp[i] = BN_dup(j->mod[i]);
        j->base[i] = BN_lebin2bn(j->c, (int)(bits / 4), NULL);
        j->mont[i] = BN_MONT_CTX_new();
        SEFL_CHECK(j->mod[i] && j->exp[i] && j->base[i] && j->mont[i] &&
                       BN_sub_word(j->exp[i], 1) && BN_sqr(j->mod[i], j->mod[i], j->bn) &&
                       BN_nnmod(j->base[i], j->base[i], j->mod[i], j->bn) &&
                       BN_MONT_CTX_set(j->mont[i], j->mod[i], j->bn),
                   SEFL_ENOMEM, "OpenSSL: no memory");
    }
    SEFL_CHECK(j->mont[1], SEFL_ENOMEM, "OpenSSL: no memory");
done:
    return st;
}

static sefl_status set_up(job *j, const bench_ahe_options *o)
{
    sefl_status st = SEFL_OK;
    pack packing = bench_ahe_pack(o);
    j->rng = rng_system();
    SEFL_TRY(paillier_keygen_vartime(&j->sec, o->bits, &j->rng, NULL));
    j->pub = paillier_sec_pub(j->sec);
    SEFL_TRY(ahe_params_init(&j->p, &ahe_paillier, &packing, j->pub, 1));
    SEFL_TRY(ahe_params_init(&j->p, &ahe_paillier, &packing, j->pub, UNITS * j->p.unit_values));
    SEFL_TRY(sefl_new(&j->values, UNITS * j->p.unit_values, sizeof *j->values));
    for (size_t i = 0; i < UNITS * j->p.unit_values; i++)
        j->values[i] =
            (int64_t)(i * 2654435761u % (2 * (uint64_t)packing.value_max + 1)) - packing.value_max;
    SEFL_TRY(sefl_new(&j->c, UNITS, j->p.unit_bytes));
    SEFL_TRY(sefl_new(&j->plain, UNITS, j->p.plain_bytes));
    SEFL_TRY(sefl_new(&j->x, MONT_BATCH_MAX, 8));
    SEFL_TRY(sefl_new(&j->y, MONT_BATCH_MAX, 8));
    SEFL_TRY(paillier_sum_new(&j->sum, j->pub, UNITS));
    mpz_import(j->n, o->bits / 8, -1, 1, 0, 0, j->pub->n_bytes);
    mpz_import(j->r, o->bits / 4, -1, 1, 0, 0, j->pub->hs_bytes);
    mpz_mul(j->n2, j->n, j->n);
done:
    return st;
}

static void tear_down(job *j)
{
    for (int i = 0; i < 2; i++) {
        BN_clear_free(j->mod[i]);
        BN_clear_free(j->exp[i]);
        BN_free(j->base[i]);
        BN_MONT_CTX_free(j->mont[i]);
    }
    BN_free(j->out);
    BN_CTX_free(j->bn);
    mpz_clears(j->r, j->n, j->n2, j->t, NULL);
    sefl_free(j->values);
    sefl_free(j->c);
    sefl_free(j->plain);
    sefl_free(j->x);
    sefl_free(j->y);
    paillier_sum_free(j->sum);
    paillier_enc_free(j->raw_enc);
    ahe_enc_free(&j->p, j->enc);
    paillier_sec_free(j->sec);
}

/* Encrypts one whole vector, UNITS at a time; generates the input on the way. */
static sefl_status stream(bench *b, job *j, const bench_ahe_options *o)
{
    sefl_status st = SEFL_OK;
    static const uint8_t context[AHE_CONTEXT_BYTES];
    pack packing = bench_ahe_pack(o);
    sefl_clock clock = clock_monotonic();
    ahe_params p;
    ahe_enc *enc = NULL;
    ahe_upload *u = NULL;
    struct rusage before, after;
    char name[96];
    SEFL_TRY(ahe_params_init(&p, &ahe_paillier, &packing, j->pub, o->values));
    SEFL_TRY(ahe_enc_new(&enc, j->pub, &p, o->pool, NULL));
    getrusage(RUSAGE_SELF, &before);
    uint64_t t0 = clock_ns(&clock);
    SEFL_TRY(ahe_upload_new(&u, &p, enc, context, &j->rng));
    for (size_t done = 0; done < p.units;) {
        size_t k = p.units - done < UNITS ? p.units - done : UNITS;
        SEFL_TRY(ahe_upload_units(&p, u, j->c, j->values, k, o->pool, NULL));
        done += k;
    }
    double s = (double)(clock_ns(&clock) - t0) * 1e-9;
    getrusage(RUSAGE_SELF, &after);
    snprintf(name, sizeof name, "encrypt %zu values, streamed", o->values);
    bench_row(b, &(bench_result){ .name = name,
                                  .value = s,
                                  .unit = "s",
                                  .per_value = s / (double)o->values,
                                  .threads = b->threads });
    bench_row(b, &(bench_result){ .name = "  peak memory of the process, table included",
                                  .value = (double)after.ru_maxrss / 1024,
                                  .unit = "MiB" });
    bench_row(b,
              &(bench_result){ .name = "  growth of the peak while encrypting",
                               .value = (double)(after.ru_maxrss - before.ru_maxrss) / 1024 + 1e-9,
                               .unit = "MiB" });
done:
    ahe_upload_free(&p, u);
    ahe_enc_free(&p, enc);
    return st;
}

/* Measures the key generation and the table of fixed powers. products: multiplications for one
 * encryption. */
static sefl_status key_rows(bench *b, job *j, unsigned *products)
{
    bench_timing t;
    char name[96];
    sefl_clock clock = clock_monotonic();
    SEFL_PASS(bench_time(b, &t, keygen, j));
    bench_row(
        b, &(bench_result){ .name = "key generation, median", .value = t.median_s, .unit = "s" });
    uint64_t t0 = clock_ns(&clock);
    SEFL_PASS(paillier_enc_new(&j->raw_enc, j->pub, 0, NULL, NULL));
    double build = (double)(clock_ns(&clock) - t0) * 1e-9;
    snprintf(name, sizeof name, "table: %u-bit windows, %.0f MB", paillier_enc_window(j->raw_enc),
             (double)paillier_enc_table_bytes(j->raw_enc) * 1e-6);
    bench_row(b, &(bench_result){ .name = name, .value = build, .unit = "s" });
    *products = paillier_enc_products(j->raw_enc);
    paillier_enc_free(j->raw_enc);
    j->raw_enc = NULL;
    return SEFL_OK;
}

/* Makes the encryptor of a long vector, which is used for UNITS of it, and the inputs of the
 * floors. */
static sefl_status encryptor(job *j, pool *workers)
{
    j->longer = j->p;
    j->longer.units = 1000000;
    SEFL_PASS(ahe_enc_new(&j->enc, j->pub, &j->longer, workers, NULL));
    SEFL_PASS(encrypt(j));
    mont_load(&j->pub->mod_n2, j->x, j->c, j->p.unit_bytes, j->p.unit_bytes, j->pub->mod_n2.lanes);
    memcpy(j->y, j->x, MONT_BATCH_MAX * 8);
    return openssl_set_up(j);
}

/* Multiplications in a call of multiply(). */
static double per_call(const job *j)
{
    return (double)j->pub->mod_n2.lanes * UNITS;
}

static sefl_status encrypt_rows(bench *b, job *j, unsigned products)
{
    char name[96];
    pair q;
    const double n = (double)j->p.unit_values;
    SEFL_PASS(time_pair(b, &q, encrypt, multiply, UNITS * (double)products / per_call(j), j));
    double us = q.value_s / UNITS * 1e6;
    bench_ahe_time(b, "multiplication modulo N^2", q.floor_s / per_call(j) * 1e6, 0, 0, 1);
    snprintf(name, sizeof name, "encrypt (floor: %u multiplications)", products);
    bench_ahe_time(b, name, us, us / q.ratio, n, 1);
    SEFL_PASS(time_pair(b, &q, textbook, encrypt, 1, j));
    bench_ahe_time(b, "textbook r^N mod N^2, mpz_powm", q.value_s * 1e6, 0, 0, 1);
    bench_row(b, &(bench_result){ .name = "  over encrypt, per ciphertext",
                                  .value = q.ratio * UNITS,
                                  .unit = "times",
                                  .rate = true });
    bench_row(b, &(bench_result){ .name = "  over encrypt, per packed value",
                                  .value = q.ratio * UNITS * n,
                                  .unit = "times",
                                  .rate = true });
    return SEFL_OK;
}

/* Measures fn, which processes UNITS ciphertexts, beside `scale` calls of its floor. */
static sefl_status pair_row(bench *b, job *j, const char *name, sefl_status (*fn)(void *),
                            sefl_status (*floor_fn)(void *), double scale)
{
    pair q;
    SEFL_PASS(time_pair(b, &q, fn, floor_fn, scale, j));
    double us = q.value_s / UNITS * 1e6;
    bench_ahe_time(b, name, us, us / q.ratio, (double)j->p.unit_values,
                   j->workers ? b->threads : 1);
    return SEFL_OK;
}

/* Measures the same on all threads; the floor is a perfect split. */
static sefl_status thread_rows(bench *b, job *j, pool *workers)
{
    j->workers = workers;
    SEFL_PASS(encrypt(j)); /* the sum has overwritten the ciphertexts */
    SEFL_PASS(pair_row(b, j, "encrypt (floor: one thread's / threads)", encrypt, encrypt_alone,
                       1.0 / b->threads));
    return pair_row(b, j, "decrypt (floor: one thread's / threads)", decrypt, decrypt_alone,
                    1.0 / b->threads);
}

sefl_status bench_ahe_paillier(bench *b, const bench_ahe_options *o)
{
    sefl_status st = SEFL_OK;
    job j = { 0 };
    unsigned products;
    mpz_inits(j.r, j.n, j.n2, j.t, NULL);
    SEFL_TRY(set_up(&j, o));
    bench_note(b, "paillier %u: %zu values a ciphertext, kernel %s", o->bits, j.p.unit_values,
               j.pub->mod_n2.kernel->name);
    SEFL_TRY(key_rows(b, &j, &products));
    SEFL_TRY(encryptor(&j, o->pool));
    SEFL_TRY(encrypt_rows(b, &j, products));
    const double one = UNITS / per_call(&j); /* multiplication per ciphertext */
    SEFL_TRY(pair_row(b, &j, "check on arrival (floor: one multiplication)", check, multiply, one));
    SEFL_TRY(pair_row(b, &j, "add (floor: one multiplication)", ahe_paillier_add, multiply, one));
    SEFL_TRY(
        pair_row(b, &j, "decrypt (floor: OpenSSL's two halves)", decrypt, openssl_halves, UNITS));
    SEFL_TRY(paillier_sum_close(j.sum, o->pool));
    SEFL_TRY(pair_row(b, &j, "mask and write (floor: two multiplications)", write_sum, multiply,
                      2 * one));
    bench_row(b, &(bench_result){ .name = "bytes a value (floor: 2w/8)",
                                  .value = (double)j.p.unit_bytes / (double)j.p.unit_values,
                                  .unit = "bytes",
                                  .floor = 2 * j.p.pack.w / 8.0 });
    if (o->pool)
        SEFL_TRY(thread_rows(b, &j, o->pool));
    if (o->values > 0)
        SEFL_TRY(stream(b, &j, o));
done:
    tear_down(&j);
    return st;
}

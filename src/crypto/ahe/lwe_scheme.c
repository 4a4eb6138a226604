/* ahe_lwe: units (lwe_unit.h) and heads (lwe_head.h) behind the interface of ahe.h. Order of calls,
 * ranges and counts are ahe.c's business; here is the arithmetic, spread over the pool by units.
 *
 * Memory: an encryptor has the Paillier tables and about 15 KiB; an upload 50 KiB; a sum 8 bytes a
 * value; a decryptor 50 KiB; every call 80 KiB a thread while it runs. */
#include "crypto/ahe/ahe.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "crypto/ahe/lwe_head.h"
#include "crypto/ahe/lwe_unit.h"
#include "crypto/ahe/paillier.h"
#include "crypto/ahe/rows.h"

#include <assert.h>
#include <string.h>

enum { GRAIN = 8, GRAIN_ADD = 32 }; /* units in one piece of work: some 100 us */

/* ---- shared ---------------------------------------------------------------------------------- */

static sefl_status params(ahe_params *p, const ahe_pub *pub)
{
    sefl_status st = SEFL_OK;
    const unsigned bits = paillier_bits(pub);
    SEFL_CHECK(p->pack.scheme == PACK_LWE, SEFL_EINVAL,
               "lwe: these slots were made for another scheme");
    SEFL_TRY(lwe_check(p->pack.w, p->pack.clients, p->pack.kappa, p->pack.d));
    SEFL_CHECK(p->pack.g == 0, SEFL_EINVAL, "lwe: slots have no carries: %u guard bits, wanted 0",
               p->pack.g);
    p->unit_values = LWE_N;
    p->head_bytes = p->sum_head_bytes = lwe_head_count(bits) * paillier_cipher_bytes(pub);
    p->unit_bytes = LWE_N / 8 * (size_t)(p->pack.kappa - p->pack.d);
    p->sum_unit_bytes = LWE_N / 8 * (size_t)p->pack.kappa;
    p->plain_bytes = LWE_N / 8 * (size_t)p->pack.w;
done:
    return st;
}

static void plan_of(lwe_plan *plan, const ahe_params *p)
{
    lwe_plan_init(plan, p->pack.w, p->pack.kappa, p->pack.d, lwe_path_best());
}

/* One lwe_work per thread, wiped afterwards. */
static sefl_status work_new(lwe_work **out, pool *threads)
{
    return sefl_new(out, pool_threads(threads), sizeof **out);
}

static void work_free(lwe_work *work, pool *threads)
{
    if (work)
        sefl_free_secret(work, pool_threads(threads) * sizeof *work);
}

/* ---- client ---------------------------------------------------------------------------------- */

typedef struct lwe_enc {
    lwe_plan plan;
    const ahe_params *p;
    const paillier_pub *pub;
    paillier_enc *seal;
} lwe_enc;

typedef struct lwe_upload {
    lwe_spectrum s_spectrum;
    prg pub, err;
    const lwe_enc *e;
    size_t next; /* first unit not encrypted yet */
    uint8_t seal_seed[PAILLIER_SEED_BYTES];
    int32_t s[LWE_N];
} lwe_upload;

static void enc_free(ahe_enc *enc)
{
    lwe_enc *e = (lwe_enc *)enc;
    if (!e)
        return;
    paillier_enc_free(e->seal);
    sefl_free(e);
}

static sefl_status enc_new(ahe_enc **out, const ahe_pub *pub, const ahe_params *p, pool *threads,
                           const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    lwe_enc *e = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&e, 1, sizeof *e));
    plan_of(&e->plan, p);
    e->p = p, e->pub = pub;
    SEFL_TRY(
        paillier_enc_new(&e->seal, pub, lwe_head_count(paillier_bits(pub)), threads, progress));
    *out = (ahe_enc *)e, e = NULL;
done:
    enc_free((ahe_enc *)e);
    return st;
}

static void upload_free(ahe_upload *u)
{
    if (u)
        sefl_free_secret(u, sizeof(lwe_upload));
}

static sefl_status upload_new(ahe_upload **out, const ahe_enc *enc,
                              const uint8_t context[AHE_CONTEXT_BYTES], const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    lwe_upload *u = NULL;
    uint8_t seed[PRG_SEED] = { 0 };
    *out = NULL;
    SEFL_TRY(sefl_new(&u, 1, sizeof *u));
    u->e = (const lwe_enc *)enc;
    SEFL_TRY(rng_fill(rng, seed, sizeof seed));
    SEFL_TRY(rng_fill(rng, u->seal_seed, sizeof u->seal_seed));
    CT_SECRET(seed, sizeof seed);
    lwe_secret_sample(u->s, seed);
    lwe_ring_spectrum(&u->e->plan.ring, &u->s_spectrum, u->s, true);
    prg_init(&u->err, seed, LWE_ERROR);
    prg_init(&u->pub, context, LWE_PUBLIC);
    *out = (ahe_upload *)u, u = NULL;
done:
    sefl_wipe(seed, sizeof seed);
    upload_free((ahe_upload *)u);
    return st;
}

static sefl_status upload_head(ahe_upload *upload, uint8_t *out, pool *threads)
{
    sefl_status st = SEFL_OK;
    const lwe_upload *u = (const lwe_upload *)upload;
    const paillier_pub *pub = u->e->pub;
    const unsigned bits = paillier_bits(pub);
    const size_t count = lwe_head_count(bits), bytes = paillier_plain_bytes(pub);
    uint8_t *m = NULL;
    SEFL_TRY(sefl_new(&m, count, bytes));
    for (size_t i = 0; i < count; i++)
        lwe_head_encode(m + i * bytes, u->s, i, paillier_modulus(pub), bits);
    SEFL_TRY(paillier_encrypt_vartime(u->e->seal, out, m, count, u->seal_seed, 0, threads, NULL));
done:
    if (m)
        sefl_free_secret(m, count * bytes);
    return st;
}

typedef struct upload_job {
    const lwe_upload *u;
    lwe_work *work;
    uint8_t *out;
    const int64_t *values;
} upload_job;

static sefl_status encrypt_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const upload_job *j = ctx;
    const lwe_upload *u = j->u;
    const ahe_params *p = u->e->p;
    for (size_t i = begin; i < end; i++) {
        size_t unit = u->next + i, left = p->values - unit * LWE_N;
        lwe_unit_encrypt(&u->e->plan, j->out + i * p->unit_bytes, j->values + i * LWE_N,
                         left < LWE_N ? left : LWE_N, unit, &u->pub, &u->err, &u->s_spectrum,
                         &j->work[lane]);
    }
    return SEFL_OK;
}

static sefl_status upload_units(ahe_upload *upload, uint8_t *out, const int64_t *values,
                                size_t units, pool *threads, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    lwe_upload *u = (lwe_upload *)upload;
    upload_job job = { .u = u, .out = out, .values = values };
    assert(units <= u->e->p->units - u->next);
    SEFL_TRY(work_new(&job.work, threads));
    st = pool_run(threads, units, GRAIN, encrypt_piece, &job, progress);
    u->next += units; /* also if it was stopped: those coins are spent */
done:
    work_free(job.work, threads);
    return st;
}

/* ---- aggregation server ---------------------------------------------------------------------- */

typedef struct lwe_sum {
    lwe_plan plan;
    const ahe_params *p;
    const paillier_pub *pub;
    paillier_sum *heads;
    uint64_t *sums; /* (units, 2048), modulo 2^64; the low kappa - d bits count */
    uint32_t clients;
} lwe_sum;

static void sum_free(ahe_sum *sum)
{
    lwe_sum *s = (lwe_sum *)sum;
    if (!s)
        return;
    paillier_sum_free(s->heads);
    sefl_free(s->sums);
    sefl_free(s);
}

static sefl_status sum_new(ahe_sum **out, const ahe_pub *pub, const ahe_params *p)
{
    sefl_status st = SEFL_OK;
    lwe_sum *s = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&s, 1, sizeof *s));
    plan_of(&s->plan, p);
    s->p = p, s->pub = pub;
    SEFL_TRY(sefl_new(&s->sums, p->units, LWE_N * sizeof *s->sums));
    SEFL_TRY(paillier_sum_new(&s->heads, pub, lwe_head_count(paillier_bits(pub))));
    *out = (ahe_sum *)s, s = NULL;
done:
    sum_free((ahe_sum *)s);
    return st;
}

static sefl_status sum_check_head(const ahe_sum *sum, const uint8_t *head)
{
    const lwe_sum *s = (const lwe_sum *)sum;
    return paillier_check(s->pub, head, lwe_head_count(paillier_bits(s->pub)));
}

/* Rows have no padding: every byte string of the right length is a unit. */
static sefl_status sum_check_units(const ahe_sum *sum, const uint8_t *bytes, size_t units)
{
    (void)sum, (void)bytes, (void)units;
    return SEFL_OK;
}

static sefl_status sum_add_head(ahe_sum *sum, const uint8_t *head)
{
    sefl_status st = SEFL_OK;
    lwe_sum *s = (lwe_sum *)sum;
    SEFL_CHECK(s->clients < s->p->pack.clients, SEFL_ERANGE, "lwe: the sum has its %u clients",
               s->clients);
    SEFL_TRY(paillier_sum_add(s->heads, 0, head, lwe_head_count(paillier_bits(s->pub)), NULL));
    s->clients++;
done:
    return st;
}

typedef struct sum_job {
    lwe_sum *s;
    lwe_work *work;
    const prg *mask;
    const uint8_t *in;
    uint8_t *out;
    size_t first;
} sum_job;

static sefl_status add_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const sum_job *j = ctx;
    (void)lane;
    for (size_t i = begin; i < end; i++)
        lwe_unit_add(&j->s->plan, j->s->sums + (j->first + i) * LWE_N,
                     j->in + i * j->s->p->unit_bytes);
    return SEFL_OK;
}

static sefl_status sum_add_units(ahe_sum *sum, size_t first, const uint8_t *bytes, size_t units,
                                 pool *threads)
{
    sum_job job = { .s = (lwe_sum *)sum, .in = bytes, .first = first };
    return pool_run(threads, units, GRAIN_ADD, add_piece, &job, NULL);
}

static sefl_status sum_close(ahe_sum *sum)
{
    return paillier_sum_close(((lwe_sum *)sum)->heads, NULL);
}

static sefl_status sum_write_head(ahe_sum *sum, uint8_t *out)
{
    const lwe_sum *s = (const lwe_sum *)sum;
    return paillier_sum_write(s->heads, out, 0, lwe_head_count(paillier_bits(s->pub)), NULL, NULL);
}

static sefl_status write_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const sum_job *j = ctx;
    const ahe_params *p = j->s->p;
    lwe_work *work = &j->work[lane];
    for (size_t i = begin; i < end; i++) {
        prg_read(j->mask, work->bytes, p->plain_bytes, j->first + i, 0);
        lwe_unit_close(&j->s->plan, j->out + i * p->sum_unit_bytes,
                       j->s->sums + (j->first + i) * LWE_N, j->s->clients, work->bytes, work);
    }
    return SEFL_OK;
}

static sefl_status sum_write_units(ahe_sum *sum, uint8_t *out, size_t first, size_t units,
                                   const uint8_t mask_seed[AHE_SEED_BYTES], pool *threads)
{
    sefl_status st = SEFL_OK;
    prg mask;
    sum_job job = { .s = (lwe_sum *)sum, .out = out, .first = first, .mask = &mask };
    prg_init(&mask, mask_seed, LWE_MASK);
    SEFL_TRY(work_new(&job.work, threads));
    st = pool_run(threads, units, GRAIN, write_piece, &job, NULL);
done:
    work_free(job.work, threads);
    prg_clear(&mask);
    return st;
}

/* ---- cryptography service provider ----------------------------------------------------------- */

typedef struct lwe_dec {
    lwe_plan plan;
    lwe_spectrum minus_s;
    prg pub;
    const ahe_params *p;
    const paillier_sec *sec;
} lwe_dec;

static void dec_free(ahe_dec *dec)
{
    if (dec)
        sefl_free_secret(dec, sizeof(lwe_dec));
}

static sefl_status dec_new(ahe_dec **out, const ahe_sec *sec, const ahe_params *p,
                           const uint8_t context[AHE_CONTEXT_BYTES])
{
    sefl_status st = SEFL_OK;
    lwe_dec *d = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&d, 1, sizeof *d));
    plan_of(&d->plan, p);
    prg_init(&d->pub, context, LWE_PUBLIC);
    d->p = p, d->sec = sec;
    *out = (ahe_dec *)d, d = NULL;
done:
    dec_free((ahe_dec *)d);
    return st;
}

/* A coefficient that no honest sum gives is a client's nonsense and spoils this round, nothing else:
 * it is taken as it is. Faults of this machine are found by paillier_decrypt, in lanes that a head
 * leaves idle (11 ciphertexts of 3072 bits in two batches of eight). */
static sefl_status dec_head(ahe_dec *dec, const uint8_t *head, pool *threads)
{
    sefl_status st = SEFL_OK;
    lwe_dec *d = (lwe_dec *)dec;
    const paillier_pub *pub = paillier_sec_pub(d->sec);
    const unsigned bits = paillier_bits(pub);
    const size_t count = lwe_head_count(bits), bytes = paillier_plain_bytes(pub);
    uint8_t *m = NULL;
    int32_t s[LWE_N] = { 0 };
    SEFL_TRY(sefl_new(&m, count, bytes));
    SEFL_TRY(paillier_decrypt(d->sec, m, head, count, threads, NULL));
    for (size_t i = 0; i < count; i++)
        (void)lwe_head_decode(s, m + i * bytes, i, paillier_modulus(pub), bits);
    for (size_t k = 0; k < LWE_N; k++)
        s[k] = -s[k];
    lwe_ring_spectrum(&d->plan.ring, &d->minus_s, s, false);
done:
    if (m)
        sefl_free_secret(m, count * bytes);
    sefl_wipe(s, sizeof s);
    return st;
}

typedef struct dec_job {
    const lwe_dec *d;
    lwe_work *work;
    uint8_t *plain;
    const uint8_t *in;
    size_t first;
} dec_job;

static sefl_status decrypt_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const dec_job *j = ctx;
    const ahe_params *p = j->d->p;
    for (size_t i = begin; i < end; i++)
        lwe_unit_decrypt(&j->d->plan, j->plain + i * p->plain_bytes, j->in + i * p->sum_unit_bytes,
                         j->first + i, &j->d->pub, &j->d->minus_s, &j->work[lane]);
    return SEFL_OK;
}

static sefl_status dec_units(ahe_dec *dec, uint8_t *plain, size_t first, const uint8_t *bytes,
                             size_t units, pool *threads, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    dec_job job = { .d = (const lwe_dec *)dec, .plain = plain, .in = bytes, .first = first };
    SEFL_TRY(work_new(&job.work, threads));
    st = pool_run(threads, units, GRAIN, decrypt_piece, &job, progress);
done:
    work_free(job.work, threads);
    return st;
}

/* ---- plain units ----------------------------------------------------------------------------- */

/* A mask is uniform modulo 2^w in every slot: the stream itself, read as a row of w bits. */
static sefl_status mask_units(const ahe_params *p, uint8_t *plain, size_t first, size_t units,
                              const uint8_t mask_seed[AHE_SEED_BYTES])
{
    prg mask;
    prg_init(&mask, mask_seed, LWE_MASK);
    for (size_t i = 0; i < units; i++)
        prg_read(&mask, plain + i * p->plain_bytes, p->plain_bytes, first + i, 0);
    prg_clear(&mask);
    return SEFL_OK;
}

const ahe_scheme ahe_lwe = {
    .name = "lwe",
    .params = params,
    .enc_new = enc_new,
    .enc_free = enc_free,
    .upload_new = upload_new,
    .upload_head = upload_head,
    .upload_units = upload_units,
    .upload_free = upload_free,
    .sum_new = sum_new,
    .sum_check_head = sum_check_head,
    .sum_check_units = sum_check_units,
    .sum_add_head = sum_add_head,
    .sum_add_units = sum_add_units,
    .sum_close = sum_close,
    .sum_write_head = sum_write_head,
    .sum_write_units = sum_write_units,
    .sum_free = sum_free,
    .dec_new = dec_new,
    .dec_head = dec_head,
    .dec_units = dec_units,
    .dec_free = dec_free,
    .mask_units = mask_units,
    .plain_digits = rows_digits,
    .plain_unmask = rows_unmask,
    .plain_add = rows_add,
};

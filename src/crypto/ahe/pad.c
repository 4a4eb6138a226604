/* ahe_pad: one-time pads from a seed. A unit of an upload is its values plus G(seed) modulo 2^w, a
 * row of 2048 numbers of w bits; AS adds rows, CSP, which has every seed, subtracts the sum of the
 * pads.
 *
 *     G(seed), unit u:   2048 numbers of w bits, the first bytes of stream n0 + u of prg(seed, "pad");
 *                        n0 = the first 8 bytes of the upload's context
 *
 * A context is unique to (task, round, client), so that equal seeds of two clients would not meet
 * in one stream, and one search for a key never serves two uploads. Sums are exact: there is no
 * error to decode, no carry between slots, and every byte string of the right length is a unit.
 *
 * Order of calls, ranges and counts are checked in ahe.c. Memory: an upload 48 KiB per thread while
 * it runs, a sum and a decryptor 8 bytes per value. */
#include "crypto/ahe/ahe.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "crypto/ahe/rowbits.h"
#include "crypto/ahe/rows.h"
#include "crypto/prg/prg.h"

#include <assert.h>
#include <string.h>

enum { N = 2048, GRAIN = 8, GRAIN_ADD = 32, SEEDS_AT_ONCE = 64, ROW_MAX = N / 8 * PACK_W_MAX };

#define PAD  "pad"
#define MASK "pad mask"

static sefl_status params(ahe_params *p, const ahe_pub *pub)
{
    (void)pub; /* no key: the seed travels sealed, outside of this scheme */
    SEFL_NEED(p->pack.scheme == PACK_PAD, SEFL_EINVAL,
              "pad: these slots were made for another scheme");
    SEFL_NEED(p->pack.g == 0, SEFL_EINVAL, "pad: slots have no carries: %u guard bits, wanted 0",
              p->pack.g);
    p->unit_values = N;
    p->unit_bytes = p->plain_bytes = N / 8 * (size_t)p->pack.w;
    return SEFL_OK;
}

static void row_of(rowbits *row, const ahe_params *p)
{
    rowbits_init(row, p->pack.w, rowbits_path_best());
}

/* One piece of memory per thread. */
typedef struct work {
    _Alignas(64) uint64_t v[N];
    uint8_t bytes[ROW_MAX];
} work;

/* pool_run with memory for every thread in *memory, a member of the job. */
static sefl_status run_with(work **memory, pool *threads, size_t n, size_t grain, pool_fn *fn,
                            void *job, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(sefl_new(memory, pool_threads(threads), sizeof **memory));
    st = pool_run(threads, n, grain, fn, job, progress);
done:
    sefl_free_secret(*memory, pool_threads(threads) * sizeof **memory);
    return st;
}

/* ---- client ---------------------------------------------------------------------------------- */

typedef struct pad_enc {
    const ahe_params *p;
    rowbits row;
} pad_enc;

typedef struct pad_upload {
    const pad_enc *e;
    prg pad;
    ahe_seed seed;
    size_t next; /* first unit not encrypted yet */
} pad_upload;

static void enc_free(ahe_enc *e)
{
    sefl_free(e);
}

static sefl_status enc_new(ahe_enc **out, const ahe_pub *pub, const ahe_params *p, pool *threads,
                           const sefl_progress *progress)
{
    pad_enc *e = NULL;
    (void)pub, (void)threads, (void)progress;
    *out = NULL;
    SEFL_PASS(sefl_new(&e, 1, sizeof *e));
    e->p = p;
    row_of(&e->row, p);
    *out = (ahe_enc *)e;
    return SEFL_OK;
}

static void upload_free(ahe_upload *u)
{
    if (u)
        sefl_free_secret(u, sizeof(pad_upload));
}

static sefl_status upload_new(ahe_upload **out, const ahe_enc *enc,
                              const uint8_t context[AHE_CONTEXT_BYTES], const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    pad_upload *u = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&u, 1, sizeof *u));
    u->e = (const pad_enc *)enc;
    SEFL_TRY(rng_fill(rng, u->seed.seed, sizeof u->seed.seed));
    CT_SECRET(u->seed.seed, sizeof u->seed.seed);
    u->seed.stream = ahe_seed_stream(context);
    prg_init(&u->pad, u->seed.seed, PAD);
    *out = (ahe_upload *)u, u = NULL;
done:
    upload_free((ahe_upload *)u);
    return st;
}

static void upload_seed(const ahe_upload *u, ahe_seed *out)
{
    *out = ((const pad_upload *)u)->seed;
}

typedef struct upload_job {
    const pad_upload *u;
    work *work;
    uint8_t *out;
    const int64_t *values;
} upload_job;

static sefl_status encrypt_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const upload_job *j = ctx;
    const pad_upload *u = j->u;
    const ahe_params *p = u->e->p;
    work *w = &j->work[lane];
    for (size_t i = begin; i < end; i++) {
        size_t unit = u->next + i, left = p->values - unit * N, n = left < N ? left : N;
        for (size_t k = 0; k < n; k++)
            w->v[k] = (uint64_t)j->values[i * N + k];
        memset(w->v + n, 0, (N - n) * sizeof w->v[0]);
        prg_read(&u->pad, w->bytes, p->unit_bytes, u->seed.stream + unit, 0);
        rowbits_add(&u->e->row, w->v, w->bytes, N);
        rowbits_pack(&u->e->row, j->out + i * p->unit_bytes, w->v, N);
    }
    return SEFL_OK;
}

static sefl_status upload_units(ahe_upload *upload, uint8_t *out, const int64_t *values,
                                size_t units, pool *threads, const sefl_progress *progress)
{
    pad_upload *u = (pad_upload *)upload;
    upload_job job = { .u = u, .out = out, .values = values };
    assert(units <= u->e->p->units - u->next);
    sefl_status st = run_with(&job.work, threads, units, GRAIN, encrypt_piece, &job, progress);
    u->next += units; /* also on failure: that part of the pad counts as spent */
    return st;
}

/* ---- sums, at either server ------------------------------------------------------------------ */

/* AS: the sum of the rows. CSP: the sum of the pads. */
typedef struct pad_sum {
    const ahe_params *p;
    rowbits row;
    uint64_t *v; /* (units, 2048), modulo 2^64; the low w bits count */
} pad_sum;

static void sum_clear(pad_sum *s)
{
    if (!s)
        return;
    if (s->v)
        sefl_free_secret(s->v, s->p->units * N * sizeof *s->v);
    sefl_free(s);
}

static sefl_status sum_make(pad_sum **out, const ahe_params *p)
{
    sefl_status st = SEFL_OK;
    pad_sum *s = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&s, 1, sizeof *s));
    s->p = p;
    row_of(&s->row, p);
    SEFL_TRY(sefl_new(&s->v, p->units, N * sizeof *s->v));
    *out = s, s = NULL;
done:
    sum_clear(s);
    return st;
}

typedef struct sum_job {
    pad_sum *s;
    work *work;
    const prg *prg; /* the mask; or `seeds` pads */
    const ahe_seed *seed;
    size_t seeds, first;
    bool take; /* off the sum, not onto it */
    const uint8_t *in;
    uint8_t *out;
} sum_job;

/* ---- aggregation server ---------------------------------------------------------------------- */

static void sum_free(ahe_sum *sum)
{
    sum_clear((pad_sum *)sum);
}

static sefl_status sum_new(ahe_sum **out, const ahe_pub *pub, const ahe_params *p)
{
    (void)pub;
    return sum_make((pad_sum **)out, p);
}

static sefl_status sum_check_units(const ahe_sum *sum, const uint8_t *bytes, size_t units)
{
    (void)sum, (void)bytes, (void)units;
    return SEFL_OK;
}

/* v -= row */
static void take_row(const rowbits *row, uint64_t *v, const uint8_t *bytes, uint64_t scratch[N])
{
    rowbits_unpack(row, scratch, bytes, N);
    for (size_t k = 0; k < N; k++)
        v[k] -= scratch[k];
}

static sefl_status add_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const sum_job *j = ctx;
    for (size_t i = begin; i < end; i++) {
        uint64_t *v = j->s->v + (j->first + i) * N;
        const uint8_t *bytes = j->in + i * j->s->p->unit_bytes;
        if (j->take)
            take_row(&j->s->row, v, bytes, j->work[lane].v);
        else
            rowbits_add(&j->s->row, v, bytes, N);
    }
    return SEFL_OK;
}

static sefl_status sum_add_units(ahe_sum *sum, size_t first, const uint8_t *bytes, size_t units,
                                 pool *threads)
{
    sum_job job = { .s = (pad_sum *)sum, .in = bytes, .first = first };
    return pool_run(threads, units, GRAIN_ADD, add_piece, &job, NULL);
}

static sefl_status sum_take_units(ahe_sum *sum, size_t first, const uint8_t *bytes, size_t units,
                                  pool *threads)
{
    sum_job job = { .s = (pad_sum *)sum, .in = bytes, .first = first, .take = true };
    return run_with(&job.work, threads, units, GRAIN_ADD, add_piece, &job, NULL);
}

static sefl_status sum_close(ahe_sum *sum)
{
    (void)sum;
    return SEFL_OK;
}

static sefl_status write_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const sum_job *j = ctx;
    const ahe_params *p = j->s->p;
    work *w = &j->work[lane];
    for (size_t i = begin; i < end; i++) {
        memcpy(w->v, j->s->v + (j->first + i) * N, sizeof w->v);
        prg_read(j->prg, w->bytes, p->plain_bytes, j->first + i, 0);
        rowbits_add(&j->s->row, w->v, w->bytes, N);
        rowbits_pack(&j->s->row, j->out + i * p->unit_bytes, w->v, N);
    }
    return SEFL_OK;
}

static sefl_status sum_write_units(ahe_sum *sum, uint8_t *out, size_t first, size_t units,
                                   const uint8_t mask_seed[AHE_SEED_BYTES], pool *threads)
{
    prg mask;
    sum_job job = { .s = (pad_sum *)sum, .out = out, .first = first, .prg = &mask };
    prg_init(&mask, mask_seed, MASK);
    sefl_status st = run_with(&job.work, threads, units, GRAIN, write_piece, &job, NULL);
    prg_clear(&mask);
    return st;
}

/* ---- cryptography service provider ----------------------------------------------------------- */

static void dec_free(ahe_dec *dec)
{
    sum_clear((pad_sum *)dec);
}

static sefl_status dec_new(ahe_dec **out, const ahe_sec *sec, const ahe_params *p,
                           const uint8_t context[AHE_CONTEXT_BYTES])
{
    (void)sec, (void)context;
    return sum_make((pad_sum **)out, p);
}

/* Every pad of one unit while that part of the sum is in the cache. */
static sefl_status pad_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const sum_job *j = ctx;
    work *w = &j->work[lane];
    for (size_t u = begin; u < end; u++)
        for (size_t i = 0; i < j->seeds; i++) {
            prg_read(&j->prg[i], w->bytes, j->s->p->unit_bytes, j->seed[i].stream + u, 0);
            if (j->take)
                take_row(&j->s->row, j->s->v + u * N, w->bytes, w->v);
            else
                rowbits_add(&j->s->row, j->s->v + u * N, w->bytes, N);
        }
    return SEFL_OK;
}

static sefl_status pads_in(ahe_dec *dec, const ahe_seed *seeds, size_t n, bool take, pool *threads)
{
    sefl_status st = SEFL_OK;
    prg *pads = NULL;
    sum_job job = { .s = (pad_sum *)dec, .take = take };
    SEFL_TRY(sefl_new(&pads, SEEDS_AT_ONCE, sizeof *pads));
    job.prg = pads;
    for (; n > 0; n -= job.seeds, seeds += job.seeds) {
        job.seeds = n < SEEDS_AT_ONCE ? n : SEEDS_AT_ONCE;
        job.seed = seeds;
        for (size_t i = 0; i < job.seeds; i++)
            prg_init(&pads[i], seeds[i].seed, PAD);
        SEFL_TRY(run_with(&job.work, threads, job.s->p->units, GRAIN, pad_piece, &job, NULL));
    }
done:
    sefl_free_secret(pads, SEEDS_AT_ONCE * sizeof *pads);
    return st;
}

static sefl_status dec_add(ahe_dec *dec, const ahe_seed *seeds, size_t n, pool *threads)
{
    return pads_in(dec, seeds, n, false, threads);
}

static sefl_status dec_take(ahe_dec *dec, const ahe_seed *seeds, size_t n, pool *threads)
{
    return pads_in(dec, seeds, n, true, threads);
}

static sefl_status decrypt_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const sum_job *j = ctx;
    const ahe_params *p = j->s->p;
    work *w = &j->work[lane];
    for (size_t i = begin; i < end; i++) {
        const uint64_t *pad = j->s->v + (j->first + i) * N;
        rowbits_unpack(&j->s->row, w->v, j->in + i * p->unit_bytes, N);
        for (size_t k = 0; k < N; k++)
            w->v[k] -= pad[k];
        rowbits_pack(&j->s->row, j->out + i * p->plain_bytes, w->v, N);
    }
    return SEFL_OK;
}

static sefl_status dec_units(ahe_dec *dec, uint8_t *plain, size_t first, const uint8_t *bytes,
                             size_t units, pool *threads, const sefl_progress *progress)
{
    sum_job job = { .s = (pad_sum *)dec, .out = plain, .first = first, .in = bytes };
    return run_with(&job.work, threads, units, GRAIN, decrypt_piece, &job, progress);
}

/* ---- plain units ----------------------------------------------------------------------------- */

/* A mask is uniform modulo 2^w in every slot: the stream itself, read as a row of w bits. */
static sefl_status mask_units(const ahe_params *p, uint8_t *plain, size_t first, size_t units,
                              const uint8_t mask_seed[AHE_SEED_BYTES])
{
    prg mask;
    prg_init(&mask, mask_seed, MASK);
    for (size_t i = 0; i < units; i++)
        prg_read(&mask, plain + i * p->plain_bytes, p->plain_bytes, first + i, 0);
    prg_clear(&mask);
    return SEFL_OK;
}

const ahe_scheme ahe_pad = {
    .name = "pad",
    AHE_SCHEME_FUNCTIONS,
    .upload_seed = upload_seed,
    .sum_take_units = sum_take_units,
    .dec_add = dec_add,
    .dec_take = dec_take,
    .mask_units = mask_units,
    .plain_digits = rows_digits,
    .plain_unmask = rows_unmask,
    .plain_add = rows_add,
};

/* ahe_pad: one-time pads from a seed. A unit of an upload is its values plus G(seed) modulo 2^w, a
 * row of 2048 numbers of w bits; AS adds rows, CSP, which has every seed, subtracts the sum of the
 * pads.
 *
 *     G(seed), unit u:   2048 numbers of w bits, the first bytes of stream n0 + u of prg(seed,
 *                        "pad"); n0 = the first 8 bytes of the upload's context
 *
 * A context is unique to (task, round, client), so even equal seeds of two clients use different
 * streams, and an exhaustive key search never covers two uploads at once. Sums are exact: there are
 * no errors to correct and no carries between slots; any byte string of the right length is a unit.
 *
 * ahe.c checks the order of calls, ranges and counts. Memory: an upload takes 48 KiB per thread
 * while it runs; a sum and a decryptor take 8 bytes per value. */
#include "crypto/ahe/ahe.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "crypto/ahe/rowbits.h"
#include "crypto/ahe/rows.h"
#include "crypto/prg/prg.h"

#include <string.h>

enum { N = 2048, GRAIN = 8, GRAIN_ADD = 32, SEEDS_AT_ONCE = 64, ROW_MAX = N / 8 * PACK_W_MAX };

#define PAD  "pad"
#define MASK "pad mask"

static sefl_status params(ahe_params *p, const ahe_pub *pub)
{
    (void)pub; /* no key: the seed travels sealed, outside of this scheme */
    SEFL_NEED(p->pack.scheme == PACK_PAD, SEFL_EINVAL, "pad: this packing is for another scheme");
    SEFL_NEED(p->pack.g == 0, SEFL_EINVAL,
              "pad: %u guard bits; slots have no carries, so it must be 0", p->pack.g);
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

typedef struct enc {
    ahe_enc head;
    rowbits row;
} enc;

typedef struct upload {
    ahe_upload head;
    const rowbits *row;
    prg pad;
    ahe_seed seed;
} upload;

static sefl_status enc_init(ahe_enc *e, const ahe_pub *pub, pool *threads,
                            const sefl_progress *progress)
{
    (void)pub, (void)threads, (void)progress;
    row_of(&((enc *)e)->row, e->p);
    return SEFL_OK;
}

static sefl_status upload_init(ahe_upload *upload_, const ahe_enc *e,
                               const uint8_t context[AHE_CONTEXT_BYTES], const sefl_rng *rng)
{
    upload *u = (upload *)upload_;
    u->row = &((const enc *)e)->row;
    SEFL_PASS(rng_fill(rng, u->seed.seed, sizeof u->seed.seed));
    CT_SECRET(u->seed.seed, sizeof u->seed.seed);
    u->seed.stream = ahe_seed_stream(context);
    prg_init(&u->pad, u->seed.seed, PAD);
    return SEFL_OK;
}

static void upload_seed(const ahe_upload *u, ahe_seed *out)
{
    *out = ((const upload *)u)->seed;
}

typedef struct upload_job {
    const upload *u;
    work *work;
    uint8_t *out;
    const int64_t *values;
} upload_job;

static sefl_status encrypt_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const upload_job *j = ctx;
    const upload *u = j->u;
    const ahe_params *p = u->head.p;
    work *w = &j->work[lane];
    for (size_t i = begin; i < end; i++) {
        size_t unit = u->head.next + i, left = p->values - unit * N, n = left < N ? left : N;
        for (size_t k = 0; k < n; k++)
            w->v[k] = (uint64_t)j->values[i * N + k];
        memset(w->v + n, 0, (N - n) * sizeof w->v[0]);
        prg_read(&u->pad, w->bytes, p->unit_bytes, u->seed.stream + unit, 0);
        rowbits_add(u->row, w->v, w->bytes, N);
        rowbits_pack(u->row, j->out + i * p->unit_bytes, w->v, N);
    }
    return SEFL_OK;
}

static sefl_status upload_units(ahe_upload *u, uint8_t *out, const int64_t *values, size_t units,
                                pool *threads, const sefl_progress *progress)
{
    upload_job job = { .u = (upload *)u, .out = out, .values = values };
    return run_with(&job.work, threads, units, GRAIN, encrypt_piece, &job, progress);
}

/* ---- sums, at either server ------------------------------------------------------------------ */

/* AS: the sum of the rows. CSP: the sum of the pads. */
typedef struct rows {
    const ahe_params *p;
    rowbits row;
    uint64_t *v; /* (units, 2048), modulo 2^64; the low w bits count */
} rows;

typedef struct sum {
    ahe_sum head;
    rows rows;
} sum;

typedef struct dec {
    ahe_dec head;
    rows rows;
} dec;

static sefl_status rows_init(rows *r, const ahe_params *p)
{
    r->p = p;
    row_of(&r->row, p);
    return sefl_new(&r->v, p->units, N * sizeof *r->v);
}

static void rows_clear(rows *r)
{
    if (r->v)
        sefl_free_secret(r->v, r->p->units * N * sizeof *r->v);
}

typedef struct sum_job {
    rows *s;
    work *work;
    const prg *prg; /* the mask; or `seeds` pads */
    const ahe_seed *seed;
    size_t seeds, first;
    bool take; /* off the sum, not onto it */
    const uint8_t *in;
    uint8_t *out;
} sum_job;

/* ---- aggregation server ---------------------------------------------------------------------- */

static sefl_status sum_init(ahe_sum *s, const ahe_pub *pub)
{
    (void)pub;
    return rows_init(&((sum *)s)->rows, s->p);
}

static void sum_clear(ahe_sum *s)
{
    rows_clear(&((sum *)s)->rows);
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

static sefl_status sum_add_units(ahe_sum *s, size_t first, const uint8_t *bytes, size_t units,
                                 pool *threads)
{
    sum_job job = { .s = &((sum *)s)->rows, .in = bytes, .first = first };
    return pool_run(threads, units, GRAIN_ADD, add_piece, &job, NULL);
}

static sefl_status sum_take_units(ahe_sum *s, size_t first, const uint8_t *bytes, size_t units,
                                  pool *threads)
{
    sum_job job = { .s = &((sum *)s)->rows, .in = bytes, .first = first, .take = true };
    return run_with(&job.work, threads, units, GRAIN_ADD, add_piece, &job, NULL);
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

static sefl_status sum_write_units(ahe_sum *s, uint8_t *out, size_t first, size_t units,
                                   const uint8_t mask_seed[AHE_SEED_BYTES], pool *threads)
{
    prg mask;
    sum_job job = { .s = &((sum *)s)->rows, .out = out, .first = first, .prg = &mask };
    prg_init(&mask, mask_seed, MASK);
    sefl_status st = run_with(&job.work, threads, units, GRAIN, write_piece, &job, NULL);
    prg_clear(&mask);
    return st;
}

static sefl_status plain_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const sum_job *j = ctx;
    (void)lane;
    for (size_t i = begin; i < end; i++)
        rowbits_pack(&j->s->row, j->out + i * j->s->p->unit_bytes, j->s->v + i * N, N);
    return SEFL_OK;
}

static sefl_status sum_write_plain(const ahe_sum *s, uint8_t *out, pool *threads)
{
    rows r = ((const sum *)s)->rows;
    sum_job job = { .s = &r, .out = out };
    return pool_run(threads, s->p->units, GRAIN_ADD, plain_piece, &job, NULL);
}

static void units_add(const ahe_params *p, const ahe_pub *pub, uint8_t *to, const uint8_t *bytes,
                      size_t units)
{
    rowbits row;
    uint64_t v[N];
    (void)pub;
    row_of(&row, p);
    for (size_t i = 0; i < units; i++) {
        rowbits_unpack(&row, v, to + i * p->unit_bytes, N);
        rowbits_add(&row, v, bytes + i * p->unit_bytes, N);
        rowbits_pack(&row, to + i * p->unit_bytes, v, N);
    }
}

/* ---- cryptography service provider ----------------------------------------------------------- */

static sefl_status dec_init(ahe_dec *d, const ahe_sec *sec,
                            const uint8_t context[AHE_CONTEXT_BYTES])
{
    (void)sec, (void)context;
    return rows_init(&((dec *)d)->rows, d->p);
}

static void dec_clear(ahe_dec *d)
{
    rows_clear(&((dec *)d)->rows);
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

static sefl_status pads_in(ahe_dec *d, const ahe_seed *seeds, size_t n, bool take, pool *threads)
{
    sefl_status st = SEFL_OK;
    prg *pads = NULL;
    sum_job job = { .s = &((dec *)d)->rows, .take = take };
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

static sefl_status dec_add(ahe_dec *d, const ahe_seed *seeds, size_t n, pool *threads)
{
    return pads_in(d, seeds, n, false, threads);
}

static sefl_status dec_take(ahe_dec *d, const ahe_seed *seeds, size_t n, pool *threads)
{
    return pads_in(d, seeds, n, true, threads);
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

static sefl_status dec_units(ahe_dec *d, uint8_t *plain, size_t first, const uint8_t *bytes,
                             size_t units, pool *threads, const sefl_progress *progress)
{
    sum_job job = { .s = &((dec *)d)->rows, .out = plain, .first = first, .in = bytes };
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
    .dec_clear = dec_clear,
    .dec_add = dec_add,
    .dec_take = dec_take,
    .mask_units = mask_units,
    .plain_digits = rows_digits,
    .plain_unmask = rows_unmask,
    .plain_add = rows_add,
};

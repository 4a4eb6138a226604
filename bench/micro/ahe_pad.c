/* The pad scheme beside its floors, measured in the same run: AES is the key stream of as many bytes,
 * memory is reading and writing 8 bytes a value. And what a sealed seed costs. Whole updates of 945,510
 * values: client, AS and CSP do this once a client. */
#include "bench/micro/ahe.h"

#include "base/alloc.h"
#include "crypto/ahe/ahe.h"
#include "crypto/prg/prg.h"
#include "crypto/seal/seal.h"

enum { VALUES = 945510, SEEDS = 8, SEED = 32 };

typedef struct job {
    ahe_params p;
    ahe_enc *enc;
    ahe_sum *sum;
    ahe_dec *dec;
    ahe_seed seeds[SEEDS];
    int64_t *values;
    uint64_t *sums;
    uint8_t *body, *plain;
    prg stream;
    pool *workers;
    sefl_rng rng;
    const seal_suite *suite;
    seal_key *key;
    uint8_t enc_bytes[SEAL_ENC_MAX], sealed[SEED + SEAL_TAG], opened[SEED];
} job;

static const uint8_t context[AHE_CONTEXT_BYTES] = "bench";
static const uint8_t some_seed[AHE_SEED_BYTES] = { 1 };

static sefl_status aes(void *ctx)
{
    job *j = ctx;
    prg_read(&j->stream, j->body, ahe_body_bytes(&j->p), 0, 0);
    return SEFL_OK;
}

static sefl_status memory(void *ctx)
{
    job *j = ctx;
    for (size_t i = 0; i < VALUES; i++)
        j->sums[i] += i;
    __asm__ __volatile__("" : : "r"(j->sums) : "memory");
    return SEFL_OK;
}

static sefl_status encrypt(void *ctx)
{
    sefl_status st = SEFL_OK;
    job *j = ctx;
    ahe_upload *u = NULL;
    SEFL_TRY(ahe_upload_new(&u, &j->p, j->enc, context, &j->rng));
    ahe_upload_seed(&j->p, u, &j->seeds[0]);
    SEFL_TRY(ahe_upload_units(&j->p, u, j->body, j->values, j->p.units, j->workers, NULL));
done:
    ahe_upload_free(&j->p, u);
    return st;
}

/* Of the scheme, not through ahe.h, which counts clients. */
static sefl_status add(void *ctx)
{
    job *j = ctx;
    return ahe_pad.sum_add_units(j->sum, 0, j->body, j->p.units, j->workers);
}

static sefl_status pads(void *ctx)
{
    job *j = ctx;
    return ahe_pad.dec_add(j->dec, j->seeds, SEEDS, j->workers);
}

static sefl_status write(void *ctx)
{
    job *j = ctx;
    return ahe_pad.sum_write_units(j->sum, j->plain, 0, j->p.units, some_seed, j->workers);
}

static sefl_status decrypt(void *ctx)
{
    job *j = ctx;
    return ahe_pad.dec_units(j->dec, j->plain, 0, j->body, j->p.units, j->workers, NULL);
}

static const sefl_span at = { .p = context, .n = sizeof context };

static sefl_status seal(void *ctx)
{
    job *j = ctx;
    return seal_make(j->enc_bytes, j->sealed, j->suite, seal_key_pub(j->key), at, at,
                     span_of(some_seed, SEED), &j->rng);
}

static sefl_status unseal(void *ctx)
{
    job *j = ctx;
    return seal_open(j->opened, j->key, j->enc_bytes, at, at, span_of(j->sealed, sizeof j->sealed));
}

static sefl_status timed(bench *b, double *us, sefl_status (*fn)(void *), job *j)
{
    bench_timing t = { 0 };
    sefl_status st = bench_time(b, &t, fn, j);
    *us = t.min_s * 1e6;
    return st;
}

static sefl_status seals(bench *b, job *j)
{
    static const char *const names[] = { "x25519", "xwing" };
    sefl_status st = SEFL_OK;
    double us;
    char label[64];
    for (int i = 0; i < 2; i++) {
        j->suite = seal_suite_named(names[i]);
        SEFL_TRY(seal_key_from(&j->key, j->suite, some_seed));
        SEFL_TRY(timed(b, &us, seal, j));
        snprintf(label, sizeof label, "seal a seed (%s, %zu bytes)", names[i],
                 j->suite->enc_bytes + sizeof j->sealed);
        bench_ahe_time(b, label, us, 0, 0, 1);
        SEFL_TRY(timed(b, &us, unseal, j));
        snprintf(label, sizeof label, "open a sealed seed (%s)", names[i]);
        bench_ahe_time(b, label, us, 0, 0, 1);
        seal_key_free(j->key);
        j->key = NULL;
    }
done:
    return st;
}

sefl_status bench_ahe_pad(bench *b, const bench_ahe_options *o)
{
    sefl_status st = SEFL_OK;
    job *j = NULL;
    pack packing = bench_ahe_pack(o);
    double stream, rw, us;
    packing.scheme = PACK_PAD, packing.g = packing.s = 0;
    SEFL_TRY(sefl_new(&j, 1, sizeof *j));
    j->rng = rng_system();
    j->workers = o->pool;
    SEFL_TRY(ahe_params_init(&j->p, &ahe_pad, &packing, NULL, VALUES));
    prg_init(&j->stream, some_seed, "bench");
    SEFL_TRY(sefl_new(&j->values, j->p.units * j->p.unit_values, sizeof *j->values));
    SEFL_TRY(sefl_new(&j->sums, VALUES, sizeof *j->sums));
    SEFL_TRY(sefl_new(&j->body, ahe_body_bytes(&j->p), 1));
    SEFL_TRY(sefl_new(&j->plain, j->p.units, j->p.plain_bytes));
    SEFL_TRY(ahe_enc_new(&j->enc, NULL, &j->p, NULL, NULL));
    SEFL_TRY(ahe_pad.sum_new(&j->sum, NULL, &j->p));
    SEFL_TRY(ahe_pad.dec_new(&j->dec, NULL, &j->p, context));
    bench_note(b, "pad: %u bits a value, %d values, %u clients; AES %s", packing.w, VALUES,
               packing.clients, aes_path_name(aes_path_best()));
    SEFL_TRY(timed(b, &stream, aes, j));
    SEFL_TRY(timed(b, &rw, memory, j));
    SEFL_TRY(timed(b, &us, encrypt, j));
    bench_ahe_time(b, "encrypt an update (floor: AES)", us, stream, VALUES, b->threads);
    SEFL_TRY(timed(b, &us, add, j));
    bench_ahe_time(b, "AS adds an update (floor: memory)", us, rw, VALUES, b->threads);
    SEFL_TRY(timed(b, &us, write, j));
    bench_ahe_time(b, "AS masks and writes the sum (floor: AES)", us, stream, VALUES, b->threads);
    SEFL_TRY(timed(b, &us, pads, j));
    bench_ahe_time(b, "CSP makes and adds one client's pad (floor: AES)", us / SEEDS, stream,
                   VALUES, b->threads);
    SEFL_TRY(timed(b, &us, decrypt, j));
    bench_ahe_time(b, "CSP takes the pads off the sum (floor: memory)", us, rw, VALUES, b->threads);
    bench_row(b, &(bench_result){ .name = "bytes a value (floor: w/8)",
                                  .value = (double)ahe_body_bytes(&j->p) / VALUES,
                                  .unit = "bytes",
                                  .floor = packing.w / 8.0 });
    SEFL_TRY(seals(b, j));
done:
    if (j) {
        seal_key_free(j->key);
        ahe_pad.dec_free(j->dec);
        ahe_pad.sum_free(j->sum);
        ahe_enc_free(&j->p, j->enc);
        sefl_free(j->plain);
        sefl_free(j->body);
        sefl_free(j->sums);
        sefl_free(j->values);
    }
    sefl_free(j);
    return st;
}

/* The pad scheme beside its floors, measured in the same run: AES is a key stream of the same
 * length; memory is reading and writing 8 bytes per value. Also the cost of a head: making it
 * (floor: sealing and signing), checking its signature (floor: Ed25519), opening its seal (floor:
 * one X25519). The updates have 945,510 values; client, AS and CSP each process one per client. */
#include "bench/micro/ahe.h"

#include "base/alloc.h"
#include "crypto/ahe/ahe.h"
#include "crypto/prg/prg.h"
#include "crypto/seal/seal.h"
#include "protocol/update.h"

#include <sodium.h>
#include <string.h>

enum { VALUES = 945510, SEEDS = 8 };

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
    sign_key *upload_key;
    uint8_t head[HEAD_MAX], units[32], seed[HEAD_SEED];
    uint8_t sig[64], sig_pub[32]; /* of the prefix, by libsodium alone */
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

/* Calls the scheme directly, because ahe.h counts clients. */
static sefl_status ahe_pad_add(void *ctx)
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

static sefl_status make_head(void *ctx)
{
    job *j = ctx;
    return head_make(
        j->head,
        &(head_facts){
            .suite = j->suite, .task = context, .round = 1, .client = context, .units = j->units },
        seal_key_pub(j->key), some_seed, j->upload_key, &j->rng);
}

static sefl_status check_head(void *ctx)
{
    sefl_status st = SEFL_OK;
    job *j = ctx;
    head h;
    SEFL_TRY(head_read(&h, j->suite, span_of(j->head, head_bytes(j->suite))));
    SEFL_TRY(head_check(&h, context, 1, sign_key_pub(j->upload_key)));
done:
    return st;
}

static sefl_status open_head(void *ctx)
{
    sefl_status st = SEFL_OK;
    job *j = ctx;
    head h;
    SEFL_TRY(head_read(&h, j->suite, span_of(j->head, head_bytes(j->suite))));
    SEFL_TRY(head_open(j->seed, &h, j->key, context, 1));
done:
    return st;
}

/* Floors: libsodium's own. */
static sefl_status make_floor(void *ctx)
{
    job *j = ctx;
    uint8_t pub[32], shared[32], sig[64];
    crypto_scalarmult_base(pub, some_seed);
    if (crypto_scalarmult(shared, some_seed, pub) != 0)
        return sefl_fail(SEFL_ECRYPTO, "X25519");
    return sign_make(sig, j->upload_key, SIGN_UPLOAD, span_of(j->head, head_bytes(j->suite)));
}

static sefl_status check_floor(void *ctx)
{
    job *j = ctx;
    return crypto_sign_verify_detached(j->sig, j->head, HEAD_PREFIX, j->sig_pub) == 0
               ? SEFL_OK
               : sefl_fail(SEFL_ECRYPTO, "Ed25519");
}

static sefl_status open_floor(void *ctx)
{
    static const uint8_t nine[32] = { 9 };
    uint8_t shared[32];
    (void)ctx;
    return crypto_scalarmult(shared, some_seed, nine) == 0 ? SEFL_OK
                                                           : sefl_fail(SEFL_ECRYPTO, "X25519");
}

/* Everything that a client does after training: protocol/update.h. */
static sefl_status whole_upload(void *ctx)
{
    sefl_status st = SEFL_OK;
    job *j = ctx;
    uint8_t salt[UPDATE_SALT];
    SEFL_TRY(encrypt(j));
    update_name name;
    SEFL_TRY(update_salt(salt, &name, &j->rng));
    update_name_add(&name, span_of(j->body, ahe_body_bytes(&j->p)));
    update_name_end(&name, j->units);
    SEFL_TRY(make_head(j));
done:
    return st;
}

static sefl_status timed(bench *b, double *us, sefl_status (*fn)(void *), job *j)
{
    bench_timing t = { 0 };
    sefl_status st = bench_time(b, &t, fn, j);
    *us = t.min_s * 1e6;
    return st;
}

/* pad_us: time of CSP's pad for one client. */
static sefl_status heads(bench *b, job *j, const char *suite, double pad_us)
{
    sefl_status st = SEFL_OK;
    double us, check, opening, least;
    uint8_t secret[64];
    char label[64];
    j->suite = seal_suite_named(suite);
    SEFL_TRY(seal_key_from(&j->key, j->suite, some_seed));
    SEFL_TRY(timed(b, &us, make_head, j));
    SEFL_TRY(timed(b, &least, make_floor, j));
    snprintf(label, sizeof label, "%s: make a head (floor: X25519, sign)", suite);
    bench_ahe_time(b, label, us, least, 0, 1);
    SEFL_TRY(timed(b, &check, check_head, j));
    crypto_sign_seed_keypair(j->sig_pub, secret, some_seed);
    crypto_sign_detached(j->sig, NULL, j->head, HEAD_PREFIX, secret);
    SEFL_TRY(timed(b, &least, check_floor, j));
    snprintf(label, sizeof label, "%s: check a head (floor: Ed25519)", suite);
    bench_ahe_time(b, label, check, least, 0, 1);
    SEFL_TRY(timed(b, &opening, open_head, j));
    SEFL_TRY(timed(b, &least, open_floor, j));
    snprintf(label, sizeof label, "%s: open a head (floor: X25519)", suite);
    bench_ahe_time(b, label, opening, least, 0, 1);
    SEFL_TRY(timed(b, &us, whole_upload, j));
    snprintf(label, sizeof label, "%s: a client's whole work, bar 10 ms", suite);
    bench_ahe_time(b, label, us, 0, VALUES, b->threads);
    snprintf(label, sizeof label, "%s: CSP's work a client, bar 450 us", suite);
    bench_ahe_time(b, label, check + opening + pad_us, 0, VALUES, b->threads);
    snprintf(label, sizeof label, "%s: upload, all in, bar 3.55", suite);
    bench_row(b,
              &(bench_result){
                  .name = label,
                  .value = (double)(update_front_bytes(j->suite) + ahe_body_bytes(&j->p)) / VALUES,
                  .unit = "B/value",
                  .floor = j->p.pack.w / 8.0 });
done:
    seal_key_free(j->key);
    j->key = NULL;
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
    SEFL_TRY(ahe_sum_new(&j->sum, &j->p, NULL));
    SEFL_TRY(ahe_dec_new(&j->dec, &j->p, NULL, context));
    bench_note(b, "pad: %u bits per value, %d values, %u clients; AES %s", packing.w, VALUES,
               packing.clients, aes_path_name(aes_path_best()));
    SEFL_TRY(timed(b, &stream, aes, j));
    SEFL_TRY(timed(b, &rw, memory, j));
    SEFL_TRY(timed(b, &us, encrypt, j));
    bench_ahe_time(b, "encrypt an update (floor: AES)", us, stream, VALUES, b->threads);
    SEFL_TRY(timed(b, &us, ahe_pad_add, j));
    bench_ahe_time(b, "AS adds an update (floor: memory)", us, rw, VALUES, b->threads);
    SEFL_TRY(timed(b, &us, write, j));
    bench_ahe_time(b, "AS masks and writes the sum (floor: AES)", us, stream, VALUES, b->threads);
    SEFL_TRY(timed(b, &us, pads, j));
    const double pad = us / SEEDS;
    bench_ahe_time(b, "CSP makes and adds a client's pad (floor: AES)", pad, stream, VALUES,
                   b->threads);
    SEFL_TRY(timed(b, &us, decrypt, j));
    bench_ahe_time(b, "CSP takes the pads off the sum (floor: memory)", us, rw, VALUES, b->threads);
    SEFL_TRY(sign_key_new(&j->upload_key, &j->rng));
    SEFL_TRY(heads(b, j, "x25519", pad));
    SEFL_TRY(heads(b, j, "xwing", pad));
done:
    if (j) {
        seal_key_free(j->key);
        sign_key_free(j->upload_key);
        ahe_dec_free(&j->p, j->dec);
        ahe_sum_free(&j->p, j->sum);
        ahe_enc_free(&j->p, j->enc);
        sefl_free(j->plain);
        sefl_free(j->body);
        sefl_free(j->sums);
        sefl_free(j->values);
    }
    sefl_free(j);
    return st;
}

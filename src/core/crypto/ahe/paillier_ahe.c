/* The scheme table: units of packed numbers over the raw Paillier of paillier.h.
 *
 * ahe.c checks the order of calls, ranges and counts; this file does packing, coins and chunks, so
 * that memory does not grow with the vector. */
#include "crypto/ahe/ahe.h"

#include "base/alloc.h"
#include "crypto/ahe/paillier.h"
#include "crypto/ahe/paillier_pack.h"

#include <string.h>

enum { CHUNK = 1024 }; /* units packed ahead: half a megabyte */

typedef struct enc {
    ahe_enc head;
    const paillier_pub *pub;
    paillier_enc *raw;
} enc;

typedef struct upload {
    ahe_upload head;
    const enc *e;
    uint8_t seed[PAILLIER_SEED_BYTES];
    uint8_t *plain; /* CHUNK plaintexts */
} upload;

typedef struct sum {
    ahe_sum head;
    const paillier_pub *pub;
    paillier_sum *raw;
} sum;

typedef struct dec {
    ahe_dec head;
    const paillier_sec *sec;
} dec;

/* Reports the progress of a part as progress of the whole job. */
typedef struct part {
    const sefl_progress *whole;
    uint64_t before, total;
} part;

static bool part_report(void *self, uint64_t done, uint64_t total)
{
    const part *p = self;
    (void)total;
    return progress_report(p->whole, p->before + done, p->total);
}

static sefl_status params(ahe_params *p, const ahe_pub *pub)
{
    unsigned bits = paillier_bits(pub);
    SEFL_NEED(p->pack.w >= 2 && p->pack.w <= 56 && p->pack.w + p->pack.g <= 64, SEFL_EINVAL,
              "paillier: slots of %u bits with %u guard bits do not fit a digit", p->pack.w,
              p->pack.g);
    SEFL_NEED(p->pack.scheme == PACK_PAILLIER, SEFL_EINVAL,
              "paillier: this packing is for another scheme");
    /* a thinner mask reveals the sum, thinner guards lose privacy; only tests use smaller keys */
    SEFL_NEED(
        bits < 2048 ||
            (p->pack.s >= PACK_S_PAILLIER && (p->pack.t == 0 || p->pack.g >= PACK_G_PAILLIER)),
        SEFL_EINVAL,
        "paillier: %u mask bits and %u guard bits; at least %d and, with noise, %d are required",
        p->pack.s, p->pack.g, PACK_S_PAILLIER, PACK_G_PAILLIER);
    SEFL_NEED(pack_slots(&p->pack, bits) >= 1, SEFL_EINVAL,
              "paillier: no slot of %u bits fits a key of %u bits under %u bits of mask", p->pack.w,
              bits, p->pack.s);
    p->unit_values = pack_slots(&p->pack, bits);
    p->unit_bytes = paillier_cipher_bytes(pub);
    p->plain_bytes = paillier_plain_bytes(pub);
    return SEFL_OK;
}

/* ---- client ---------------------------------------------------------------------------------- */

static sefl_status enc_init(ahe_enc *e_, const ahe_pub *pub, pool *workers,
                            const sefl_progress *progress)
{
    enc *e = (enc *)e_;
    e->pub = pub;
    return paillier_enc_new(&e->raw, pub, e_->p->units, workers, progress);
}

static void enc_clear(ahe_enc *e)
{
    paillier_enc_free(((enc *)e)->raw);
}

static sefl_status upload_init(ahe_upload *u_, const ahe_enc *e,
                               const uint8_t context[AHE_CONTEXT_BYTES], const sefl_rng *rng)
{
    upload *u = (upload *)u_;
    (void)context;
    u->e = (const enc *)e;
    SEFL_PASS(sefl_new(&u->plain, CHUNK, e->p->plain_bytes));
    return rng_fill(rng, u->seed, sizeof u->seed);
}

static void upload_clear(ahe_upload *u)
{
    sefl_free_secret(((upload *)u)->plain, CHUNK * u->p->plain_bytes);
}

static sefl_status upload_units(ahe_upload *u_, uint8_t *out, const int64_t *values, size_t units,
                                pool *workers, const sefl_progress *progress)
{
    upload *u = (upload *)u_;
    const ahe_params *p = u_->p;
    const uint8_t *n = paillier_modulus(u->e->pub);
    for (size_t done = 0; done < units;) {
        size_t k = units - done < CHUNK ? units - done : CHUNK, first = u_->next + done;
        for (size_t i = 0; i < k; i++) {
            size_t at = (first + i) * p->unit_values, left = p->values - at;
            paillier_pack(p, u->plain + i * p->plain_bytes, values + (done + i) * p->unit_values,
                          left < p->unit_values ? left : p->unit_values, n);
        }
        part pt = { progress, done, units };
        sefl_progress pr = { part_report, &pt };
        SEFL_PASS(paillier_encrypt_vartime(u->e->raw, out + done * p->unit_bytes, u->plain, k,
                                           u->seed, first, workers, &pr));
        done += k;
    }
    return SEFL_OK;
}

/* ---- aggregation server ---------------------------------------------------------------------- */

static sefl_status sum_init(ahe_sum *s_, const ahe_pub *pub)
{
    sum *s = (sum *)s_;
    s->pub = pub;
    return paillier_sum_new(&s->raw, pub, s_->p->units);
}

static void sum_clear(ahe_sum *s)
{
    paillier_sum_free(((sum *)s)->raw);
}

static sefl_status sum_check_units(const ahe_sum *s, const uint8_t *bytes, size_t units)
{
    return paillier_check(((const sum *)s)->pub, bytes, units);
}

static sefl_status sum_add_units(ahe_sum *s, size_t first, const uint8_t *bytes, size_t units,
                                 pool *workers)
{
    return paillier_sum_add(((sum *)s)->raw, first, bytes, units, workers);
}

static sefl_status sum_close(ahe_sum *s)
{
    return paillier_sum_close(((sum *)s)->raw, NULL);
}

static sefl_status sum_write_units(ahe_sum *s_, uint8_t *out, size_t first, size_t units,
                                   const uint8_t mask_seed[AHE_SEED_BYTES], pool *workers)
{
    sefl_status st = SEFL_OK;
    sum *s = (sum *)s_;
    const ahe_params *p = s_->p;
    size_t room = units < CHUNK ? units : CHUNK;
    uint8_t *plain = NULL;
    SEFL_TRY(sefl_new(&plain, room, p->plain_bytes));
    for (size_t done = 0; done < units;) {
        size_t k = units - done < room ? units - done : room;
        for (size_t i = 0; i < k; i++)
            paillier_pack_mask(p, plain + i * p->plain_bytes, first + done + i, mask_seed, 1);
        SEFL_TRY(paillier_sum_write(s->raw, out + done * p->unit_bytes, first + done, k, plain,
                                    workers));
        done += k;
    }
done:
    sefl_free_secret(plain, room * p->plain_bytes);
    return st;
}

static sefl_status sum_write_plain(const ahe_sum *s, uint8_t *out, pool *workers)
{
    return paillier_sum_write(((const sum *)s)->raw, out, 0, s->p->units, NULL, workers);
}

static void units_add(const ahe_params *p, const ahe_pub *pub, uint8_t *to, const uint8_t *bytes,
                      size_t units)
{
    (void)p;
    paillier_add(pub, to, bytes, units);
}

/* ---- cryptography service provider ----------------------------------------------------------- */

static sefl_status dec_init(ahe_dec *d, const ahe_sec *sec,
                            const uint8_t context[AHE_CONTEXT_BYTES])
{
    (void)context;
    ((dec *)d)->sec = sec;
    return SEFL_OK;
}

/* Does not check ranges: paillier_decrypt checks every unit for faults, and invalid values from a
 * client pass through unchanged. */
static sefl_status dec_units(ahe_dec *d_, uint8_t *plain, size_t first, const uint8_t *bytes,
                             size_t units, pool *workers, const sefl_progress *progress)
{
    (void)first;
    return paillier_decrypt(((dec *)d_)->sec, plain, bytes, units, workers, progress);
}

const ahe_scheme ahe_paillier = {
    .name = "paillier",
    AHE_SCHEME_FUNCTIONS,
    .enc_clear = enc_clear,
    .upload_clear = upload_clear,
    .sum_check_units = sum_check_units,
    .sum_close = sum_close,
    .mask_units = paillier_mask_units,
    .plain_digits = paillier_plain_digits,
    .plain_unmask = paillier_plain_unmask,
    .plain_add = paillier_plain_add,
};

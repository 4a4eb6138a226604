/* The scheme table: units of packed numbers over the raw Paillier of paillier.h.
 *
 * ahe.c checks order, ranges of values and counts of clients; this file does packing, coins and
 * chunks (memory does not grow with the vector). */
#include "crypto/ahe/ahe.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "crypto/ahe/paillier.h"
#include "crypto/ahe/paillier_pack.h"

#include <string.h>

enum { CHUNK = 1024 }; /* units packed ahead: half a megabyte */

typedef struct enc {
    const ahe_params *p;
    const paillier_pub *pub;
    paillier_enc *raw;
} enc;

typedef struct upload {
    const enc *e;
    size_t next;
    uint8_t seed[PAILLIER_SEED_BYTES];
    uint8_t *plain; /* CHUNK plaintexts */
} upload;

typedef struct sum {
    const ahe_params *p;
    const paillier_pub *pub;
    paillier_sum *raw;
} sum;

typedef struct dec {
    const ahe_params *p;
    const paillier_sec *sec;
} dec;

/* A part of a longer job reports as the whole. */
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
              "paillier: these slots were made for another scheme");
    /* a thinner mask reveals the sum, thinner guards lose privacy; only tests use smaller keys */
    SEFL_NEED(bits < 2048 || (p->pack.s >= PACK_S_PAILLIER &&
                              (p->pack.t == 0 || p->pack.g >= PACK_G_PAILLIER)),
              SEFL_EINVAL,
              "paillier: %u bits of mask and %u guard bits: wanted at least %d and, with noise, %d",
              p->pack.s, p->pack.g, PACK_S_PAILLIER, PACK_G_PAILLIER);
    SEFL_NEED(p->pack.s + p->pack.w + 2 <= bits, SEFL_EINVAL,
              "paillier: no slot of %u bits fits a key of %u bits under %u bits of mask", p->pack.w,
              bits, p->pack.s);
    p->unit_values = (bits - 2 - p->pack.s) / p->pack.w;
    p->unit_bytes = paillier_cipher_bytes(pub);
    p->plain_bytes = paillier_plain_bytes(pub);
    return SEFL_OK;
}

/* ---- client ---------------------------------------------------------------------------------- */

static void enc_free(ahe_enc *e_)
{
    enc *e = (enc *)e_;
    if (e)
        paillier_enc_free(e->raw);
    sefl_free(e);
}

static sefl_status enc_new(ahe_enc **out, const ahe_pub *pub, const ahe_params *p, pool *workers,
                           const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    enc *e = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&e, 1, sizeof *e));
    e->p = p;
    e->pub = pub;
    SEFL_TRY(paillier_enc_new(&e->raw, pub, p->units, workers, progress));
    *out = (ahe_enc *)e, e = NULL;
done:
    enc_free((ahe_enc *)e);
    return st;
}

static void upload_free(ahe_upload *u_)
{
    upload *u = (upload *)u_;
    if (!u)
        return;
    sefl_free_secret(u->plain, CHUNK * u->e->p->plain_bytes);
    sefl_free_secret(u, sizeof *u);
}

static sefl_status upload_new(ahe_upload **out, const ahe_enc *e_,
                              const uint8_t context[AHE_CONTEXT_BYTES], const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    const enc *e = (const enc *)e_;
    upload *u = NULL;
    (void)context;
    *out = NULL;
    SEFL_TRY(sefl_new(&u, 1, sizeof *u));
    u->e = e;
    SEFL_TRY(sefl_new(&u->plain, CHUNK, e->p->plain_bytes));
    SEFL_TRY(rng_fill(rng, u->seed, sizeof u->seed));
    *out = (ahe_upload *)u, u = NULL;
done:
    upload_free((ahe_upload *)u);
    return st;
}

static sefl_status upload_units(ahe_upload *u_, uint8_t *out, const int64_t *values, size_t units,
                                pool *workers, const sefl_progress *progress)
{
    upload *u = (upload *)u_;
    const ahe_params *p = u->e->p;
    const uint8_t *n = paillier_modulus(u->e->pub);
    SEFL_NEED(units <= p->units - u->next, SEFL_ESTATE, "paillier: %zu units after %zu of %zu",
              units, u->next, p->units);
    for (size_t done = 0; done < units;) {
        size_t k = units - done < CHUNK ? units - done : CHUNK;
        for (size_t i = 0; i < k; i++) {
            size_t at = (u->next + i) * p->unit_values, left = p->values - at;
            paillier_pack(p, u->plain + i * p->plain_bytes, values + (done + i) * p->unit_values,
                          left < p->unit_values ? left : p->unit_values, n);
        }
        part pt = { progress, done, units };
        sefl_progress pr = { part_report, &pt };
        size_t first = u->next;
        u->next += k; /* the coins of these units count as used, also on failure */
        SEFL_PASS(paillier_encrypt_vartime(u->e->raw, out + done * p->unit_bytes, u->plain, k,
                                           u->seed, first, workers, &pr));
        done += k;
    }
    return SEFL_OK;
}

/* ---- aggregation server ---------------------------------------------------------------------- */

static void sum_free(ahe_sum *s_)
{
    sum *s = (sum *)s_;
    if (s)
        paillier_sum_free(s->raw);
    sefl_free(s);
}

static sefl_status sum_new(ahe_sum **out, const ahe_pub *pub, const ahe_params *p)
{
    sefl_status st = SEFL_OK;
    sum *s = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&s, 1, sizeof *s));
    s->p = p;
    s->pub = pub;
    SEFL_TRY(paillier_sum_new(&s->raw, pub, p->units));
    *out = (ahe_sum *)s, s = NULL;
done:
    sum_free((ahe_sum *)s);
    return st;
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
    const ahe_params *p = s->p;
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

/* ---- cryptography service provider ----------------------------------------------------------- */

static void dec_free(ahe_dec *d)
{
    sefl_free(d);
}

static sefl_status dec_new(ahe_dec **out, const ahe_sec *sec, const ahe_params *p,
                           const uint8_t context[AHE_CONTEXT_BYTES])
{
    dec *d = NULL;
    (void)context;
    *out = NULL;
    SEFL_PASS(sefl_new(&d, 1, sizeof *d));
    d->p = p;
    d->sec = sec;
    *out = (ahe_dec *)d;
    return SEFL_OK;
}

/* Does not check ranges: paillier_decrypt checks every unit for faults, and a client's nonsense
 * passes through as it is, at no extra cost. */
static sefl_status dec_units(ahe_dec *d_, uint8_t *plain, size_t first, const uint8_t *bytes,
                             size_t units, pool *workers, const sefl_progress *progress)
{
    (void)first;
    return paillier_decrypt(((dec *)d_)->sec, plain, bytes, units, workers, progress);
}

const ahe_scheme ahe_paillier = {
    .name = "paillier",
    AHE_SCHEME_FUNCTIONS,
    .mask_units = paillier_mask_units,
    .plain_digits = paillier_plain_digits,
    .plain_unmask = paillier_plain_unmask,
    .plain_add = paillier_plain_add,
};

/* agg_bodies: a small key, both schemes' parameters and real update bodies, for the aggregator's
 * tests. Bodies are encryptions of known vectors: body k has value(k, i) at index i. */
#ifndef UNIT_ROLES_AGG_BODIES_H
#define UNIT_ROLES_AGG_BODIES_H

#include "base/alloc.h"
#include "base/file.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/paillier.h"
#include "crypto/update_name.h"
#include "protocol/round.h"
#include "support/check.h"

#include <stdio.h>
#include <string.h>

enum { BODIES_MOST = 32 };

typedef struct bodies {
    paillier_sec *sec;
    const ahe_pub *pub;         /* NULL: pad */
    ahe_seed seed[BODIES_MOST]; /* of those that were made; pad */
    ahe_params p;
    ahe_enc *enc;
} bodies;

static inline int64_t bodies_value(unsigned k, size_t i)
{
    return (int64_t)((i * 7 + k * 13) % 201) - 100;
}

static inline void bodies_make(bodies *b, const char *scheme, size_t values, uint32_t clients)
{
    sefl_buf key = { 0 };
    const ahe_scheme *s;
    pack pk;
    memset(b, 0, sizeof *b);
    CHECK_OK(
        file_read(&key, SEFL_SOURCE_DIR "/tests/fuzz/corpus/crypto.paillier_key/sec2048", 1 << 16));
    /* the corpus files start with a selector byte */
    sefl_span in = buf_span(&key);
    if (paillier_sec_read(&b->sec, in) != SEFL_OK)
        CHECK_OK(paillier_sec_read(&b->sec, span_of(in.p + 1, in.n - 1)));
    CHECK_OK(ahe_scheme_find(&s, scheme));
    b->pub = s == &ahe_pad ? NULL : paillier_sec_pub(b->sec);
    CHECK_OK(pack_init(
        &pk, &(pack_config){ .scheme = strcmp(scheme, "pad") == 0 ? PACK_PAD : PACK_PAILLIER,
                             .clients = clients,
                             .dimension = values,
                             .clip = PACK_ONE,
                             .fraction_bits = 12 }));
    CHECK_OK(ahe_params_init(&b->p, s, &pk, b->pub, values));
    CHECK_OK(ahe_enc_new(&b->enc, b->pub, &b->p, NULL, NULL));
    buf_clear(&key);
}

/* The bytes of salt and units. */
static inline size_t bodies_bytes(const bodies *b)
{
    return UPDATE_SALT + ahe_body_bytes(&b->p);
}

/* A whole body without head into a new block (sefl_free); its name too. */
static inline uint8_t *bodies_body(bodies *b, unsigned k, uint8_t hash[32])
{
    uint8_t context[AHE_CONTEXT_BYTES] = { 1 }, *out;
    int64_t *v;
    ahe_upload *u;
    seeded gen; /* the same body each time */
    char name[32];
    snprintf(name, sizeof name, "body %u", k);
    seeded_init(&gen, 1, name);
    sefl_rng rng = seeded_rng(&gen);
    size_t padded = b->p.units * b->p.unit_values;
    CHECK_OK(sefl_new(&out, 1, bodies_bytes(b)));
    CHECK_OK(rng_fill(&rng, out, UPDATE_SALT));
    CHECK_OK(sefl_new(&v, padded, sizeof *v));
    for (size_t i = 0; i < b->p.values; i++)
        v[i] = bodies_value(k, i);
    CHECK_OK(ahe_upload_new(&u, &b->p, b->enc, context, &rng));
    CHECK_OK(ahe_upload_units(&b->p, u, out + UPDATE_SALT, v, b->p.units, NULL, NULL));
    if (!b->pub)
        ahe_upload_seed(&b->p, u, &b->seed[k]);
    ahe_upload_free(&b->p, u);
    sefl_free(v);
    update_name_of(hash, span_of(out, bodies_bytes(b)));
    return out;
}

/* A bad unit: zero for paillier; all units of pad are valid. */
static inline void bodies_spoil(const bodies *b, uint8_t *body, size_t unit)
{
    memset(body + UPDATE_SALT + unit * b->p.unit_bytes, 0, b->p.unit_bytes);
}

/* Decrypts a closed sum of these bodies (bit k): masks, decrypts, unmasks; v gets p.values
 * numbers. */
static inline void bodies_open(bodies *b, ahe_sum *sum, unsigned which, int64_t *v)
{
    uint8_t context[AHE_CONTEXT_BYTES] = { 1 }, seed[AHE_SEED_BYTES] = { 9 };
    uint8_t *bytes, *plain, *mask;
    int64_t *all;
    ahe_dec *d;
    CHECK_OK(sefl_new(&bytes, 1, ahe_body_bytes(&b->p)));
    CHECK_OK(sefl_new(&plain, b->p.units, b->p.plain_bytes));
    CHECK_OK(sefl_new(&mask, b->p.units, b->p.plain_bytes));
    CHECK_OK(sefl_new(&all, b->p.units * b->p.unit_values, sizeof *all));
    uint8_t *units = bytes;
    CHECK_OK(ahe_sum_write_units(&b->p, sum, units, 0, b->p.units, seed, NULL));
    CHECK_OK(ahe_dec_new(&d, &b->p, b->pub ? b->sec : NULL, context));
    for (unsigned k = 0; !b->pub && k < BODIES_MOST; k++)
        if (which >> k & 1)
            CHECK_OK(ahe_dec_add(&b->p, d, &b->seed[k], 1, NULL));
    CHECK_OK(ahe_dec_units(&b->p, d, plain, 0, units, b->p.units, NULL, NULL));
    CHECK_OK(ahe_mask_units(&b->p, mask, 0, b->p.units, seed));
    ahe_plain_unmask(&b->p, all, plain, mask, b->p.units);
    memcpy(v, all, b->p.values * sizeof *v);
    ahe_dec_free(&b->p, d);
    sefl_free(bytes);
    sefl_free(plain);
    sefl_free(mask);
    sefl_free(all);
}

static inline void bodies_free(bodies *b)
{
    ahe_enc_free(&b->p, b->enc);
    paillier_sec_free(b->sec);
}

#endif

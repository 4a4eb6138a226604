/* Checks that all schemes share: ranges, order of calls, counts. The schemes do the arithmetic.
 *
 * A scheme's objects begin with the struct of ahe.h, where this file keeps the order of calls.
 * This file allocates and frees them; the scheme initialises and clears the rest. Invariants:
 *   1. An upload encrypts each unit once, in order. After a failure inside the
 *      scheme it is spent: coins that may have been used are never used again.
 *   2. A sum holds whole bodies: each unit of an update is added exactly once (a bit per unit)
 *      before the next update begins. After a failure inside the scheme it is broken: half a body
 *      may be in it.
 *   3. A sum is written only after it was closed, and nothing is added after that.
 *   4. Ciphertext lengths are products of counts bounded in ahe_params_init: no overflow. */
#include "crypto/ahe/ahe.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

enum { BODIES_UNITS = 32 }; /* pad: half a megabyte of the sum, a quarter of a megabyte of a body */

/* ---- parameters ------------------------------------------------------------------------------ */

/* Larger than any model, and far below an overflow of size_t. */
#define VALUES_MAX ((size_t)1 << 32)

sefl_status ahe_params_init(ahe_params *p, const ahe_scheme *scheme, const pack *packing,
                            const ahe_pub *pub, size_t values)
{
    ahe_params tmp = { .scheme = scheme, .pack = *packing, .values = values };

    *p = (ahe_params){ 0 };
    SEFL_NEED(values >= 1 && values <= VALUES_MAX, SEFL_EINVAL,
              "an update of %zu values: must be 1 to 2^32", values);
    SEFL_PASS(pack_check(packing));
    SEFL_PASS(scheme->params(&tmp, pub));
    SEFL_NEED(tmp.unit_values >= 1, SEFL_EINVAL, "%s: no value of %u bits fits under this key",
              scheme->name, packing->w);
    tmp.units = (values - 1) / tmp.unit_values + 1;
    assert(tmp.unit_bytes >= 1 && tmp.unit_bytes <= 1 << 24);
    assert(tmp.plain_bytes >= 1);
    SEFL_NEED(tmp.units <= SIZE_MAX >> 25, SEFL_ERANGE, "an update of %zu values is too long",
              values);
    *p = tmp;
    return SEFL_OK;
}

size_t ahe_body_bytes(const ahe_params *p)
{
    return p->units * p->unit_bytes;
}

/* Checks that [first, first + units) is inside the vector and not empty. */
static sefl_status check_units(const ahe_params *p, size_t first, size_t units)
{
    SEFL_NEED(units >= 1 && first < p->units && units <= p->units - first, SEFL_ERANGE,
              "units %zu to %zu of a vector of %zu", first, first + units, p->units);
    return SEFL_OK;
}

/* ---- client ---------------------------------------------------------------------------------- */

sefl_status ahe_enc_new(ahe_enc **out, const ahe_pub *pub, const ahe_params *p, pool *threads,
                        const sefl_progress *progress)
{
    ahe_enc *e;
    *out = NULL;
    SEFL_PASS(sefl_new(&e, 1, p->scheme->enc_bytes));
    e->p = p;
    sefl_status st = p->scheme->enc_init(e, pub, threads, progress);
    if (st == SEFL_OK)
        *out = e;
    else
        ahe_enc_free(p, e);
    return st;
}

void ahe_enc_free(const ahe_params *p, ahe_enc *e)
{
    if (e && p->scheme->enc_clear)
        p->scheme->enc_clear(e);
    sefl_free(e);
}

sefl_status ahe_upload_new(ahe_upload **out, const ahe_params *p, const ahe_enc *e,
                           const uint8_t context[AHE_CONTEXT_BYTES], const sefl_rng *rng)
{
    ahe_upload *u;
    *out = NULL;
    assert(e->p->scheme == p->scheme && e->p->values == p->values);
    SEFL_PASS(sefl_new(&u, 1, p->scheme->upload_bytes));
    u->p = p;
    sefl_status st = p->scheme->upload_init(u, e, context, rng);
    if (st == SEFL_OK)
        *out = u;
    else
        ahe_upload_free(p, u);
    return st;
}

void ahe_upload_seed(const ahe_params *p, const ahe_upload *u, ahe_seed *out)
{
    assert(p->scheme->upload_seed);
    p->scheme->upload_seed(u, out);
}

uint64_t ahe_seed_stream(const uint8_t context[AHE_CONTEXT_BYTES])
{
    return load_u64(context);
}

sefl_status ahe_upload_units(const ahe_params *p, ahe_upload *u, uint8_t *out,
                             const int64_t *values, size_t units, pool *threads,
                             const sefl_progress *progress)
{
    SEFL_NEED(!u->spent, SEFL_ESTATE, "this upload failed before: its coins are spent");
    SEFL_NEED(units >= 1, SEFL_EINVAL, "no units to encrypt");
    SEFL_NEED(units <= p->units - u->next, SEFL_ESTATE,
              "%zu units after the first %zu: the vector has only %zu", units, u->next, p->units);
    size_t first = u->next * p->unit_values, n = units * p->unit_values;
    if (n > p->values - first)
        n = p->values - first;
    SEFL_PASS(pack_check_values(&p->pack, values, n, first));
    u->spent = true; /* these coins count as used even if it fails */
    SEFL_PASS(p->scheme->upload_units(u, out, values, units, threads, progress));
    u->spent = false;
    u->next += units;
    return SEFL_OK;
}

void ahe_upload_free(const ahe_params *p, ahe_upload *u)
{
    if (!u)
        return;
    if (p->scheme->upload_clear)
        p->scheme->upload_clear(u);
    sefl_free_secret(u, p->scheme->upload_bytes);
}

/* ---- aggregation server ---------------------------------------------------------------------- */

sefl_status ahe_sum_new(ahe_sum **out, const ahe_params *p, const ahe_pub *pub)
{
    sefl_status st = SEFL_OK;
    ahe_sum *s = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&s, 1, p->scheme->sum_bytes));
    s->p = p;
    s->have_units = p->units; /* as if the body before the first one were complete */
    SEFL_TRY(sefl_new(&s->have, (p->units + 63) / 64, sizeof *s->have));
    SEFL_TRY(p->scheme->sum_init(s, pub));
    *out = s, s = NULL;
done:
    ahe_sum_free(p, s);
    return st;
}

sefl_status ahe_sum_check_units(const ahe_params *p, const ahe_sum *s, const uint8_t *bytes,
                                size_t units)
{
    SEFL_PASS(check_units(p, 0, units));
    return p->scheme->sum_check_units ? p->scheme->sum_check_units(s, bytes, units) : SEFL_OK;
}

static sefl_status check_unbroken(const ahe_sum *s)
{
    SEFL_NEED(!s->broken, SEFL_ESTATE, "this sum failed half-way through an update: start again");
    return SEFL_OK;
}

static sefl_status check_open(const ahe_sum *s)
{
    SEFL_PASS(check_unbroken(s));
    SEFL_NEED(!s->closed, SEFL_ESTATE, "the sum is closed with %u updates in it", s->clients);
    return SEFL_OK;
}

static sefl_status check_whole(const ahe_sum *s)
{
    SEFL_NEED(s->taken == 0, SEFL_ESTATE, "only %zu of %zu units of an update have been subtracted",
              s->taken, s->p->units);
    SEFL_NEED(s->have_units == s->p->units, SEFL_ESTATE,
              "update %u of the sum has %zu of its %zu units", s->clients, s->have_units,
              s->p->units);
    return SEFL_OK;
}

sefl_status ahe_sum_begin(const ahe_params *p, ahe_sum *s)
{
    SEFL_PASS(check_open(s));
    SEFL_PASS(check_whole(s));
    SEFL_NEED(s->clients < p->pack.clients, SEFL_ERANGE,
              "the sum already has its maximum of %u updates", s->clients);
    s->clients++;
    s->have_units = 0;
    memset(s->have, 0, (p->units + 63) / 64 * sizeof *s->have);
    return SEFL_OK;
}

sefl_status ahe_sum_add_units(const ahe_params *p, ahe_sum *s, size_t first, const uint8_t *bytes,
                              size_t units, pool *threads)
{
    SEFL_PASS(check_open(s));
    SEFL_NEED(s->clients > 0, SEFL_ESTATE, "these units belong to an update that was not begun");
    SEFL_PASS(check_units(p, first, units));
    for (size_t u = first; u < first + units; u++)
        SEFL_NEED(!(s->have[u / 64] >> (u % 64) & 1), SEFL_ESTATE,
                  "unit %zu of update %u is already in the sum", u, s->clients);
    s->broken = true; /* until all of them are in */
    SEFL_PASS(p->scheme->sum_add_units(s, first, bytes, units, threads));
    s->broken = false;
    for (size_t u = first; u < first + units; u++)
        s->have[u / 64] |= (uint64_t)1 << (u % 64);
    s->have_units += units;
    return SEFL_OK;
}

sefl_status ahe_sum_add_bodies(const ahe_params *p, ahe_sum *s, const uint8_t *const *bodies,
                               size_t n, pool *threads)
{
    SEFL_PASS(check_open(s));
    SEFL_PASS(check_whole(s));
    SEFL_NEED(n <= p->pack.clients - s->clients, SEFL_ERANGE,
              "the sum has its %u updates: %zu more could overflow", s->clients, n);
    s->broken = true; /* until all of them are in */
    /* one thread: a part of the sum stays in its cache while it adds that part of every body */
    size_t part = threads ? p->units : BODIES_UNITS;
    for (size_t u = 0; u < p->units; u += part) {
        size_t units = p->units - u < part ? p->units - u : part;
        for (size_t i = 0; i < n; i++)
            SEFL_PASS(
                p->scheme->sum_add_units(s, u, bodies[i] + u * p->unit_bytes, units, threads));
    }
    s->broken = false;
    s->clients += (uint32_t)n;
    s->have_units = p->units;
    memset(s->have, 0xff, (p->units + 63) / 64 * sizeof *s->have);
    return SEFL_OK;
}

sefl_status ahe_sum_take(const ahe_params *p, ahe_sum *s, size_t first, const uint8_t *bytes,
                         size_t units, pool *threads)
{
    SEFL_NEED(p->scheme->sum_take_units, SEFL_EUNSUPPORTED,
              "%s: an update cannot be subtracted from a sum", p->scheme->name);
    SEFL_PASS(check_unbroken(s));
    SEFL_NEED(s->have_units == p->units && s->clients > 0, SEFL_ESTATE,
              "no whole update is in the sum");
    SEFL_PASS(check_units(p, first, units));
    SEFL_NEED(first == s->taken, SEFL_ESTATE, "cannot subtract unit %zu: the next one is %zu",
              first, s->taken);
    s->broken = true;
    SEFL_PASS(p->scheme->sum_take_units(s, first, bytes, units, threads));
    s->broken = false;
    s->taken += units;
    if (s->taken == p->units)
        s->taken = 0, s->clients--;
    return SEFL_OK;
}

sefl_status ahe_sum_close(const ahe_params *p, ahe_sum *s)
{
    SEFL_PASS(check_open(s));
    SEFL_PASS(check_whole(s));
    SEFL_NEED(s->clients > 0, SEFL_ESTATE, "no update is in the sum");
    if (p->scheme->sum_close)
        SEFL_PASS(p->scheme->sum_close(s));
    s->closed = true;
    return SEFL_OK;
}

sefl_status ahe_sum_write_units(const ahe_params *p, ahe_sum *s, uint8_t *out, size_t first,
                                size_t units, const uint8_t mask_seed[AHE_SEED_BYTES],
                                pool *threads)
{
    SEFL_NEED(!s->broken && s->clients > 0, SEFL_ESTATE,
              "the sum has no update, or only a part of one");
    SEFL_NEED(s->closed, SEFL_ESTATE, "the sum is still open: close it before it is masked");
    SEFL_PASS(check_whole(s));
    SEFL_PASS(check_units(p, first, units));
    return p->scheme->sum_write_units(s, out, first, units, mask_seed, threads);
}

void ahe_sum_free(const ahe_params *p, ahe_sum *s)
{
    if (!s)
        return;
    p->scheme->sum_clear(s);
    sefl_free(s->have);
    sefl_free(s);
}

sefl_status ahe_sum_write_partial(const ahe_params *p, ahe_sum *s, uint8_t *out, pool *threads)
{
    SEFL_PASS(check_open(s));
    SEFL_PASS(check_whole(s));
    if (p->scheme->sum_close)
        SEFL_PASS(p->scheme->sum_close(s));
    s->closed = true;
    return p->scheme->sum_write_plain(s, out, threads);
}

void ahe_units_add(const ahe_params *p, const ahe_pub *pub, uint8_t *sum, const uint8_t *bytes,
                   size_t units)
{
    p->scheme->units_add(p, pub, sum, bytes, units);
}

sefl_status ahe_sum_add_partial(const ahe_params *p, ahe_sum *s, const uint8_t *bytes,
                                uint32_t clients, pool *threads)
{
    SEFL_NEED(clients >= 1 && clients <= p->pack.clients - s->clients, SEFL_ERANGE,
              "the sum has its %u updates: %u more could overflow", s->clients, clients);
    SEFL_PASS(ahe_sum_add_bodies(p, s, &bytes, 1, threads));
    s->clients += clients - 1;
    return SEFL_OK;
}

/* ---- cryptography service provider ----------------------------------------------------------- */

sefl_status ahe_dec_new(ahe_dec **out, const ahe_params *p, const ahe_sec *sec,
                        const uint8_t context[AHE_CONTEXT_BYTES])
{
    ahe_dec *d;
    *out = NULL;
    SEFL_PASS(sefl_new(&d, 1, p->scheme->dec_bytes));
    d->p = p;
    sefl_status st = p->scheme->dec_init(d, sec, context);
    if (st == SEFL_OK)
        *out = d;
    else
        ahe_dec_free(p, d);
    return st;
}

sefl_status ahe_dec_add(const ahe_params *p, ahe_dec *d, const ahe_seed *seeds, size_t n,
                        pool *threads)
{
    SEFL_NEED(p->scheme->dec_add, SEFL_EINVAL, "%s: this scheme has no seeds", p->scheme->name);
    SEFL_NEED(!d->started, SEFL_ESTATE, "seeds must come before the first units of the sum");
    SEFL_NEED(n <= p->pack.clients - d->clients, SEFL_ERANGE,
              "%u seeds are in this sum: %zu more could overflow", d->clients, n);
    SEFL_PASS(p->scheme->dec_add(d, seeds, n, threads));
    d->clients += (uint32_t)n;
    return SEFL_OK;
}

sefl_status ahe_dec_take(const ahe_params *p, ahe_dec *d, const ahe_seed *seeds, size_t n,
                         pool *threads)
{
    SEFL_NEED(p->scheme->dec_take, SEFL_EINVAL, "%s: this scheme has no seeds", p->scheme->name);
    SEFL_NEED(!d->started, SEFL_ESTATE, "seeds must come before the first units of the sum");
    SEFL_NEED(n <= d->clients, SEFL_ERANGE, "%zu seeds to remove from a sum of %u", n, d->clients);
    SEFL_PASS(p->scheme->dec_take(d, seeds, n, threads));
    d->clients -= (uint32_t)n;
    return SEFL_OK;
}

sefl_status ahe_dec_units(const ahe_params *p, ahe_dec *d, uint8_t *plain, size_t first,
                          const uint8_t *bytes, size_t units, pool *threads,
                          const sefl_progress *progress)
{
    SEFL_NEED(!p->scheme->dec_add || d->clients > 0, SEFL_ESTATE,
              "units of the sum must come after its seeds");
    SEFL_PASS(check_units(p, first, units));
    d->started = true;
    return p->scheme->dec_units(d, plain, first, bytes, units, threads, progress);
}

void ahe_dec_free(const ahe_params *p, ahe_dec *d)
{
    if (d && p->scheme->dec_clear)
        p->scheme->dec_clear(d);
    sefl_free(d);
}

/* ---- plain units, at either server ----------------------------------------------------------- */

sefl_status ahe_mask_units(const ahe_params *p, uint8_t *plain, size_t first, size_t units,
                           const uint8_t mask_seed[AHE_SEED_BYTES])
{
    SEFL_PASS(check_units(p, first, units));
    return p->scheme->mask_units(p, plain, first, units, mask_seed);
}

void ahe_plain_digits(const ahe_params *p, uint64_t *digits, const uint8_t *plain, size_t units)
{
    p->scheme->plain_digits(p, digits, plain, units);
}

void ahe_plain_unmask(const ahe_params *p, int64_t *values, const uint8_t *masked,
                      const uint8_t *mask, size_t units)
{
    p->scheme->plain_unmask(p, values, masked, mask, units);
}

void ahe_plain_add(const ahe_params *p, uint8_t *plain, const int64_t *values, size_t units)
{
    p->scheme->plain_add(p, plain, values, units);
}

#include "bench/round/uploaders.h"

#include "base/alloc.h"
#include "roles/vouch.h"
#include "store/disk/upload_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1400, STRIDE = 977 };

typedef struct one {
    uint8_t client[32];
    sign_key *key;
    sefl_buf voucher;
} one;

struct uploaders {
    const task *t;
    one *at;
    uint32_t n;
    int64_t *base, *x, *total; /* a client's values are the base, rotated */
};

static int by_client(const void *a, const void *b)
{
    return memcmp(((const one *)a)->client, ((const one *)b)->client, 32);
}

/* Returns the digits of a client's number in its folder's name (operator/provision_ids.h). */
static int width_of(uint32_t clients)
{
    int width = 1;
    for (uint32_t n = clients; n >= 10; n /= 10)
        width++;
    return width < 2 ? 2 : width;
}

static sefl_status make_one(one *o, const char *folder, uint32_t number, int width, const task *t)
{
    sefl_status st = SEFL_OK;
    char cert[PATH_BYTES], key[PATH_BYTES];
    sefl_rng rng = rng_system();
    voucher v;
    int n = snprintf(cert, sizeof cert, "%s/clients/client-%0*" PRIu32 "/cert.pem", folder, width,
                     number);
    int m =
        snprintf(key, sizeof key, "%s/clients/client-%0*" PRIu32 "/key.pem", folder, width, number);
    SEFL_CHECK(n > 0 && n < PATH_BYTES && m > 0 && m < PATH_BYTES, SEFL_EINVAL,
               "a path is too long");
    SEFL_TRY(sign_key_new(&o->key, &rng));
    SEFL_TRY(vouch_make(&o->voucher, cert, key, sign_key_pub(o->key), &t->servers, 1));
    SEFL_TRY(voucher_read(&v, buf_span(&o->voucher)));
    memcpy(o->client, v.client, sizeof o->client);
done:
    return st;
}

sefl_status uploaders_new(uploaders **out, const char *folder, uint32_t clients, const task *t)
{
    sefl_status st = SEFL_OK;
    uploaders *c = NULL;
    size_t room = t->ahe.units * t->ahe.unit_values;
    *out = NULL;
    SEFL_TRY(sefl_new(&c, 1, sizeof *c));
    c->t = t;
    SEFL_TRY(sefl_new(&c->at, clients, sizeof *c->at));
    SEFL_TRY(sefl_new(&c->base, t->values, sizeof *c->base));
    SEFL_TRY(sefl_new(&c->total, t->values, sizeof *c->total));
    SEFL_TRY(sefl_new(&c->x, room, sizeof *c->x));
    for (; c->n < clients; c->n++)
        SEFL_TRY(make_one(&c->at[c->n], folder, c->n + 1, width_of(clients), t));
    qsort(c->at, c->n, sizeof *c->at, by_client);
    *out = c, c = NULL;
done:
    if (c)
        c->n = c->at ? clients : 0; /* one may be incomplete */
    uploaders_free(c);
    return st;
}

void uploaders_free(uploaders *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->n; i++) {
        sign_key_free(c->at[i].key);
        buf_clear(&c->at[i].voucher);
    }
    sefl_free(c->at);
    sefl_free(c->base);
    sefl_free(c->total);
    sefl_free(c->x);
    sefl_free(c);
}

const uint8_t *uploaders_client(const uploaders *c, uint32_t i)
{
    return c->at[i].client;
}

sefl_status uploaders_vouch(uploaders *c, as_link *link, journal *j)
{
    sefl_status st = SEFL_OK;
    for (uint32_t i = 0; i < c->n; i++) {
        const one *o = &c->at[i];
        if (link)
            SEFL_TRY(as_link_vouch(link, buf_span(&o->voucher)));
        if (j)
            SEFL_TRY(upload_key_put(j, o->client, 1, sign_key_pub(o->key)));
    }
done:
    return st;
}

void uploaders_begin(uploaders *c, uint64_t round)
{
    for (size_t i = 0; i < c->t->values; i++)
        c->base[i] = (int64_t)((i * 2654435761u + round) % 7) - 3;
    memset(c->total, 0, c->t->values * sizeof *c->total);
}

const int64_t *uploaders_total(const uploaders *c)
{
    return c->total;
}

sefl_status uploaders_update(uploaders *c, uint8_t *body, uint8_t units[32], uint32_t i,
                             const round_header *h, const ahe_enc *enc, pool *p)
{
    sefl_rng rng = rng_system();
    const one *o = &c->at[i];
    size_t n = c->t->values, turn = (size_t)i * STRIDE % n;
    memcpy(c->x, c->base + turn, (n - turn) * sizeof *c->x);
    memcpy(c->x + n - turn, c->base, turn * sizeof *c->x);
    for (size_t v = 0; v < n; v++)
        c->total[v] += c->x[v];
    return update_make(
        body, units,
        &(update_facts){
            .task = c->t, .header = h, .enc = enc, .client = o->client, .upload_key = o->key },
        c->x, p, NULL, &rng);
}

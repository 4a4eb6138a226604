#include "protocol/update.h"

#include "base/ct.h"
#include "crypto/ahe/ahe.h"

size_t update_front_bytes(const seal_suite *s)
{
    return head_bytes(s) + UPDATE_SALT;
}

sefl_status update_salt(uint8_t salt[UPDATE_SALT], update_name *n, const sefl_rng *rng)
{
    SEFL_PASS(rng_fill(rng, salt, UPDATE_SALT));
    update_name_init(n);
    update_name_add(n, span_of(salt, UPDATE_SALT));
    return SEFL_OK;
}

sefl_status update_head(uint8_t *out, const update_facts *f, const ahe_upload *up,
                        const uint8_t name[32], const sefl_rng *rng)
{
    const task *t = f->task;
    const round_header *h = f->header;
    ahe_seed seed = { 0 };
    ahe_upload_seed(&t->ahe, up, &seed);
    sefl_status st = head_make(out,
                               &(head_facts){ .suite = t->seal,
                                              .task = t->id,
                                              .round = h->round,
                                              .client = f->client,
                                              .units = name },
                               span_of(h->key, h->key_bytes), seed.seed, f->upload_key, rng);
    sefl_wipe(&seed, sizeof seed);
    return st;
}

sefl_status update_make(uint8_t *body, uint8_t name[32], const update_facts *f, const int64_t *X,
                        pool *p, const sefl_progress *stop, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    const task *t = f->task;
    const ahe_params *a = &t->ahe;
    const size_t at = update_front_bytes(t->seal);
    update_name n;
    uint8_t context[AHE_CONTEXT_BYTES];
    ahe_upload *up = NULL;
    task_upload_context(context, t, f->header->round, f->client);
    SEFL_TRY(ahe_upload_new(&up, a, f->enc, context, rng));
    SEFL_TRY(ahe_upload_units(a, up, body + at, X, a->units, p, stop));
    SEFL_TRY(update_salt(body + at - UPDATE_SALT, &n, rng));
    update_name_add(&n, span_of(body + at, a->units * a->unit_bytes));
    update_name_end(&n, name);
    if (task_is_sealed(t))
        SEFL_TRY(update_head(body, f, up, name, rng));
done:
    ahe_upload_free(a, up);
    return st;
}

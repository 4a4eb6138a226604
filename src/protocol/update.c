#include "protocol/update.h"

#include "base/blake3.h"
#include "base/ct.h"

sefl_status update_make(uint8_t *body, uint8_t units[32], const update_facts *f, const int64_t *X,
                        pool *p, const sefl_progress *stop, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    const task *t = f->task;
    const ahe_params *a = &t->ahe;
    const round_header *h = f->header;
    const size_t at = head_bytes(t->seal);
    uint8_t context[AHE_CONTEXT_BYTES];
    ahe_upload *up = NULL;
    ahe_seed seed = { 0 };
    if (task_is_sealed(t))
        task_upload_context(context, t, h->round, f->client);
    else
        task_context(context, t, h->round);
    SEFL_TRY(ahe_upload_new(&up, a, f->enc, context, rng));
    SEFL_TRY(ahe_upload_units(a, up, body + at, X, a->units, p, stop));
    blake3_of(units, span_of(body + at, a->units * a->unit_bytes));
    if (!task_is_sealed(t))
        goto done;
    ahe_upload_seed(a, up, &seed);
    SEFL_TRY(head_make(body,
                       &(head_facts){ .suite = t->seal,
                                      .task = t->id,
                                      .round = h->round,
                                      .client = f->client,
                                      .units = units },
                       span_of(h->key, h->key_bytes), seed.seed, f->upload_key, rng));
done:
    sefl_wipe(&seed, sizeof seed);
    ahe_upload_free(a, up);
    return st;
}

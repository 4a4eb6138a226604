/* Design.
 *  1. Rank 0 sends an order, the set and the model; each rank trains and adds the clients that it
 *     owns. Then the ranks agree that nobody failed, and combine counts, sums and heads.
 *  2. An order is the same struct at all ranks: they run the same program (ranks_same).
 *  3. Rank 0 sends the last order when it frees its work. */
#include "base/alloc.h"
#include "simulate/work_inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct order {
    bool over;
    uint32_t clients; /* in the set */
    round_header header;
} order;

/* What all ranks count together; times in nanoseconds. */
typedef struct counts {
    uint64_t clients, diverged, weight, train, encrypt, add, elsewhere;
} counts;

sefl_status work_join(work *w)
{
    const ranks *r = w->ranks;
    const federation *s = w->s;
    uint8_t signed_task[SHA256_BYTES], theta[SHA256_BYTES];
    char device[128] = "";
    if (r->size == 1)
        return SEFL_OK;
    sha256_of(signed_task, buf_span(&s->envelope));
    sha256_of(theta, span_of(s->theta, w->t->params * sizeof *s->theta));
    strncpy(device, work_device(w), sizeof device - 1);
    SEFL_PASS(ranks_same(r, &s->digest, sizeof s->digest, "the text"));
    SEFL_PASS(ranks_same(r, theta, sizeof theta, "the initial model"));
    SEFL_PASS(ranks_same(r, signed_task, sizeof signed_task, "the task"));
    SEFL_PASS(ranks_same(r, device, sizeof device, "the device"));
    w->serving = r->rank == 0;
    w->cpu_before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    return SEFL_OK;
}

/* ---- encrypted updates ----------------------------------------------------------------------- */

void work_place(work *w, const round_entry *e, const uint8_t *sealed)
{
    const size_t head_n = head_bytes(w->t->seal);
    if (w->sent) { /* another rank than 0: until collect */
        uint8_t *at = w->sent + w->n_sent++ * (sizeof *e + head_n);
        memcpy(at, e, sizeof *e);
        memcpy(at + sizeof *e, sealed, head_n);
        return;
    }
    round_entry *at = bsearch(e, w->entry, w->entries, sizeof *e, round_entry_order);
    assert(at);
    *at = *e;
    if (w->heads)
        memcpy(w->heads + (size_t)(at - w->entry) * head_n, sealed, head_n);
}

static sefl_status take_sent(void *ctx, const void *item)
{
    round_entry e;
    memcpy(&e, item, sizeof e);
    work_place(ctx, &e, (const uint8_t *)item + sizeof e);
    return SEFL_OK;
}

static void add_units(const void *ctx, void *sum, const void *more, size_t items)
{
    const task *t = ctx;
    ahe_units_add(&t->ahe, t->pub, sum, more, items);
}

static sefl_status combine_ciphertexts(work *w)
{
    const ahe_params *p = &w->t->ahe;
    const ranks_how how = { .item_bytes = p->unit_bytes, .add = add_units, .ctx = w->t };
    SEFL_PASS(ranks_agree(w->ranks, ahe_sum_write_partial(p, w->closed, w->partial, w->pool)));
    SEFL_PASS(ranks_reduce(w->ranks, w->partial, p->units, &how));
    return ranks_collect(w->ranks, w->sent, w->n_sent, sizeof(round_entry) + head_bytes(w->t->seal),
                         take_sent, w);
}

/* Rank 0: makes the ciphertexts of all ranks the sum. */
static sefl_status adopt_ciphertexts(work *w, uint32_t clients)
{
    const ahe_params *p = &w->t->ahe;
    if (!w->s->e->full || clients == 0)
        return SEFL_OK;
    ahe_sum_free(p, w->closed);
    w->closed = NULL;
    SEFL_PASS(ahe_sum_new(&w->closed, p, w->t->pub));
    return ahe_sum_add_partial(p, w->closed, w->partial, clients, w->pool);
}

/* ---- a round --------------------------------------------------------------------------------- */

static uint64_t ns(double seconds)
{
    return seconds > 0 ? (uint64_t)(seconds * 1e9) : 0;
}

static sefl_status combine_counts(work *w, work_got *got)
{
    counts n = { .clients = got->clients,
                 .diverged = got->diverged,
                 .weight = w->weight,
                 .train = ns(got->train),
                 .encrypt = ns(got->encrypt),
                 .add = ns(got->add) };
    if (w->ranks->rank > 0) {
        const double now = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
        n.elsewhere = ns(now - w->cpu_before);
        w->cpu_before = now;
    }
    SEFL_PASS(ranks_sum(w->ranks, &n.clients, sizeof n / sizeof n.clients));
    SEFL_PASS(ranks_broadcast(w->ranks, &n, sizeof n));
    w->weight = n.weight;
    got->clients = (uint32_t)n.clients;
    got->diverged = (uint32_t)n.diverged;
    got->train = 1e-9 * (double)n.train;
    got->encrypt = 1e-9 * (double)n.encrypt;
    got->add = 1e-9 * (double)n.add;
    got->elsewhere = 1e-9 * (double)n.elsewhere;
    return SEFL_OK;
}

static sefl_status combine(work *w, work_got *got)
{
    const double began = work_thread_seconds();
    int64_t *sum = w->sum ? w->sum : w->lane[0].sum;
    SEFL_PASS(combine_counts(w, got));
    if (w->s->e->full)
        SEFL_PASS(combine_ciphertexts(w));
    else if (w->exact)
        SEFL_PASS(ranks_sum(w->ranks, (uint64_t *)&w->exact[0].high, 2 * task_trained(w->t)));
    else
        SEFL_PASS(ranks_sum(w->ranks, (uint64_t *)sum, w->t->values));
    got->add += work_thread_seconds() - began;
    return SEFL_OK;
}

/* Does this rank's part of a round and combines all parts. */
static sefl_status take_part(work *w, work_got *got, const population_member *set, uint32_t n_all,
                             const sefl_progress *progress)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_all; i++)
        if (ranks_owns(w->ranks, set[i].client))
            w->mine[n++] = set[i];
    w->set = w->mine;
    sefl_status st = work_begin(w, set, n_all, n);
    if (st == SEFL_OK)
        st = work_share(w, got, n, progress);
    SEFL_PASS(ranks_agree(w->ranks, st));
    return combine(w, got);
}

sefl_status work_ranks_round(work *w, work_got *got, const population_member *set, uint32_t n,
                             const sefl_progress *progress)
{
    order o = { .clients = n, .header = w->header };
    w->serving = false; /* until they have done this order */
    SEFL_PASS(ranks_broadcast(w->ranks, &o, sizeof o));
    SEFL_PASS(ranks_send(w->ranks, set, n * sizeof *set));
    SEFL_PASS(ranks_send(w->ranks, w->theta, w->t->params * sizeof *w->theta));
    SEFL_PASS(take_part(w, got, set, n, progress));
    w->serving = true;
    return adopt_ciphertexts(w, got->clients);
}

sefl_status work_serve(work *w)
{
    sefl_status st = SEFL_OK;
    population_member *set = NULL;
    order o;
    SEFL_TRY(sefl_new(&set, w->s->clients, sizeof *set));
    for (;;) {
        work_got got = { 0 };
        SEFL_TRY(ranks_broadcast(w->ranks, &o, sizeof o));
        if (o.over)
            break;
        SEFL_CHECK(o.clients <= w->s->clients, SEFL_EPROTO, "rank 0 sent a set of %u clients",
                   o.clients);
        w->header = o.header;
        SEFL_TRY(ranks_broadcast(w->ranks, set, o.clients * sizeof *set));
        SEFL_TRY(ranks_broadcast(w->ranks, w->theta_here, w->t->params * sizeof *w->theta_here));
        w->theta = w->theta_here;
        SEFL_TRY(take_part(w, &got, set, o.clients, NULL));
    }
done:
    sefl_free(set);
    return st;
}

void work_dismiss(work *w)
{
    order o = { .over = true };
    if (w->serving)
        (void)!ranks_broadcast(w->ranks, &o, sizeof o);
    w->serving = false;
}

/* Design.
 *  1. Clients train in parallel in the engine's slots, in groups as large as the number of slots.
 *     Integers may be added in any order, so clients with similar numbers of steps share a group
 *     and no slot waits long. Floats are added in the order of the clients, so groups follow that
 *     order.
 *  2. In the clear the engine adds the updates, with the same coins as the clients on threads, and
 *     a trusted server's noise. With crypto full updates are read back, and the pool quantises and
 *     encrypts one per thread at a time.
 *  3. An update that is not finite counts as diverged, as on the CPU. */
#include "base/alloc.h"
#include "base/clock.h"
#include "fed/fed_train.h"
#include "protocol/modes/mode.h"
#include "simulate/clear.h"
#include "simulate/work_inside.h"

#include <stdlib.h>
#include <string.h>

sefl_status work_device_open(work *w)
{
    const experiment *e = w->s->e;
    const task *t = w->t;
    const uint32_t mine = (w->s->clients - 1) / w->ranks->size + 1;
    if (!e->device || strcmp(e->device, "cpu") == 0 || t->unit == TASK_UNIT_RECORD ||
        t->clip_quantile > 0)
        return SEFL_OK;
    SEFL_PASS(engine_new(&w->judge, &(engine_config){ .device = e->device,
                                                      .precision = e->precision,
                                                      .model = &t->model,
                                                      .optim = t->optim,
                                                      .slots = mine,
                                                      .number = w->ranks->local,
                                                      .pool = w->pool }));
    w->device = engine_is_device(w->judge);
    w->device_sums = w->device && !e->full && engine_can_sum(w->judge) &&
                     (e->protection->quantises || w->ranks->size == 1);
    if (w->device)
        SEFL_PASS(sefl_new(&w->turns, mine, sizeof *w->turns));
    if (w->device_sums && e->protection->quantises)
        SEFL_PASS(sefl_new(&w->sum, t->values, sizeof *w->sum));
    return SEFL_OK;
}

static train_steps steps_of(const work *w, const population_member *who)
{
    const train_job job = work_job(w, who->client);
    train_steps s = client_train_steps(&job);
    s.text = 1 + who->client;
    return s;
}

static int by_steps(const void *a, const void *b)
{
    const work_turn *x = a, *y = b;
    if (x->steps != y->steps)
        return x->steps < y->steps ? -1 : 1;
    return x->member < y->member ? -1 : x->member > y->member;
}

/* Orders the turns: for integers by the number of steps. */
static void put_in_order(work *w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        w->turns[i] = (work_turn){ .member = i, .steps = steps_of(w, &w->set[i]).limit };
    if (w->s->e->protection->quantises)
        qsort(w->turns, n, sizeof *w->turns, by_steps);
}

/* ---- a group --------------------------------------------------------------------------------- */

typedef struct group {
    work *w;
    work_turn *turn; /* slot i trains turn[i] */
    uint32_t n;
    uint32_t before, all; /* numbers of clients, for progress */
    const sefl_progress *progress;
} group;

static bool on_steps(void *self, uint64_t done, uint64_t total)
{
    const group *g = self;
    const double share = total > 0 ? (double)done / (double)total : 1;
    return progress_report(g->w->stop, 0, 0) &&
           progress_report(g->progress, g->before + (uint64_t)(share * g->n), g->all);
}

static sefl_status work_device_train(group *g)
{
    sefl_status st = SEFL_OK;
    work *w = g->w;
    engine_progress *out = NULL;
    const uint64_t began = clock_now_ns();
    SEFL_TRY(sefl_new(&out, g->n, sizeof *out));
    for (uint32_t i = 0; i < g->n; i++) {
        const train_steps steps = steps_of(w, &w->set[g->turn[i].member]);
        SEFL_TRY(engine_start(w->judge, i, &steps));
    }
    SEFL_TRY(engine_train(w->judge, g->n, out, &(sefl_progress){ on_steps, g }));
    for (uint32_t i = 0; i < g->n; i++)
        g->turn[i].diverged = out[i].diverged;
done:
    w->device_seconds += clock_since(began);
    sefl_free(out);
    return st;
}

static void count(const group *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        g->w->diverged += g->turn[i].diverged;
    g->w->added += g->n;
}

/* ---- adding on the GPU ----------------------------------------------------------------------- */

static engine_share share_of(const work *w, const work_turn *turn, uint32_t slot)
{
    const uint32_t client = w->set[turn->member].client;
    engine_share s = { .slot = slot,
                       .zeros = turn->diverged,
                       .weight =
                           (double)work_weight(w, client, turn->diverged) * work_weight_unit(w) };
    char who[POPULATION_WHO_MAX];
    seeded coins;
    population_who(who, client);
    named_coins_replay(&coins, who, w->s->e->seed, "round", w->header.round, 1);
    memcpy(s.coins, coins.key, sizeof s.coins);
    return s;
}

static sefl_status add_there(group *g)
{
    sefl_status st = SEFL_OK;
    work *w = g->w;
    engine_share *share = NULL;
    SEFL_TRY(sefl_new(&share, g->n, sizeof *share));
    for (uint32_t i = 0; i < g->n; i++)
        share[i] = share_of(w, &g->turn[i], i);
    sefl_status all = engine_sum_add(w->judge, share, g->n);
    SEFL_TRY(all == SEFL_ERANGE ? SEFL_OK : all);
    for (uint32_t i = 0; all == SEFL_ERANGE && i < g->n;
         i++) { /* finds the update that is not finite */
        sefl_status one = engine_sum_add(w->judge, &share[i], 1);
        if (one == SEFL_ERANGE)
            g->turn[i].diverged = true;
        else
            SEFL_TRY(one);
    }
    count(g);
done:
    sefl_free(share);
    return st;
}

/* ---- adding on the pool ---------------------------------------------------------------------- */

/* Piece i reads its update from v of lane i; all other buffers are those of its thread. */
static sefl_status piece(void *ctx, unsigned lane_number, size_t begin, size_t end)
{
    sefl_status st = SEFL_OK;
    const group *g = ctx;
    work *w = g->w;
    lane *l = &w->lane[lane_number];
    const work_turn *turn = &g->turn[begin];
    const uint32_t client = w->set[turn->member].client;
    named_coins *n = NULL;
    char who[POPULATION_WHO_MAX];
    sefl_rng rng;
    double at = work_thread_seconds();
    (void)end;
    population_who(who, client);
    SEFL_TRY(named_coins_new(&n, who, w->s->e->seed));
    sefl_coins coins = named_coins_of(n);
    SEFL_TRY(coins_for(&coins, &rng, "round", w->header.round, 1));
    SEFL_TRY(work_integers(w, l, client, w->lane[begin].v, turn->diverged, &rng));
    l->encrypt += work_thread_seconds() - at;
    SEFL_TRY(work_add(w, l, turn->member, turn->diverged, &coins));
done:
    named_coins_free(n);
    return st;
}

static sefl_status fetch(work *w, work_turn *turn, uint32_t slot, float *v)
{
    const size_t n = w->t->params;
    if (!turn->diverged)
        SEFL_PASS(engine_read(w->judge, slot, ENGINE_DELTA, v, n * sizeof *v));
    turn->diverged = turn->diverged || !work_fits(w, v, n);
    if (turn->diverged)
        memset(v, 0, n * sizeof *v);
    return SEFL_OK;
}

static sefl_status add_here(group *g)
{
    work *w = g->w;
    for (uint32_t at = 0; at < g->n; at += w->lanes) {
        group some = { .w = w, .turn = g->turn + at };
        for (; some.n < w->lanes && at + some.n < g->n; some.n++)
            SEFL_PASS(fetch(w, &some.turn[some.n], at + some.n, w->lane[some.n].v));
        if (w->s->e->protection->quantises) {
            SEFL_PASS(pool_run(w->pool, some.n, 1, piece, &some, NULL));
            continue;
        }
        for (uint32_t i = 0; i < some.n; i++)
            work_add_floats(w, w->lane[i].v, w->set[some.turn[i].member].client,
                            some.turn[i].diverged);
        count(&some);
    }
    return SEFL_OK;
}

/* ---- a round --------------------------------------------------------------------------------- */

static sefl_status sum_begin(work *w)
{
    if (!w->s->e->protection->quantises)
        return engine_sum_begin(w->judge, &(engine_sum){ .clip = work_clip(w) });
    const dp_grid g = task_client_grid(w->t);
    return engine_sum_begin(w->judge, &(engine_sum){ .integers = 1,
                                                     .clip = g.clip,
                                                     .q = g.q,
                                                     .has_weight = w->t->weights == TASK_CAPPED,
                                                     .value_max = g.value_max,
                                                     .s2 = g.s2 });
}

/* With several ranks, rank 0 adds the noise later; with a filter, simulate/clear.c does, because it
 * has the noise of earlier rounds. */
bool work_adds_noise(const work *w)
{
    return w->s->e->protection->central && w->ranks->size == 1 && w->t->filter.b == 0;
}

/* Adds the noise of a trusted server. */
static sefl_status add_noise(work *w)
{
    const experiment *e = w->s->e;
    engine_noise n;
    if (!work_adds_noise(w))
        return SEFL_OK;
    SEFL_PASS(clear_central_noise(
        &n, &(clear_facts){ .task = w->t, .seed = e->seed, .round = w->header.round }));
    return engine_sum_noise(w->judge, &n);
}

/* Adds the weights. The turns have the order of the clients for floats. */
static uint64_t all_weights(const work *w, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += work_weight(w, w->set[i].client, w->turns[i].diverged);
    return sum;
}

sefl_status work_device_round(work *w, uint32_t n, const sefl_progress *progress)
{
    const bool integers = w->s->e->protection->quantises;
    const uint32_t slots = engine_get_facts(w->judge)->slots;
    put_in_order(w, n);
    SEFL_PASS(engine_theta(w->judge, w->theta));
    if (w->device_sums)
        SEFL_PASS(sum_begin(w));
    for (uint32_t at = 0; at < n; at += slots) {
        group g = { .w = w,
                    .turn = w->turns + at,
                    .n = n - at < slots ? n - at : slots,
                    .before = at,
                    .all = n,
                    .progress = progress };
        SEFL_PASS(work_device_train(&g));
        SEFL_PASS(w->device_sums ? add_there(&g) : add_here(&g));
    }
    if (w->device_sums)
        SEFL_PASS(add_noise(w));
    if (w->device_sums)
        SEFL_PASS(integers ? engine_sum_end(w->judge, w->sum, w->t->values * sizeof *w->sum)
                           : engine_sum_end(w->judge, w->average,
                                            task_trained(w->t) * sizeof *w->average));
    if (!integers)
        w->weight = all_weights(w, n);
    return SEFL_OK;
}

/* link_rounds: AS's driver (support/as_run.h) against CSP in a world of link_pair.h. */
#ifndef TESTS_LINK_ROUNDS_H
#define TESTS_LINK_ROUNDS_H

#include "link_pair.h"
#include "support/as_run.h"

typedef struct world_run {
    as_run run; /* first */
    world *w;
    unsigned who; /* bit i: client i uploads */
    round_entry set[W_ALL];
    uint8_t heads[W_ALL * HEAD_MAX];
    connection c;
    bool dialled;
} world_run;

/* The uploads of `who`: as_run.open, without the sum. */
static inline void world_run_open(void *me, const round_header *h)
{
    world_run *x = me;
    const world *w = x->w;
    const bool sealed = task_is_sealed(&w->t);
    uint32_t n = 0;
    for (int i = 0; i < W_ALL; i++) {
        if (!(x->who >> i & 1))
            continue;
        memcpy(x->set[n].client, w->client[i].id, 32);
        memcpy(x->set[n].body, w->client[i].units, 32);
        if (sealed)
            world_head(w, i, h, x->heads + n * head_bytes(w->t.seal));
        else
            x->set[n].client[0] = (uint8_t)(i + 1); /* these worlds name no clients */
        n++;
    }
    x->run.up.clients = n, x->run.up.set = x->set;
    x->run.up.heads = sealed ? x->heads : NULL;
    x->run.up.head_bytes = sealed ? head_bytes(w->t.seal) : 0;
}

static inline sefl_status world_run_dial(void *ctx, channel **out)
{
    world_run *x = ctx;
    connect_(&x->c, x->w, NULL, false);
    x->dialled = true;
    *out = &x->c.ch[0];
    return SEFL_OK;
}

/* x->c.st is how CSP's stream ended. */
static inline void world_run_hang_up(void *ctx)
{
    world_run *x = ctx;
    if (x->dialled)
        disconnect(&x->c);
    x->dialled = false;
}

static inline sefl_status world_run_shares(void *ctx, uint64_t round, uint64_t attempt,
                                           uint64_t count)
{
    return shares_twins_wait(&((world_run *)ctx)->w->twins, round, attempt, count);
}

/* The caller adds the store, the account and the sum. */
static inline void world_run_init(world_run *x, world *w)
{
    static const as_channel in_memory = { .dial = world_run_dial,
                                          .hang_up = world_run_hang_up,
                                          .shares_wait = world_run_shares };
    *x = (world_run){ .w = w, .who = (1 << W_CLIENTS) - 1 };
    x->run.c = (as_rounds_config){ .task = &w->t,
                                   .envelope = buf_span(&w->envelope),
                                   .key = w->as,
                                   .coins = &w->named[0],
                                   .shares = w->shares[0],
                                   .channel = &in_memory,
                                   .strict = true };
    x->run.early = 1;
    x->run.open = world_run_open;
}

#endif

#include "simulate/helper.h"

#include "base/alloc.h"
#include "simulate/work.h"

#include <limits.h>
#include <stdio.h>

typedef struct beginning {
    bool finished;
    char folder[PATH_MAX];
} beginning;

sefl_status helper_begin(const ranks *r, const char *folder, bool finished)
{
    beginning b = { .finished = finished };
    snprintf(b.folder, sizeof b.folder, "%s", folder);
    SEFL_PASS(ranks_agree(r, SEFL_OK)); /* a failure before this call ends in ranks_agree too */
    return ranks_broadcast(r, &b, sizeof b);
}

sefl_status helper_pool(pool **out, const ranks *r, unsigned threads)
{
    if (threads == 0 && r->locals > 1) {
        unsigned cores = pool_cores();
        threads = cores > r->locals ? cores / r->locals : 1;
    }
    return pool_new(out, threads);
}

sefl_status helper_run(const simulate_config *c)
{
    sefl_status st = SEFL_OK;
    experiment e;
    federation *f = NULL;
    pool *p = NULL;
    work *w = NULL;
    beginning b;
    SEFL_TRY(ranks_agree(c->ranks, experiment_make(&e, c->settings)));
    SEFL_TRY(ranks_broadcast(c->ranks, &b, sizeof b));
    if (b.finished)
        goto done;
    SEFL_TRY(helper_pool(&p, c->ranks, e.threads));
    SEFL_TRY(federation_new(&f, &(federation_config){ .experiment = &e,
                                                      .settings = c->settings,
                                                      .ranks = c->ranks,
                                                      .key = c->key,
                                                      .progress = c->stop,
                                                      .stop = c->stop }));
    SEFL_TRY(ranks_agree(c->ranks, work_new(&w, f, p, NULL, c->stop, b.folder)));
    SEFL_TRY(work_join(w));
    SEFL_TRY(work_serve(w));
done:
    st = ranks_agree(c->ranks, st);
    work_free(w);
    federation_free(f);
    pool_free(p);
    return st;
}

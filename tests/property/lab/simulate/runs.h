/* runs: small simulated runs for tests, in a scratch folder, with one key for all. */
#ifndef TESTS_SIMULATE_RUNS_H
#define TESTS_SIMULATE_RUNS_H

#include "support/check.h"
#include "support/folder.h"

#include "simulate/simulate.h"

#include <stdlib.h>
#include <string.h>

static const char tiny[] =
    "crypto.key_bits=2048 clients=5 data.words=300 model.embed=8 model.hidden=8 "
    "model.batch=3 model.steps=10 rounds.count=2";

static federation_key key;

typedef struct stop {
    uint64_t rounds; /* this may end; then no client trains any more */
    uint64_t seen;
    _Atomic uint64_t asked,
        at; /* how often the run has asked whether to stop; when it is told to stop, 0: never */
} stop;

static inline void on_round(void *ctx, const run_line *r)
{
    (void)r;
    ((stop *)ctx)->seen++;
}

static inline bool go_on(void *self, uint64_t done, uint64_t total)
{
    const stop *s = self;
    (void)done, (void)total;
    return s->rounds == 0 || s->seen < s->rounds;
}

static inline bool not_yet(void *self, uint64_t done, uint64_t total)
{
    stop *s = self;
    (void)done, (void)total;
    return ++s->asked < s->at || s->at == 0;
}

/* more: settings over `tiny`, separated by spaces. */
static inline sefl_status run(simulate_result *r, const char *name, const char *more, stop *s)
{
    settings set;
    char text[2048], *save = NULL;
    sefl_progress p = { .report = go_on, .self = s }, soon = { .report = not_yet, .self = s };
    settings_init(&set, experiment_schema());
    snprintf(text, sizeof text, "%s name=%s %s", tiny, name, more);
    for (char *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save))
        CHECK_OK(settings_set(&set, one, "test"));
    sefl_status st = simulate_run(&(simulate_config){ .settings = &set,
                                                      .runs = folder_path("runs"),
                                                      .key = &key,
                                                      .ctx = s,
                                                      .round = s ? on_round : NULL,
                                                      .progress = s ? &p : NULL,
                                                      .stop = s ? &soon : NULL },
                                  r);
    settings_clear(&set);
    return st;
}

static inline simulate_result must(const char *name, const char *more)
{
    simulate_result r;
    CHECK_OK(run(&r, name, more, NULL));
    assert_false(r.was_there);
    return r;
}

static inline void same(const simulate_result *a, const simulate_result *b)
{
    assert_int_equal(a->t.rounds, b->t.rounds);
    assert_memory_equal(a->model, b->model, sizeof a->model);
}

static inline int runs_end(int rc)
{
    federation_key_clear(&key);
    return rc;
}

#endif

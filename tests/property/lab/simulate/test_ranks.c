/* The ranks of one simulation, as threads: the model is the same for any number of them. */
#include "runs.h"

#include "simulate/ranks.h"

#include <assert.h>
#include <pthread.h>

enum { MOST = 5 };

/* ---- ranks as threads ------------------------------------------------------------------------ */

typedef struct crew {
    pthread_barrier_t all;
    unsigned size;
    void *posted[MOST];
    size_t items[MOST];
} crew;

typedef struct member {
    crew *c;
    ranks r;
    bool over;
} member;

static void post(member *m, const void *p, size_t n)
{
    m->c->posted[m->r.rank] = (void *)(uintptr_t)p;
    m->c->items[m->r.rank] = n;
    pthread_barrier_wait(&m->c->all);
}

static sefl_status broadcast(void *self, void *bytes, size_t n)
{
    member *m = self;
    post(m, bytes, n);
    assert(m->c->items[0] == n);
    if (m->r.rank > 0)
        memcpy(bytes, m->c->posted[0], n);
    pthread_barrier_wait(&m->c->all);
    return SEFL_OK;
}

static sefl_status reduce(void *self, void *items, size_t n, const ranks_how *how)
{
    member *m = self;
    post(m, items, n);
    for (unsigned i = m->c->size; m->r.rank == 0 && --i > 0;) {
        assert(m->c->items[i] == n);
        how->add(how->ctx, items, m->c->posted[i], n);
    }
    pthread_barrier_wait(&m->c->all);
    return SEFL_OK;
}

static sefl_status collect(void *self, const void *items, size_t n, size_t item_bytes,
                           ranks_take *take, void *ctx)
{
    sefl_status st = SEFL_OK;
    member *m = self;
    post(m, items, n);
    for (unsigned i = 1; m->r.rank == 0 && i < m->c->size; i++)
        for (size_t k = 0; k < m->c->items[i] && st == SEFL_OK; k++)
            st = take(ctx, (const uint8_t *)m->c->posted[i] + k * item_bytes);
    pthread_barrier_wait(&m->c->all);
    return st;
}

static const ranks_ops threads = { broadcast, reduce, collect };

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct part {
    pthread_t id;
    member m;
    const char *runs, *name, *more;
    stop *stop; /* may be NULL */
    simulate_result result;
    sefl_status st;
    char why[256];
} part;

static void *run_part(void *arg)
{
    part *p = arg;
    settings set;
    char text[2048], *save = NULL;
    sefl_progress soon = { .report = not_yet, .self = p->stop };
    settings_init(&set, experiment_schema());
    snprintf(text, sizeof text, "%s name=%s threads=1 %s", tiny, p->name, p->more);
    for (char *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save))
        CHECK_OK(settings_set(&set, one, "test"));
    p->st = simulate_run(
        &(simulate_config){
            .settings = &set, .runs = p->runs, .ranks = &p->m.r, .stop = p->stop ? &soon : NULL },
        &p->result);
    if (p->st != SEFL_OK)
        snprintf(p->why, sizeof p->why, "%s", sefl_last_error());
    settings_clear(&set);
    return NULL;
}

/* Runs `size` ranks; the parts have their results. halt: the rank that `s` stops. */
static void run_ranks(part *p, unsigned size, const char *name, const char *more, unsigned halt,
                      stop *s)
{
    crew c = { .size = size };
    const char *runs = folder_path("runs");
    assert_int_equal(pthread_barrier_init(&c.all, NULL, size), 0);
    for (unsigned i = 0; i < size; i++) {
        p[i] = (part){ .runs = runs, .name = name, .more = more, .stop = i == halt ? s : NULL };
        p[i].m = (member){ .c = &c };
        p[i].m.r = (ranks){ .ops = &threads,
                            .self = &p[i].m,
                            .rank = i,
                            .size = size,
                            .locals = size,
                            .over = &p[i].m.over };
        assert_int_equal(pthread_create(&p[i].id, NULL, run_part, &p[i]), 0);
    }
    for (unsigned i = 0; i < size; i++)
        pthread_join(p[i].id, NULL);
    pthread_barrier_destroy(&c.all);
}

static const char *const cases[] = {
    "network.dropout=0.2 network.stragglers=0.3 rounds.threshold=2",
    "crypto=full network.dropout=0.2 rounds.threshold=2",
    "crypto=full clients=3 network.dropout=0.5 rounds.threshold=2 rounds.count=3",
    "protection=none network.dropout=0.2",
    "protection=none privacy.weights=capped privacy.weight_cap=0 data.alpha=0.1",
    "protection=cdp privacy.z=1",
    "privacy.filter=3000",
    "privacy.sampling=open privacy.rate=0.5 rounds.threshold=2 clients=9",
    "privacy.sampling=open privacy.rate=0.5 rounds.threshold=2 clients=9 crypto=full",
    "privacy.weights=capped privacy.weight_cap=0 crypto=full",
};

static void same_model(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32];
        part *p = calloc(MOST, sizeof *p);
        snprintf(name, sizeof name, "one-%zu", i);
        simulate_result one = must(name, cases[i]);
        for (unsigned size = 2; size <= MOST; size += 3) {
            snprintf(name, sizeof name, "ranks-%zu-%u", i, size);
            run_ranks(p, size, name, cases[i], MOST, NULL);
            for (unsigned k = 0; k < size; k++)
                assert_int_equal(p[k].st, SEFL_OK);
            same(&one, &p[0].result);
            assert_int_equal(p[0].result.ranks, size);
        }
        free(p);
    }
}

/* A rank that fails ends the run at all ranks; the others name it. The run resumes with another
 * number of ranks. */
static void resume(void **state)
{
    const char *more = "crypto=full network.dropout=0.2 rounds.threshold=2 rounds.count=3";
    simulate_result one = must("whole", more);
    part *p = calloc(MOST, sizeof *p);
    (void)state;
    for (unsigned halt = 0; halt < 3; halt++) {
        char name[32];
        stop s = { .at = 20 };
        snprintf(name, sizeof name, "halted-%u", halt);
        run_ranks(p, 3, name, more, halt, &s);
        for (unsigned k = 0; k < 3; k++) {
            assert_int_equal(p[k].st, SEFL_ECANCELLED);
            if (k != halt)
                assert_non_null(strstr(p[k].why, "rank "));
        }
        run_ranks(p, 2, name, more, MOST, NULL);
        assert_int_equal(p[0].st, SEFL_OK);
        same(&one, &p[0].result);
        run_ranks(p, 4, name, more, MOST, NULL); /* finished */
        assert_true(p[0].result.was_there);
        assert_int_equal(p[3].st, SEFL_OK);
    }
    free(p);
}

/* What one rank refuses ends the run everywhere, with one message. */
static void refused(void **state)
{
    part *p = calloc(MOST, sizeof *p);
    (void)state;
    run_ranks(p, 3, "bad", "data.path=/nowhere", MOST, NULL);
    assert_int_equal(p[0].st, SEFL_EINVAL);
    assert_int_equal(p[1].st, SEFL_ECANCELLED);
    assert_string_equal(p[2].why, "rank 0 of 3 failed");
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_model), cmocka_unit_test(resume),
                                        cmocka_unit_test(refused) };
    return runs_end(cmocka_run_group_tests(tests, folder_make_quick, folder_remove));
}

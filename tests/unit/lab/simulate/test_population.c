/* Participation: a population driven round by round by AS's driver (simulate/servers.h), without
 * training. */
#include "small_federation.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "simulate/servers.h"

#include <string.h>

typedef struct ring {
    small_federation sc;
    sefl_progress stop;
    servers *v;
    population *c;
    sefl_span header;
    uint64_t deadline;
    int64_t *zeros; /* the sum of every round */
    /* the latest round */
    uint32_t n;
    bool skipped, over;
} ring;

/* ---- the ports of AS's driver ---------------------------------------------------------------- */

static bool goes_on(void *self, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    return !((const ring *)self)->over;
}

static sefl_status announce(ring *r, uint64_t round)
{
    r->deadline = agg_deadline_ms(servers_agg(r->v));
    return population_open(r->c, round, r->header, servers_now_ms(r->v));
}

static sefl_status accept_uploads(void *ctx, const round_header *h, sefl_span both)
{
    ring *r = ctx;
    r->header = both;
    return announce(r, h->round);
}

static sefl_status upload(void *ctx, const round_header *h, work_got *got)
{
    ring *r = ctx;
    const population_member *set;
    (void)h;
    SEFL_PASS(population_close(r->c, servers_now_ms(r->v)));
    r->n = population_set(r->c, &set);
    for (uint32_t i = 1; i < r->n; i++)
        assert_true(set[i - 1].client < set[i].client);
    *got = (work_got){ .clients = r->n, .sum = r->zeros, .noisy = true };
    return SEFL_OK;
}

static sefl_status release(void *ctx, const release_from *from, uint64_t round, const int64_t *w,
                           uint32_t clients, release_made *out)
{
    (void)ctx, (void)from, (void)round, (void)w, (void)clients, (void)out;
    return SEFL_OK;
}

static void report(void *ctx, const rounds_report *p)
{
    ring *r = ctx;
    r->over = true;
    r->skipped = p->skipped;
    if (p->skipped)
        CHECK_OK(population_close(r->c, servers_now_ms(r->v)));
}

static sefl_status next_event(void *ctx, uint64_t *to)
{
    uint64_t next = population_next_ms(((const ring *)ctx)->c);
    *to = next < *to ? next : *to;
    return SEFL_OK;
}

static sefl_status pass_time(void *ctx, uint64_t now_ms)
{
    ring *r = ctx;
    const agg *a = servers_agg(r->v);
    SEFL_PASS(population_run(r->c, now_ms));
    if (agg_get_phase(a) == AGG_COLLECTING && agg_deadline_ms(a) != r->deadline)
        return announce(r, agg_round(a));
    return SEFL_OK;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Begins in this round, at this time; round 0: at the start of the task. */
static void begin_at(ring *r, const char *more, uint64_t round, uint64_t now_ms)
{
    *r = (ring){ 0 };
    small_federation_make(&r->sc, more);
    const task *t = &r->sc.s->task;
    static unsigned made;
    char name[32];
    snprintf(name, sizeof name, "ledger-%u", made++);
    const char *path = folder_path(name);
    CHECK_OK(ledger_create(path, t->population));
    CHECK_OK(sefl_new(&r->zeros, t->values, sizeof *r->zeros));
    r->stop = (sefl_progress){ .report = goes_on, .self = r };
    servers_config c = { .federation = r->sc.s,
                         .as_ledger = path,
                         .stop = &r->stop,
                         .now_ms = now_ms,
                         .ctx = r,
                         .accept = accept_uploads,
                         .upload = upload,
                         .release = release,
                         .report = report,
                         .next = next_event,
                         .at = pass_time };
    if (round > 0)
        c.memory = (agg_memory){ .phase = AGG_SIGNING, .round = round };
    CHECK_OK(servers_new(&r->v, &c));
    CHECK_OK(population_new(&r->c, r->sc.s, servers_agg(r->v), NULL));
}

static void begin(ring *r, const char *more)
{
    begin_at(r, more, 0, 0);
}

static void end(ring *r)
{
    population_free(r->c);
    servers_free(r->v);
    sefl_free(r->zeros);
    small_federation_clear(&r->sc);
}

/* The fates of all clients are those that the counts count. In an extended round a client may
 * begin twice. */
static void fates_fit(const ring *r, const population_counts *c)
{
    const char *f = population_fates(r->c);
    uint32_t n[128] = { 0 };
    for (uint32_t i = 0; i < r->sc.s->clients; i++)
        n[f[i] & 127]++;
    assert_int_equal(n['a'] + n['l'] + n['d'] + n['r'] + n['.'], r->sc.s->clients);
    if (c->asked <= r->sc.s->clients) {
        assert_int_equal(n['a'] + n['l'] + n['d'] + n['r'], c->asked);
        assert_int_equal(n['l'] + n['r'], c->late);
    }
    assert_int_equal(n['d'], c->dropped);
    assert_true(n['a'] == r->n || r->skipped);
}

/* Runs one round to its end; returns the number of admitted clients. */
static uint32_t round_of(ring *r, population_counts *counts, bool *skipped)
{
    r->over = false;
    r->n = 0;
    CHECK_STATUS(servers_run(r->v), SEFL_ECANCELLED);
    assert_true(r->over);
    *counts = population_count(r->c);
    *skipped = r->skipped;
    fates_fit(r, counts);
    return r->n;
}

static void everybody_comes(void **state)
{
    (void)state;
    ring r;
    population_counts c;
    bool skipped;
    begin(&r, "clients=30 rounds.count=4");
    for (int i = 0; i < 3; i++) {
        uint64_t before = servers_now_ms(r.v);
        assert_int_equal(round_of(&r, &c, &skipped), 30);
        assert_int_equal(c.late + c.dropped, 0);
        assert_true(servers_now_ms(r.v) - before <
                    15000); /* 1.5 times client_ms, not the deadline */
    }
    end(&r);
}

static void some_die_some_are_slow(void **state)
{
    (void)state;
    ring r;
    population_counts c;
    bool skipped;
    uint32_t dropped = 0, late = 0, came = 0;
    begin(&r, "clients=200 rounds.count=20 network.dropout=0.25 network.stragglers=0.5 "
              "network.slowdown=100");
    for (int i = 0; i < 10; i++) {
        uint32_t n = round_of(&r, &c, &skipped);
        assert_false(skipped);
        assert_int_equal(c.asked, 200);
        assert_int_equal(n + c.late + c.dropped, 200);
        came += n, dropped += c.dropped, late += c.late;
    }
    assert_true(came > 600 && came < 900);       /* 0.75 * 0.5 of 2000, five deviations */
    assert_true(dropped > 150 && dropped < 350); /* a quarter of the fast ones */
    assert_true(late > 850);                     /* the slow ones */
    end(&r);
}

/* network.exact: the same number in every round, other clients each time. */
static void exact_share(void **state)
{
    (void)state;
    static const struct {
        const char *dropout;
        uint32_t left; /* of 30 clients */
    } k[] = { { "0.75", 7 }, { "0.5", 15 }, { "0", 30 }, { "0.01", 30 }, { "0.02", 29 } };
    enum { CLIENTS = 30, ROUNDS = 60 };
    const population_member *set;
    uint32_t came[CLIENTS] = { 0 };
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
        ring r;
        char more[160];
        snprintf(more, sizeof more,
                 "clients=30 rounds.count=60 network.exact=true network.dropout=%s", k[i].dropout);
        begin(&r, more);
        for (int round = 0; round < (i == 1 ? ROUNDS : 8); round++) {
            population_counts c;
            bool skipped;
            assert_int_equal(round_of(&r, &c, &skipped), k[i].left);
            assert_false(skipped);
            assert_int_equal(c.dropped, CLIENTS - k[i].left);
            for (uint32_t m = 0; i == 1 && m < population_set(r.c, &set); m++)
                came[set[m].client]++;
        }
        end(&r);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) /* a coin of 1/2 in 60 rounds, five deviations */
        assert_true(came[i] > 10 && came[i] < 50);
}

/* Settings with which no round could reach the threshold are refused. */
static void exact_refused(void **state)
{
    (void)state;
    static const struct {
        const char *more, *says; /* NULL: accepted */
    } k[] = {
        { "rounds.threshold=6", "so 5 upload, fewer than rounds.threshold (6). Set "
                                "rounds.threshold to 5 or less" },
        { "rounds.threshold=5", NULL },
        { "", NULL },
        { "network.exact=false rounds.threshold=6", NULL },
        { "network.dropout=0.97", "a round needs at least 2 uploads" },
        { "privacy.sampling=open privacy.rate=0.5 rounds.threshold=3", "so 2.5 upload on average" },
    };
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
        settings s;
        experiment e;
        federation *f = NULL;
        char text[256], *save = NULL;
        settings_init(&s, experiment_schema());
        snprintf(text, sizeof text,
                 "clients=20 data.words=100 network.exact=true network.dropout=0.75 %s", k[i].more);
        for (char *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save))
            CHECK_OK(settings_set(&s, one, "test"));
        CHECK_OK(experiment_make(&e, &s));
        federation_config c = { .experiment = &e, .settings = &s };
        CHECK_STATUS(federation_new(&f, &c), k[i].says ? SEFL_EINVAL : SEFL_OK);
        if (k[i].says && !strstr(sefl_last_error(), k[i].says))
            fail_msg("%s", sefl_last_error());
        federation_free(f);
        settings_clear(&s);
    }
}

static void sampling(void **state)
{
    (void)state;
    ring r;
    population_counts c;
    bool skipped;
    uint32_t n = 0;
    begin(&r, "clients=200 rounds.count=20 privacy.sampling=open privacy.rate=0.25 "
              "rounds.threshold=2");
    for (int i = 0; i < 8; i++)
        n += round_of(&r, &c, &skipped);
    assert_true(n > 310 && n < 490); /* 400, five deviations */
    end(&r);
}

static void too_few(void **state)
{
    (void)state;
    ring r;
    population_counts c;
    bool skipped;
    begin(&r, "clients=10 rounds.count=5 network.client_ms=1000000 rounds.threshold=3");
    assert_int_equal(round_of(&r, &c, &skipped), 0);
    assert_true(skipped);
    end(&r);
    /* an extension lets them in */
    begin(&r, "clients=10 rounds.count=5 network.client_ms=100000 rounds.threshold=10 "
              "rounds.extend_ms=200000 rounds.extensions=1");
    assert_int_equal(round_of(&r, &c, &skipped), 10);
    assert_false(skipped);
    end(&r);
}

static void limits(void **state)
{
    (void)state;
    ring r;
    population_counts c;
    bool skipped;
    begin(&r, "clients=10 rounds.count=9 rounds.max_per_client=2");
    assert_int_equal(round_of(&r, &c, &skipped), 10);
    assert_int_equal(round_of(&r, &c, &skipped), 10);
    assert_int_equal(round_of(&r, &c, &skipped), 0);
    assert_true(skipped);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(population_taken(r.c)[i], 2);
    end(&r);
}

/* Clients take turns: each in one of three groups of rounds, three rounds apart. */
static void turns(void **state)
{
    (void)state;
    ring r;
    population_counts c;
    bool skipped;
    const population_member *set;
    uint64_t last[300] = { 0 };
    uint32_t per_group[3] = { 0 }, all = 0;
    begin(&r, "clients=300 rounds.count=9 rounds.separation=3 rounds.threshold=20");
    for (uint64_t round = 1; round <= 9; round++) {
        const uint32_t n = round_of(&r, &c, &skipped);
        assert_false(skipped);
        assert_int_equal(population_set(r.c, &set), n);
        if (round <= 3)
            per_group[round - 1] = n, all += n;
        assert_int_equal(n, per_group[(round - 1) % 3]); /* the same group again */
        for (uint32_t i = 0; i < n; i++) {
            assert_true(last[set[i].client] == 0 || round - last[set[i].client] == 3);
            last[set[i].client] = round;
        }
    }
    assert_int_equal(all, 300); /* everybody has a turn */
    for (int i = 0; i < 3; i++)
        assert_in_range(per_group[i], 60, 140); /* 100, standard deviation 8 */
    end(&r);
}

/* The same sets in the same rounds, for any starting round. */
static void memoryless_as(const char *more)
{
    ring a, b;
    population_counts c;
    bool skipped;
    const population_member *x, *y;
    begin(&a, more);
    for (int i = 0; i < 4; i++)
        (void)round_of(&a, &c, &skipped);
    begin_at(&b, more, 4, 777);
    uint32_t n = round_of(&b, &c, &skipped);
    assert_int_equal(population_set(a.c, &x), n);
    assert_int_equal(population_set(b.c, &y), n);
    assert_true(n > 5);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(x[i].client, y[i].client);
    end(&a);
    end(&b);
}

static void memoryless(void **state)
{
    (void)state;
    memoryless_as("clients=50 rounds.count=9 network.dropout=0.2 network.stragglers=0.3 "
                  "network.slowdown=30");
    memoryless_as("clients=50 rounds.count=9 network.dropout=0.5 network.exact=true");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_comes), cmocka_unit_test(some_die_some_are_slow),
        cmocka_unit_test(sampling),        cmocka_unit_test(too_few),
        cmocka_unit_test(limits),          cmocka_unit_test(turns),
        cmocka_unit_test(memoryless),      cmocka_unit_test(exact_share),
        cmocka_unit_test(exact_refused),
    };
    int rc = cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
    federation_key_clear(&small_key);
    return rc;
}

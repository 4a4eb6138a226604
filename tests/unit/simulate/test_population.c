/* Participation: a population driven round by round against agg, without training. */
#include "small_federation.h"

#include "protocol/round.h"
#include "simulate/population.h"

#include <string.h>

typedef struct ring {
    small_federation sc;
    agg *a;
    population *c;
    uint64_t now, deadline;
    sefl_buf header;
} ring;

static void begin(ring *r, const char *more)
{
    *r = (ring){ 0 };
    small_federation_make(&r->sc, more);
    CHECK_OK(agg_new(&r->a, &r->sc.s->task));
    CHECK_OK(population_new(&r->c, r->sc.s, r->a, NULL));
}

static void end(ring *r)
{
    population_free(r->c);
    agg_free(r->a);
    buf_clear(&r->header);
    small_federation_clear(&r->sc);
}

static void sign(ring *r, uint64_t round)
{
    const federation *s = r->sc.s;
    uint8_t bytes[HEADER_MAX];
    round_header h = { .round = round, .step_nano = s->task.step_nano };
    memcpy(h.task, s->task.id, sizeof h.task);
    CHECK_OK(federation_round_key(s, &h));
    size_t bytes_n = round_header_write(bytes, &h);
    envelope env = { .kind = SIGN_HEADER, .content = span_of(bytes, bytes_n) };
    CHECK_OK(envelope_sign(&env, SIGNER_AS, s->as_key));
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, s->csp_key));
    buf_reset(&r->header);
    CHECK_OK(envelope_write(&r->header, &env));
}

static void tell(ring *r, agg_event_kind kind, uint32_t clients)
{
    CHECK_OK(agg_on(
        r->a, &(agg_event){ .kind = kind, .round = agg_round(r->a), .clients = clients }, r->now));
}

/* Runs one round to its end; returns the number of admitted clients. */
static uint32_t round_of(ring *r, population_counts *counts, bool *skipped)
{
    const population_member *set;
    uint32_t n = 0;
    *skipped = false;
    for (;;) {
        agg_order o = agg_next(r->a, r->now);
        switch (o.kind) {
        case AGG_WAIT: {
            uint64_t next = population_next_ms(r->c);
            uint64_t to = next < o.until_ms ? next : o.until_ms;
            assert_true(to != UINT64_MAX);
            r->now = to > r->now ? to : r->now;
            CHECK_OK(population_run(r->c, r->now));
            if (agg_get_phase(r->a) == AGG_COLLECTING && agg_deadline_ms(r->a) != r->deadline) {
                r->deadline = agg_deadline_ms(r->a);
                CHECK_OK(population_open(r->c, o.round, buf_span(&r->header), r->now));
            }
            break;
        }
        case AGG_DIAL:
            tell(r, AGG_LINK_UP, 0);
            break;
        case AGG_SIGN:
            sign(r, o.round);
            tell(r, AGG_SIGNED, 0);
            r->deadline = agg_deadline_ms(r->a);
            CHECK_OK(population_open(r->c, o.round, buf_span(&r->header), r->now));
            break;
        case AGG_FREEZE:
            CHECK_OK(population_close(r->c, r->now));
            n = population_set(r->c, &set);
            for (uint32_t i = 1; i < n; i++)
                assert_true(set[i - 1].client < set[i].client);
            *counts = population_count(r->c);
            tell(r, AGG_FROZEN, n);
            break;
        case AGG_REVEAL:
            tell(r, AGG_REVEALED, 0);
            break;
        case AGG_RELEASE:
            tell(r, AGG_RELEASED, 0);
            return n;
        case AGG_SKIP:
            CHECK_OK(population_close(r->c, r->now));
            *counts = population_count(r->c);
            *skipped = true;
            tell(r, AGG_SKIPPED, 0);
            return 0;
        case AGG_FINISH:
            fail_msg("over");
        }
    }
}

static void everybody_comes(void **state)
{
    (void)state;
    ring r;
    population_counts c;
    bool skipped;
    begin(&r, "clients=30 rounds.count=4");
    for (int i = 0; i < 3; i++) {
        uint64_t before = r.now;
        assert_int_equal(round_of(&r, &c, &skipped), 30);
        assert_int_equal(c.late + c.dropped, 0);
        assert_true(r.now - before < 15000); /* 1.5 times client_ms, not the deadline */
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
    const population_member *set;
    uint32_t n = 0, zeros = 0;
    begin(&r, "clients=200 rounds.count=20 privacy.sampling=open privacy.rate=0.25 "
              "rounds.threshold=2");
    for (int i = 0; i < 8; i++)
        n += round_of(&r, &c, &skipped);
    assert_true(n > 310 && n < 490); /* 400, five deviations */
    end(&r);
    begin(&r, "clients=200 rounds.count=20 privacy.sampling=hidden privacy.rate=0.25");
    for (int i = 0; i < 8; i++) {
        assert_int_equal(round_of(&r, &c, &skipped), 200);
        for (uint32_t k = 0; k < population_set(r.c, &set); k++)
            zeros += set[k].zeros;
    }
    assert_true(zeros > 1110 && zeros < 1290);
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
    begin(&b, more);
    agg_memory m = { .phase = AGG_SIGNING, .round = 4 };
    CHECK_OK(agg_restore(b.a, &m, 777));
    b.now = 777;
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
        cmocka_unit_test(limits),          cmocka_unit_test(memoryless),
        cmocka_unit_test(exact_share),     cmocka_unit_test(exact_refused),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    federation_key_clear(&small_key);
    return rc;
}

#include "small_federation.h"

#include "support/folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "protocol/head.h"
#include "simulate/deploy.h"
#include "simulate/plan.h"
#include "simulate/simulate.h"

#include <math.h>
#include <string.h>

static const rates known = { .train_us_token = 10,
                             .round_ns_value = 10,
                             .encrypt_ms_update = 5,
                             .encrypt_ns_value = 100,
                             .sum_ms_round = 2,
                             .sum_ns_value = 20,
                             .open_ms_client = 1,
                             .open_ns_value = 3,
                             .release_ms_round = 50,
                             .release_ns_value = 1000,
                             .link_bytes_round = 10000,
                             .link_bytes_value = 300,
                             .step_ms_round = 3,
                             .eval_us_token = 5,
                             .model_bytes = 7000,
                             .program_bytes = 2e7,
                             .tables_bytes = 1e6,
                             .release_bytes_round = 3e7,
                             .release_bytes_value = 400 };

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b) + 1e-12;
}

static bool warns(const plan *p, const char *words)
{
    for (unsigned i = 0; i < p->warnings.n; i++)
        if (strstr(p->warnings.text[i], words))
            return true;
    return false;
}

static void made(plan *p, const char *more)
{
    small_federation s;
    small_federation_make(&s, more);
    CHECK_OK(plan_make(p, s.s, &known, 2));
    small_federation_clear(&s);
}

static void parts_add_up(void **state)
{
    (void)state;
    small_federation s;
    plan p;
    small_federation_make(&s, "clients=10 crypto=full network.dropout=0.2 rounds.count=5");
    const task *t = &s.s->task;
    CHECK_OK(plan_make(&p, s.s, &known, 2));
    double d = (double)t->values, words = 0;
    for (uint32_t i = 0; i < 10; i++)
        words += (double)calibrate_words(t, &s.s->text[i]);
    assert_true(near(p.per_round, 8) && near(p.asked, 10));
    assert_int_equal(p.up_bytes, task_body_bytes(t));
    assert_int_equal(p.down_bytes, 7000);
    assert_int_equal(p.link_bytes,
                     10000 + 300 * t->values + 8 * (head_bytes(t->seal) + HEAD_PREFIX));
    assert_true(near(p.round.train, 8 * 1e-5 * words / 10));
    assert_true(near(p.client.encrypt, 5e-3 + 110e-9 * d));
    assert_true(near(p.round.sum, 8 * 20e-9 * d + 2e-3));
    assert_true(near(p.round.twopc, 50e-3 + 1000e-9 * d + 8 * (1e-3 + 3e-9 * d)));
    assert_true(near(p.seconds, 5 * p.round.wall));
    assert_true(near(p.noise_ratio, 0.02 * sqrt(d) / 8));
    small_federation_clear(&s);
}

/* The paper's calibration: z from the classic formula, and the true total beside it (the value of
 * docs/PRIVACY.md, section 10). */
static void classic(void **state)
{
    (void)state;
    plan p;
    char text[PLAN_CLASSIC_TEXT];
    sefl_buf b = { 0 };
    made(&p, "clients=10 privacy.classic_epsilon=1 privacy.delta=1e-5 rounds.count=50");
    assert_true(fabs(p.z - 4.844805263) < 1e-9);
    assert_true(p.classic.total.known && fabs(p.classic.total.server - 7.37) < 0.01);
    assert_true(p.has_epsilon && p.epsilon_server == p.classic.total.server && p.delta == 1e-5);
    plan_classic_text(text, &p.classic);
    assert_non_null(strstr(text, "not a claim, and not proven for epsilon >= 1; over 50 rounds"));
    CHECK_OK(plan_json(&b, &p));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((const char *)b.p, "\"classic_proven\":false"));
    buf_clear(&b);
    made(&p, "clients=10 privacy.classic_epsilon=0.5 privacy.delta=1e-5 rounds.count=50");
    plan_classic_text(text, &p.classic);
    assert_null(strstr(text, "not proven"));
    assert_true(p.classic.total.server > 0.5); /* one round's epsilon is no total */
    /* too little noise for any claim; other keys; no noise */
    made(&p, "clients=10 privacy.classic_epsilon=30 privacy.delta=1e-5");
    plan_classic_text(text, &p.classic);
    assert_non_null(strstr(text, "no epsilon is proven"));
    made(&p, "clients=10");
    assert_true(p.classic.epsilon == 0 && p.delta == 1e-6);
    made(&p, "clients=10 protection=none privacy.classic_epsilon=1");
    assert_true(p.classic.epsilon == 0 && p.z == 0);
}

/* Words that a client trains on: an epoch of columns, and single steps. */
static void words(void **state)
{
    (void)state;
    task t = { .model = { .batch = 4, .steps = 10 }, .local_epochs = 2 };
    corpus c = { .tokens = 103 }; /* 4 columns of 25: 24 predictions each */
    assert_int_equal(calibrate_words(&t, &c), 2 * 4 * 24);
    t.local_epochs = 0, t.local_steps = 1;
    assert_int_equal(calibrate_words(&t, &c), 40);
    t.local_steps = 3; /* an epoch: sequences of 10, 10 and 4 */
    assert_int_equal(calibrate_words(&t, &c), 96);
    t.local_steps = 4;
    assert_int_equal(calibrate_words(&t, &c), 136);
    c.tokens = 5; /* fewer columns */
    t.local_steps = 1;
    assert_int_equal(calibrate_words(&t, &c), 2);
}

/* The plan compares the noise with the clients of a round, and counts own noise twice. */
static void signal_of_a_round(void **state)
{
    (void)state;
    static const char base[] = "clients=200 data.words=100 privacy.claim=dp privacy.z=1 "
                               "privacy.epsilon=20 rounds.count=2 rounds.threshold=2 ";
    plan all, open, own;
    char more[512];
    made(&all, base);
    snprintf(more, sizeof more, "%sprivacy.sampling=open privacy.rate=0.1", base);
    made(&open, more);
    snprintf(more, sizeof more, "%sprivacy.noise=own", base);
    made(&own, more);
    assert_true(near(all.per_round, 200) && near(open.per_round, 20));
    assert_true(near(open.noise_ratio, 10 * all.noise_ratio));
    assert_true(warns(&open, "at 20 clients this noise drowns the update"));
    assert_true(near(own.noise_ratio, sqrt(2) * all.noise_ratio));
    /* the bound for exact noise lacks the factor sqrt(1.0048) of joint noise */
    assert_true(own.need.z < all.need.z && own.need.z > 0.99 * all.need.z);
    assert_true(fabs((double)own.need.clients / (sqrt(2) * (double)all.need.clients) -
                     own.need.z / all.need.z) < 0.01); /* whole clients */
}

static void warnings(void **state)
{
    (void)state;
    plan p;
    made(&p, "clients=10 privacy.claim=dp privacy.z=1 privacy.epsilon=21");
    assert_true(warns(&p, "at 10 clients this noise drowns the update"));
    assert_true(warns(&p, "epsilon 8 needs about"));
    assert_true(p.need.clients > 100);
    /* the budget ends early */
    made(&p, "clients=10 privacy.claim=dp privacy.z=1 privacy.epsilon=8 rounds.count=50 "
             "privacy.early_end=true");
    assert_true(p.rounds >= 1 && p.rounds < 50 && p.rounds_asked == 50);
    assert_true(warns(&p, "the budget of epsilon 8 ends after round"));
    /* enough clients: no warning about drowning noise */
    made(&p, "clients=600 data.words=100 privacy.claim=dp privacy.z=1 privacy.epsilon=20 "
             "rounds.count=2");
    assert_false(warns(&p, "drowns"));
    assert_true(p.has_epsilon && p.epsilon_server < 20 && p.epsilon_server > 5);
    made(&p, "clients=10");
    assert_true(warns(&p, "no differential privacy claimed"));
    assert_true(warns(&p, "too few to learn with a small epsilon"));
    assert_false(p.has_epsilon);
    made(&p, "clients=10 protection=none");
    assert_true(warns(&p, "protection none"));
    assert_true(p.round.twopc == 0 && p.noise_ratio == 0);
    made(&p, "clients=10 network.client_ms=100000 rounds.deadline_ms=60000");
    assert_true(warns(&p, "miss the deadline"));
    made(&p, "clients=10 network.dropout=0.9 rounds.threshold=4");
    assert_true(warns(&p, "most rounds will be skipped"));
}

/* Sites whose texts do not fit the turns of the records, and what the turns cost. */
static void record_turns(void **state)
{
    (void)state;
    plan all, some;
    made(&all,
         "clients=4 data.words=2000 privacy.unit=record privacy.records_max=1000 training.epochs=0 "
         "training.steps=1 rounds.count=3 privacy.z=1");
    assert_false(warns(&all, "are never used") || warns(&all, "they use none"));
    made(&some,
         "clients=4 data.words=2000 privacy.unit=record privacy.records_max=1 training.epochs=0 "
         "training.steps=1 rounds.count=3 privacy.z=1 privacy.record_turns=2");
    assert_true(warns(&some, "more records than rounds.count x privacy.records_max (3): 4;"));
    assert_true(some.words < all.words && some.epsilon_server < all.epsilon_server);
    made(&some,
         "clients=4 data.words=2000 privacy.unit=record privacy.records_max=1 training.epochs=0 "
         "training.steps=1 rounds.count=2000 privacy.z=1 privacy.record_turns=1");
    assert_true(warns(&some, "fewer records than rounds.count / privacy.record_turns "
                             "(2000): 4;"));
}

/* The noise in the last model three ways, as `sefl privacy plan --correlated` computes it: with the
 * task's turns and filter, or with proposed ones. */
static void three_ways(void **state)
{
    (void)state;
    plan p;
    sefl_buf b = { 0 };
    made(&p, "clients=200 data.words=100 privacy.claim=dp privacy.epsilon=8 rounds.count=20 "
             "rounds.max_per_client=2 rounds.separation=5 rounds.threshold=2");
    dp_turns_plan want = { .source = DP_SOURCE_JOINT,
                           .clients = 200,
                           .rounds = 20,
                           .dim = p.values,
                           .epsilon = 8,
                           .delta = p.delta,
                           .turns = { 2, 5 } };
    CHECK_OK(dp_turns_plan_compute(&want));
    assert_true(p.has_ways && !p.ways_proposed && p.ways.filter.b > 0);
    assert_true(p.ways.correlated.last == want.correlated.last &&
                p.ways.independent.clients == want.independent.clients &&
                p.ways.everybody.z == want.everybody.z);
    assert_true(p.ways.correlated.last < p.ways.independent.last);
    assert_true(warns(&p, "has its last one in round 10 or before"));
    CHECK_OK(plan_json(&b, &p));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((const char *)b.p, "\"everybody\":{\"noise_last_model\":"));
    assert_non_null(strstr((const char *)b.p, "\"clients_needed\":"));
    buf_clear(&b);
    CHECK_OK(dp_ways_text(&b, &p.ways));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((const char *)b.p, "everybody in every round"));
    buf_clear(&b);
    /* a given filter is not replaced */
    made(&p, "clients=200 data.words=100 privacy.claim=dp privacy.epsilon=8 rounds.count=20 "
             "rounds.max_per_client=2 rounds.separation=10 rounds.threshold=2 privacy.filter=1234");
    assert_true(p.has_ways && p.ways.filter.b == 1 && p.ways.filter.gamma[0] == 1234);
    assert_false(warns(&p, "the clients run out"));
    made(&p, "clients=200 data.words=100 rounds.count=20");
    assert_true(p.has_ways && p.ways_proposed && p.ways.epsilon == PLAN_EPSILON);
    made(&p, "clients=200 data.words=100 rounds.count=20 server.step=adam");
    assert_false(p.has_ways);
}

/* Two epsilons: amplified against others, not against a server. */
static void epsilons(void **state)
{
    (void)state;
    plan open, limited;
    made(&open, "clients=40 privacy.claim=dp privacy.z=1 privacy.epsilon=90 privacy.sampling=open "
                "privacy.rate=0.1 rounds.threshold=2");
    assert_true(open.epsilon_others < 0.5 * open.epsilon_server);
    made(&limited,
         "clients=40 privacy.claim=dp privacy.z=1 privacy.epsilon=90 rounds.max_per_client=3");
    assert_true(limited.epsilon_server < limited.epsilon_others);
}

static void rates_file(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    rates got;
    CHECK_OK(rates_write(&b, &known));
    CHECK_OK(file_write_atomic(folder_path("rates"), buf_span(&b), 0600));
    CHECK_OK(rates_read(&got, folder_path("rates")));
    assert_memory_equal(&got, &known, sizeof got);
    CHECK_STATUS(rates_read(&got, folder_put("few", "model_bytes=3\n", 14)), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "train_us_token"));
    CHECK_STATUS(rates_read(&got, folder_path("none")), SEFL_ENOTFOUND);
    buf_clear(&b);
}

/* The measurement covers every part, and leaves no file. */
static void measures(void **state)
{
    (void)state;
    small_federation s;
    pool *p;
    rates r;
    CHECK_OK(pool_new(&p, 2));
    static const char *const kinds[] = { "crypto=full",
                                         "crypto=full privacy.noise=own",
                                         "crypto=full crypto.scheme=paillier",
                                         "crypto=clear",
                                         "protection=cdp",
                                         "protection=none" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char more[128];
        snprintf(more, sizeof more, "clients=4 %s", kinds[i]);
        small_federation_make(&s, more);
        CHECK_OK(calibrate(&r, s.s, p, 0.05));
        assert_true(r.train_us_token > 0 && r.model_bytes > 0 && r.step_ms_round > 0);
        assert_true((r.link_bytes_value > 0 || r.link_bytes_round > 0) == (i < 3));
        assert_true(r.program_bytes > 1e6 && (r.tables_bytes > 0) == (i < 3));
        assert_true((r.encrypt_ns_value > 0 || r.encrypt_ms_update > 0) == (i < 3));
        assert_true((r.release_ns_value > 0 || r.release_ms_round > 0) == (i < 5));
        small_federation_clear(&s);
    }
    pool_free(p);
}

/* The memory in the plan is what a run allocates from the heap. */
static void memory_of_a_run(void **state)
{
    (void)state;
    static const char *const kinds[] = { "crypto=full", "crypto=full privacy.noise=own",
                                         "crypto=full crypto.scheme=paillier", "crypto=clear" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        small_federation s;
        pool *two;
        rates r;
        plan p;
        simulate_result got;
        char more[160], name[8];
        snprintf(name, sizeof name, "run%zu", i);
        snprintf(more, sizeof more,
                 "name=%s clients=4 threads=2 rounds.count=1 data.words=400 model.embed=64 "
                 "model.hidden=64 %s",
                 name, kinds[i]);
        CHECK_OK(pool_new(&two, 2));
        small_federation_make(&s, more);
        CHECK_OK(calibrate(&r, s.s, two, 0.05));
        CHECK_OK(plan_make(&p, s.s, &r, 2));
        federation_free(s.s), s.s = NULL;
        pool_free(two);
        size_t before = sefl_heap_live();
        sefl_heap_mark();
        CHECK_OK(simulate_run(&(simulate_config){ .settings = &s.set,
                                                  .runs = folder_path("runs"),
                                                  .key = &small_key },
                              &got));
        double took = (double)(sefl_heap_peak() - before);
        double planned = (double)p.memory_bytes - r.program_bytes;
        if (fabs(planned - took) > 0.15 * took)
            fail_msg("%s: planned %.2f MB, took %.2f MB", kinds[i], 1e-6 * planned, 1e-6 * took);
        small_federation_clear(&s);
    }
}

/* Servers of a real federation: bytes, seconds, machines and the bottleneck. */
static void deployed(void **state)
{
    (void)state;
    small_federation s;
    deploy d;
    deploy_costs c;
    small_federation_make(&s, "clients=10 crypto=full privacy.noise=joint privacy.z=1");
    const double v = (double)s.s->task.values, up = (double)task_body_bytes(&s.s->task);
    CHECK_OK(deploy_measure(&c, s.s));
    assert_true(c.head > 1e-6 && c.head < 0.1 && c.pad > 1e-9 && c.pad < 0.1);
    c = (deploy_costs){ .head = 1e-4, .pad = 1e-4 };
    CHECK_OK(deploy_make(&d, s.s, &known, &c, &(deploy_ask){ .clients = 1000, .window_s = 600 }));
    assert_true(near(d.in_bytes, 1000 * up) && near(d.csp_seconds, 0.2) &&
                near(d.database_seconds, 0.49) && near(d.noise_bytes, 1089 * v) &&
                near(d.as_seconds, 0.5 + 1.9e-6 * up));
    assert_true(near(d.after, 0.055 + 1e-9 * v * 1020)); /* release, step, one part */
    assert_true(d.aggregators == 1 && d.bottleneck == DEPLOY_CLIENTS);
    /* 2,000 commits per second: one aggregator makes 1,000 */
    const deploy_ask many = { .clients = 1200000, .window_s = 600 };
    CHECK_OK(deploy_make(&d, s.s, &known, &c, &many));
    assert_true(d.need == 3 && d.aggregators == 3 && d.bottleneck == DEPLOY_DATABASE);
    assert_true(near(d.use[DEPLOY_DATABASE], 2.0 / 3));
    c.pad = 0.02; /* a large model: CSP needs more than its 16 cores */
    CHECK_OK(deploy_make(&d, s.s, &known, &c, &many));
    assert_true(d.bottleneck == DEPLOY_CSP && d.use[DEPLOY_CSP] > 1);
    const deploy_ask one = { .clients = 1200000, .window_s = 600, .aggregators = 1 };
    CHECK_OK(deploy_make(&d, s.s, &known, &c, &one));
    assert_true(d.aggregators == 1 && d.need == 3 && d.use[DEPLOY_DATABASE] > 1.9);
    CHECK_STATUS(deploy_make(&d, s.s, &known, &c, &(deploy_ask){ .clients = 0, .window_s = 1 }),
                 SEFL_EINVAL);
    small_federation_clear(&s);
    small_federation_make(&s, "clients=10");
    CHECK_STATUS(deploy_measure(&c, s.s), SEFL_EINVAL);
    small_federation_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up),    cmocka_unit_test(classic),
        cmocka_unit_test(words),           cmocka_unit_test(signal_of_a_round),
        cmocka_unit_test(warnings),        cmocka_unit_test(record_turns),
        cmocka_unit_test(three_ways),      cmocka_unit_test(epsilons),
        cmocka_unit_test(rates_file),      cmocka_unit_test(measures),
        cmocka_unit_test(memory_of_a_run), cmocka_unit_test(deployed),
    };
    int rc = cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
    federation_key_clear(&small_key);
    return rc;
}

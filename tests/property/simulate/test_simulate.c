/* The same model, bit for bit: with the real cryptography and without, on one thread and on two, in a
 * second run; and how a run ends. */
#include "runs.h"

#include <math.h>

static void full_is_clear(void **state)
{
    (void)state;
    static const char *const modes[][2] = {
        { "pad-joint", "crypto.scheme=pad privacy.noise=joint" },
        { "paillier-joint", "crypto.scheme=paillier privacy.noise=joint" },
        { "pad-own", "crypto.scheme=pad privacy.noise=own" },
        { "paillier-own", "crypto.scheme=paillier privacy.noise=own" },
        { "none", "privacy.noise=none" },
        { "claim", "privacy.claim=dp privacy.z=1 privacy.epsilon=40 privacy.clip=1" },
        { "capped",
          "privacy.weights=capped privacy.weight_cap=200 server.step=adam server.lr=0.01" },
        { "hidden", "privacy.sampling=hidden privacy.rate=0.6 rounds.threshold=2" },
        { "record", "privacy.unit=record privacy.records_max=3 training.lr=1" },
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char name[64], more[512];
        snprintf(name, sizeof name, "full-%s", modes[i][0]);
        snprintf(more, sizeof more, "%s crypto=full", modes[i][1]);
        simulate_result full = must(name, more);
        snprintf(name, sizeof name, "clear-%s", modes[i][0]);
        simulate_result clear = must(name, modes[i][1]);
        same(&full, &clear);
        assert_true(full.t.all.up_bytes == clear.t.all.up_bytes);
        assert_true(full.t.all.link_bytes > 0 && isnan(clear.t.all.link_bytes));
    }
    simulate_result a = must("other-1", "seed=2"), b = must("other-2", "privacy.z=0.021");
    assert_memory_not_equal(a.model, b.model, sizeof a.model); /* this can fail */
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    static const char *const modes[] = {
        "protection=none privacy.weights=capped privacy.weight_cap=200",
        "protection=cdp",
        "protection=sefl",
        "protection=sefl crypto=full",
        "protection=sefl network.dropout=0.2 network.stragglers=0.3 clients=12 rounds.threshold=2",
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        simulate_result r[3];
        for (unsigned k = 0; k < 3; k++) { /* twice with two: a repetition */
            char name[64], more[512];
            snprintf(name, sizeof name, "threads-%zu-%u", i, k);
            snprintf(more, sizeof more, "%s threads=%u", modes[i], k == 0 ? 1 : 2);
            r[k] = must(name, more);
        }
        same(&r[0], &r[1]);
        same(&r[0], &r[2]);
    }
}

/* The learning rate of the last round is 0: that round changes nothing, on every path. */
static void schedule_ends_at_zero(void **state)
{
    (void)state;
    static const char *const modes[] = {
        "protection=none",
        "protection=sefl privacy.noise=none",
        "protection=sefl privacy.noise=none crypto=full training.optimiser=adam training.lr=0.01",
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char name[64], more[512];
        snprintf(name, sizeof name, "schedule-one-%zu", i);
        snprintf(more, sizeof more, "%s rounds.count=1", modes[i]);
        simulate_result one = must(name, more);
        snprintf(name, sizeof name, "schedule-two-%zu", i);
        snprintf(more, sizeof more, "%s rounds.count=2 training.schedule=cosine", modes[i]);
        simulate_result two = must(name, more);
        assert_int_equal(two.t.rounds, 2);
        assert_memory_equal(one.model, two.model, sizeof one.model);
        snprintf(name, sizeof name, "schedule-small-%zu", i);
        snprintf(more, sizeof more, "%s rounds.count=2 training.schedule=cosine %s", modes[i],
                 "training.lr_last=0.001");
        two = must(name, more);
        assert_memory_not_equal(one.model, two.model, sizeof one.model); /* this can fail */
    }
}

/* The budget ends a run; both servers' ledgers agree. */
static void budget_ends_it(void **state)
{
    (void)state;
    static const char terms[] =
        "privacy.claim=dp privacy.z=1 privacy.epsilon=8 privacy.delta=1e-5 rounds.count=9";
    simulate_result clear = must("budget", terms), full;
    char more[256];
    assert_true(clear.t.rounds >= 1 && clear.t.rounds < 9);
    assert_string_equal(clear.why, "the privacy budget is spent");
    assert_true(clear.t.all.epsilon_server <= 8);
    snprintf(more, sizeof more, "%s crypto=full", terms);
    full = must("budget-full", more);
    same(&clear, &full);
    assert_true(full.t.all.epsilon_server == clear.t.all.epsilon_server);
}

/* A single client learns in plain FedAvg; a secure sum of one client is refused. */
static void one_client(void **state)
{
    (void)state;
    simulate_result r = must("one", "clients=1 protection=none rounds.count=4");
    assert_true(r.t.all.perplexity > 0 && r.t.all.perplexity < r.first_perplexity);
    CHECK_STATUS(run(&r, "one-sefl", "clients=1", NULL), SEFL_EINVAL);
}

/* Noise that drowns the model: the run completes, and its metrics show it. */
static void drowned(void **state)
{
    (void)state;
    simulate_result r = must("drowned", "privacy.z=30 privacy.clip=100 rounds.count=2");
    assert_int_equal(r.t.rounds, 2);
    assert_true(isnan(r.t.best) || r.t.best > r.first_perplexity);
}

/* Every client's training diverges: they upload zeros, as real ones do. No round is skipped for
 * lack of clients, and the result reports the divergence. */
static void diverged(void **state)
{
#define CAPPED "privacy.weights=capped privacy.weight_cap=200"
    static const char *const more[] = { "crypto=full", CAPPED, "protection=none",
                                        ("protection=none " CAPPED) };
#undef CAPPED
    (void)state;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        char name[16], text[256];
        snprintf(name, sizeof name, "diverged-%zu", i);
        snprintf(text, sizeof text,
                 "training.lr=1000000 training.gradient_clip=0 training.epochs=4 %s", more[i]);
        simulate_result r = must(name, text);
        assert_int_equal(r.t.rounds, 2);
        assert_int_equal(r.t.skipped, 0);
        assert_int_equal(r.t.all.clients, 10);
        assert_int_equal(r.t.all.diverged, 10);
        if (i >= 2) /* no noise: the model has not moved */
            assert_true(r.t.all.perplexity == r.first_perplexity);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_is_clear),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(schedule_ends_at_zero),
        cmocka_unit_test(budget_ends_it),
        cmocka_unit_test(one_client),
        cmocka_unit_test(drowned),
        cmocka_unit_test(diverged),
    };
    return runs_end(cmocka_run_group_tests(tests, folder_make_quick, folder_remove));
}

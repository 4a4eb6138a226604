/* The privacy of a task: noise modes, sampling, z and epsilon, filters, turns, carries. */
#define _GNU_SOURCE /* memmem */
#include "protocol/modes/mode.h"
#include "protocol/modes/own.h"
#include "protocol/task_budget.h"
#include "unit/core/protocol/task_tests.h"

#include "mpc/noise/online.h"
#include "protocol/task_fields.h"
#include "protocol/task_make.h"

#include <math.h>
#include <stdlib.h>

/* The classic formula sets z; the document has only the z. */
static void test_classic_epsilon(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *c, *says;
    } bad[] = {
        { "privacy.classic_epsilon=1", "privacy.z=1", 0, "privacy.z" },
        { "privacy.classic_epsilon=1", "privacy.noise=none", "privacy.claim=none",
          "privacy.noise" },
        { "privacy.classic_epsilon=1", "privacy.delta=0", "privacy.claim=none", "delta" },
        { "privacy.classic_epsilon=-1", 0, 0, "privacy.classic_epsilon" },
        { "privacy.classic_epsilon=100", 0, 0, "claim none" }, /* a z too small for a claim */
    };
    task t;
    sefl_buf doc = { 0 };
    /* sqrt(2 ln(1.25 / 1e-5)) = 4.8448052626... */
    CHECK_OK(sample_task(&t, "privacy.classic_epsilon=1", "privacy.delta=1e-5", "privacy.epsilon=9",
                         NULL));
    assert_string_equal(t.z, "4.844805263");
    assert_true(t.claim && t.delta == 1e-5);
    task_clear(&t);
    CHECK_OK(sample_task(&t, "privacy.classic_epsilon=0.5", "privacy.delta=1e-5",
                         "privacy.claim=none", NULL));
    assert_string_equal(t.z, "9.689610526");
    assert_true(!t.claim && t.delta == 0 && t.epsilon == 0);
    task_clear(&t);
    CHECK_OK(sample_document(&doc, "privacy.classic_epsilon=0.5", "privacy.claim=none", NULL));
    assert_null(memmem(doc.p, doc.n, "classic", 7));
    buf_clear(&doc);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(sample_task(&t, bad[i].a, bad[i].b, bad[i].c, NULL), SEFL_EINVAL);
        if (!strstr(sefl_last_error(), bad[i].says))
            fail_msg("%s", sefl_last_error());
    }
}

static void test_sampling_and_divisor(void **state)
{
    (void)state;
    task t;
    /* open, amplified: the count is kept back */
    CHECK_OK(sample_task(&t, "privacy.sampling=open", "privacy.rate=0.5", NULL));
    assert_true(t.amplified && !t.publish_count);
    assert_true(task_divisor(&t, 3) == 4 && task_divisor(&t, 8) == 4);
    assert_true(task_event(&t, 7).rate == 0.5 && task_event(&t, 7).count == 7);
    task_clear(&t);
    /* a filter: the same number in every round */
    CHECK_OK(
        sample_task(&t, "privacy.filter=3000", "rounds.separation=2", "rounds.threshold=2", NULL));
    assert_true(t.publish_count && task_divisor(&t, 3) == 4 && task_divisor(&t, 5) == 4);
    task_clear(&t);
    /* over-selection: only the unamplified epsilon, so the count is public */
    CHECK_OK(sample_task(&t, "privacy.sampling=open", "privacy.rate=0.5", "rounds.enough=4", NULL));
    assert_true(!t.amplified && t.publish_count);
    assert_true(task_divisor(&t, 3) == 3);
    assert_true(task_event(&t, 1).rate == 1);
    task_clear(&t);
    /* nothing claimed */
    CHECK_OK(
        sample_task(&t, "privacy.sampling=open", "privacy.rate=0.5", "privacy.claim=none", NULL));
    assert_true(!t.amplified && t.publish_count);
    dp_event none = task_event(&t, 2);
    assert_true(none.noise == DP_NOISE_NONE && none.z == 0 && none.rate == 0 && none.dim == 0);
    task_clear(&t);
    CHECK_OK(sample_task(&t, "privacy.weights=capped", "privacy.weight_cap=100", NULL));
    assert_int_equal(t.values, t.params + 1);
    assert_int_equal(t.ahe.values, t.values);
    assert_int_equal(t.grid.dim, t.values);
    assert_true(isnan(task_divisor(&t, 8)));
    task_clear(&t);
    /* the default threshold: half of the expected clients */
    CHECK_OK(sample_task(&t, "rounds.threshold=0", "rounds.enrolled=100", NULL));
    assert_int_equal(t.threshold, 50);
    task_clear(&t);
    CHECK_OK(sample_task(&t, "rounds.threshold=0", "rounds.enrolled=100", "privacy.sampling=open",
                         "privacy.rate=0.2", NULL));
    assert_int_equal(t.threshold, 10);
    task_clear(&t);
}

static void test_noise_modes(void **state)
{
    (void)state;
    static const char *const schemes[] = { "crypto.scheme=pad", "crypto.scheme=paillier" };
    for (size_t i = 0; i < 2; i++) {
        task t;
        CHECK_OK(sample_task(&t, schemes[i], "privacy.noise=own", NULL));
        dp_event ev = task_event(&t, 1);
        assert_int_equal(ev.noise, DP_NOISE_DISCRETE);
        /* sigma is at least z * D, in fine steps */
        assert_true(t.sigma_steps >= sqrt((double)t.grid.s2) && t.sigma_steps < 38668);
        assert_true(ev.sigma_steps == t.sigma_steps && ev.dim == 0);
        CHECK_OK(dp_event_check(&ev));
        task_clear(&t);

        CHECK_OK(sample_task(&t, schemes[i], "privacy.noise=none", "privacy.claim=none", NULL));
        assert_true(t.grid.q == 0 && t.ahe.pack.q > 0 && t.sigma_steps == 0);
        task_clear(&t);

        CHECK_OK(sample_task(&t, schemes[i], "privacy.unit=record", "privacy.records_max=50",
                             "privacy.claim=none", NULL));
        assert_int_equal(t.ahe.pack.value_max, 50 * t.grid.value_max);
        assert_int_equal(t.ahe.pack.clients, 8);
        assert_int_equal(t.grid.clients, 400);
        assert_int_equal(t.local_steps, 1);
        CHECK_OK(pack_check(&t.ahe.pack));
        task_clear(&t);

        /* a clip that is found: one more value, the same grid in units of the clip, the same charge */
        task fixed;
        CHECK_OK(sample_task(&fixed, schemes[i], NULL));
        CHECK_OK(sample_task(&t, schemes[i], "privacy.clip_quantile=0.25", NULL));
        assert_int_equal(t.values, fixed.values + 1);
        assert_int_equal(task_trained(&t), fixed.values);
        assert_true(task_event(&t, 3).z == task_event(&fixed, 3).z);
        assert_true(task_clip_scale(&fixed, 77) == 1 && task_next_clip(&fixed, 0, NULL, 4) == 0);
        assert_true(task_clip_scale(&t, 2 * t.clip_nano) == 0.5);
        const uint64_t least = (t.clip_nano + 1023) / 1024, most = t.clip_nano * 1024;
        assert_true(task_clip_fits(&t, least) && task_clip_fits(&t, most));
        assert_false(task_clip_fits(&t, 0));
        assert_false(task_clip_fits(&t, t.clip_nano / 1024 - 1));
        assert_false(task_clip_fits(&t, most + 1024));
        int64_t *w = calloc(t.values, sizeof *w);
        assert_non_null(w);
        const double slot = 0.1 * (double)t.clip_nano / 1e9 * 8; /* eight bits, all set */
        for (int sign = -1; sign <= 1; sign += 2) {
            const double step = task_value(&t, 1) - task_value(&t, 0);
            w[t.values - 1] = (int64_t)(sign * slot / step);
            const double part = (task_value(&t, w[t.values - 1]) / slot + 1) / 2;
            double got = (double)task_next_clip(&t, t.clip_nano, w, 8);
            double want = (double)t.clip_nano * exp(-0.2 * (fmin(fmax(part, 0), 1) - 0.25));
            assert_true(fabs(got / want - 1) < 1e-4); /* (1 - x / 1024)^1024 */
            assert_int_equal(task_next_clip(&t, sign > 0 ? least : most, w, 8),
                             sign > 0 ? least : most); /* the range ends it */
            w[t.values - 1] *= 1000; /* noise beyond all clients: no more than all of them */
            got = (double)task_next_clip(&t, t.clip_nano, w, 8);
            want = (double)t.clip_nano * exp(-0.2 * ((sign > 0 ? 1 : 0) - 0.25));
            assert_true(fabs(got / want - 1) < 1e-4);
        }
        free(w);
        task_clear(&fixed);
        task_clear(&t);

        /* the coin of a client amplifies nothing for a record, and AS may publish the count */
        CHECK_OK(sample_task(&t, schemes[i], "privacy.unit=record", "privacy.records_max=50",
                             "privacy.sampling=open", "privacy.rate=0.5", NULL));
        assert_true(!t.amplified && t.publish_count);
        assert_true(task_event(&t, 7).rate == 1 && task_event_server(&t, 7).rate == 1);
        assert_true(task_divisor(&t, 6) == 6); /* clients, never records */
        task_clear(&t);

        /* below the smallest z that can be claimed */
        CHECK_OK(sample_task(&t, schemes[i], "privacy.z=0.01", "privacy.claim=none", NULL));
        assert_true(!t.claim && t.grid.z == 0.01);
        task_clear(&t);
    }
}

/* A mode's table is whole, and no two modes share a word, a shape's byte or its coins. */
static void test_mode_tables(void **state)
{
    (void)state;
    for (unsigned i = 0; i < RELEASE_MODE_COUNT; i++) {
        const release_mode *m = release_modes[i];
        assert_ptr_equal(release_mode_named(span_of_str(m->name)), m);
        assert_true(m->deviation && m->finish);
        assert_true(m->noisy == (m->source != NULL) && !m->reply == !m->shape);
        assert_true(!m->shares || m->shape->slice);
        if (m->source)
            assert_true(dp_law_of(m->source->law)->claims && m->source->noises >= 1);
        for (unsigned j = 0; j < i && m->shape; j++) {
            const noise_shape *other = release_modes[j]->shape;
            assert_true(!other || other == m->shape ||
                        (other->wire != m->shape->wire && strcmp(other->coins, m->shape->coins)));
        }
    }
    assert_null(release_mode_named(span_of_str("cdp")));
    task t;
    CHECK_OK(sample_task(&t, NULL));
    assert_ptr_equal(task_noise_params(&t, 1, 1).shape, &noise_joint);
    assert_true(task_mode(&t)->deviation(&t) == t.grid.sigma);
    task_clear(&t);
    CHECK_OK(sample_task(&t, "privacy.noise=own", NULL));
    assert_ptr_equal(task_noise_params(&t, 1, 1).shape, &noise_own);
    task_clear(&t);
}

/* ---- a user chooses a mode ------------------------------------------------------------------- */

static void test_mode_words(void **state)
{
    (void)state;
    char text[RELEASE_MODE_TEXT];
    for (unsigned i = 0; i < 2 * RELEASE_MODE_COUNT; i++) {
        const release_mode *m = release_modes[i / 2];
        const bool sealed = i % 2;
        release_mode_text(text, m, sealed);
        assert_true(strlen(text) < RELEASE_MODE_TEXT - 1); /* it is whole */
        assert_ptr_equal(strstr(text, m->name), text);
        assert_true((strstr(text, m->trust) != NULL) == sealed);
        assert_true((strstr(text, "both servers must be honest") != NULL) == !sealed);
        assert_string_equal(text + strlen(text) - strlen(m->price), m->price);
    }
    /* what task show --explain adds about a server that cheats */
    static const struct {
        const char *set[2], *scheme, *mode, *as, *csp;
    } c[] = {
        { { "privacy.noise=own", "privacy.claim=dp" },
          "crypto.scheme=pad",
          "Mode own: one honest server is enough, whichever it is; the model carries",
          "an AS that cheats  may spoil the result; the guarantee against a server",
          "drop clients; the guarantee holds against it too, as long as AS follows the protocol" },
        { { "privacy.noise=joint", "privacy.claim=dp" },
          "crypto.scheme=pad",
          "Mode joint: CSP must be honest",
          "an AS that cheats  may spoil the result; the guarantee against a server",
          "a CSP that cheats  MAY LEAVE OUT THE NOISE" },
        { { "privacy.noise=own", "privacy.claim=none" },
          "crypto.scheme=pad",
          "Mode own: one honest server",
          "learns no exact sum, as long as CSP",
          "learns no exact sum, as long as AS" },
        { { "privacy.noise=none", "privacy.claim=none" },
          "crypto.scheme=pad",
          "Mode none: AS learns the exact sums",
          "an AS that cheats  learns the exact sum",
          "a CSP that cheats  may spoil the result or drop clients\n" },
        { { "privacy.noise=own", "privacy.claim=none" },
          "crypto.scheme=paillier",
          "Mode own: with paillier, both servers must be honest;",
          "an AS that cheats  MAY LEARN ONE CLIENT'S UPDATE",
          "a CSP that cheats  is not covered either" },
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        task t;
        sefl_buf words = { 0 };
        CHECK_OK(sample_task(&t, c[i].set[0], c[i].set[1], c[i].scheme, NULL));
        CHECK_OK(task_explain(&words, &t));
        if (!has(&words, c[i].mode) || !has(&words, c[i].as) || !has(&words, c[i].csp))
            fail_msg("case %zu: %.*s", i, (int)words.n, (const char *)words.p);
        assert_true(has(&words, "SEFL proposes") == (i < 3));
        assert_true(has(&words, "never: one client's update, the sum, AS's noise\n") ==
                    (strcmp(task_mode(&t)->name, "own") == 0));
        buf_clear(&words);
        task_clear(&t);
    }
}

/* The amplified number is no claim against anybody to whom a server that cheats talks. */
static void test_amplified_words(void **state)
{
    (void)state;
    for (int amplified = 0; amplified < 2; amplified++) {
        task t;
        sefl_buf words = { 0 };
        CHECK_OK(sample_task(&t, "privacy.epsilon=60",
                             amplified ? "privacy.sampling=open" : "privacy.sampling=all",
                             amplified ? "privacy.rate=0.5" : "privacy.rate=1", NULL));
        assert_true(t.amplified == amplified);
        CHECK_OK(task_explain(&words, &t));
        assert_true(has(&words, "only while both servers are honest: one that cheats may tell") ==
                    amplified);
        buf_clear(&words);
        task_clear(&t);
    }
}

/* Single records: own, unless the settings say otherwise, or own would protect no better. */
static void test_mode_default(void **state)
{
    (void)state;
    static const struct {
        const char *unit, *most, *scheme, *more;
        task_noise want;
    } c[] = {
        { "privacy.unit=record", "privacy.records_max=9", "crypto.scheme=pad", NULL,
          TASK_NOISE_OWN },
        { "privacy.unit=record", "privacy.records_max=9", "crypto.scheme=pad",
          "privacy.noise=joint", TASK_NOISE_JOINT },
        { "privacy.unit=record", "privacy.records_max=9", "crypto.scheme=paillier", NULL,
          TASK_NOISE_JOINT },
        { "privacy.unit=client", "privacy.records_max=0", "crypto.scheme=pad", NULL,
          TASK_NOISE_JOINT },
        { "privacy.unit=client", "privacy.records_max=0", "crypto.scheme=pad", "privacy.noise=own",
          TASK_NOISE_OWN },
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        task t, same;
        settings s;
        settings_init(&s, task_schema);
        for (const char *const *set = &c[i].unit; set <= &c[i].more; set++)
            if (*set)
                CHECK_OK(settings_set(&s, *set, "test"));
        assert_ptr_equal(task_settings_mode(&s), release_modes[c[i].want]);
        settings_clear(&s);
        CHECK_OK(sample_task(&t, c[i].unit, c[i].most, c[i].scheme, c[i].more, NULL));
        assert_int_equal(t.noise, c[i].want);
        const char *said =
            c[i].want == TASK_NOISE_OWN ? "privacy.noise=own" : "privacy.noise=joint";
        CHECK_OK(sample_task(&same, c[i].unit, c[i].most, c[i].scheme, said, NULL));
        assert_string_equal(t.z, same.z); /* the mode's */
        task_clear(&t), task_clear(&same);
    }
}

/* What the other mode would cost is what a task with that mode costs. */
static void test_compare_modes(void **state)
{
    (void)state;
    static const char *const more[][3] = {
        { "privacy.epsilon=8", "rounds.max_per_client=7", "rounds.separation=1" },
        { "privacy.filter=2048", "rounds.max_per_client=4", "rounds.separation=2" },
        { "privacy.unit=record", "privacy.records_max=9", "rounds.separation=1" },
    };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        task own, joint;
        CHECK_OK(sample_task(&own, "privacy.noise=own", "rounds.count=40", more[i][0], more[i][1],
                             more[i][2], NULL));
        CHECK_OK(sample_task(&joint, "privacy.noise=joint", "rounds.count=40", more[i][0],
                             more[i][1], more[i][2], NULL));
        const task_choice a = task_compare_modes(&own), b = task_compare_modes(&joint);
        const double want[] = { 0, task_noise_clients(&joint) / task_cohort(&joint),
                                task_noise_clients(&own) / task_cohort(&own) };
        for (unsigned m = 0; m < RELEASE_MODE_COUNT; m++) {
            assert_true(fabs(a.ratio[m] - want[m]) <= 2e-5 * want[m]);
            assert_true(fabs(b.ratio[m] - want[m]) <= 2e-5 * want[m]);
        }
        assert_true(want[2] / want[1] > 1.405 && want[2] / want[1] < 1.4142);
        task_clear(&own), task_clear(&joint);
    }
    /* own, unless it harms where joint does not */
    static const struct {
        double joint; /* ratio */
        task_noise proposed;
        const char *why;
    } c[] = {
        { 0.2, TASK_NOISE_OWN, "SEFL proposes own.\n" },
        { 0.3, TASK_NOISE_JOINT, "joint: under own, learning is slow" },
        { 0.5, TASK_NOISE_OWN, "SEFL proposes own.\n" },
        { 0.8, TASK_NOISE_JOINT, "joint: under own, noise drowns the updates" },
        { 1.1, TASK_NOISE_OWN, "own: under joint too, noise drowns the updates" },
    };
    task unit;
    CHECK_OK(sample_task(&unit, "privacy.claim=none", "privacy.z=1", NULL));
    const double per_z = task_noise_clients(&unit) / task_cohort(&unit);
    task_clear(&unit);
    for (size_t i = 0; i < 2 * (sizeof c / sizeof *c); i++) {
        char z[40];
        task t;
        sefl_buf words = { 0 };
        snprintf(z, sizeof z, "privacy.z=%.6f", c[i / 2].joint / per_z);
        CHECK_OK(sample_task(&t, "privacy.claim=none", z,
                             i % 2 ? "privacy.noise=own" : "privacy.noise=joint", NULL));
        const task_choice got = task_compare_modes(&t);
        assert_true(fabs(got.ratio[TASK_NOISE_JOINT] / c[i / 2].joint - 1) < 1e-3);
        assert_int_equal(got.proposed, c[i / 2].proposed);
        CHECK_OK(task_explain_mode(&words, &t));
        assert_true(has(&words, c[i / 2].why));
        buf_clear(&words);
        task_clear(&t);
    }
}

/* ---- the target epsilon ---------------------------------------------------------------------- */

/* Without a z, the document gets the smallest one that all rounds keep the target with. */
static void test_z_of_epsilon(void **state)
{
    (void)state;
    static const char *const modes[] = { "privacy.noise=joint", "privacy.noise=own" };
    static const char *const epsilons[] = { "privacy.epsilon=0.5", "privacy.epsilon=8",
                                            "privacy.epsilon=60" };
    static const char *const who[][2] = {
        { "privacy.sampling=all", "privacy.rate=1" },
        { "rounds.max_per_client=7", "privacy.rate=1" },
        { "privacy.sampling=open", "privacy.rate=0.5" },
    };
    double z[3];
    for (size_t i = 0; i < 2 * 3 * 3; i++) {
        const char *mode = modes[i / 9], *epsilon = epsilons[i / 3 % 3], *const *w = who[i % 3];
        char less[32], say[32];
        uint64_t rounds;
        task t, worse;
        CHECK_OK(sample_task(&t, mode, epsilon, w[0], w[1], "rounds.count=40", NULL));
        CHECK_OK(task_budget_rounds(&rounds, &t));
        assert_int_equal(rounds, 40);
        z[i % 3] = strtod(t.z, NULL);
        assert_true(t.claim && z[i % 3] >= dp_law_of(task_mode(&t)->source->law)->z_min);
        snprintf(less, sizeof less, "privacy.z=%.6f", z[i % 3] - 0.001);
        sefl_status st =
            sample_task(&worse, mode, epsilon, w[0], w[1], "rounds.count=40", less, NULL);
        const double least = dp_law_of(task_mode(&t)->source->law)->z_search_min;
        if (z[i % 3] - 0.001 >= least) { /* otherwise less noise would do too */
            CHECK_STATUS(st, SEFL_EINVAL);
            snprintf(say, sizeof say, "raise privacy.z to %.4g", dp_four_digits(z[i % 3], true));
            assert_non_null(strstr(sefl_last_error(), say));
            CHECK_OK(sample_task(&worse, mode, epsilon, w[0], w[1], "rounds.count=40", less,
                                 "privacy.early_end=true", NULL));
            CHECK_OK(task_budget_rounds(&rounds, &worse));
            assert_true(rounds >= 1 && rounds < 40);
        }
        task_clear(&worse);
        task_clear(&t);
        if (i % 3 == 2 && i / 3 % 3 == 1)
            assert_true(z[1] < z[0] && z[2] == z[0]);
    }
    task t;
    CHECK_STATUS(sample_task(&t, "privacy.epsilon=0", NULL), SEFL_EINVAL);
    CHECK_STATUS(sample_task(&t, "privacy.epsilon=0.01", "rounds.count=100000", NULL),
                 SEFL_EBUDGET);
    assert_non_null(strstr(sefl_last_error(), "noise multiplier"));
    CHECK_OK(sample_task(&t, "privacy.claim=none", NULL));
    assert_string_equal(t.z, "1");
    task_clear(&t);
}

/* ---- records that take turns ----------------------------------------------------------------- */

/* Charged for their turns: z is that of so many releases, whatever the number of rounds. */
static void test_record_turns(void **state)
{
    (void)state;
    static const char *const modes[] = { "privacy.noise=joint", "privacy.noise=own" };
    for (size_t i = 0; i < 2; i++) {
        task all, some, few;
        uint64_t rounds;
        CHECK_OK(sample_task(&all, modes[i], "privacy.unit=record", "privacy.records_max=9",
                             "rounds.count=40", NULL));
        assert_true(all.record_turns == 40 && !task_limits_records(&all));
        assert_true(task_event(&all, 40).count == 40 && task_event_server(&all, 7).count == 7);
        CHECK_OK(sample_task(&some, modes[i], "privacy.unit=record", "privacy.records_max=9",
                             "rounds.count=40", "privacy.record_turns=4", NULL));
        assert_true(some.record_turns == 4 && task_limits_records(&some));
        for (uint64_t r = 0; r <= 40; r++) {
            assert_int_equal(task_event(&some, r).count, (r + 9) / 10);
            assert_int_equal(task_event_server(&some, r).count, (r + 9) / 10);
        }
        CHECK_OK(sample_task(&few, modes[i], "privacy.unit=record", "privacy.records_max=9",
                             "rounds.count=4", NULL));
        assert_string_equal(some.z, few.z);
        assert_true(some.grid.z < all.grid.z);
        CHECK_OK(task_budget_rounds(&rounds, &some));
        assert_int_equal(rounds, 40);
        task_clear(&some);
        /* less noise: the task ends before the round in which a record is used once more */
        CHECK_OK(sample_task(&some, modes[i], "privacy.unit=record", "privacy.records_max=9",
                             "rounds.count=40", "privacy.record_turns=4", "privacy.early_end=true",
                             "privacy.z=1.2", NULL));
        CHECK_OK(task_budget_rounds(&rounds, &some));
        assert_true(rounds > 0 && rounds < 40 && rounds % 10 == 0);
        task_clear(&all), task_clear(&some), task_clear(&few);
    }
}

/* What a person with several records can be told. The numbers are from a separate computation: the
 * Gaussian's Renyi divergence with k times the sensitivity, over a fine grid of orders. */
static void test_several_records(void **state)
{
    (void)state;
    task t;
    sefl_buf words = { 0 };
    CHECK_OK(sample_task(&t, "privacy.unit=record", "privacy.noise=joint", "privacy.records_max=10",
                         "privacy.z=7.563", "rounds.count=140", "privacy.epsilon=8.0005",
                         "privacy.delta=1e-5", NULL));
    CHECK_OK(task_explain(&words, &t));
    CHECK_OK(wr_u8(&words, 0));
    const char *text = (const char *)words.p;
    assert_non_null(strstr(text, "epsilon is 18.85 for 2, 66.62 for 5, 195.9 for 10"));
    assert_non_null(strstr(text, "one record per person"));
    assert_non_null(strstr(text, "about one record at most what the guarantee allows"));
    assert_null(strstr(text, "about one client at most"));
    assert_non_null(strstr(text, "e^epsilon = 2983")); /* 2982.4 */
    assert_non_null(strstr(text, " 8.000 (a factor of 2981);"));
    assert_non_null(strstr(text, "(a factor of 153.2 million) if other data replaced it"));
    assert_non_null(strstr(text, "about one record at most"));
    assert_null(strstr(text, "about one client at most"));
    buf_clear(&words);
    task_clear(&t);
    const char *const high[][2] = { { "privacy.z=1", "(a factor of 10^36) if other data" },
                                    { "privacy.z=2", " trillion) if other data" } };
    for (int i = 0; i < 2; i++) {
        CHECK_OK(sample_task(&t, high[i][0], "privacy.epsilon=1000", "rounds.count=20",
                             "privacy.delta=1e-5", NULL));
        CHECK_OK(task_explain(&words, &t));
        CHECK_OK(wr_u8(&words, 0));
        assert_non_null(strstr((const char *)words.p, high[i][1]));
        assert_non_null(strstr((const char *)words.p, "about one client at most"));
        assert_non_null(strstr((const char *)words.p, "no claim for 10")); /* z / 10 < 0.25 */
        buf_clear(&words);
        task_clear(&t);
    }
}

/* ---- correlated noise ------------------------------------------------------------------------ */

/* The rounds of a task with a filter are one release with noise z / S; z follows from epsilon. */
static void test_filter(void **state)
{
    (void)state;
    static const char *const modes[] = { "privacy.noise=joint", "privacy.noise=own" };
    for (size_t i = 0; i < 2; i++) {
        task t, none;
        uint64_t rounds;
        double z1;
        CHECK_OK(sample_task(&t, modes[i], "privacy.filter=3000, 200", "rounds.separation=2",
                             "rounds.max_per_client=5", "rounds.count=40", NULL));
        assert_int_equal(t.filter.b, 2);
        assert_true(t.filter.gamma[0] == 3000 && t.filter.gamma[1] == 200);
        assert_int_equal(t.separation, 2);
        assert_int_equal(t.filter_bits, i ? DP_FILTER_OWN_BITS : DP_FILTER_SUM_BITS - t.grid.k);
        const double s = task_filter_s(&t, 40);
        const double bare = dp_filter_s(&t.filter, 40, &(dp_turns){ 5, 2 });
        assert_true(s > bare && s < bare * (i ? 1.001 : 1.00001));
        dp_event ev = task_event(&t, 40), server = task_event_server(&t, 40);
        assert_true(ev.count == 1 && ev.rate == 1 && ev.z == t.grid.z / s);
        assert_true(ev.dim == (i ? 0 : 40 * t.values));
        assert_true(server.z == ev.z && server.count == 1 && server.dim == ev.dim);
        CHECK_OK(task_budget_rounds(&rounds, &t));
        assert_int_equal(rounds, 40);
        CHECK_OK(dp_find_z(&z1, &ev, t.epsilon, &(dp_question){ .delta = t.delta }));
        assert_true(fabs(t.grid.z / s - z1) < 2e-6 * z1);
        /* without the filter: as many releases as the client has turns */
        CHECK_OK(sample_task(&none, modes[i], "rounds.separation=2", "rounds.count=40", NULL));
        assert_int_equal(task_event_server(&none, 39).count, 20);
        assert_int_equal(none.filter_bits, 0);
        task_clear(&none);
        task_clear(&t);
    }
    /* own: the slack counts units of the noise that is really drawn, 21 bits below the coarse step */
    static const char *const zs[] = { "privacy.z=0.3",  "privacy.z=3.999", "privacy.z=4",
                                      "privacy.z=37.7", "privacy.z=999.9", "privacy.z=1000" };
    for (size_t i = 0; i < sizeof zs / sizeof *zs; i++) {
        task t;
        dgauss law;
        own_filter f;
        uint8_t memory[NOISE_KEPT];
        CHECK_OK(sample_task(&t, "privacy.noise=own", "privacy.filter=3000", "privacy.claim=none",
                             zs[i], NULL));
        CHECK_OK(own_filter_init(&f, &law, &t, memory));
        assert_int_equal(f.bits + t.grid.t, 21);
        const double sigma = sqrt((double)law.num / (double)law.den);
        const double least = t.grid.z * sqrt((double)t.grid.s2) * ldexp(1, (int)f.bits);
        assert_true(sigma >= least && sigma < least * (1 + 1e-4));
        assert_true(dp_filter_units(t.filter_bits) < sigma);
        task_clear(&t);
    }
    /* auto: the turns and the filter that `sefl privacy plan --correlated` proposes */
    task a;
    CHECK_OK(sample_task(&a, "privacy.filter=auto", "rounds.max_per_client=1", "rounds.count=100",
                         "rounds.enrolled=800", "rounds.threshold=0", NULL));
    const dp_filter best = dp_filter_best(100, &(dp_turns){ 1, 100 }, 0); /* of several lags */
    assert_true(a.filter.b == 4 && memcmp(&a.filter, &best, sizeof best) == 0);
    assert_int_equal(a.separation, 100);
    char warning[TASK_TURNS_TEXT];
    assert_false(task_turns_warning(warning, &a));
    assert_int_equal(a.threshold, 4);
    task_clear(&a);
    CHECK_OK(sample_task(&a, "privacy.filter=auto", "rounds.separation=20", "rounds.count=100",
                         "rounds.enrolled=800", "server.step=momentum", NULL));
    assert_true(a.filter.b == 1 && a.filter.gamma[0] == 3800);
    assert_true(a.separation == 20 && a.max_rounds_per_client == 0);
    task_clear(&a);
    /* 33 apart would leave nobody for round 100 */
    CHECK_OK(sample_task(&a, "privacy.filter=auto", "rounds.max_per_client=3", "rounds.count=100",
                         "rounds.enrolled=800", "rounds.threshold=0", NULL));
    assert_int_equal(a.separation, 34);
    task_clear(&a);
    CHECK_STATUS(sample_task(&a, "privacy.filter=auto", NULL), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "only if clients take turns"));
    /* a wide ring leaves too few bits below it for the guard bits of paillier */
    static const char *const wide[] = { "crypto.scheme=paillier", "privacy.claim=none",
                                        "privacy.z=4", "rounds.enrolled=16000000" };
    task t;
    CHECK_STATUS(sample_task(&t, "privacy.filter=3000", wide[0], wide[1], wide[2], wide[3], NULL),
                 SEFL_ERANGE);
    assert_non_null(strstr(sefl_last_error(), "privacy.filter: with a ring of"));
    CHECK_OK(sample_task(&t, wide[0], wide[1], wide[2], wide[3], NULL));
    task_clear(&t);
    CHECK_OK(sample_task(&t, "privacy.filter=3000", wide[1], wide[2], wide[3], NULL));
    task_clear(&t);
    /* clients take turns: every client in one of four rounds, about as many in each */
    t = (task){ .separation = 4 };
    unsigned groups[4] = { 0 };
    for (unsigned i = 0; i < 400; i++) {
        const uint8_t client[32] = { (uint8_t)i, (uint8_t)(i >> 8) };
        unsigned own = 0;
        for (uint64_t round = 1; round <= 4; round++)
            if (task_is_turn(&t, client, round))
                own++, groups[round - 1]++;
        assert_int_equal(own, 1);
        assert_int_equal(task_is_turn(&t, client, 3), task_is_turn(&t, client, 7));
    }
    for (int i = 0; i < 4; i++)
        assert_in_range(groups[i], 65, 135); /* 100, standard deviation 9 */
    assert_false(task_is_soon(&t, 0, 3));
    assert_true(task_is_soon(&t, 1, 4) && !task_is_soon(&t, 1, 5) && task_is_soon(&t, 5, 2));
    /* the usual threshold is half of those whose turn it is */
    CHECK_OK(
        sample_task(&t, "rounds.separation=4", "rounds.enrolled=80", "rounds.threshold=0", NULL));
    assert_int_equal(t.threshold, 10);
    task_clear(&t);
}

/* Own noise under paillier has a reserve for carries; where it may not suffice, no claim. */
static void test_carries(void **state)
{
    (void)state;
    static const char own[] = "privacy.noise=own", paillier[] = "crypto.scheme=paillier";
    task t, pad;
    dgauss law, grid;
    CHECK_OK(sample_task(&t, own, paillier, NULL));
    CHECK_OK(dgauss_for_grid(&grid, &t.grid));
    CHECK_OK(own_law(&law, &t));
    assert_true(law.num - grid.num >= grid.num / 5000 && law.num - grid.num < grid.num / 4000);
    assert_true(own_carries(&t) > 1e-6 && own_carries(&t) <= 2e-4);
    CHECK_OK(sample_task(&pad, own, NULL));
    CHECK_OK(dgauss_for_grid(&grid, &pad.grid));
    CHECK_OK(own_law(&law, &pad));
    assert_true(law.num == grid.num && own_carries(&pad) == 0);
    /* the limit: with so many values and 16 guard bits the reserve suffices, with 15 it does not */
    pad.ahe.pack.g = 16, pad.values = pad.grid.s2;
    assert_true(own_carries(&pad) <= 2e-4);
    pad.ahe.pack.g = 15;
    assert_true(own_carries(&pad) > 2e-4);
    task_clear(&pad);
    task_clear(&t);
    CHECK_STATUS(sample_task(&t, own, paillier, "privacy.filter=3000", "privacy.z=4", NULL),
                 SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "nothing is proven about its carries"));
    CHECK_OK(sample_task(&t, own, paillier, "privacy.filter=3000", "privacy.z=4",
                         "privacy.claim=none", NULL));
    task_clear(&t);
    CHECK_STATUS(sample_task(&t, own, paillier, "privacy.sampling=open", "privacy.rate=0.5", NULL),
                 SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "no proof for a claim that relies on sampling"));
    CHECK_STATUS(sample_task(&t, own, paillier, "privacy.z=400", NULL), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "Renyi orders up to 1024"));
    CHECK_OK(sample_task(&t, own, "privacy.z=400", NULL));
    task_clear(&t);
}

/* Clients that take every turn run out before the last round. */
static void test_turns_end(void **state)
{
    (void)state;
    static const struct {
        const char *most, *apart, *sampling;
        bool warns;
    } cases[] = {
        { "rounds.max_per_client=5", "rounds.separation=8", "privacy.rate=1", false },
        { "rounds.max_per_client=5", "rounds.separation=7", "privacy.rate=1", true },
        { "rounds.max_per_client=39", "rounds.separation=1", "privacy.rate=1", true },
        { "rounds.max_per_client=40", "rounds.separation=1", "privacy.rate=1", false },
        { "rounds.max_per_client=0", "rounds.separation=7", "privacy.rate=1", false },
        { "rounds.max_per_client=5", "privacy.sampling=open", "privacy.rate=0.1", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[TASK_TURNS_TEXT];
        sefl_buf words = { 0 };
        task t;
        CHECK_OK(sample_task(&t, "rounds.count=40", "rounds.enrolled=800", "privacy.claim=none",
                             cases[i].most, cases[i].apart, cases[i].sampling, NULL));
        assert_true(task_turns_warning(text, &t) == cases[i].warns);
        CHECK_OK(task_explain(&words, &t));
        assert_true(has(&words, "WARNING: the clients run out") == cases[i].warns);
        if (i == 1) {
            assert_non_null(strstr(text, "has its last one in round 35 or before, but the task has "
                                         "40 rounds"));
            assert_non_null(strstr(text, "rounds.separation to 8, rounds.max_per_client to 6 or "
                                         "rounds.count to 35"));
        }
        task_clear(&t);
        buf_clear(&words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classic_epsilon), cmocka_unit_test(test_sampling_and_divisor),
        cmocka_unit_test(test_noise_modes),     cmocka_unit_test(test_mode_tables),
        cmocka_unit_test(test_mode_words),      cmocka_unit_test(test_mode_default),
        cmocka_unit_test(test_amplified_words), cmocka_unit_test(test_compare_modes),
        cmocka_unit_test(test_z_of_epsilon),    cmocka_unit_test(test_record_turns),
        cmocka_unit_test(test_several_records), cmocka_unit_test(test_filter),
        cmocka_unit_test(test_carries),         cmocka_unit_test(test_turns_end),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

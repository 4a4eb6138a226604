#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "simulate/overview.h"
#include "simulate/run_folder.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

static const run_line sample = { .round = 3,
                                 .clients = 97,
                                 .asked = 100,
                                 .late = 2,
                                 .refused = NAN,
                                 .ahead_seconds = NAN,
                                 .open_seconds = NAN,
                                 .release_seconds = NAN,
                                 .ahead_bytes = NAN,
                                 .open_bytes = NAN,
                                 .dropped = 1,
                                 .perplexity = 41.25,
                                 .loss = 3.75,
                                 .epsilon_server = 2.5,
                                 .epsilon_others = 0.5,
                                 .epsilon_target = 8,
                                 .seconds = 4.5,
                                 .train_seconds = 7.25,
                                 .encrypt_seconds = 0.125,
                                 .sum_seconds = 0.25,
                                 .twopc_seconds = 0.5,
                                 .step_seconds = 0.0625,
                                 .eval_seconds = 0.03125,
                                 .cpu_seconds = 9,
                                 .up_bytes = 4705384,
                                 .down_bytes = 1200000,
                                 .link_bytes = 883000,
                                 .virtual_seconds = 15.5 };

static void lines(void **state)
{
    (void)state;
    sefl_buf b = { 0 }, again = { 0 };
    run_line r;
    run_facts f = run_facts_none();
    CHECK_OK(run_line_write(&b, &sample, NULL));
    CHECK_OK(run_line_read(&r, &f, buf_span(&b)));
    assert_true(isnan(r.refused) && isnan(r.open_bytes));
    CHECK_OK(run_line_write(&again, &r, NULL));
    assert_int_equal(again.n, b.n);
    assert_memory_equal(again.p, b.p, b.n);
    buf_clear(&again);
    for (size_t n = 0; n < b.n; n++) /* a partial line does not count */
        CHECK_STATUS(run_line_read(&r, &f, span_of(b.p, n)), SEFL_EPROTO);
    buf_clear(&b);
    CHECK_OK(run_line_read(&r, &f, span_of_str("{\"new\":[1,{}],\"round\":1}")));
    assert_true(isnan(r.link_bytes) && isnan(r.perplexity) && isnan(r.epsilon_server));
    CHECK_STATUS(run_line_read(&r, &f, span_of_str("{\"clients\":1}")), SEFL_EPROTO);
}

static void file_of_lines(void **state)
{
    (void)state;
    run_folder f;
    bool fresh;
    uint64_t bytes, first = 0;
    run_line r = sample;
    run_log log;
    CHECK_OK(run_folder_open(&f, folder_path("runs"), "a", span_of_str("seed: 1\n"), &fresh));
    assert_true(fresh);
    for (r.round = 1; r.round <= 3; r.round++) {
        CHECK_OK(run_log_append(&bytes, run_path(&f, "metrics.jsonl"), &r, NULL));
        first = r.round == 1 ? bytes : first;
    }
    CHECK_OK(run_log_read(&log, run_path(&f, "metrics.jsonl")));
    assert_int_equal(log.n, 3);
    assert_int_equal(log.at[2].round, 3);
    run_log_clear(&log);
    CHECK_OK(run_metrics_cut(&f, bytes - 5)); /* torn */
    CHECK_OK(run_log_read(&log, run_path(&f, "metrics.jsonl")));
    assert_int_equal(log.n, 2);
    run_log_clear(&log);
    CHECK_OK(run_metrics_cut(&f, first));
    CHECK_OK(run_log_append(&bytes, run_path(&f, "metrics.jsonl"), &sample, NULL));
    CHECK_OK(run_log_read(&log, run_path(&f, "metrics.jsonl")));
    assert_int_equal(log.n, 2);
    run_log_clear(&log);
    CHECK_OK(
        file_write_atomic(run_path(&f, "metrics.jsonl"), span_of_str("{\"round\":1}\nx\n"), 0600));
    CHECK_STATUS(run_log_read(&log, run_path(&f, "metrics.jsonl")), SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), "metrics.jsonl:2:"));
    /* never extended: missing lines stay missing */
    CHECK_STATUS(run_metrics_cut(&f, bytes), SEFL_EPROTO);
    CHECK_OK(file_write_atomic(run_path(&f, "metrics.jsonl"), span_of_str(""), 0600));
    CHECK_STATUS(run_metrics_cut(&f, 1), SEFL_EPROTO);
    run_folder_close(&f);
}

static void folders(void **state)
{
    (void)state;
    run_folder f, other;
    bool fresh;
    struct stat a, b;
    CHECK_OK(run_folder_open(&f, folder_path("runs"), "b", span_of_str("x: 1\nlr: 4\n"), &fresh));
    assert_true(fresh);
    CHECK_STATUS(
        run_folder_open(&other, folder_path("runs"), "b", span_of_str("x: 1\nlr: 4\n"), &fresh),
        SEFL_ESTATE); /* in use */
    assert_false(fresh);
    run_folder_close(&f);
    /* no round of it ended: other settings may use the folder */
    CHECK_OK(run_folder_open(&f, folder_path("runs"), "b", span_of_str("x: 1\nlr: 2\n"), &fresh));
    assert_true(fresh);
    CHECK_OK(file_write_atomic(run_path(&f, "metrics.jsonl"), span_of_str("{}\n"), 0600));
    run_folder_close(&f);
    CHECK_OK(run_folder_open(&f, folder_path("runs"), "b", span_of_str("x: 1\nlr: 2\n"), &fresh));
    assert_false(fresh);
    run_folder_close(&f);
    CHECK_STATUS(
        run_folder_open(&other, folder_path("runs"), "b", span_of_str("x: 1\nlr: 3\n"), &fresh),
        SEFL_EEXIST);
    assert_non_null(strstr(sefl_last_error(), "(lr differs)"));
    for (unsigned i = 0; i < 3; i++) {
        CHECK_OK(file_write_atomic(run_model_path(&f, i), span_of(&i, sizeof i), 0600));
        CHECK_OK(run_folder_link(&f, "last", i));
        CHECK_OK(run_folder_link(&f, "last", i)); /* again: the same */
        assert_int_equal(stat(run_path(&f, "model/last"), &a), 0);
        assert_int_equal(stat(run_path(&f, "model/round-%u.safetensors", i), &b), 0);
        assert_true(a.st_ino == b.st_ino);
        assert_false(file_exists(run_path(&f, "model/last.tmp")));
    }
}

/* A folder that is not a simulated run is left untouched. */
static void strangers(void **state)
{
    (void)state;
    run_folder f;
    bool fresh;
    CHECK_OK(file_make_folder(folder_path("runs"), 0700));
    CHECK_OK(file_make_folder(folder_path("runs/demo"), 0700));
    CHECK_OK(file_write_atomic(folder_path("runs/demo/metrics.jsonl"), span_of_str("mine"), 0600));
    CHECK_STATUS(run_folder_open(&f, folder_path("runs"), "demo", span_of_str("x: 1\n"), &fresh),
                 SEFL_EEXIST);
    assert_non_null(strstr(sefl_last_error(), "metrics.jsonl"));
    assert_false(file_exists(folder_path("runs/demo/config.yml")));
    /* nor is a foreign file there replaced */
    CHECK_OK(file_make_folder(folder_path("runs/mine"), 0700));
    CHECK_OK(file_write_atomic(folder_path("runs/mine/config.yml"), span_of_str("x: 2\n"), 0600));
    CHECK_STATUS(run_folder_open(&f, folder_path("runs"), "mine", span_of_str("x: 1\n"), &fresh),
                 SEFL_EEXIST);
}

static void states(void **state)
{
    (void)state;
    uint64_t taken[3] = { 1, 0, UINT64_MAX };
    run_state s = { .agg = { .phase = AGG_SIGNING,
                             .round = 4,
                             .skipped_in_row = 2,
                             .blocked_in_row = 1,
                             .rounds_without_gain = 1,
                             .best_perplexity = 0.1 + 0.2 },
                    .model_round = 3,
                    .best_round = 2,
                    .revealed = 3,
                    .skipped = 1,
                    .now_ms = 12345,
                    .metrics_bytes = 77,
                    .text = UINT64_MAX - 1,
                    .first_perplexity = 0.3,
                    .test_best = 0.7,
                    .test_last = 0.9,
                    .device = "a GPU, \"fp32\"",
                    .taken = taken,
                    .clients = 3 };
    run_state got;
    CHECK_OK(run_state_write(&s, folder_path("state")));
    CHECK_OK(run_state_read(&got, folder_path("state")));
    assert_int_equal(got.agg.phase, AGG_SIGNING);
    assert_int_equal(got.agg.round, 4);
    assert_int_equal(got.agg.blocked_in_row, 1);
    assert_true(got.agg.best_perplexity == 0.1 + 0.2); /* to the last bit */
    assert_int_equal(got.model_round, 3);
    assert_int_equal(got.metrics_bytes, 77);
    assert_true(got.text == UINT64_MAX - 1 && got.first_perplexity == 0.3);
    assert_true(got.test_best == 0.7 && got.test_last == 0.9);
    assert_string_equal(got.device, "a GPU, \"fp32\"");
    assert_int_equal(got.clients, 3);
    assert_memory_equal(got.taken, taken, sizeof taken);
    run_state_clear(&got);
    CHECK_STATUS(run_state_read(&got, folder_path("none")), SEFL_ENOTFOUND);
    CHECK_STATUS(run_state_read(&got, folder_put("bad", "{\"phase\":99,\"round\":1}", 22)),
                 SEFL_EPROTO);
    CHECK_STATUS(run_state_read(&got, folder_put("bad2", "{\"phase\":1,", 11)), SEFL_EPROTO);
    static const char twice[] = "{\"phase\":1,\"round\":1,\"taken\":[1],\"taken\":[1,2,3]}";
    CHECK_STATUS(run_state_read(&got, folder_put("bad3", twice, sizeof twice - 1)), SEFL_EPROTO);
    char wide[256];
    int n = snprintf(wide, sizeof wide, "{\"phase\":1,\"round\":1,\"device\":\"%0128d\"}", 0);
    CHECK_STATUS(run_state_read(&got, folder_put("bad4", wide, (size_t)n)), SEFL_ERANGE);
    CHECK_STATUS(run_state_read(&got, folder_put("bad5", "{\"device\":7}", 12)), SEFL_EPROTO);
    TEST_FAULTS(FAULT_ALLOC, st = run_state_read(&got, folder_path("state")),
                run_state_clear(&got));
}

static void overviews(void **state)
{
    (void)state;
    run_folder f;
    bool fresh;
    uint64_t bytes;
    overview o;
    run_line r = sample;
    sefl_buf b = { 0 };
    CHECK_OK(run_folder_open(
        &f, folder_path("runs"), "c",
        span_of_str("name: c\nclients: 100\nprivacy.claim: dp\nmodel.block_embed: 1\n"), &fresh));
    r.round = 1, r.perplexity = 50;
    CHECK_OK(run_log_append(&bytes, run_path(&f, "metrics.jsonl"), &r, NULL));
    r.round = 2, r.perplexity = 40, r.clients = 99, r.up_bytes = floor(99 * r.up_bytes / 97);
    CHECK_OK(run_log_append(&bytes, run_path(&f, "metrics.jsonl"), &r, NULL));
    r = run_line_of(3), r.skipped = true, r.seconds = 0;
    CHECK_OK(run_log_append(&bytes, run_path(&f, "metrics.jsonl"), &r, NULL));
    r = sample, r.round = 4, r.perplexity = 45;
    CHECK_OK(run_log_append(&bytes, run_path(&f, "metrics.jsonl"), &r, NULL));
    CHECK_OK(overview_read(&o, f.root));
    assert_int_equal(o.t.rounds, 4);
    assert_int_equal(o.t.skipped, 1);
    assert_true(o.t.all.perplexity == 45 && o.t.best == 40 && o.t.best_round == 2 && !o.over);
    assert_true(fabs(overview_mean(&o, o.t.all.clients) - 293.0 / 3) < 1e-9);
    assert_true(o.t.all.epsilon_server == 2.5);
    assert_string_equal(o.text, "generated, seed 1, 100 clients, 2000 words, alpha 0.5");
    assert_string_equal(o.block, "8/1/8");
    CHECK_OK(overview_json(&b, &o));
    buf_clear(&b);
    run_folder_close(&f);
    CHECK_STATUS(overview_read(&o, folder_path("nothing")), SEFL_ENOTFOUND);
    assert_non_null(strstr(sefl_last_error(), "does not exist"));
}

/* Runs reach their text through different folders: its contents tell whether it is the same. */
static void texts(void **state)
{
    (void)state;
    static const char *const valid[] = { "one text\n", "one text\n", "another\n" };
    overview o[3];
    for (int i = 0; i < 3; i++) {
        run_folder f;
        bool fresh;
        char data[32], path[4096], config[5000], name[32];
        snprintf(data, sizeof data, "data-%d", i);
        snprintf(name, sizeof name, "text-%d", i);
        CHECK_OK(file_make_folder(folder_path(data), 0777));
        snprintf(path, sizeof path, "%s/valid.txt", folder_path(data));
        CHECK_OK(file_write_atomic(path, span_of_str(valid[i]), 0644));
        snprintf(path, sizeof path, "%s/train.txt", folder_path(data));
        CHECK_OK(file_write_atomic(path, span_of_str(data), 0644));
        snprintf(config, sizeof config, "name: %s\nclients: 100\ndata.path: %s\n", name,
                 folder_path(data));
        CHECK_OK(run_folder_open(&f, folder_path("runs"), name, span_of_str(config), &fresh));
        CHECK_OK(overview_read(&o[i], f.root));
        run_folder_close(&f);
    }
    assert_false(overview_differ(&o[0], &o[1]));
    assert_true(overview_differ(&o[0], &o[2]));
}

/* A run that no simulation wrote: metrics.jsonl says what is known. */
static void other_overviews(void **state)
{
    (void)state;
    overview o, first = { 0 };
    sefl_buf b = { 0 };
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", folder_path("fed"));
    CHECK_OK(file_make_folder(folder, 0777));
    CHECK_STATUS(overview_read(&o, folder), SEFL_ENOTFOUND);
    assert_non_null(strstr(sefl_last_error(), "no config.yml"));
    assert_non_null(strstr(sefl_last_error(), "state/metrics.jsonl"));
    CHECK_OK(file_make_folder(folder_path("fed/state"), 0777));
    static const char *const lines[] = {
        "{\"round\":1}\n",
        ("{\"round\":1,\"clients\":7,\"run\":{\"protection\":\"sefl\",\"noise\":\"own\",\"z\":"
         "\"2\",\"enrolled\":8,\"rounds\":3,\"delta\":1e-6,\"text\":\"ab\"}}\n"),
        "{\"round\":1,\"run\":{\"enrolled\":1e300,\"rounds\":1e300,\"text\":\"cd\"}}\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        CHECK_OK(
            file_write_atomic(folder_path("fed/state/metrics.jsonl"), span_of_str(lines[i]), 0644));
        CHECK_OK(overview_read(&o, folder));
        assert_string_equal(o.name, folder);
        assert_string_equal(o.protection, i == 1 ? "sefl" : "-");
        assert_true(o.clients == (i == 1 ? 8 : 0) && o.rounds_asked == (i == 1 ? 3 : 0));
        assert_true(o.claim == (i == 1) && isnan(o.t.all.perplexity));
        assert_int_equal(overview_differ(&first, &o), i == 2);
        CHECK_OK(overview_json(&b, &o));
        buf_clear(&b);
        if (i <= 1)
            first = o;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),           cmocka_unit_test(file_of_lines),
        cmocka_unit_test(folders),         cmocka_unit_test(states),
        cmocka_unit_test(overviews),       cmocka_unit_test(strangers),
        cmocka_unit_test(other_overviews), cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}

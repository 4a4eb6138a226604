#include "support/check.h"
#include "support/folder.h"

#include "base/dir.h"
#include "base/file.h"
#include "paper/record.h"
#include "simulate/experiment.h"

#include <math.h>
#include <string.h>

static paper_options options(const char *folder, bool quick)
{
    return (paper_options){ .results = folder, .quick = quick };
}

/* Writes a record as if the run had finished with this test perplexity. */
static void put(const paper_options *o, const paper_run *run, double test)
{
    run_record r;
    char name[PAPER_NAME_BYTES], hash[32];
    paper_run_name(name, run);
    snprintf(hash, sizeof hash, "%.0f", test);
    record_clear(r);
    record_put_text(r, "name", name);
    record_put_text(r, "scale", paper_scale(o));
    record_put_text(r, "body", paper_body_names[run->body]);
    record_put_text(r, "protection", run->protection);
    record_put_text(r, "device", "a \"device\", new");
    record_put_text(r, "model_sha256", hash);
    record_put(r, "rounds", 2);
    record_put(r, "first_valid", 5000);
    record_put(r, "best_test", test);
    record_put(r, "best_valid", test + 1.0 / 3);
    record_put(r, "up_bytes", 4e9);
    CHECK_OK(record_write(o, r, span_of_str("{\"clients\":\"10\",\"training.lr\":\"20\"}"),
                          span_of_str("[500.25,null]")));
}

static const paper_run first = {
    .protection = "sefl", .block = 8, .z = "0", .clients = 10, .rounds = 3, .seed = 1
};

static void round_trip(void **state)
{
    (void)state;
    char folder[PATH_MAX], path[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", folder_path("trip"));
    paper_options o = options(folder, false);
    CHECK_OK(paper_open(&o));
    put(&o, &first, 177.4103125);
    CHECK_OK(paper_path(path, &o, "runs/lstm-sefl-b8-d0-z0-n10-r3-s1.json"));
    run_record r;
    sefl_buf b = { 0 };
    CHECK_OK(record_read(r, NULL, path));
    assert_string_equal(record_text(r, "name"), "lstm-sefl-b8-d0-z0-n10-r3-s1");
    assert_string_equal(record_text(r, "device"), "a \"device\", new");
    assert_string_equal(record_text(r, "variant"), "");
    assert_true(record_number(r, "best_test") == 177.4103125);
    assert_true(record_number(r, "up_bytes") == 4e9);
    assert_true(isnan(record_number(r, "epsilon_server")));
    assert_true(isnan(record_number(NULL, "best_test")));
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, "\"up_bytes\":4000000000,\"settings\":{"));
    assert_non_null(strstr((char *)b.p, ",\"valid\":[500.25,null]}\n"));
    buf_clear(&b);
    /* settings that differ are named */
    settings s;
    settings_init(&s, experiment_schema());
    CHECK_OK(settings_set(&s, "training.lr=20", "test"));
    CHECK_STATUS(record_check(path, &s), SEFL_EEXIST);
    CHECK_OK(settings_set(&s, "clients=10", "test"));
    CHECK_OK(record_check(path, &s));
    CHECK_OK(settings_set(&s, "device=cuda", "test")); /* the machine does not count */
    CHECK_OK(settings_set(&s, "data.path=/elsewhere", "test"));
    CHECK_OK(record_check(path, &s));
    CHECK_OK(settings_set(&s, "training.lr=10", "test"));
    CHECK_STATUS(record_check(path, &s), SEFL_EEXIST);
    assert_non_null(
        strstr(sefl_last_error(), "\"training.lr\":\"20\" there, \"training.lr\":\"10\" here"));
    CHECK_OK(settings_set(&s, "training.lr=20", "test"));
    CHECK_OK(settings_set(&s, "training.dropout=0.1", "test"));
    CHECK_STATUS(record_check(path, &s), SEFL_EEXIST);
    assert_non_null(strstr(sefl_last_error(), "( there, \"training.dropout\":\"0.1\" here)"));
    settings_clear(&s);
}

/* A cut or foreign file is refused. */
static void damaged(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    run_record r;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/runs/lstm-sefl-b8-d0-z0-n10-r3-s1.json", folder_path("trip"));
    CHECK_OK(file_read(&b, path, 1 << 20));
    for (size_t n = 0; n + 2 < b.n; n++)
        CHECK_STATUS(record_read(r, NULL, folder_put("cut", b.p, n)), SEFL_EPROTO);
    buf_clear(&b);
    CHECK_STATUS(record_read(r, NULL, folder_put("cut", "{\"name\":\"x\"}", 12)), SEFL_EPROTO);
    CHECK_STATUS(record_read(r, NULL, folder_path("missing")), SEFL_ENOTFOUND);
    char wide[2 * SHEET_TEXT_MAX];
    int n = snprintf(wide, sizeof wide, "{\"name\":\"%0*d\"}", SHEET_TEXT_MAX + 1, 1);
    CHECK_STATUS(record_read(r, NULL, folder_put("cut", wide, (size_t)n)), SEFL_EPROTO);
}

/* A folder has quick results or full results. */
static void scales_do_not_mix(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", folder_path("deep/er/quick"));
    paper_options quick = options(folder, true), full = options(folder, false);
    CHECK_OK(paper_open(&quick));
    CHECK_OK(paper_open(&quick));
    CHECK_STATUS(paper_open(&full), SEFL_EEXIST);
    assert_non_null(strstr(sefl_last_error(), "QUICK"));
    put(&full, &first, 100); /* as if copied there */
    sheet all = { 0 };
    CHECK_STATUS(records_read(&all, &quick), SEFL_EPROTO);
    sheet_clear(&all);
    snprintf(folder, sizeof folder, "%s", folder_path("foreign"));
    CHECK_OK(paper_make_folder(folder));
    CHECK_OK(paper_write(&full, span_of_str("mine"), "notes.txt"));
    CHECK_STATUS(paper_open(&full), SEFL_EEXIST); /* not a results folder */
}

/* Expects this text in a file of the results. */
static void expect(const paper_options *o, const char *file, const char *want)
{
    char path[PATH_MAX];
    sefl_buf b = { 0 };
    CHECK_OK(paper_path(path, o, "%s", file));
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, want));
    buf_clear(&b);
}

/* Figures come from the results alone, and the mean is over the seeds. */
static void draws(void **state)
{
    (void)state;
    char folder[PATH_MAX], path[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", folder_path("drawn"));
    paper_options o = options(folder, true);
    CHECK_OK(paper_open(&o));
    CHECK_OK(paper_draw(&o)); /* nothing there */
    CHECK_OK(paper_path(path, &o, "dropout.csv"));
    assert_false(file_exists(path));
    paper_run run = first;
    put(&o, &run, 150);
    run.seed = 2;
    put(&o, &run, 154);
    run = first, run.block = 1, run.z = "0.01";
    put(&o, &run, 300);
    run.block = 8;
    put(&o, &run, 240);
    run.z = "1"; /* neither learned: not compared */
    put(&o, &run, 4000);
    run.block = 1;
    put(&o, &run, 1e18);
    run = first, run.variant = paper_variant_named("tied"); /* not of the dropout table */
    put(&o, &run, 120);
    run.variant = paper_variant_named("clear"); /* the last model has the same hash, or not */
    put(&o, &run, 400);
    run.variant = paper_variant_named("full");
    put(&o, &run, 400);
    run.dropout = 75;
    put(&o, &run, 401);
    run.variant = paper_variant_named("clear");
    put(&o, &run, 402);
    run = first, run.z = "0.01", run.variant = paper_variant_named("start");
    put(&o, &run, 6000); /* worse than its start */
    CHECK_OK(paper_draw(&o));
    expect(&o, "dropout.csv", "\nQUICK,lstm,sefl,8,0,10,3,0,,");
    expect(&o, "dropout.csv", ",2,152,2.828427125,150,154,152.3333333,5000,177.41\n");
    expect(&o, "claims.csv", "unpruned SEFL,lstm,19.3,20,8,0.01,10\n");
    expect(&o, "full.csv", "lstm,0,0,2,400,400,yes\n");
    expect(&o, "full.csv", "lstm,75,0,2,402,401,no\n");
    expect(&o, "models.csv", "\nQUICK,lstm,sefl,8,0,10,3,0,tied,");
    expect(&o, "tables.md", "| lstm | 8 | 0 | 10 | 152 | 2.8284271 | 2 | 177.41 |\n");
    expect(&o, "start.svg", "0.01, public start: 6000<");
    expect(&o, "epsilon-10.svg", "1, SEFL with BHM: 4000<");
    expect(&o, "epsilon-10.svg", "1, SEFL unpruned: 5000<"); /* worse than the untrained one */
    static const char *const figures[] = { "dropout.svg", "blocks.svg", "epsilon-10.svg" };
    for (size_t i = 0; i < 3; i++)
        expect(&o, figures[i], "QUICK: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(damaged),
        cmocka_unit_test(scales_do_not_mix),
        cmocka_unit_test(draws),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}

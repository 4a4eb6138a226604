#include "support/check.h"
#include "support/folder.h"

#include "base/dir.h"
#include "base/file.h"
#include "paper/draw.h"
#include "simulate/experiment.h"

#include <math.h>
#include <string.h>

static paper_options options(const char *folder, bool quick)
{
    return (paper_options){ .results = folder, .quick = quick };
}

/* A record as if the run had finished with this test perplexity. */
static run_record sample(const paper_options *o, const paper_run *run, double test)
{
    run_record r = record_none();
    paper_run_name(r.name, run);
    snprintf(r.scale, sizeof r.scale, "%s", paper_scale(o));
    snprintf(r.body, sizeof r.body, "%s", paper_body_names[run->body]);
    snprintf(r.protection, sizeof r.protection, "%s", run->protection);
    snprintf(r.z, sizeof r.z, "%s", run->z);
    snprintf(r.variant, sizeof r.variant, "%s", run->variant ? run->variant->name : "");
    snprintf(r.model_sha256, sizeof r.model_sha256, "%.0f", test);
    snprintf(r.device, sizeof r.device, "a \"device\", new");
    r.block = run->block, r.dropout = run->dropout, r.clients = run->clients;
    r.planned = run->rounds;
    r.seed = (double)run->seed;
    r.first_valid = 5000, r.rounds = 2;
    r.best_test = test, r.best_valid = test + 1.0 / 3, r.up_bytes = 4e9;
    CHECK_OK(wr_fmt(&r.settings, "{\"clients\":\"10\",\"training.lr\":\"20\"}"));
    CHECK_OK(wr_fmt(&r.valid, "[500.25,null,%.17g]", test));
    return r;
}

static void put(const paper_options *o, const paper_run *run, double test)
{
    run_record r = sample(o, run, test);
    CHECK_OK(record_write(o, &r));
    record_clear(&r);
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
    run_record r, want = sample(&o, &first, 177.4103125);
    CHECK_OK(record_read(&r, path));
#define SAME(member) assert_string_equal(r.member, want.member);
    RECORD_TEXTS(SAME)
#undef SAME
#define SAME(member) assert_true(isnan(want.member) ? isnan(r.member) : r.member == want.member);
    RECORD_NUMBERS(SAME)
#undef SAME
    assert_int_equal(r.valid.n, want.valid.n);
    assert_memory_equal(r.valid.p, want.valid.p, r.valid.n);
    assert_int_equal(r.settings.n, want.settings.n);
    assert_memory_equal(r.settings.p, want.settings.p, r.settings.n);
    /* settings that differ are named */
    settings s;
    settings_init(&s, experiment_schema());
    CHECK_OK(settings_set(&s, "training.lr=20", "test"));
    CHECK_STATUS(record_check(&r, &s), SEFL_EEXIST);
    CHECK_OK(settings_set(&s, "clients=10", "test"));
    CHECK_OK(record_check(&r, &s));
    CHECK_OK(settings_set(&s, "device=cuda", "test")); /* the machine does not count */
    CHECK_OK(settings_set(&s, "data.path=/elsewhere", "test"));
    CHECK_OK(record_check(&r, &s));
    CHECK_OK(settings_set(&s, "training.lr=10", "test"));
    CHECK_STATUS(record_check(&r, &s), SEFL_EEXIST);
    assert_non_null(
        strstr(sefl_last_error(), "\"training.lr\":\"20\" there, \"training.lr\":\"10\" here"));
    CHECK_OK(settings_set(&s, "training.lr=20", "test"));
    CHECK_OK(settings_set(&s, "training.dropout=0.1", "test"));
    CHECK_STATUS(record_check(&r, &s), SEFL_EEXIST);
    assert_non_null(strstr(sefl_last_error(), "( there, \"training.dropout\":\"0.1\" here)"));
    settings_clear(&s);
    record_clear(&r);
    record_clear(&want);
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
        CHECK_STATUS(record_read(&r, folder_put("cut", b.p, n)), SEFL_EPROTO);
    buf_clear(&b);
    CHECK_STATUS(record_read(&r, folder_put("cut", "{\"name\":\"x\"}", 12)), SEFL_EPROTO);
    CHECK_STATUS(record_read(&r, folder_path("missing")), SEFL_ENOTFOUND);
    char wide[RECORD_TEXT + 32];
    int n = snprintf(wide, sizeof wide, "{\"name\":\"%0*d\"}", RECORD_TEXT, 1);
    CHECK_STATUS(record_read(&r, folder_put("cut", wide, (size_t)n)), SEFL_EPROTO);
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
    records all;
    CHECK_STATUS(records_read(&all, &quick), SEFL_EPROTO);
    snprintf(folder, sizeof folder, "%s", folder_path("foreign"));
    CHECK_OK(paper_make_folder(folder));
    CHECK_OK(paper_write(&full, span_of_str("mine"), "notes.txt"));
    CHECK_STATUS(paper_open(&full), SEFL_EEXIST); /* not a results folder */
}

/* Figures come from the results alone, and the mean is over the seeds. */
static void draws(void **state)
{
    (void)state;
    char folder[PATH_MAX], path[PATH_MAX];
    sefl_buf b = { 0 };
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
    records all;
    CHECK_OK(records_read(&all, &o));
    const point x = point_of(&all, (paper_run){ .rounds = 3 });
    assert_int_equal(x.test.n, 2);
    assert_true(x.test.mean == 152 && x.test.low == 150 && x.test.high == 154);
    assert_null(point_of(&all, (paper_run){ .rounds = 4 }).last);
    records_clear(&all);
    CHECK_OK(paper_draw(&o));
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, "\nQUICK,lstm,sefl,8,0,10,3,0,,"));
    assert_non_null(strstr((char *)b.p, ",2,152,2.828427125,150,154,152.3333333,177.41\n"));
    buf_clear(&b);
    CHECK_OK(paper_path(path, &o, "claims.csv"));
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, "unpruned SEFL\",lstm,19.3,20,8,0.01,10\n"));
    buf_clear(&b);
    CHECK_OK(paper_path(path, &o, "crossing.csv"));
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, "QUICK,lstm,10,0.01,8,300,240,bhm\n"));
    buf_clear(&b);
    CHECK_OK(paper_path(path, &o, "full.csv"));
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, "lstm,0,0,2,400,400,yes\n"));
    assert_non_null(strstr((char *)b.p, "lstm,75,0,2,402,401,no\n"));
    buf_clear(&b);
    CHECK_OK(paper_path(path, &o, "models.csv"));
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, "\nQUICK,lstm,sefl,8,0,10,3,0,tied,"));
    buf_clear(&b);
    CHECK_OK(paper_path(path, &o, "start.svg"));
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, "z 0.01, public start: 6000<"));
    buf_clear(&b);
    static const char *const figures[] = { "dropout.svg", "blocks.svg", "epsilon-10.svg" };
    for (size_t i = 0; i < 3; i++) {
        CHECK_OK(paper_path(path, &o, "%s", figures[i]));
        CHECK_OK(file_read(&b, path, 1 << 20));
        CHECK_OK(wr_u8(&b, 0));
        assert_non_null(strstr((char *)b.p, "QUICK: "));
        buf_clear(&b);
    }
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

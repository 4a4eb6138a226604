#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "paper/limit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The noise multipliers of the table, ascending. */
static const char *const grid[] = { "0",    "0.001", "0.002", "0.003", "0.005",
                                    "0.01", "0.02",  "0.03",  "0.1" };
enum { GRID = sizeof grid / sizeof *grid, BISECTED = 7 }; /* grid[BISECTED]: "0.03" */

/* Makes the record of a run with this test perplexity. */
static void result(run_record r, const paper_run *run, double test)
{
    char name[PAPER_NAME_BYTES];
    paper_run_name(name, run);
    record_clear(r);
    record_put_text(r, "name", name);
    record_put_text(r, "scale", "full");
    record_put_text(r, "body", paper_body_names[run->body]);
    record_put_text(r, "protection", run->protection);
    record_put_text(r, "z", run->z);
    record_put(r, "dropout", run->dropout);
    record_put(r, "clients", run->clients);
    record_put(r, "best_test", test);
    record_put(r, "delta", 1e-6);
    record_put(r, "rounds", 20);
    record_put(r, "skipped", 0);
    record_put(r, "values", 3306378);
}

static void add(sheet *all, const paper_run *run, double test)
{
    run_record r;
    result(r, run, test);
    CHECK_OK(sheet_add_cells(all, r));
}

static const paper_run cell = { .protection = "sefl",
                                .block = 8,
                                .dropout = 25,
                                .z = "0",
                                .clients = 10,
                                .rounds = PAPER_ROUNDS_SHORT,
                                .seed = 1 };

/* Whatever the limit is, the runs of the table find it, in the table's order: with three
 * runs up to z = 0.03, and one more to see it fail at the next value. */
static void bisects(void **state)
{
    (void)state;
    const double want = limit_paper(PAPER_LSTM, 25);
    paper_table t;
    paper_table_make(&t, false, PAPER_NOISE);
    for (size_t last = 0; last < GRID; last++) { /* the last value that holds */
        sheet all;
        sheet_new(&all, NULL, RECORD_COLUMNS, "runs");
        add(&all, &cell, want);
        for (size_t i = 0; i < t.n; i++) {
            const paper_run *r = &t.run[i];
            if (r->body != PAPER_LSTM || r->dropout != 25 || limit_is_known(&all, r))
                continue;
            const bool holds = strtod(r->z, NULL) <= strtod(grid[last], NULL);
            add(&all, r, holds ? want - 1 : want + 1);
        }
        assert_int_equal(all.rows - 1, last < BISECTED ? 3 : 4);
        const limit l = limit_of(&all, &cell);
        assert_non_null(l.holds);
        assert_string_equal(record_text(l.holds, "z"), grid[last]);
        if (last + 1 < GRID)
            assert_string_equal(record_text(l.fails, "z"), grid[last + 1]);
        else
            assert_null(l.fails);
        sheet_clear(&all);
    }
}

/* Other runs do not count; a run without a test perplexity fails. */
static void ignores_others(void **state)
{
    (void)state;
    paper_run run = cell;
    sheet all;
    sheet_new(&all, NULL, RECORD_COLUMNS, "runs");
    run.z = "0.001", run.dropout = 50;
    add(&all, &run, 1);
    run = cell, run.z = "0.001", run.clients = 1000;
    add(&all, &run, 1);
    run = cell, run.z = "0.001", run.rounds = PAPER_ROUNDS;
    add(&all, &run, 1);
    run = cell, run.z = "0.001", run.variant = paper_variant_named("tied");
    add(&all, &run, 1);
    run.variant = NULL;
    limit l = limit_of(&all, &cell);
    assert_null(l.holds);
    assert_null(l.fails);
    assert_false(limit_is_known(&all, &run));
    add(&all, &run, NAN);
    l = limit_of(&all, &cell);
    assert_null(l.holds);
    assert_non_null(l.fails);
    assert_true(limit_is_known(&all, &run));
    sheet_clear(&all);
}

static void store(const paper_options *o, const run_record r)
{
    CHECK_OK(record_write(o, r, span_of_str("{}"), span_of_str("[]")));
}

/* Draws, and expects this text in noise.csv. */
static void expect(const paper_options *o, const char *want)
{
    char path[PATH_MAX];
    sefl_buf b = { 0 };
    CHECK_OK(paper_draw(o));
    CHECK_OK(paper_path(path, o, "noise.csv"));
    CHECK_OK(file_read(&b, path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, want));
    buf_clear(&b);
}

/* noise.csv says the price in epsilon, and how many clients a total of 8 needs. */
static void draws(void **state)
{
    (void)state;
    char folder[PATH_MAX], path[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", folder_path("drawn"));
    paper_options o = { .results = folder };
    CHECK_OK(paper_open(&o));
    CHECK_OK(paper_draw(&o)); /* nothing there */
    CHECK_OK(paper_path(path, &o, "noise.csv"));
    assert_false(file_exists(path));
    paper_run run = cell;
    run.z = "0.002";
    run_record r;
    result(r, &run, 170);
    record_put(r, "classic_epsilon", 2649);
    store(&o, r);
    run.z = "0.005";
    result(r, &run, 300);
    store(&o, r);
    /* 10 clients * 3.089998 / 0.002 */
    expect(&o, "full,lstm,8,25,10,178.45,0.002,170,,2649,,0.005,300,3.089998");
    expect(&o, ",15450\n");
    /* where every noise fails, the row says so */
    run = cell, run.dropout = 75, run.z = "0.001";
    result(r, &run, 240);
    store(&o, r);
    expect(&o, "full,lstm,8,75,10,194.82,none,,,,,0.001,240,,\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bisects),
        cmocka_unit_test(ignores_others),
        cmocka_unit_test(draws),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}

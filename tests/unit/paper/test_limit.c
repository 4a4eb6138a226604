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
enum { GRID = sizeof grid / sizeof *grid, BISECTED = 7, ROOM = 16 }; /* grid[BISECTED]: "0.03" */

static run_record result(const paper_run *run, double test)
{
    run_record r = record_none();
    paper_run_name(r.name, run);
    snprintf(r.scale, sizeof r.scale, "full");
    snprintf(r.body, sizeof r.body, "%s", paper_body_names[run->body]);
    snprintf(r.protection, sizeof r.protection, "%s", run->protection);
    snprintf(r.z, sizeof r.z, "%s", run->z);
    r.block = run->block, r.dropout = run->dropout, r.clients = run->clients;
    r.planned = run->rounds;
    r.seed = (double)run->seed;
    r.best_test = test, r.delta = 1e-6;
    r.rounds = 20, r.skipped = 0, r.values = 3306378;
    return r;
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
        run_record at[ROOM];
        records all = { .at = at };
        at[all.n++] = result(&cell, want);
        for (size_t i = 0; i < t.n; i++) {
            const paper_run *r = &t.run[i];
            if (r->body != PAPER_LSTM || r->dropout != 25 || limit_is_known(&all, r))
                continue;
            assert_true(all.n < ROOM);
            const bool holds = strtod(r->z, NULL) <= strtod(grid[last], NULL);
            at[all.n++] = result(r, holds ? want - 1 : want + 1);
        }
        assert_int_equal(all.n - 1, last < BISECTED ? 3 : 4);
        const limit l = limit_of(&all, &cell);
        assert_non_null(l.holds);
        assert_string_equal(l.holds->z, grid[last]);
        if (last + 1 < GRID)
            assert_string_equal(l.fails->z, grid[last + 1]);
        else
            assert_null(l.fails);
    }
}

/* Other runs do not count; a run without a test perplexity fails. */
static void ignores_others(void **state)
{
    (void)state;
    paper_run run = cell;
    run_record at[ROOM];
    records all = { .at = at };
    run.z = "0.001", run.dropout = 50;
    at[all.n++] = result(&run, 1);
    run = cell, run.z = "0.001", run.clients = 1000;
    at[all.n++] = result(&run, 1);
    run = cell, run.z = "0.001", run.rounds = PAPER_ROUNDS;
    at[all.n++] = result(&run, 1);
    run = cell, run.z = "0.001", run.variant = paper_variant_named("tied");
    at[all.n++] = result(&run, 1);
    run.variant = NULL;
    limit l = limit_of(&all, &cell);
    assert_null(l.holds);
    assert_null(l.fails);
    assert_false(limit_is_known(&all, &run));
    at[all.n++] = result(&run, NAN);
    l = limit_of(&all, &cell);
    assert_null(l.holds);
    assert_non_null(l.fails);
    assert_true(limit_is_known(&all, &run));
}

static void add(const paper_options *o, run_record r)
{
    CHECK_OK(wr_fmt(&r.settings, "{}"));
    CHECK_OK(wr_fmt(&r.valid, "[]"));
    CHECK_OK(record_write(o, &r));
    record_clear(&r);
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
    run_record r = result(&run, 170);
    r.classic_epsilon = 2649;
    add(&o, r);
    run.z = "0.005";
    add(&o, result(&run, 300));
    /* 10 clients * 3.089998 / 0.002 */
    expect(&o, "full,lstm,8,25,10,178.45,0.002,170,,2649,none claimed,0.005,300,3.089998");
    expect(&o, ",15450,extrapolated\n");
    /* where every noise fails, the row says so */
    run = cell, run.dropout = 75, run.z = "0.001";
    add(&o, result(&run, 240));
    expect(&o, "full,lstm,8,75,10,194.82,none,,,,,0.001,240,,,unknown\n");
    /* a run of enough clients that claims 8 settles it */
    run = cell, run.z = "3.09", run.clients = 9000;
    r = result(&run, 178);
    r.epsilon_server = 7.99;
    add(&o, r);
    expect(&o, ",9000,simulated\n");
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

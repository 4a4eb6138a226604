#include "support/check.h"

#include "paper/limit.h"
#include "simulate/experiment.h"

#include <math.h>
#include <string.h>

static size_t count(const paper_table *t, unsigned figure, unsigned body)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += (t->run[i].figures & figure) != 0 && t->run[i].body == body;
    return n;
}

/* Every run has a name of its own and settings that the simulator accepts. */
static void runs_are_valid(void **state)
{
    (void)state;
    for (int quick = 0; quick < 2; quick++) {
        paper_table t;
        const paper_options o = { .quick = quick, .device = "cpu" };
        paper_table_make(&t, quick, PAPER_ALL);
        assert_true(t.n > 100 && t.n <= PAPER_RUNS_MAX);
        for (size_t i = 0; i < t.n; i++) {
            char name[PAPER_NAME_BYTES], other[PAPER_NAME_BYTES];
            settings s;
            experiment e;
            paper_run_name(name, &t.run[i]);
            for (size_t k = 0; k < i; k++) {
                paper_run_name(other, &t.run[k]);
                assert_string_not_equal(name, other);
            }
            CHECK_OK(paper_run_settings(&s, &t.run[i], &o));
            CHECK_OK(experiment_make(&e, &s));
            assert_string_equal(e.name, name);
            assert_int_equal(e.clients, t.run[i].clients);
            assert_int_equal(e.seed, t.run[i].seed);
            assert_int_equal(settings_u64(&s, "model.block"), t.run[i].block);
            assert_int_equal(settings_u64(&s, "rounds.count"), t.run[i].rounds);
            assert_int_equal(settings_u64(&s, "rounds.patience") > 0, strcmp(t.run[i].z, "0") != 0);
            assert_string_equal(e.protection->name, t.run[i].protection);
            assert_true(fabs(e.dropout - t.run[i].dropout / 100.0) < 1e-12);
            /* a round of several clients needs two uploads */
            assert_true(e.clients == 1 || e.clients - experiment_dropouts(&e) >= 2);
            assert_string_equal(settings_text(&s, "privacy.claim"), "none");
            assert_int_equal(e.clip_given, e.protection->quantises);
            settings_clear(&s);
        }
    }
}

/* The dropout table comes first, and has three seeds at every rate of the paper. */
static void dropout_comes_first(void **state)
{
    (void)state;
    paper_table t, all;
    paper_table_make(&t, false, PAPER_DROPOUT);
    paper_table_make(&all, false, PAPER_ALL);
    assert_int_equal(t.n, 30);
    for (unsigned body = 0; body < PAPER_BODIES; body++) {
        assert_int_equal(count(&t, PAPER_DROPOUT, body), 15);
        assert_int_equal(count(&all, PAPER_DROPOUT, body), 15);
        assert_int_equal(count(&all, PAPER_BLOCKS, body), 15);
    }
    for (size_t i = 0; i < t.n; i++) {
        char a[PAPER_NAME_BYTES], b[PAPER_NAME_BYTES];
        paper_run_name(a, &t.run[i]);
        paper_run_name(b, &all.run[i]);
        assert_string_equal(a, b);
        assert_int_equal(t.run[i].block, paper_block(t.run[i].body));
    }
    assert_true(limit_paper(PAPER_LSTM, 25) == 178.45);
    assert_true(limit_paper(PAPER_TRANSFORMER, 75) == 310.12);
    assert_true(isnan(limit_paper(PAPER_LSTM, 90)));
}

static bool has(const paper_table *t, const char *name)
{
    char other[PAPER_NAME_BYTES];
    for (size_t i = 0; i < t->n; i++) {
        paper_run_name(other, &t->run[i]);
        if (strcmp(other, name) == 0)
            return true;
    }
    return false;
}

/* A variant changes its settings and its name; a start follows the run that makes its model. */
static void variants(void **state)
{
    (void)state;
    paper_table t;
    const paper_options o = { .device = "cpu" };
    paper_table_make(&t, false, PAPER_MODELS);
    assert_true(has(&t, "lstm-sefl-b8-d0-z0-n10-r20-s1"));
    assert_true(has(&t, "lstm-sefl-b8-d0-z0-n10-r20-s1-constant"));
    assert_false(has(&t, "transformer-sefl-b8-d0-z0-n10-r20-s1-constant"));
    assert_true(has(&t, "transformer-sefl-b8-d0-z0-n10-r20-s1-cosine"));
    assert_false(has(&t, "lstm-sefl-b8-d0-z0-n10-r20-s1-cosine"));
    assert_true(has(&t, "lstm-sefl-b32-d0-z0-n10-r20-s1-words8"));
    for (size_t i = 0; i < t.n; i++) {
        const paper_run *r = &t.run[i];
        settings s;
        CHECK_OK(paper_run_settings(&s, r, &o));
        const bool tied = r->variant == paper_variant_named("tied");
        assert_string_equal(settings_text(&s, "model.tied"), tied ? "true" : "false");
        assert_int_equal(settings_u64(&s, "rounds.count"), r->rounds);
        settings_clear(&s);
    }
    assert_null(paper_variant_named("none"));

    paper_table_make(&t, false, PAPER_START);
    for (size_t i = 0; i < t.n; i++)
        if (t.run[i].variant->start) {
            char want[PAPER_NAME_BYTES], name[PAPER_NAME_BYTES];
            const paper_run public = paper_run_public(&t.run[i]);
            size_t k = 0;
            paper_run_name(want, &public);
            do
                paper_run_name(name, &t.run[k]);
            while (strcmp(want, name) != 0 && ++k < i);
            assert_true(k < i);
        }
}

/* --set replaces values of the table. */
static void overrides(void **state)
{
    (void)state;
    paper_table t;
    settings over, s;
    paper_options o = { .over = &over, .device = "cpu" };
    settings_init(&over, experiment_schema());
    CHECK_OK(settings_set(&over, "training.lr=3", "--set"));
    paper_table_make(&t, false, PAPER_DROPOUT);
    CHECK_OK(paper_run_settings(&s, &t.run[0], &o));
    assert_string_equal(settings_text(&s, "training.lr"), "3");
    settings_clear(&s);
    settings_clear(&over);
}

static void spreads(void **state)
{
    (void)state;
    const double x[] = { 3, NAN, 1, 2 };
    spread s = spread_of(x, 4);
    assert_int_equal(s.n, 3);
    assert_true(s.mean == 2 && s.sd == 1 && s.low == 1 && s.high == 3);
    s = spread_of(x, 1);
    assert_true(s.n == 1 && s.mean == 3 && s.sd == 0);
    s = spread_of(x + 1, 1);
    assert_true(s.n == 0 && isnan(s.mean) && isnan(s.low));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_valid), cmocka_unit_test(dropout_comes_first),
        cmocka_unit_test(variants),       cmocka_unit_test(overrides),
        cmocka_unit_test(spreads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

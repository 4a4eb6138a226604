/* Lines read back, torn and wrong files, and a page with the data inside that needs nothing from outside. */
#include "support/check.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json_read.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char as_lines[] =
    "{\"round\":1,\"skipped\":false,\"clients\":8,\"up_bytes\":559104,\"seconds\":2.307,\"ahead_"
    "seconds\":0.5,"
    "\"ahead_bytes\":1000,\"open_bytes\":300,\"open_seconds\":0.378,\"release_seconds\":0.007,"
    "\"perplexity\":228.6,\"epsilon_server\":1.5,\"epsilon_others\":0.5,\"epsilon_target\":8}\n"
    "{\"round\":2,\"skipped\":true,\"clients\":1,\"up_bytes\":69888,\"seconds\":60}\n"
    "{ \"round\" : 4 , \"skipped\":false, \"more\": {\"a\":[1,\"x\\\"}\",null]}, \"clients\":5, "
    "\"seconds\":1e1,"
    "\"open_seconds\":1,\"release_seconds\":1,\"perplexity\":43.5,\"epsilon_server\":2.5,"
    "\"epsilon_others\":0.75,\"epsilon_target\":8}\n";

static void test_reads(void **state)
{
    (void)state;
    run_log l;
    CHECK_OK(run_log_read_over(&l, span_of_str(as_lines), "m"));
    assert_int_equal(l.n, 3);
    assert_true(l.at[0].perplexity == 228.6 && l.at[0].clients == 8 && !l.at[0].skipped);
    assert_true(l.at[1].skipped && isnan(l.at[1].perplexity) && isnan(l.at[1].epsilon_server));
    assert_true(l.at[2].round == 4 && l.at[2].seconds == 10 && l.at[2].clients == 5);
    run_log_clear(&l);
    /* an incomplete last line is ignored */
    CHECK_OK(run_log_read_over(&l, span_of(as_lines, sizeof as_lines - 2), "m"));
    assert_int_equal(l.n, 2);
    run_log_clear(&l);
    CHECK_OK(run_log_read_over(&l, span_of_str(""), "m"));
    assert_int_equal(l.n, 0);
    run_log_clear(&l);
}

static void test_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\n",
        "[]\n",
        "{}\n",
        "{\"skipped\":false}\n",
        "{\"round\":0}\n",
        "{\"round\":1.5}\n",
        "{\"round\":1}x\n",
        "{\"round\":1,}\n",
        "{\"round\":1\n",
        "{\"round\":\"1\"}\n",
        "{\"round\":1,\"skipped\":1}\n",
        "{\"round\":1,\"blocked\":1}\n",
        "{\"round\":1,\"dropped_by_operator\":1}\n",
        "{\"round\":1,\"x\":[}\n",
        "{\"round\":1,\"x\":nul}\n",
        "{\"round\":1,\"seconds\":1e999}\n",
        "{\"round\":1,\"seconds\":1-2}\n",
        "{\"round\":1,\"perplexity\":-3}\n",
        "{\"round\":1,\"epsilon_server\":-0.1}\n",
        "{\"round\":1,\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}\n",
        "{\"round\":2}\n{\"round\":2}\n",
        "{\"round\":1,\"x\":\"\\",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad - 1; i++) {
        run_log l;
        CHECK_STATUS(run_log_read_over(&l, span_of_str(bad[i]), "m"), SEFL_EPROTO);
        assert_null(l.at);
        assert_non_null(strstr(sefl_last_error(), "m:"));
    }
}

static void test_number(void **state)
{
    (void)state;
    sefl_span s =
        span_of_str("{\n  \"a\": {\"b\": 7}, \"b\": -2.5e1, \"c\": \"x\", \"d\": null }\n");
    assert_true(run_number(s, "b") == -25);
    assert_true(isnan(run_number(s, "a")) && isnan(run_number(s, "c")) &&
                isnan(run_number(s, "d")) && isnan(run_number(s, "e")));
    assert_true(isnan(run_number(span_of_str("7"), "b")) &&
                isnan(run_number(span_of_str(""), "b")));
}

/* ---- the page -------------------------------------------------------------------------------- */

/* Finds the data inside the page and ends it there; fails unless the rest is page.html with its
 * style and its script, needs nothing from elsewhere, and the data is JSON that cannot end its
 * element. */
static char *data_of(char *page)
{
    static const char begin[] = "<script type=\"application/json\" id=\"data\">";
    static const char *const outside[] = { "src=", "<link", "url(", "@import", "http:", "https:" };
    char *data = strstr(page, begin), *end = data ? strstr(data, "</script>\n<script") : NULL;
    assert_non_null(end);
    assert_true(strncmp(page, "<!doctype html>", 15) == 0);
    assert_non_null(strstr(page, "content=\"default-src 'none'; script-src 'unsafe-inline'"));
    assert_non_null(strstr(end, "const page_js = "));
    assert_string_equal(strstr(end, "\n</body>"), "\n</body>\n</html>\n");
    *data = *end = '\0';
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (strstr(page, outside[i]))
            fail_msg("the page has %s", outside[i]);
    data += sizeof begin - 1;
    assert_null(strchr(data, '<'));
    jread j = jread_over(span_of_str(data));
    CHECK_OK(jread_skip(&j));
    CHECK_OK(jread_end(&j));
    return data;
}

/* An empty run folder: the scratch folder without files of earlier tests. */
static const char *run_folder(void)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s", folder_path(""));
    path[strlen(path) - 1] = '\0';
    unlink(folder_path("metrics.jsonl"));
    unlink(folder_path("config.yml"));
    unlink(folder_path("summary.json"));
    return path;
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_OK(file_write_atomic(path, span_of_str(text), 0644));
}

static char *page_of(const char *folder)
{
    report r;
    sefl_buf b = { 0 };
    CHECK_OK(report_open(&r, folder));
    CHECK_OK(report_html(&b, &r, 1));
    report_close(&r);
    char *text = malloc(b.n + 1);
    assert_non_null(text);
    memcpy(text, b.p, b.n);
    text[b.n] = '\0';
    assert_int_equal(strlen(text), b.n);
    buf_clear(&b);
    return text;
}

static void expect_page(const char *folder, const char *const *words)
{
    char *page = page_of(folder), *data = data_of(page);
    for (size_t i = 0; words[i]; i++)
        if (!strstr(data, words[i]))
            fail_msg("the page lacks %s", words[i]);
    free(page);
}

static void test_page(void **state)
{
    (void)state;
    const char *folder = run_folder();
    write_file(folder, "metrics.jsonl", as_lines);
    expect_page(folder, (const char *[]){
                            "\"level\":\"good\"", "Epsilon 2.5 of 8 spent", "\"2 of 3\"",
                            "{\"round\":4,\"skipped\":false,\"clients\":5,\"perplexity\":43.5",
                            "\"privacy\":{\"claimed\":true,\"epsilon_server\":2.5",
                            "\"released\":2,\"skipped\":1,\"blocked\":0", "\"first\":null", NULL });
    /* settings and names of people are text, whatever they hold */
    write_file(folder, "config.yml",
               "name: \"</pre></script><script>alert('x')</script> & \xff\x01 \xc3\xa9\"\n");
    write_file(
        folder, "summary.json",
        "{\"first_perplexity\":420.5,\"plain_perplexity\":20.5,\"best_possible_perplexity\":4.4}");
    expect_page(folder, (const char *[]){ "\\u003c/pre>\\u003c/script>\\u003cscript>alert('x')",
                                          "& \xef\xbf\xbd\\u0001 \xc3\xa9", "\"best_possible\":4.4",
                                          "\"plain\":20.5", "\"first\":420.5", NULL });
}

static void test_small_pages(void **state)
{
    (void)state;
    static const char *const logs[] = {
        "{\"round\":1,\"skipped\":true}\n",
        "{\"round\":7,\"perplexity\":12}\n",
        "{\"round\":1,\"perplexity\":0,\"seconds\":0,\"clients\":0}\n",
        "{\"round\":1,\"perplexity\":null,\"epsilon_server\":0,\"epsilon_target\":0}\n",
        "{\"round\":1,\"perplexity\":1e300,\"seconds\":1e-300}\n{\"round\":2,\"perplexity\":1e-300}"
        "\n",
        "{\"round\":1,\"train_seconds\":1,\"encrypt_seconds\":2,\"sum_seconds\":1,\"2pc_seconds\":"
        "3,"
        "\"step_seconds\":0.1,\"eval_seconds\":0.1,\"asked\":10,\"clients\":7,\"link_bytes\":100}"
        "\n",
    };
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        const char *folder = run_folder();
        write_file(folder, "metrics.jsonl", logs[i]);
        expect_page(folder, (const char *[]){ "\"rounds\":[{", NULL });
    }
    const char *folder = run_folder();
    write_file(
        folder, "metrics.jsonl",
        "{\"round\":1,\"perplexity\":9}\n{\"round\":2,\"skipped\":false,\"blocked\":true}\n");
    expect_page(folder,
                (const char *[]){ "\"skipped\":0,\"blocked\":1",
                                  "{\"round\":2,\"skipped\":false,\"blocked\":true}", NULL });
}

static void test_text(void **state)
{
    (void)state;
    const char *folder = run_folder();
    report r;
    sefl_buf b = { 0 };
    write_file(folder, "metrics.jsonl", as_lines);
    CHECK_OK(report_open(&r, folder));
    run_totals t = run_log_totals(&r.log);
    assert_true(t.released == 2 && t.skipped == 1 && t.all.clients == 13 && t.best_round == 4);
    assert_true(t.clients_least == 5 && t.clients_most == 8 && t.all.perplexity == 43.5 &&
                t.all.up_bytes == 559104 + 69888);
    assert_true(fabs(t.collect - (2.307 - 0.385 + 8)) < 1e-9);
    CHECK_OK(report_text(&b, &r));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, "epsilon 2.5 of 8 against a server, 0.75 against others"));
    assert_non_null(strstr((char *)b.p, ", for a client\n"));
    assert_non_null(strstr((char *)b.p, "clients     5 to 8 per round, 13 updates"));
    for (int i = 1; i < 9000; i++) { /* never down, and not up for nothing */
        const double e = i * 0.00137, shown = report_up(e, 4);
        char text[32];
        snprintf(text, sizeof text, "%.4g", shown);
        assert_true(strtod(text, NULL) >= e * (1 - 1e-11) && shown < e * 1.001 + 1e-12);
        assert_true(report_up(i / 8.0, 7) == i / 8.0 ||
                    fabs(report_up(i / 8.0, 7) * 8 / i - 1) < 1e-12);
    }
    assert_null(strstr((char *)b.p, "mode  ")); /* of an older version */
    buf_clear(&b);
    strcpy(r.log.facts.mode, "own: words");
    strcpy(r.log.facts.unit, "record");
    CHECK_OK(report_text(&b, &r));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, ", for a record, not for a client\n"));
    assert_non_null(strstr((char *)b.p, "mode        own: words\n"));
    buf_clear(&b);
    report_close(&r);
    write_file(folder, "metrics.jsonl",
               "{\"round\":1,\"clients\":3}\n{\"round\":2,\"clients\":3}\n");
    CHECK_OK(report_open(&r, folder));
    CHECK_OK(report_text(&b, &r));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, "clients     3 per round, 6 updates in all\n"));
    buf_clear(&b);
    report_close(&r);
    CHECK_STATUS(report_open(&r, "/nonexistent/run"), SEFL_ENOTFOUND);
    write_file(folder, "metrics.jsonl", "");
    CHECK_STATUS(report_open(&r, folder), SEFL_EPROTO);
}

/* ---- what is known about a run --------------------------------------------------------------- */

#define FACTS(more) "{\"round\":1,\"clients\":6,\"time\":1790000000,\"run\":{" more "}}\n"

static void test_facts(void **state)
{
    (void)state;
    run_log l;
    run_facts f = run_facts_none();
    run_line r;
    CHECK_OK(run_log_read_over(
        &l,
        span_of_str(FACTS("\"task\":\"ab\",\"name\":\"n <b>\",\"later\":[1],\"simulated\":true,"
                          "\"expected\":8,\"delta\":null") "{\"round\":2,\"clients\":9}\n"),
        "m"));
    assert_string_equal(l.facts.task, "ab");
    assert_string_equal(l.facts.name, "n <b>");
    assert_string_equal(l.facts.version, "");
    assert_true(l.facts.simulated && l.facts.expected == 8 && isnan(l.facts.delta));
    assert_true(run_lost(&l, 0) == 2 && run_lost(&l, 1) == 0); /* more than expected is no loss */
    sefl_buf b = { 0 };
    CHECK_OK(run_line_write(&b, &l.at[0], &l.facts));
    CHECK_OK(run_line_read(&r, &f, buf_span(&b)));
    assert_memory_equal(f.name, l.facts.name, sizeof f.name);
    assert_true(f.simulated && f.expected == 8 && isnan(f.enrolled) && r.time == 1790000000);
    buf_clear(&b);
    l.at[0].dropped = 1, l.at[0].late = 2, l.at[1].clients = NAN;
    assert_true(run_lost(&l, 0) == 3 && isnan(run_lost(&l, 1)));
    run_log_clear(&l);
    char name[300];
    memset(name, 'x', sizeof name);
    snprintf(name + 201, sizeof name - 201, "%s", "\"}}\n");
    char text[400];
    snprintf(text, sizeof text, "{\"round\":1,\"run\":{\"name\":\"%s", name);
    const char *const bad[] = { text,
                                FACTS("\"task\":1"),
                                FACTS("\"simulated\":0"),
                                FACTS("\"rounds\":-1"),
                                FACTS("\"rounds\":\"2\""),
                                FACTS(",") };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STATUS(run_log_read_over(&l, span_of_str(bad[i]), "m"), SEFL_EPROTO);
}

/* The first line of a task has the facts, the others have not. */
static void test_facts_in_file(void **state)
{
    (void)state;
    run_log l;
    run_facts f = run_facts_none();
    run_line r;
    sefl_buf b = { 0 };
    uint64_t bytes;
    const char *path = folder_path("facts.jsonl");
    snprintf(f.name, sizeof f.name, "n");
    for (uint64_t i = 1; i <= 2; i++) {
        r = run_line_of(i);
        CHECK_OK(run_log_append(&bytes, path, &r, &f));
    }
    CHECK_OK(file_read(&b, path, 4096));
    CHECK_OK(wr_u8(&b, 0));
    const char *first = strstr((char *)b.p, "\"run\":{");
    assert_true(first && first < strchr((char *)b.p, '\n') && !strstr(first + 1, "\"run\":{"));
    buf_clear(&b);
    /* another task in the same file starts again with round 1, also after a task of one round */
    for (uint64_t i = 0; i < 4; i++) {
        snprintf(f.task, sizeof f.task, "%c", "bccd"[i]);
        r = run_line_of(1), r.clients = (double)i;
        CHECK_OK(run_log_append(&bytes, path, &r, &f));
    }
    CHECK_OK(run_log_read(&l, path));
    assert_true(l.n == 1 && l.at[0].clients == 3 && strcmp(l.facts.task, "d") == 0);
    run_log_clear(&l);
    CHECK_OK(file_read(&b, path, 4096));
    CHECK_OK(wr_u8(&b, 0));
    assert_null(strstr((char *)b.p, "\"clients\":2")); /* repeated after a crash */
    buf_clear(&b);
}

/* The page says what is claimed, and the name, date, task and version. */
static void test_claims(void **state)
{
    (void)state;
    static const struct {
        const char *log, *words[5];
    } cases[] = {
        { FACTS("\"noise\":\"joint\",\"protection\":\"sefl\",\"z\":\"0.02\""),
          { "\"level\":\"weak\"", "No differential privacy claimed", "(joint, z = 0.02)" } },
        { FACTS("\"noise\":\"none\",\"protection\":\"sefl\""),
          { "\"level\":\"bad\"", "exact sum of every round" } },
        { FACTS("\"noise\":\"none\",\"protection\":\"none\",\"simulated\":true"),
          { "\"level\":\"bad\"", "The server saw the update of every client",
            "This was a simulation" } },
        { FACTS("\"delta\":1e-5,\"unit\":\"record\""),
          { "\"level\":\"good\"", "nothing spent yet", "each record, delta 1e-05" } },
        { "{\"round\":1,\"epsilon_server\":50,\"epsilon_others\":50,\"epsilon_target\":40}\n",
          { "\"level\":\"weak\"", "too large to protect anyone" } },
        { FACTS("\"task\":\"ab12\",\"version\":\"0.9\",\"name\":\"<i>&\",\"expected\":8"),
          { "\"name\":\"\\u003ci>&\"", "[\"Date\",\"2026-09-21 14:13 UTC\"]",
            "[\"Task id\",\"ab12\"]", "[\"Version\",\"0.9\"]", "\"expected\":8" } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *words[6] = { 0 };
        const char *folder = run_folder();
        memcpy(words, cases[i].words, sizeof cases[i].words);
        write_file(folder, "metrics.jsonl", cases[i].log);
        expect_page(folder, words);
    }
    /* a time that is no date */
    const char *folder = run_folder();
    write_file(folder, "metrics.jsonl", "{\"round\":1,\"time\":1e300}\n");
    expect_page(folder, (const char *[]){ "\"about\":[[\"Folder\"", NULL });
}

/* Several runs, with different rounds and names that are hostile or the same. */
static void test_several(void **state)
{
    (void)state;
    report r[REPORT_RUNS_MAX + 1];
    sefl_buf b = { 0 };
    const char *folder = run_folder();
    for (size_t i = 0; i < REPORT_RUNS_MAX; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"round\":%zu,\"perplexity\":%zu}\n{\"round\":%zu}\n", i + 1,
                 i + 7, 2 * i + 2);
        write_file(folder, "metrics.jsonl", text);
        CHECK_OK(report_open(&r[i], folder));
    }
    sefl_free(r[1].name);
    CHECK_OK(sefl_strdup(&r[1].name, "a/<script>&\x1b"));
    CHECK_OK(sefl_strdup(&r[1].sample, "</div><b>words"));
    r[1].sample_round = 3;
    CHECK_OK(report_html(&b, r, REPORT_RUNS_MAX));
    CHECK_OK(wr_u8(&b, 0));
    const char *data = data_of((char *)b.p);
    size_t runs = 0;
    for (const char *at = data; (at = strstr(at, "{\"about\":{")) != NULL; at++)
        runs++;
    assert_int_equal(runs, REPORT_RUNS_MAX);
    assert_non_null(strstr(data, "\"name\":\"a/\\u003cscript>&\\u001b\""));
    assert_non_null(strstr(data, "\"sample_round\":3"));
    assert_non_null(strstr(data, "\"sample\":\"\\u003c/div>\\u003cb>words\""));
    assert_non_null(strstr(data, "{\"round\":24,\"skipped\":false}"));
    buf_clear(&b);
    CHECK_OK(report_table(&b, r, 2));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((char *)b.p, "ppl last"));
    assert_non_null(strstr((char *)b.p, "2 of 2"));
    buf_clear(&b);
    CHECK_STATUS(report_html(&b, r, REPORT_RUNS_MAX + 1), SEFL_EINVAL);
    CHECK_STATUS(report_html(&b, r, 0), SEFL_EINVAL);
    for (size_t i = 0; i < REPORT_RUNS_MAX; i++)
        report_close(&r[i]);
}

static void test_numbers_for_people(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *unit, *text;
    } cases[] = {
        { 0, "", "0" },
        { 107.31, "", "107" },
        { 9.996, "s", "10.0 s" },
        { 0.354, "s", "0.35 s" },
        { 0.012, "s", "0.012 s" },
        { 999, "bytes", "999 B" },
        { 69888, "bytes", "69.9 kB" },
        { 1e15, "bytes", "1 PB" },
        { 999999, "bytes", "1.00 MB" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        report_number(text, cases[i].v, cases[i].unit);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_faults(void **state)
{
    (void)state;
    run_log l = { 0 };
    TEST_FAULTS(FAULT_ALLOC, st = run_log_read_over(&l, span_of_str(as_lines), "m"),
                run_log_clear(&l));
    const char *folder = run_folder();
    write_file(folder, "metrics.jsonl", as_lines);
    write_file(folder, "config.yml", "a: 1\n");
    report r;
    TEST_FAULTS(FAULT_ALLOC, st = report_open(&r, folder), report_close(&r));
    CHECK_OK(report_open(&r, folder));
    sefl_buf b = { 0 };
    TEST_FAULTS(FAULT_ALLOC, (buf_clear(&b), st = report_html(&b, &r, 1)), buf_clear(&b));
    buf_clear(&b);
    report_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_number),
        cmocka_unit_test(test_page),
        cmocka_unit_test(test_small_pages),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_numbers_for_people),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_facts_in_file),
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_several),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}

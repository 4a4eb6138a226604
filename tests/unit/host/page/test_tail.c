/* Following a metrics.jsonl, and the page's state. */
#include "support/check.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "page/tail.h"
#include "report/server_view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(const char *path, const char *text)
{
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static const char *text_of(sefl_buf *b)
{
    CHECK_OK(wr_u8(b, 0));
    return (const char *)b->p;
}

static void follows(void **state)
{
    (void)state;
    char path[300];
    tail *t;
    run_view v;
    sefl_buf b = { 0 };
    snprintf(path, sizeof path, "%s", folder_path("metrics.jsonl"));
    CHECK_OK(tail_new(&t, path));
    CHECK_OK(tail_look(t, &v)); /* there is no file yet */
    assert_int_equal(v.totals.rounds, 0);
    assert_true(isnan(v.seconds_a_round));
    append(path,
           "{\"round\":1,\"skipped\":false,\"seconds\":3,\"run\":{\"task\":\"\",\"name\":\"a\","
           "\"rounds\":10}}\n{\"round\":2,\"skip");
    CHECK_OK(tail_look(t, &v)); /* the last line is still being written */
    assert_int_equal(v.last.round, 1);
    assert_string_equal(v.facts.name, "a");
    append(path, "ped\":true,\"seconds\":9}\n{\"round\":5,\"skipped\":false,\"seconds\":4}\n");
    CHECK_OK(tail_look(t, &v));
    assert_int_equal(v.last.round, 5);
    assert_int_equal(v.totals.rounds, 3);
    assert_int_equal(v.totals.skipped, 1);
    assert_int_equal(v.released, 5);
    assert_true(v.seconds_a_round == 4);
    CHECK_OK(tail_rounds(t, &b, 1));
    const char *got = text_of(&b);
    assert_non_null(
        strstr(got, "{\"facts\":{\"name\":\"a\",\"rounds\":10},\"rounds\":[{\"round\":2,"));
    assert_null(strstr(got, "\"round\":1,"));
    assert_null(strstr(got, "more"));
    buf_clear(&b);
    server_view s = server_view_none();
    s.role = "aggregator";
    server_view_log(&s, &v);
    assert_true(s.rounds_left == 5 && s.seconds_left == 20);
    s = server_view_none();
    s.rounds_to_target = 2; /* the budget ends before the rounds do */
    server_view_log(&s, &v);
    assert_true(s.rounds_left == 2 && s.seconds_left == 8);
    append(path, "{\"round\":1,\"skipped\":false,\"run\":{\"name\":\"b\"}}\n"); /* another task */
    CHECK_OK(tail_look(t, &v));
    assert_string_equal(v.facts.name, "b");
    assert_int_equal(v.totals.rounds, 1);
    append(path, "{\"round\":1,\"skipped\":false}\n");
    CHECK_STATUS(tail_look(t, &v), SEFL_EPROTO);
    folder_put("metrics.jsonl", "{\"round\":7,\"skipped\":false}\n", 28); /* shorter: begins anew */
    CHECK_OK(tail_look(t, &v));
    assert_int_equal(v.last.round, 7);
    assert_int_equal(v.totals.rounds, 1);
    tail_free(t);
}

static void many_rounds(void **state)
{
    (void)state;
    enum { ROUNDS = 5000 };
    char path[300];
    tail *t;
    run_view v;
    sefl_buf b = { 0 };
    run_line l = run_line_of(0);
    l.clients = 97, l.perplexity = 41.25, l.seconds = 4.5, l.up_bytes = 123456789;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        l.round = 2 * i;
        CHECK_OK(run_line_write(&b, &l, NULL));
        CHECK_OK(wr_u8(&b, '\n'));
    }
    snprintf(path, sizeof path, "%s", folder_put("many.jsonl", b.p, b.n));
    buf_clear(&b);
    CHECK_OK(tail_new(&t, path));
    sefl_heap_mark();
    const size_t before = sefl_heap_live();
    CHECK_OK(tail_look(t, &v));
    assert_true(sefl_heap_peak() - before < (128 << 10));
    assert_int_equal(v.totals.rounds, ROUNDS);
    CHECK_OK(tail_rounds(t, &b, 0));
    assert_true(b.n < (1 << 20));
    assert_non_null(strstr(text_of(&b), "{\"round\":4000,"));
    assert_null(strstr((char *)b.p, "{\"round\":4002,"));
    assert_non_null(strstr((char *)b.p, "],\"more\":true}"));
    buf_clear(&b);
    for (uint64_t after = 0; after < 2 * ROUNDS; after += 511) { /* the next round is the first */
        char want[64];
        snprintf(want, sizeof want, "\"rounds\":[{\"round\":%llu,",
                 (unsigned long long)(after / 2 * 2 + 2));
        CHECK_OK(tail_rounds(t, &b, after));
        assert_non_null(strstr(text_of(&b), want));
        buf_clear(&b);
    }
    CHECK_OK(tail_rounds(t, &b, UINT64_MAX));
    assert_non_null(strstr(text_of(&b), "\"rounds\":[]}"));
    buf_clear(&b);
    tail_free(t);
}

static void whole_state(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    server_view s = server_view_none();
    s.role = "csp";
    CHECK_OK(server_view_write(&b, &s));
    assert_non_null(strstr(text_of(&b), "{\"role\":\"csp\",\"version\":\""));
    assert_non_null(strstr((char *)b.p, ",\"downloads\":[],\"grid\":false}"));
    assert_null(strstr((char *)b.p, "null"));
    buf_clear(&b);
    s.round = 3, s.arrived = 17, s.healthy = VIEW_NO, s.claimed = VIEW_YES, s.epsilon_server = 1.25;
    s.csp = VIEW_YES, s.making = VIEW_NO, s.ledger_rounds = 3, s.ledgers_agree = VIEW_YES;
    s.model = s.ledger = true;
    s.last = run_line_of(2);
    s.facts.known = true;
    snprintf(s.facts.name, sizeof s.facts.name, "a \"b\" </script>");
    snprintf(s.facts.mode, sizeof s.facts.mode, "own: words");
    CHECK_OK(server_view_write(&b, &s));
    static const char *const parts[] = { "\"round\":{\"number\":3,\"arrived\":17}",
                                         "\"healthy\":false",
                                         "\"privacy\":{\"claimed\":true,\"epsilon_server\":1.25}",
                                         "\"csp\":{\"connected\":true}",
                                         "\"supply\":{\"making\":false}",
                                         "\"ledgers\":{\"agree\":true,\"rounds\":3}",
                                         "\"downloads\":[\"model\",\"ledger\"]",
                                         "\"name\":\"a \\\"b\\\" ",
                                         "\"mode\":\"own: words\"",
                                         ",\"last\":{\"round\":2,\"skipped\":false}}" };
    (void)text_of(&b);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr((char *)b.p, parts[i]))
            fail_msg("%s is not in %s", parts[i], (char *)b.p);
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows),
        cmocka_unit_test(many_rounds),
        cmocka_unit_test(whole_state),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}

/* An operator's orders as files, the status file, and health pages as `sefl status` reads them. */
#define _GNU_SOURCE
#include "unit/core/protocol/task_sample.h"

#include "support/folder.h"

#include "roles/control.h"
#include "roles/health.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static sefl_status parse(control_order *o, const char *text)
{
    return control_parse(o, span_of_str(text));
}

#define ID "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void test_orders_parse(void **state)
{
    (void)state;
    control_order o;
    CHECK_OK(parse(&o, "{\"id\":7,\"task\":\"" ID "\",\"order\":\"end\",\"now\":true}\n"));
    assert_true(o.id == 7 && o.word == CONTROL_END && o.now && o.task[1] == 0x11);
    CHECK_OK(
        parse(&o, "{\"id\":8,\"task\":\"" ID "\",\"order\":\"close\",\"now\":false,\"round\":3}"));
    assert_true(o.word == CONTROL_CLOSE && o.round == 3);
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{\"id\":0,\"task\":\"" ID "\",\"order\":\"end\",\"now\":true}",
        "{\"id\":7,\"task\":\"00\",\"order\":\"end\",\"now\":true}",
        "{\"id\":7,\"task\":\"" ID "\",\"order\":\"stop\",\"now\":true}",
        "{\"id\":7,\"task\":\"" ID "\",\"order\":\"end\",\"now\":1}",
        "{\"id\":7,\"task\":\"" ID "\",\"order\":\"end\"}",
        "{\"id\":7,\"task\":\"" ID "\",\"order\":\"end\",\"now\":true,\"more\":1}",
        "{\"id\":7,\"task\":\"" ID "\",\"order\":\"end\",\"now\":true,\"round\":3}",
        "{\"id\":7,\"task\":\"" ID "\",\"order\":\"close\",\"now\":true}",
        "{\"id\":7,\"id\":8,\"task\":\"" ID "\",\"order\":\"end\",\"now\":true}",
        "{\"id\":7,\"task\":\"" ID "\",\"order\":\"end\",\"now\":true} x",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STATUS(parse(&o, bad[i]), SEFL_EPROTO);
    assert_true(o.id == 0);
}

static void test_orders_in_a_folder(void **state)
{
    (void)state;
    char folder[PATH_MAX], path[PATH_MAX + 16];
    control c;
    control_order o = { .id = 9, .word = CONTROL_PAUSE }, got;
    uint8_t other[32] = { 1 };
    snprintf(folder, sizeof folder, "%s", folder_path("state"));
    snprintf(path, sizeof path, "%s/control", folder);
    CHECK_STATUS(control_write(folder, &o), SEFL_ENOTFOUND);
    assert_false(control_is_running(folder));
    CHECK_OK(control_open(&c, folder));
    assert_true(control_is_running(folder));
    assert_false(control_look(&c, o.task, &got, NULL)); /* none yet */
    CHECK_OK(control_write(folder, &o));
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_false(control_look(&c, other, &got, NULL)); /* of another task */
    assert_true(control_look(&c, o.task, &got, NULL));
    assert_true(got.id == 9 && got.word == CONTROL_PAUSE && !got.now);
    assert_false(control_look(&c, o.task, &got, NULL)); /* seen */
    control_forget(&c);
    assert_true(control_look(&c, o.task, &got, NULL));

    o = (control_order){ .id = 10, .word = CONTROL_END };
    CHECK_OK(control_write(folder, &o));
    o.id = 11, o.now = true;
    CHECK_OK(control_write(folder, &o)); /* again, at once */
    o.word = CONTROL_RESUME;
    CHECK_STATUS(control_write(folder, &o), SEFL_ESTATE); /* final */
    assert_null(strstr(sefl_last_error(), "--now"));
    o.word = CONTROL_CLOSE, o.round = 7;
    CHECK_STATUS(control_write(folder, &o), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "goes on to its deadline; 'sefl task end --now'"));
    o.round = 0;
    CHECK_OK(control_read(folder, &got));
    assert_true(got.id == 11 && got.word == CONTROL_END);
    if (geteuid() == 0) { /* root reads and replaces what it wrote for the folder's owner */
        assert_int_equal(chown(folder, 1234, 1234), 0);
        o.word = CONTROL_END;
        CHECK_OK(control_write(folder, &o));
        CHECK_OK(control_read(folder, &got));
        assert_int_equal(chown(path, 4321, 4321), 0);
        CHECK_STATUS(control_read(folder, &got), SEFL_EAUTH);
        assert_int_equal(chown(folder, 0, 0), 0);
        assert_int_equal(chown(path, 0, 0), 0);
    }
    assert_int_equal(chmod(path, 0622), 0); /* others may write it */
    CHECK_STATUS(control_read(folder, &got), SEFL_EAUTH);
    CHECK_STATUS(control_write(folder, &o), SEFL_EAUTH); /* what it orders is not known */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    CHECK_STATUS(control_read(folder, &got), SEFL_EIO);
    assert_int_equal(unlink(path), 0);
    CHECK_STATUS(control_read(folder, &got), SEFL_ENOTFOUND);

    control_status(&c, span_of_str("{}\n"), NULL);
    snprintf(path, sizeof path, "%s/status.json", folder);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_size, 3);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(unlink(path), 0);
    control_status(&c, span_of_str("{}\n"), NULL); /* unchanged: not written */
    assert_int_not_equal(stat(path, &s), 0);
    control_close(&c);
    assert_false(control_is_running(folder));
    control_close(&c);
}

static void test_pages(void **state)
{
    (void)state;
    task t;
    sefl_buf b = { 0 };
    unsigned status;
    health_facts f;
    sample_begin();
    CHECK_OK(sample_task(&t, NULL));
    server_view n = server_view_none();
    n.role = "aggregator", n.peer = "csp", n.phase = "collecting", n.round = 2;
    n.healthy = VIEW_NO;
    health_task(&n, &t);
    n.need = 3, n.pausing = true, n.control = 77, n.has_queue = true, n.queued = 4;
    n.open = true, n.arrived = 2, n.most = t.clients_max, n.extensions = 1;
    n.deadline_at = 1790000000;
    n.latest = run_line_of(1), n.latest.perplexity = 12.5;
    n.measured = n.latest;
    CHECK_OK(health_write(&b, &status, &n));
    assert_int_equal(status, 503);
    CHECK_OK(health_read(&f, buf_span(&b)));
    assert_string_equal(f.role, "aggregator");
    assert_string_equal(f.phase, "collecting");
    assert_string_equal(f.name, t.name);
    assert_string_equal(f.last_outcome, "released");
    assert_true(f.round == 2 && f.rounds == t.rounds && f.need == 3 && f.most == t.clients_max &&
                f.deadline_at == 1790000000 && f.control == 77 && f.queued == 4 && f.has_queue &&
                f.last_round == 1 && f.perplexity == 12.5 && isnan(f.epsilon_server) && f.pausing &&
                !f.paused && !f.healthy && f.extensions == 1);
    assert_true(f.has_arrived == t.publish_count);
    assert_int_equal(f.perplexity_round, 1);
    n.latest = run_line_of(2), n.latest.skipped = true; /* the perplexity stays */
    buf_reset(&b);
    CHECK_OK(health_write(&b, &status, &n));
    CHECK_OK(health_read(&f, buf_span(&b)));
    assert_string_equal(f.last_outcome, "skipped");
    assert_true(f.last_round == 2 && f.perplexity == 12.5 && f.perplexity_round == 1);
    n.latest.dropped_by_operator = true;
    buf_reset(&b);
    CHECK_OK(health_write(&b, &status, &n));
    CHECK_OK(health_read(&f, buf_span(&b)));
    assert_string_equal(f.last_outcome, "dropped");
    t.publish_count = false; /* such a task's page has no count */
    health_task(&n, &t);
    buf_reset(&b);
    CHECK_OK(health_write(&b, &status, &n));
    CHECK_OK(health_read(&f, buf_span(&b)));
    assert_false(f.has_arrived);
    buf_clear(&b);

    CHECK_OK(health_read(&f, span_of_str("{\"role\":\"csp\",\"phase\":\"x\",\"new\":[1,{}]}")));
    static const char *const bad[] = { "", "{}", "{\"role\":\"csp\"}",
                                       "{\"role\":\"csp\",\"phase\":\"x\",\"round\":-1}",
                                       "{\"role\":\"csp\",\"phase\":\"x\",\"paused\":\"no\"}" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STATUS(health_read(&f, span_of_str(bad[i])), SEFL_EPROTO);
    char text[400]; /* a long text is cut */
    snprintf(text, sizeof text, "{\"role\":\"csp\",\"phase\":\"%0200d\"}", 7);
    CHECK_OK(health_read(&f, span_of_str(text)));
    assert_int_equal(strlen(f.phase), sizeof f.phase - 1);
    task_clear(&t);
    sample_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_parse),
        cmocka_unit_test_setup_teardown(test_orders_in_a_folder, folder_make, folder_remove),
        cmocka_unit_test(test_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

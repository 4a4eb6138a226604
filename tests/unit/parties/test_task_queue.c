#include "unit/core/protocol/task_sample.h"

#include "support/folder.h"

#include "roles/task_queue.h"
#include "store/ledger.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static sefl_log lg;

/* Returns how often the log has this text. */
static unsigned logged(const char *what)
{
    sefl_buf b = { 0 };
    unsigned n = 0;
    CHECK_OK(file_read(&b, folder_path("log"), 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    for (const char *at = (const char *)b.p; (at = strstr(at, what)); at++)
        n++;
    buf_clear(&b);
    return n;
}

/* Puts a task into the folder, as an operator does: under another name, then by rename. */
static void put(const char *name, const char *setting, bool by_both)
{
    char path[256], to[256];
    sefl_buf doc = { 0 }, bytes = { 0 };
    envelope env = { .kind = SIGN_TASK };
    CHECK_OK(sample_document(&doc, setting, NULL));
    env.content = buf_span(&doc);
    CHECK_OK(envelope_sign(&env, SIGNER_AS, sample_as));
    if (by_both)
        CHECK_OK(envelope_sign(&env, SIGNER_CSP, sample_csp));
    CHECK_OK(envelope_write(&bytes, &env));
    snprintf(path, sizeof path, "%s/.new", folder_path("tasks"));
    snprintf(to, sizeof to, "%s/%s", folder_path("tasks"), name);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/.new/" TASK_QUEUE_FILE, folder_path("tasks"));
    CHECK_OK(file_write_new(path, buf_span(&bytes), 0600));
    path[strlen(path) - sizeof TASK_QUEUE_FILE] = 0;
    assert_int_equal(rename(path, to), 0);
    buf_clear(&doc);
    buf_clear(&bytes);
}

static void drop(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s/" TASK_QUEUE_FILE, folder_path("tasks"), name);
    assert_int_equal(unlink(path), 0);
    path[strlen(path) - sizeof TASK_QUEUE_FILE] = 0;
    assert_int_equal(rmdir(path), 0);
}

static sefl_status fits(void *ctx, const task *t)
{
    SEFL_NEED(t->rounds < *(const uint64_t *)ctx, SEFL_EINVAL, "too long for this test");
    return SEFL_OK;
}

static task_queue *open_queue(own_task_side side)
{
    static const uint64_t most = 100;
    task_queue *q;
    CHECK_OK(task_queue_new(
        &q, &(task_queue_config){ .folder = folder_path("tasks"),
                                  .ledger = folder_path("ledger"),
                                  .key = side == OWN_TASK_CSP ? sample_csp : sample_as,
                                  .side = side,
                                  .ctx = (void *)(uintptr_t)&most,
                                  .fits = fits,
                                  .log = &lg }));
    return q;
}

/* The names in order, separated by spaces. */
static const char *names(task_queue *q)
{
    static char all[4096];
    task_entry e;
    all[0] = 0;
    for (size_t i = 0; task_queue_at(q, i, &e); i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%.200s", i > 0 ? " " : "", e.name);
    return all;
}

static void tasks_come_in_order_of_their_names(void **state)
{
    (void)state;
    task_entry e, same;
    task t = { 0 };
    sefl_buf bytes = { 0 };
    put("20", "name=b", true);
    put("10", "name=a", true);
    task_queue *q = open_queue(OWN_TASK_AGGREGATOR);
    assert_string_equal(names(q), "10 20");
    put("15", "name=c", true);
    assert_string_equal(names(q), "10 20"); /* not read yet */
    task_queue_look(q);
    assert_string_equal(names(q), "10 15 20");

    assert_true(task_queue_at(q, 1, &e));
    CHECK_OK(task_queue_read(q, &e, &t, &bytes));
    assert_string_equal(t.name, "c");
    assert_true(task_queue_find(q, t.id, &same));
    assert_string_equal(same.name, "15");
    task_clear(&t);
    buf_clear(&bytes);

    /* a passed task can still be found: CSP may serve it again */
    task_queue_pass(q, &e, NULL);
    task_queue_look(q);
    assert_string_equal(names(q), "10 20");
    assert_true(task_queue_find(q, e.id, &same));
    assert_false(task_queue_find(q, (const uint8_t[TASK_ID]){ 0 }, &same));

    /* replaced by another task: it is new, and the old entry is void */
    drop("15");
    put("15", "name=d", true);
    t = (task){ 0 };
    CHECK_STATUS(task_queue_read(q, &e, &t, &bytes), SEFL_EAUTH);
    task_clear(&t);
    buf_clear(&bytes);
    task_queue_look(q);
    assert_string_equal(names(q), "10 15 20");
    drop("10");
    task_queue_look(q);
    assert_string_equal(names(q), "15 20");
    task_queue_free(q);
    drop("15");
    drop("20");
}

static void bad_tasks_are_refused_once(void **state)
{
    (void)state;
    task_entry e;
    put("half", "name=a", false);
    put("others", "population=others", true);
    put("long", "rounds.count=100", true);
    put("good", "name=b", true);
    put("a-name-of-more-than-one-hundred-characters-a-name-of-more-than-one-hundred-characters-"
        "a-name-of-more-than-one",
        "name=c", true);
    folder_put("tasks/note.txt", "not a task", 10);
    assert_int_equal(mkdir(folder_path("tasks/empty"), 0700), 0);
    assert_int_equal(mkdir(folder_path("tasks/.draft"), 0700), 0);
    assert_int_equal(mkdir(folder_path("tasks/noise"), 0700), 0);
    folder_put("tasks/noise/" TASK_QUEUE_FILE, "\0\1\2\3", 4);
    for (own_task_side side = OWN_TASK_AGGREGATOR; side <= OWN_TASK_CSP; side++) {
        unsigned before = logged("task refused"), waits = logged("task not signed by both yet");
        task_queue *q = open_queue(side);
        for (int i = 0; i < 3; i++) {
            task_queue_look(q);
            assert_string_equal(names(q), "good");
        }
        assert_int_equal(logged("task refused") - before, 5);
        assert_int_equal(logged("task not signed by both yet") - waits, 1); /* "empty" */
        assert_true(task_queue_at(q, 0, &e));
        task_queue_pass(q, &e, "its model is missing");
        assert_string_equal(names(q), "");
        task_queue_free(q);
    }
    assert_int_equal(logged("not signed by the csp"), 2);
    assert_int_equal(logged("population is \\\"others\\\""), 2);
    assert_int_equal(logged("too long for this test"), 2);
    assert_int_equal(logged("more than 100 characters"), 2);
    assert_int_equal(logged("its model is missing"), 2);
    assert_int_equal(logged("draft") + logged("note.txt"), 0);
}

static void a_queue_needs_its_folder_and_ledger(void **state)
{
    (void)state;
    task_queue *q;
    task_queue_config c = { .folder = folder_path("nowhere"),
                            .ledger = folder_path("ledger"),
                            .key = sample_as };
    CHECK_STATUS(task_queue_new(&q, &c), SEFL_EIO);
    assert_non_null(strstr(sefl_last_error(), "cannot read the folder of tasks"));
    c.folder = folder_path("tasks");
    c.ledger = folder_path("nothing");
    CHECK_STATUS(task_queue_new(&q, &c), SEFL_ENOTFOUND);
    task_queue_free(NULL);
}

static int begin(void **state)
{
    if (folder_make(state) != 0 || mkdir(folder_path("tasks"), 0700) != 0)
        return -1;
    sample_begin();
    CHECK_OK(ledger_create(folder_path("ledger"), "testers"));
    lg = (sefl_log){ .level = LOG_INFO,
                     .fd = open(folder_path("log"), O_CREAT | O_WRONLY | O_APPEND, 0600),
                     .json = true };
    return lg.fd < 0;
}

static int end(void **state)
{
    close(lg.fd);
    sample_end();
    return folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_come_in_order_of_their_names),
        cmocka_unit_test(bad_tasks_are_refused_once),
        cmocka_unit_test(a_queue_needs_its_folder_and_ledger),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

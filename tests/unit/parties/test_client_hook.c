/* A whole client that trains with its owner's command. */
#include "unit/parties/client_scene.h"

#include "base/cond.h"

#define COPY "cp \"$SEFL_MODEL\" \"$SEFL_OUT\""

static federation *begin_with(const char *command, const char *a, const char *b)
{
    federation *s = begin(3, a, b, NULL);
    char line[1024];
    snprintf(line, sizeof line, "trainer=%s", command);
    set(s, line);
    return s;
}

static void log_has(federation *s, const char *part)
{
    if (!strstr(log_of(s), part))
        fail_msg("\"%s\" is not in the log:\n%s", part, log_of(s));
}

static void the_command_trains(void **state)
{
    (void)state;
    /* runs in the folder of client.yml, knows its name and its text, and copies the model */
    federation *s = begin_with(
        "test \"$SEFL_CLIENT\" = client-01 && test -s \"$SEFL_VOCAB\" && cmp \"$SEFL_TEXT\" "
        "text.txt && echo \"$SEFL_ROUND/$SEFL_ROUNDS\" >> rounds && " COPY,
        NULL, NULL);
    sefl_buf b = { 0 };
    s->as.rounds = 2;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.receipts, 2);
    assert_int_equal(s->made, 2);
    receipts_are_kept(s, 2);
    log_has(s, "the owner's command");
    CHECK_OK(file_read(&b, folder_path("rounds"), 100));
    assert_int_equal(b.n, 2 * 4);
    assert_memory_equal(b.p, "1/5\n2/5\n", 8);
    buf_clear(&b);
    end(s);
}

/* A model can be chosen on which a command fails for some texts only: who uploads must not show it.
 * The same steps, charge and receipt; the owner's log says why the update is zeros. */
static void a_failure_uploads_zeros(void **state)
{
    (void)state;
    static const struct {
        const char *command, *why;
    } cases[] = {
        { "echo the disk is full; exit 7",
          "the command exited with 7; its last line: the disk is full" },
        { "head -c 100 \"$SEFL_MODEL\" > \"$SEFL_OUT\"", "not a safetensors file, or cut short" },
        { "true", "without writing $SEFL_OUT" },
        { "mkdir \"$SEFL_OUT\"", "trainer: " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        federation *s = begin_with(cases[i].command, NULL, NULL);
        s->as.rounds = 2;
        open_client(s);
        CHECK_OK(client_run(s->c));
        assert_int_equal(s->as.receipts, 2);
        assert_int_equal(s->made, 2);
        assert_int_equal(s->nonzero, 0);
        assert_int_equal(charged(s), 2);
        log_has(s, "zeros are uploaded");
        log_has(s, cases[i].why);
        end(s);
    }
}

static void *stop_soon(void *ctx)
{
    federation *s = ctx;
    for (int i = 0; i < 1000 && !file_exists(folder_path("begun")); i++)
        clock_pause_ms(10);
    client_stop(s->c);
    return NULL;
}

static void a_stop_ends_the_command(void **state)
{
    (void)state;
    federation *s = begin_with("trap 'echo ended > ended; exit' TERM; echo $$ > begun; "
                               "while :; do sleep 0.1; done",
                               NULL, NULL);
    pthread_t thread;
    uint64_t began = clock_now_ns();
    open_client(s);
    CHECK_OK(thread_start(&thread, stop_soon, s));
    CHECK_OK(client_run(s->c));
    pthread_join(thread, NULL);
    assert_true(clock_since(began) < 30);
    assert_true(file_exists(folder_path("ended")));
    assert_int_equal(s->as.receipts, 0);
    end(s);
}

static void records_need_the_built_in_training(void **state)
{
    (void)state;
    federation *s = begin(3, "privacy.unit=record", "privacy.records_max=4", NULL);
    set(s, "trainer=" COPY);
    open_client(s);
    CHECK_STATUS(client_run(s->c), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "only the built-in training"));
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_command_trains),
        cmocka_unit_test(a_failure_uploads_zeros),
        cmocka_unit_test(a_stop_ends_the_command),
        cmocka_unit_test(records_need_the_built_in_training),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* The setting `stay`: a client waits while there is no task, and for the next one. */
#include "unit/parties/client_scene.h"

static void *stop_when_it_waits(void *arg)
{
    federation *s = arg;
    for (int i = 0; i < 2000 && !strstr(log_of(s), "the server still has the last task"); i++)
        usleep(10000);
    client_stop(s->c);
    return NULL;
}

static void run_until_it_waits(federation *s)
{
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, stop_when_it_waits, s), 0);
    CHECK_OK(client_run(s->c));
    pthread_join(t, NULL);
}

/* The server's next task, once it has been asked for this one. */
static void next_task(federation *s, const char *setting)
{
    sefl_buf now = s->as.task_env;
    s->as.task_env = (sefl_buf){ 0 };
    fake_task(&s->as, 3, words, setting, NULL, NULL);
    s->as.next_env = s->as.task_env;
    s->as.task_env = now;
}

static void waits_for_a_task_that_it_may_do(void **state)
{
    (void)state;
    put_text("policy.yml", "rounds_max: 4\n");
    federation *s = begin(3, "rounds.count=5", NULL, NULL);
    s->as.rounds = 2;
    next_task(s, "rounds.count=4");
    open_client(s);
    s->cfg.stay = true;
    run_until_it_waits(s);
    assert_int_equal(s->as.receipts, 2);
    const char *log = log_of(s);
    const char *at[] = { strstr(log, "task refused: waiting for another"),
                         strstr(log, "task accepted"), strstr(log, "task over"),
                         strstr(log, "the server still has the last task") };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        assert_true(at[i] && (i == 0 || at[i] > at[i - 1]));
    assert_null(strstr(log, "cannot reach the server"));
    put_text("policy.yml", "{}\n");
    end(s);
}

static void without_it_the_client_ends(void **state)
{
    (void)state;
    federation *s = begin(3, "rounds.count=4", NULL, NULL);
    s->as.rounds = 1;
    s->as.refuse_task = 1, s->as.refuse_status = 503;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_non_null(strstr(log_of(s), "no task for this client now"));
    assert_int_equal(s->as.receipts, 1);
    end(s);
}

/* The final model cannot be had: the client goes on to the next task all the same. */
static void goes_on_without_a_final_model(void **state)
{
    (void)state;
    put_text("policy.yml", "rounds_max: 4\n");
    federation *s = begin(3, "rounds.count=4", NULL, NULL);
    next_task(s, "rounds.count=5");
    fake_task(&s->as, 3, words, "rounds.count=4", NULL, NULL);
    s->as.rounds = 1;
    s->as.next_at_final = true;
    s->as.bad_final = 1000; /* the server has gone on */
    open_client(s);
    s->cfg.stay = true;
    run_until_it_waits(s);
    const char *log = log_of(s);
    assert_non_null(strstr(log, "no final model here: waiting for the next task"));
    assert_non_null(strstr(log, "the server serves another task now"));
    assert_non_null(strstr(log, "task refused: waiting for another")); /* the next one */
    assert_int_equal(s->as.finals, 1);
    put_text("policy.yml", "{}\n");
    end(s);
    /* it cannot be written here */
    s = begin(3, "rounds.count=4", NULL, NULL);
    s->as.rounds = 1;
    set(s, "models=policy.yml");
    open_client(s);
    s->cfg.stay = true;
    run_until_it_waits(s);
    log = log_of(s);
    assert_non_null(strstr(log, "no final model here: waiting for the next task"));
    assert_non_null(strstr(log, "the server still has the last task"));
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for_a_task_that_it_may_do),
        cmocka_unit_test(goes_on_without_a_final_model),
        cmocka_unit_test(without_it_the_client_ends),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

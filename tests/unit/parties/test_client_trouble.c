/* A whole task in which every kind of error occurs once. */
#include "unit/parties/client_scene.h"

#include <ctype.h>

/* True if the text before p ends with a key whose value is a duration or a size: these may equal any
 * number by chance. */
static bool measured(const char *log, const char *p)
{
    static const char *const keys[] = { "ms\":", "bytes\":" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t k = strlen(keys[i]);
        if ((size_t)(p - log) >= k && !memcmp(p - k, keys[i], k))
            return true;
    }
    return false;
}

/* True if the log has this number as a value: not inside a hash or a longer number, where four
 * digits occur by chance, and not as a duration or a size. */
static bool prints(const char *log, const char *number)
{
    size_t n = strlen(number);
    for (const char *p = log; (p = strstr(p, number)); p += n) {
        bool inside = p > log && isalnum((unsigned char)p[-1]);
        if (!inside && !isalnum((unsigned char)p[n]) && !measured(log, p))
            return true;
    }
    return false;
}

static void a_number_is_found_only_as_one(void **state)
{
    (void)state;
    assert_true(prints("{\"value\":7295,\"ms\":1}", "7295"));
    assert_true(prints("\"ms\":7295,\"why\":\"-7295\"}", "7295"));
    assert_false(prints("\"body\":\"9c7295b782\",\"ms\":7295,\"bytes\":7295}", "7295"));
}

static void a_task_from_begin_to_end_with_trouble(void **state)
{
    (void)state;
    federation *s = begin(3, "privacy.epsilon=20", NULL, NULL);
    s->as.busy_task = 1;
    s->as.refuse_task = s->as.refuse_polls = s->as.refuse_updates = 1; /* a wrong clock: 403 */
    s->as.garbled_task = 1;
    s->as.bad_header = 1;
    s->as.bad_model = 1;
    s->as.bad_receipt = 1;
    s->as.cut_after = 3000;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.receipts, 3);
    assert_int_equal(s->made, 3); /* whatever broke, each round was encrypted once */
    assert_int_equal(s->nonzero, 3);
    assert_int_equal(s->as.resumed,
                     2); /* after the cut; and nothing more to send for the receipt */
    assert_false(s->as.uncharged);
    assert_false(s->as.changed);
    assert_false(s->coins.repeated);
    assert_int_equal(charged(s), 3);
    assert_int_equal(s->as.models, 4);
    receipts_are_kept(s, 3);
    char *log = log_of(s);
    static const char *const said[] = { "header not accepted",
                                        "receipt not accepted",
                                        "starting",
                                        "refused; trying again",
                                        "the task is refused",
                                        "not the bytes that the servers signed",
                                        "round done",
                                        "task over" };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!strstr(log, said[i]))
            fail_msg("the log does not say \"%s\":\n%s", said[i], log);
    /* no text, and no value of an update */
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)s->largest);
    assert_true(s->largest > 1000);
    static const char *const secret[] = { "zanzibar", "cat", "mat ", "loss", "norm", "tokens" };
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
        if (strstr(log, secret[i]))
            fail_msg("the log says \"%s\"", secret[i]);
    assert_false(prints(log, number));
    end(s);
}

/* A model that arrives slowly or late blocks a client no longer than its round lasts. */
static void a_model_that_comes_too_late(void **state)
{
    (void)state;
    federation *s = begin(3, "privacy.epsilon=20", NULL, NULL);
    s->as.rounds = 1;
    s->as.slow_model = 1;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.receipts,
                     1); /* the round continues (AS has extended it), and so does the client */
    assert_true(s->as.models >= 2);
    char *log = log_of(s);
    if (!strstr(log, "deadline passed during the download of its model"))
        fail_msg("the log does not say it:\n%s", log);
    end(s);
}

typedef struct slow_machine {
    federation *s;
    bool closes; /* the round, meanwhile; else AS extends it */
    bool slept;
} slow_machine;

static void dawdle(void *ctx, const client_view *v)
{
    slow_machine *m = ctx;
    fake_as *as = &m->s->as;
    if (m->slept || strcmp(v->doing, "training") != 0)
        return;
    m->slept = true;
    usleep(2100 * 1000);
    pthread_mutex_lock(&as->lock);
    as->left_ms = 60000;
    as->round += m->closes;
    pthread_mutex_unlock(&as->lock);
}

/* A deadline passes during training: the client asks AS, and stops training for a closed round. */
static void a_machine_that_is_too_slow(void **state)
{
    (void)state;
    for (unsigned closes = 0; closes < 2; closes++) {
        federation *s = begin(3, "privacy.epsilon=20", NULL, NULL);
        slow_machine m = { .s = s, .closes = closes };
        s->as.rounds = 1 + closes;
        s->as.left_ms = 2000;
        s->show = dawdle, s->show_ctx = &m;
        open_client(s);
        CHECK_OK(client_run(s->c));
        assert_true(m.slept);
        assert_int_equal(s->as.receipts, 1);
        assert_int_equal(s->made, 1); /* the update of the closed round was not finished */
        assert_int_equal(charged(s), 1);
        char *log = log_of(s);
        const char *says =
            closes ? "the round closed while this client trained" : "round continues";
        if (!strstr(log, says))
            fail_msg("the log does not say \"%s\":\n%s", says, log);
        end(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_found_only_as_one),
        cmocka_unit_test(a_task_from_begin_to_end_with_trouble),
        cmocka_unit_test(a_model_that_comes_too_late),
        cmocka_unit_test(a_machine_that_is_too_slow),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

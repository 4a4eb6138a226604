/* An interrupted run ends with the same bytes; an existing run is not mixed with another. */
#include "runs.h"

#include "base/file.h"

static void goes_on(void **state)
{
    (void)state;
    static const char *const modes[] = {
        "server.step=momentum network.dropout=0.3 clients=8 rounds.threshold=2 rounds.count=4",
        "network.dropout=0.5 network.exact=true clients=8 rounds.count=4",
        "crypto=full privacy.claim=dp privacy.z=1 privacy.epsilon=60 rounds.count=4",
        "protection=none models.keep=1 rounds.count=4 rounds.max_per_client=4",
        "privacy.filter=2500,900 rounds.count=5 network.dropout=0.5 clients=8 rounds.threshold=2",
        "privacy.filter=3000 privacy.noise=own rounds.count=4",
        "crypto=full privacy.filter=2500,900 rounds.count=4",
        "privacy.filter=3000 protection=cdp privacy.z=1 rounds.count=4",
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char name[64];
        simulate_result whole, parts;
        snprintf(name, sizeof name, "whole-%zu", i);
        whole = must(name, modes[i]);
        snprintf(name, sizeof name, "parts-%zu", i);
        for (unsigned k = 0; k < 3; k++) { /* after the first round, then after the next, ... */
            stop s = { .rounds = 1 };
            CHECK_STATUS(run(&parts, name, modes[i], &s), SEFL_ECANCELLED);
        }
        CHECK_OK(run(&parts, name, modes[i], NULL));
        same(&whole, &parts);
        assert_memory_equal(&parts.t.all.epsilon_server, &whole.t.all.epsilon_server,
                            sizeof(double));
        assert_true(parts.t.best_round == whole.t.best_round);
        assert_true(parts.first_perplexity == whole.first_perplexity);
        CHECK_OK(run(&parts, name, modes[i], NULL)); /* nothing is left to do */
        assert_true(parts.was_there);
        same(&whole, &parts);
        assert_true(parts.test_best > 1 && parts.test_best == whole.test_best);
        assert_true(parts.test_last > 1 && parts.test_last == whole.test_last);
        /* killed after the last round, before the summary */
        char path[128];
        snprintf(path, sizeof path, "runs/%s/summary.json", name);
        assert_int_equal(remove(folder_path(path)), 0);
        CHECK_OK(run(&parts, name, modes[i], NULL));
        same(&whole, &parts);
    }
}

/* A signal does not wait until a client, a round or the servers are done: the run checks in every
 * training step, every message between the servers and every piece of validation text, and stops
 * there. The interrupted round is repeated. */
static void stops_soon(void **state)
{
    (void)state;
    static const char *const modes[] = {
        "clients=2 rounds.threshold=2 training.steps=40 rounds.count=1 threads=2",
        "clients=2 rounds.threshold=2 training.steps=2 rounds.count=1 crypto=full threads=1",
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char name[64];
        simulate_result whole, parts;
        stop never = { 0 };
        snprintf(name, sizeof name, "unstopped-%zu", i);
        CHECK_OK(run(&whole, name, modes[i], &never));
        assert_true(never.asked > 80);
        snprintf(name, sizeof name, "stopped-%zu", i);
        for (uint64_t at = 1; at < never.asked * 6 / 7; at += never.asked / 7) {
            stop s = { .at = at };
            CHECK_STATUS(run(&parts, name, modes[i], &s), SEFL_ECANCELLED);
            assert_true(s.asked <= at + 4); /* each thread learns it once; so does the goodbye */
        }
        CHECK_OK(run(&parts, name, modes[i], NULL));
        same(&whole, &parts);
    }
}

/* Another experiment never mixes with an existing run. */
static void keeps_apart(void **state)
{
    (void)state;
    simulate_result r;
    must("apart", "rounds.count=1");
    CHECK_STATUS(run(&r, "apart", "rounds.count=1 training.lr=3", NULL), SEFL_EEXIST);
    assert_non_null(strstr(sefl_last_error(), "training.lr"));
    CHECK_OK(run(&r, "apart", "rounds.count=1 threads=1", NULL));
    assert_true(r.was_there);
}

/* Text that changed between two parts of a run; a torn ledger; refused settings. */
static void notices(void **state)
{
    (void)state;
    simulate_result r;
    stop s = { .rounds = 1 };
    char more[1024];
    sefl_buf text = { 0 };
    for (int i = 0; i < 400; i++)
        CHECK_OK(wr_fmt(&text, "the %s sat on the %s .\n", i % 3 ? "cat" : "dog",
                        i % 5 ? "mat" : "sea"));
    folder_put("own.txt", (const char *)text.p, text.n);
    snprintf(more, sizeof more, "data.path=%s data.partition=contiguous rounds.count=3",
             folder_path("own.txt"));
    CHECK_STATUS(run(&r, "own", more, &s), SEFL_ECANCELLED);
    folder_put("runs/own/ledger", "torn", 4);
    s = (stop){ .rounds = 1 };
    CHECK_STATUS(run(&r, "own", more, &s), SEFL_ECANCELLED);
    assert_int_equal(s.seen, 1);
    /* the same words, as many of them */
    for (size_t i = 0; i + 3 < text.n; i++)
        if (memcmp(text.p + i, "dog", 3) == 0 || memcmp(text.p + i, "cat", 3) == 0)
            memcpy(text.p + i, i % 2 ? "dog" : "cat", 3);
    folder_put("own.txt", (const char *)text.p, text.n);
    CHECK_STATUS(run(&r, "own", more, NULL), SEFL_EEXIST);
    buf_clear(&text);
    CHECK_STATUS(run(&r, "refused", "rounds.threshold=9", NULL), SEFL_EINVAL);
    CHECK_OK(run(&r, "refused", "rounds.count=1", NULL));
}

static void from_model(simulate_result *r, const char *name, const char *file, sefl_status want,
                       stop *s)
{
    char more[1024];
    snprintf(more, sizeof more, "rounds.count=3 model.init=%s", folder_path(file));
    CHECK_STATUS(run(r, name, more, s), want);
}

/* model.init: a run starts where another one ended; a file that changed is noticed. */
static void starts_from(void **state)
{
    (void)state;
    simulate_result r;
    sefl_buf file = { 0 };
    stop s = { .rounds = 1 };
    simulate_result first = must("begun", "rounds.count=2");
    must("wider", "rounds.count=1 model.embed=9");
    must("others", "rounds.count=1 data.words=9000");
    from_model(&r, "after", "runs/begun/model/last.safetensors", SEFL_OK, NULL);
    assert_true(r.first_perplexity == first.t.all.perplexity);
    from_model(&r, "bad", "runs/wider/model/last.safetensors", SEFL_EINVAL, NULL);
    assert_non_null(strstr(sefl_last_error(), "model.init: "));
    assert_non_null(strstr(sefl_last_error(), "model.embed is 8, but the model has 9"));
    from_model(&r, "bad", "runs/others/model/last.safetensors", SEFL_EINVAL, NULL);
    assert_non_null(strstr(sefl_last_error(), "vocabulary"));
    from_model(&r, "bad", "runs/begun/vocab.txt", SEFL_EPROTO, NULL);
    CHECK_OK(file_read(&file, folder_path("runs/begun/model/last.safetensors"), 1 << 20));
    folder_put("start", (const char *)file.p, file.n);
    from_model(&r, "swapped", "start", SEFL_ECANCELLED, &s);
    buf_reset(&file);
    CHECK_OK(file_read(&file, folder_path("runs/begun/model/round-1.safetensors"), 1 << 20));
    folder_put("start", (const char *)file.p, file.n);
    from_model(&r, "swapped", "start", SEFL_EEXIST, NULL);
    assert_non_null(strstr(sefl_last_error(), "the file of model.init has changed"));
    buf_clear(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(goes_on), cmocka_unit_test(stops_soon),
                                        cmocka_unit_test(keeps_apart), cmocka_unit_test(notices),
                                        cmocka_unit_test(starts_from) };
    return runs_end(cmocka_run_group_tests(tests, folder_make_quick, folder_remove));
}

/* A run that was interrupted ends in the same bytes; one that is there is not mixed with another. */
#include "runs.h"

static void goes_on(void **state)
{
    (void)state;
    static const char *const modes[] = {
        "server.step=momentum network.dropout=0.3 clients=8 rounds.threshold=2 rounds.count=4",
        "crypto=full privacy.claim=dp privacy.z=1 privacy.epsilon=60 rounds.count=4",
        "protection=none models.keep=1 rounds.count=4 rounds.max_per_client=4",
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
        assert_true(parts.epsilon_server == whole.epsilon_server);
        assert_true(parts.best_round == whole.best_round);
        CHECK_OK(run(&parts, name, modes[i], NULL)); /* nothing is left to do */
        assert_true(parts.was_there);
        same(&whole, &parts);
    }
}

/* Another experiment never mixes with a run that is there. */
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(goes_on), cmocka_unit_test(keeps_apart) };
    return runs_end(cmocka_run_group_tests(tests, folder_make_quick, folder_remove));
}

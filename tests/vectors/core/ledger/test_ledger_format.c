/* The ledger's bytes, against a file made from the description alone (make_ledger.py). */
#include "support/check.h"
#include "support/folder.h"

#include "base/file.h"
#include "store/ledger.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VECTOR SEFL_SOURCE_DIR "/tests/vectors/core/ledger/ledger-v4.bin"

static void same_bytes(void **state)
{
    (void)state;
    char dir[] = "/tmp/sefl-ledger-XXXXXX", path[64];
    ledger_terms a = { .noise = DP_NOISE_JOINT,
                       .z = 4,
                       .rate = 0.1,
                       .dim = 945510,
                       .max_rounds_per_client = 5,
                       .epsilon_max = 8,
                       .delta = 1e-6 };
    ledger_terms b = { .noise = DP_NOISE_DISCRETE,
                       .z = 2.5,
                       .rate = 0.01,
                       .sigma_steps = 38662,
                       .epsilon_max = 8,
                       .delta = 1e-6 };
    ledger_terms c = { .noise = DP_NOISE_JOINT,
                       .z = 16,
                       .rate = 1,
                       .dim = 945510,
                       .max_rounds_per_client = 5,
                       .epsilon_max = 8,
                       .delta = 1e-6,
                       .separation = 20,
                       .filter = { 2, { 3000, 200 } },
                       .horizon = 100,
                       .units = 0x1p39 };
    sefl_buf want = { 0 }, got = { 0 };
    ledger *l = NULL;
    for (int i = 0; i < 32; i++)
        a.task[i] = (uint8_t)i, b.task[i] = (uint8_t)(32 + i), c.task[i] = (uint8_t)(64 + i);
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/ledger", dir);
    CHECK_OK(ledger_create(path, "people"));
    CHECK_OK(ledger_open(&l, path, "people", NULL));
    CHECK_OK(ledger_charge(l, &a, 0, NULL));
    CHECK_OK(ledger_charge(l, &a, 1, NULL));
    CHECK_OK(ledger_charge(l, &a, 300, NULL));
    CHECK_OK(ledger_charge(l, &b, 7, NULL));
    CHECK_OK(ledger_charge(l, &c, 21, NULL));
    ledger_head mine, theirs;
    ledger_get_head(l, &mine);
    ledger_close(l);
    CHECK_OK(file_read(&want, VECTOR, 1 << 16));
    CHECK_OK(file_read(&got, path, 1 << 16));
    assert_int_equal(want.n, got.n);
    assert_memory_equal(want.p, got.p, got.n);
    CHECK_OK(ledger_open_read(&l, VECTOR));
    ledger_get_head(l, &theirs);
    assert_memory_equal(&mine, &theirs, sizeof mine);
    assert_true(ledger_has(l, a.task, 300) && ledger_has(l, b.task, 7) &&
                ledger_has(l, c.task, 21));
    ledger_close(l);
    buf_clear(&want);
    buf_clear(&got);
    unlink(path);
    rmdir(dir);
}

/* A client's ledger of records that take turns. */
static void same_turns(void **state)
{
    (void)state;
    sefl_buf want = { 0 }, got = { 0 };
    ledger *l = NULL;
    ledger_terms t = { .noise = DP_NOISE_JOINT,
                       .unit = LEDGER_UNIT_RECORD,
                       .z = 2.5,
                       .rate = 1,
                       .dim = 945510,
                       .epsilon_max = 8,
                       .delta = 1e-6,
                       .turns = 10,
                       .turn_rounds = 140 };
    for (int i = 0; i < 32; i++)
        t.task[i] = (uint8_t)(96 + i), t.list[i] = (uint8_t)(200 + i);
    CHECK_OK(ledger_create(folder_path("ledger"), "people"));
    CHECK_OK(ledger_open(&l, folder_path("ledger"), "people", NULL));
    CHECK_OK(ledger_charge(l, &t, 140, NULL));
    ledger_close(l);
    CHECK_OK(file_read(&want, SEFL_SOURCE_DIR "/tests/vectors/core/ledger/turns-v4.bin", 1 << 16));
    CHECK_OK(file_read(&got, folder_path("ledger"), 1 << 16));
    assert_int_equal(want.n, got.n);
    assert_memory_equal(want.p, got.p, got.n);
    buf_clear(&want);
    buf_clear(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_bytes),
                                        cmocka_unit_test(same_turns) };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}

/* Clients in groups on a pretended GPU (tests/device/fake_engine.c) give the same model as
 * clients on threads, bit for bit, for any protection, number of slots and text lengths. */
#include "runs.h"

#include "base/buf.h"
#include "base/file.h"

static const char *const kinds[] = {
    "protection=none",
    "protection=none privacy.clip=0.3 privacy.weights=capped privacy.weight_cap=250",
    "protection=none training.lr=1000000 training.gradient_clip=0 training.epochs=4",
    "protection=cdp",
    "protection=sefl",
    "protection=sefl privacy.noise=own privacy.weights=capped privacy.weight_cap=250",
    "protection=sefl privacy.noise=none privacy.weights=capped privacy.weight_cap=250",
    "protection=sefl training.lr=1000000 training.gradient_clip=0 training.steps=40",
    ("protection=sefl privacy.sampling=open privacy.rate=0.6 rounds.threshold=2 "
     "training.optimiser=adam training.lr=0.01 training.weight_decay=0.1"),
    "protection=sefl crypto=full",
    "protection=sefl crypto=full privacy.sampling=open privacy.rate=0.6 rounds.threshold=2",
    "protection=sefl model.block_embed=1 model.block_decoder=4",
    ("protection=sefl crypto=full privacy.noise=none privacy.weights=capped "
     "privacy.weight_cap=250 model.body=transformer"),
};

static simulate_result on(const char *device, size_t kind, const char *slots)
{
    char name[32], more[512];
    snprintf(name, sizeof name, "%s-%zu-%s", device, kind, slots);
    snprintf(more, sizeof more, "%s device=%s precision=fp32 training.dropout=0.2", kinds[kind],
             device);
    setenv("SEFL_FAKE_SLOTS", slots, 1);
    return must(name, more);
}

static void test_same_model(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        simulate_result cpu = on("cpu", i, "0"), few = on("cuda", i, "2"), all = on("cuda", i, "9");
        assert_string_equal(cpu.device, "cpu");
        assert_string_equal(few.device, "a pretended GPU, fp32");
        if (memcmp(cpu.model, few.model, 32) != 0 || memcmp(cpu.model, all.model, 32) != 0)
            fail_msg("%s: %s", kinds[i],
                     memcmp(few.model, all.model, 32) ? "the number of slots matters"
                                                      : "another model than the processor's");
        assert_true(cpu.t.all.diverged == few.t.all.diverged);
        assert_true(cpu.t.all.clients == all.t.all.clients);
        assert_true(cpu.t.all.loss == all.t.all.loss);
        assert_true(cpu.test_best > 1 && cpu.test_best == all.test_best);
        assert_true(cpu.test_last == few.test_last);
    }
}

/* Texts of different lengths and more clients than slots: groups by number of steps. */
static void test_lengths(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    for (int i = 0; i < 40; i++)
        CHECK_OK(wr_fmt(&b, "= %d =\n%s %s a%d b%d c%d\n", i, i % 3 ? "one two" : "three four five",
                        i % 7 ? "six" : "seven eight nine ten one six", i, i % 5, i % 11));
    CHECK_OK(file_write_atomic(folder_path("text.txt"), buf_span(&b), 0666));
    buf_clear(&b);
    for (int none = 0; none < 2; none++) {
        char more[1024];
        simulate_result r[2];
        setenv("SEFL_FAKE_SLOTS", "3", 1);
        for (int k = 0; k < 2; k++) {
            snprintf(more, sizeof more,
                     "clients=8 data.partition=dirichlet data.alpha=0.3 data.path=%s "
                     "data.public=true protection=%s device=%s precision=fp32",
                     folder_path("text.txt"), none ? "none" : "sefl", k ? "cuda" : "cpu");
            r[k] = must(k ? (none ? "ln1" : "ls1") : none ? "ln0" : "ls0", more);
        }
        same(&r[0], &r[1]);
    }
}

/* The summary names the device. A lost device gives an error message, and the run can be resumed. */
static void test_device_lost(void **state)
{
    simulate_result r, whole;
    sefl_buf b = { 0 };
    (void)state;
    setenv("SEFL_FAKE_SLOTS", "9", 1);
    whole = must("whole", "device=cuda training.epochs=9");
    setenv("SEFL_FAKE", "lost", 1);
    CHECK_STATUS(run(&r, "lost", "device=cuda training.epochs=9", NULL), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "the device was lost"));
    unsetenv("SEFL_FAKE");
    CHECK_OK(run(&r, "lost", "device=cuda training.epochs=9", NULL));
    same(&whole, &r);
    CHECK_OK(file_read(&b, folder_path("runs/lost/summary.json"), 1 << 16));
    CHECK_OK(wr_u8(&b, 0));
    assert_non_null(strstr((const char *)b.p, "\"device\":\"a pretended GPU, bf16\""));
    buf_clear(&b);
}

static void test_no_device(void **state)
{
    simulate_result r, cpu;
    (void)state;
    setenv("SEFL_FAKE", "none", 1);
    CHECK_STATUS(run(&r, "without", "device=cuda", NULL), SEFL_ENOTFOUND);
    assert_string_equal(sefl_last_error(), "device cuda: no GPU was found");
    r = must("auto", "device=auto");
    assert_string_equal(r.device, "cpu");
    assert_string_equal(r.fallback, "no GPU was found");
    unsetenv("SEFL_FAKE");
    cpu = must("cpu", "");
    same(&r, &cpu);
    CHECK_STATUS(run(&r, "records",
                     "device=cuda privacy.unit=record privacy.records_max=5 training.steps=1",
                     NULL),
                 SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "device: cpu"));
}

/* A run does not continue on another device: its model would depend on where it was interrupted. */
static void test_other_device(void **state)
{
    simulate_result r;
    stop s = { .rounds = 1 };
    (void)state;
    setenv("SEFL_FAKE_SLOTS", "9", 1);
    CHECK_STATUS(run(&r, "moved", "device=auto precision=fp32", &s), SEFL_ECANCELLED);
    setenv("SEFL_FAKE", "none", 1);
    CHECK_STATUS(run(&r, "moved", "device=auto precision=fp32", NULL), SEFL_EEXIST);
    assert_non_null(strstr(sefl_last_error(), "was trained on a pretended GPU, fp32, but"));
    assert_non_null(strstr(sefl_last_error(), "would continue on cpu"));
    unsetenv("SEFL_FAKE");
    CHECK_OK(run(&r, "moved", "device=auto precision=fp32", NULL));
    assert_string_equal(r.device, "a pretended GPU, fp32");
}

/* Stops between two pieces of training. */
static void test_stop(void **state)
{
    simulate_result r, whole;
    (void)state;
    setenv("SEFL_FAKE_SLOTS", "9", 1);
    whole = must("unstopped", "device=cuda training.epochs=9");
    for (uint64_t at = 1; at < 4; at++) {
        stop s = { .at = at };
        CHECK_STATUS(run(&r, "stopped", "device=cuda training.epochs=9", &s), SEFL_ECANCELLED);
    }
    CHECK_OK(run(&r, "stopped", "device=cuda training.epochs=9", NULL));
    same(&whole, &r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_model),   cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_device_lost),  cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_other_device), cmocka_unit_test(test_stop),
    };
    setenv("SEFL_CUDA_PLUGIN", FAKE_ENGINE, 1);
    return runs_end(cmocka_run_group_tests(tests, folder_make_quick, folder_remove));
}

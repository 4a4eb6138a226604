/* The trainer hook alone, with real commands. */
#include "support/check.h"
#include "support/folder.h"

#include "base/clock.h"
#include "base/file.h"
#include "fed/hook.h"
#include "model/file/exchange.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VALUES = 5 };

static task t;
static const uint8_t me[32] = { 0xab, 0xcd };
static const float global[VALUES] = { 1, -2, 3.5F, 0, 0.25F };
static float got[VALUES];
static uint64_t weight;
static hook h = { .who = "client-07" };
static const char *words;
static sefl_progress progress;

static int make(void **state)
{
    snprintf(t.name, sizeof t.name, "wards");
    t.rounds = 9;
    CHECK_OK(layout_add(&t.layout, "w", 2, (uint32_t[]){ 2, 2 }, 1));
    CHECK_OK(layout_add(&t.layout, "b", 1, (uint32_t[]){ 1 }, 1));
    assert_int_equal(t.layout.dense, VALUES);
    return folder_make(state);
}

static int end(void **state)
{
    layout_clear(&t.layout);
    return folder_remove(state);
}

static sefl_status train(const char *command)
{
    const train_job job = {
        .task = &t, .round = 4, .theta = global, .client = me, .words = words, .progress = &progress
    };
    dense_round d = { .of = &job, .values = global, .count = VALUES };
    if (!h.folder) {
        static char state[512];
        snprintf(state, sizeof state, "%s", folder_path("state"));
        CHECK_OK(file_make_folder(state, 0700));
        h.folder = state;
    }
    h.command = command;
    weight = 70;
    memcpy(got, global, sizeof got);
    (void)hook_port(&h);
    return h.dense.train(h.dense.self, &d, got, &weight);
}

/* The files and folders in the state folder, except the log. */
static int left_over(void)
{
    int n = 0;
    DIR *d = opendir(folder_path("state"));
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.' && strncmp(e->d_name, "trainer.log", 11) != 0;
    closedir(d);
    return n;
}

static void expect_refusal(const char *command, const char *message)
{
    CHECK_STATUS(train(command), SEFL_ERANGE);
    assert_string_equal(sefl_last_error(), message);
    assert_int_equal(left_over(), 0);
}

static void a_command_trains(void **state)
{
    (void)state;
    char command[700];
    float trained[VALUES] = { 2, 4, 8, 16, -32 };
    CHECK_OK(train("cp \"$SEFL_MODEL\" \"$SEFL_OUT\""));
    assert_memory_equal(got, global, sizeof got);
    assert_int_equal(weight, 70);
    CHECK_OK(exchange_write(folder_path("trained"), &t.layout, trained));
    snprintf(command, sizeof command, "cp %s \"$SEFL_OUT\"", folder_path("trained"));
    CHECK_OK(train(command));
    assert_memory_equal(got, trained, sizeof got);
    assert_int_equal(left_over(), 0);
    tensor_out all[] = { { .name = "b", .rank = 1, .shape = { 1 }, .values = trained },
                         { .name = "w", .rank = 2, .shape = { 2, 2 }, .values = trained + 1 } };
    CHECK_OK(tensors_write(folder_path("trained"), all, 2, &(tensor_meta){ "weight", "12" }, 1));
    CHECK_OK(train(command));
    assert_int_equal(weight, 12);
    assert_true(got[0] == 4 && got[3] == -32 && got[4] == 2);
}

static void what_the_command_sees(void **state)
{
    (void)state;
    char want[1600], command[2000], text[512];
    folder_put("data.csv", "1,2\n", 4);
    setenv("SEFL_TEST_SECRET", "x", 1);
    static const char see[] =
        "for v in SEFL_ROUND SEFL_ROUNDS SEFL_TASK SEFL_CLIENT SEFL_TEXT SEFL_VOCAB; do "
        "eval \"echo $v=\\$$v\"; done > seen; "
        "env | sed 's/=.*//' | grep -v -e ^PWD -e ^_ -e ^SHLVL -e ^OLDPWD | sort | xargs >> seen;"
        "stat -c %a \"$(dirname \"$SEFL_OUT\")\" >> seen; cp \"$SEFL_MODEL\" \"$SEFL_OUT\"";
    snprintf(command, sizeof command, "cd -- '%s' || exit; %s", folder_path(""), see);
    snprintf(text, sizeof text, "%s", folder_path("data.csv"));
    for (int more = 0; more < 2; more++) {
        sefl_buf b = { 0 };
        h.text = words = more ? text : NULL;
        CHECK_OK(train(command));
        CHECK_OK(file_read(&b, folder_path("seen"), 4096));
        CHECK_OK(wr_u8(&b, 0));
        snprintf(want, sizeof want,
                 "SEFL_ROUND=4\nSEFL_ROUNDS=9\nSEFL_TASK=wards\nSEFL_CLIENT=client-07\n"
                 "SEFL_TEXT=%s\nSEFL_VOCAB=%s\n"
                 "HOME%s PATH SEFL_CLIENT SEFL_MODEL SEFL_OUT SEFL_ROUND SEFL_ROUNDS SEFL_TASK%s\n"
                 "700\n",
                 more ? text : "", more ? text : "", getenv("LANG") ? " LANG" : "",
                 more ? " SEFL_TEXT SEFL_VOCAB" : "");
        assert_string_equal((const char *)b.p, want);
        buf_clear(&b);
    }
    h.text = words = NULL;
}

static void refusals(void **state)
{
    (void)state;
    float bad[VALUES] = { 1, 2, 3, 4, 5 };
    char command[700];
    expect_refusal("true", "trainer: the command ended without writing $SEFL_OUT");
    expect_refusal("echo starts; echo no GPU >&2; exit 4",
                   "trainer: the command exited with 4; its last line: no GPU");
    expect_refusal("cp \"$SEFL_MODEL\" \"$SEFL_OUT\"; exit 1",
                   "trainer: the command exited with 1"); /* a half-written file is not used */
    h.timeout_s = 1;
    expect_refusal("echo epoch 1; sleep 60",
                   "trainer: the command did not end within 1 s; its last line: epoch 1");
    h.timeout_s = 0;
    bad[3] = (float)NAN;
    CHECK_OK(exchange_write(folder_path("bad"), &t.layout, bad));
    snprintf(command, sizeof command, "cp %s \"$SEFL_OUT\"", folder_path("bad"));
    CHECK_STATUS(train(command), SEFL_ERANGE);
    assert_string_equal(sefl_last_error(), "trainer: tensor \"w\": value 3 is not finite");
    CHECK_STATUS(train("echo hello world > \"$SEFL_OUT\""), SEFL_ERANGE);
    assert_non_null(strstr(sefl_last_error(), "not a safetensors file"));
    CHECK_STATUS(train("mkdir \"$SEFL_OUT\""), SEFL_ERANGE);
    CHECK_STATUS(train("mkfifo \"$SEFL_OUT\""), SEFL_ERANGE);
    CHECK_STATUS(train("ln -s /dev/zero \"$SEFL_OUT\""), SEFL_ERANGE);
    assert_int_equal(left_over(), 0);
}

static bool no(void *self, uint64_t done, uint64_t total)
{
    (void)self, (void)done, (void)total;
    return false;
}

static void a_stop_is_no_refusal(void **state)
{
    (void)state;
    uint64_t began = clock_now_ns();
    progress.report = no;
    CHECK_STATUS(train("sleep 60"), SEFL_ECANCELLED);
    progress.report = NULL;
    assert_true(clock_since(began) < 30);
    assert_int_equal(left_over(), 0);
}

static void the_log_is_kept_and_turned_over(void **state)
{
    (void)state;
    sefl_buf b = { 0 };
    struct stat sb;
    char log[512], old[520];
    snprintf(log, sizeof log, "%s", folder_path("state/trainer.log"));
    snprintf(old, sizeof old, "%s.1", log);
    unlink(log);
    CHECK_STATUS(train("echo one"), SEFL_ERANGE);
    CHECK_STATUS(train("echo two"), SEFL_ERANGE);
    CHECK_OK(file_read(&b, log, 4096));
    CHECK_OK(wr_u8(&b, 0));
    assert_string_equal((const char *)b.p, "---- task wards, round 4, client-07\none\n"
                                           "---- task wards, round 4, client-07\ntwo\n");
    buf_clear(&b);
    assert_int_not_equal(stat(old, &sb), 0);
    assert_int_equal(truncate(log, HOOK_LOG), 0);
    CHECK_STATUS(train("echo three"), SEFL_ERANGE);
    assert_int_equal(stat(old, &sb), 0);
    assert_int_equal(sb.st_size, HOOK_LOG);
    CHECK_OK(file_read(&b, log, 4096));
    CHECK_OK(wr_u8(&b, 0));
    assert_string_equal((const char *)b.p, "---- task wards, round 4, client-07\nthree\n");
    buf_clear(&b);
}

static void hook_open_removes_what_a_killed_process_left(void **state)
{
    (void)state;
    CHECK_OK(file_make_folder(folder_path("state/trainer-abcdef"), 0700));
    folder_put("state/trainer-abcdef/out.safetensors", "x", 1);
    assert_int_equal(left_over(), 1);
    CHECK_OK(hook_open(&h));
    assert_int_equal(left_over(), 0);
    hook none = { .folder = folder_path("nowhere") };
    CHECK_STATUS(hook_open(&none), SEFL_EIO);
}

static void faults(void **state)
{
    (void)state;
    TEST_FAULTS(FAULT_ALLOC, st = train("cp \"$SEFL_MODEL\" \"$SEFL_OUT\""), (void)0);
    assert_int_equal(left_over(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_trains),
        cmocka_unit_test(what_the_command_sees),
        cmocka_unit_test(refusals),
        cmocka_unit_test(a_stop_is_no_refusal),
        cmocka_unit_test(the_log_is_kept_and_turned_over),
        cmocka_unit_test(hook_open_removes_what_a_killed_process_left),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, make, end);
}

#include "support/check.h"
#include "support/folder.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const env[] = { "PATH=/usr/bin:/bin", "WORD=a b", NULL };

static const char *log_file(void)
{
    return folder_path("log");
}

static sefl_status run(const char *command, uint64_t timeout_ms)
{
    return child_run(&(child_job){
        .command = command, .environment = env, .log = log_file(), .timeout_ms = timeout_ms });
}

static sefl_buf text;

/* The whole log; the next call replaces it. */
static const char *said(void)
{
    buf_clear(&text);
    CHECK_OK(file_read(&text, log_file(), 4 * CHILD_LOG));
    CHECK_OK(wr_u8(&text, 0));
    return (const char *)text.p;
}

static void expect_log(const char *command, const char *want)
{
    unlink(log_file());
    CHECK_OK(run(command, 0));
    assert_string_equal(said(), want);
}

static void expect_error(const char *part)
{
    if (!strstr(sefl_last_error(), part))
        fail_msg("\"%s\" is not in: %s", part, sefl_last_error());
}

static bool lives(long pid)
{
    char path[64];
    sefl_buf b = { 0 };
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    bool there = file_read(&b, path, 4096) == SEFL_OK && wr_u8(&b, 0) == SEFL_OK &&
                 !strstr((const char *)b.p, ") Z ");
    buf_clear(&b);
    return there;
}

/* Each line of the log is the number of a process, which must end. */
static void expect_gone(int processes)
{
    const char *p = said();
    char *end;
    for (int i = 0; i < processes; i++, p = end) {
        long pid = strtol(p, &end, 10);
        assert_true(end > p && pid > 1);
        for (int k = 0; k < 250 && lives(pid); k++)
            clock_pause_ms(20);
        assert_false(lives(pid));
    }
}

static void output_and_environment(void **state)
{
    (void)state;
    struct stat sb;
    expect_log("echo \"$WORD\"; echo two >&2", "a b\ntwo\n");
    assert_int_equal(stat(log_file(), &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    CHECK_OK(run("echo three", 0)); /* appends */
    assert_string_equal(said(), "a b\ntwo\nthree\n");
    assert_int_equal(setenv("SEFL_TEST_SECRET", "x", 1), 0);
    expect_log("env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= | sort",
               "PATH=/usr/bin:/bin\nWORD=a b\n");
    expect_log("cat", ""); /* its input is empty */
    expect_log("umask; ulimit -c", "0077\n0\n");
    CHECK_OK(child_run(&(child_job){ .command = "echo dropped", .environment = env }));
}

static void no_descriptor_is_inherited(void **state)
{
    (void)state;
    char command[64];
    int low = open(folder_path("secret"), O_WRONLY | O_CREAT, 0600); /* without O_CLOEXEC */
    int high = fcntl(low, F_DUPFD, 200);
    assert_true(low >= 3 && high >= 200);
    expect_log("ls /proc/self/fd | wc -l", "4\n"); /* 0, 1, 2 and the folder itself */
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "echo x > /proc/self/fd/%d", i ? high : low);
        CHECK_STATUS(run(command, 0), SEFL_ESTATE);
    }
    struct stat sb;
    assert_int_equal(fstat(low, &sb), 0);
    assert_int_equal(sb.st_size, 0);
    close(high);
    close(low);
}

static void a_failure_quotes_the_last_line(void **state)
{
    (void)state;
    CHECK_STATUS(run("echo one; printf '\\033[1mno GPU\\there  \\n\\n'; exit 3", 0), SEFL_ESTATE);
    assert_string_equal(sefl_last_error(),
                        "the command exited with 3; its last line: [1mno GPU here");
    CHECK_STATUS(run("exit 1", 0), SEFL_ESTATE);
    assert_string_equal(sefl_last_error(), "the command exited with 1");
    CHECK_STATUS(run("printf half; kill -9 $$", 0), SEFL_ESTATE);
    assert_string_equal(sefl_last_error(),
                        "the command was killed by signal 9 (KILL); its last line: half");
    CHECK_STATUS(run("/no/such/program", 0), SEFL_ESTATE);
    expect_error("the command exited with 127; its last line: ");
    expect_error("/no/such/program");
    CHECK_STATUS(child_run(&(child_job){
                     .command = "true", .environment = env, .log = folder_path("no/log") }),
                 SEFL_EIO);
}

static void the_time_limit_ends_it(void **state)
{
    (void)state;
    uint64_t began = clock_now_ns();
    unlink(log_file());
    CHECK_STATUS(run("echo $$; sleep 100; true", 200), SEFL_ETIMEOUT);
    expect_error("the command did not end within 0.2 s; its last line: ");
    assert_true(clock_since(began) < 60);
    expect_gone(1);
    CHECK_OK(run("true", 60000));
}

/* Neither a process that ignores SIGTERM nor its children survive. */
static void the_whole_group_is_killed(void **state)
{
    (void)state;
    uint64_t began = clock_now_ns();
    unlink(log_file());
    CHECK_STATUS(run("trap '' TERM; sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' &"
                     " echo $$; while :; do sleep 1; done",
                     500),
                 SEFL_ETIMEOUT);
    assert_true(clock_since(began) >= (CHILD_GRACE_MS + 500) / 1000.0);
    assert_true(clock_since(began) < 60);
    expect_gone(2);
    /* SIGTERM comes first: a command may clean up */
    unlink(log_file());
    CHECK_STATUS(run("trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.1; done", 500),
                 SEFL_ETIMEOUT);
    assert_non_null(strstr(said(), "cleaned\n")); /* after the shell's line about sleep */
}

static void what_it_leaves_behind_is_killed(void **state)
{
    (void)state;
    unlink(log_file());
    CHECK_OK(run("sleep 100 & echo $!; sh -c 'sleep 100 & echo $!'", 0));
    expect_gone(2);
}

/* A process that left the group keeps the pipe; child_run does not wait for it. */
static void a_process_outside_the_group_does_not_block(void **state)
{
    (void)state;
    uint64_t began = clock_now_ns();
    unlink(log_file());
    CHECK_OK(run("setsid sh -c 'while :; do echo x; done' & sleep 0.3", 0));
    assert_true(clock_since(began) < 60);
}

static bool countdown(void *self, uint64_t done, uint64_t total)
{
    int *left = self;
    assert_true(done == 0 && total == 0);
    return --*left > 0;
}

static void alive_stops_it(void **state)
{
    (void)state;
    int left = 3;
    unlink(log_file());
    CHECK_STATUS(child_run(&(child_job){ .command = "echo $$; sleep 100",
                                         .environment = env,
                                         .log = log_file(),
                                         .alive = &(sefl_progress){ countdown, &left } }),
                 SEFL_ECANCELLED);
    assert_int_equal(left, 0);
    expect_gone(1);
}

/* kill -9 of this process leaves no command behind. */
static void it_dies_with_its_parent(void **state)
{
    (void)state;
    unlink(log_file());
    pid_t parent = fork();
    if (parent == 0)
        _exit(run("sleep 100 & echo $$ $!; sleep 100; true", 0) != SEFL_OK);
    assert_true(parent > 0);
    struct stat sb;
    for (int i = 0; i < 500 && (stat(log_file(), &sb) != 0 || sb.st_size == 0); i++)
        clock_pause_ms(20);
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    expect_gone(2); /* the shell, and what it started */
}

static void the_log_is_bounded(void **state)
{
    (void)state;
    unlink(log_file());
    CHECK_STATUS(run("echo begin; yes 0123456789 | head -c 5000006; echo the end; exit 1", 0),
                 SEFL_ESTATE);
    expect_error("its last line: the end");
    const char *log = said();
    size_t n = strlen(log);
    assert_true(n > CHILD_LOG && n < CHILD_LOG + 100);
    assert_memory_equal(log, "begin\n0123456789\n", 17);
    assert_string_equal(log + n - 8, "the end\n");
    const char *gap = strstr(log, "\n... ");
    assert_non_null(gap);
    assert_int_equal(gap - log, CHILD_LOG / 2);
    char want[64];
    snprintf(want, sizeof want, "\n... %d bytes are missing here ...\n",
             6 + 5000006 + 8 - CHILD_LOG);
    assert_memory_equal(gap, want, strlen(want));
    /* endless output does not stop the clock */
    CHECK_STATUS(run("yes", 300), SEFL_ETIMEOUT);
    /* exactly at the borders nothing is lost */
    for (int more = -1; more <= 1; more++)
        for (int half = 1; half <= 2; half++) {
            char command[64];
            int bytes = half * CHILD_LOG / 2 + more;
            snprintf(command, sizeof command, "yes abcdefg | head -c %d", bytes);
            unlink(log_file());
            CHECK_OK(run(command, 0));
            log = said();
            if (bytes <= CHILD_LOG)
                assert_int_equal(strlen(log), bytes);
            for (int i = 0; i < bytes && bytes <= CHILD_LOG; i++)
                if (log[i] != "abcdefg\n"[i % 8])
                    fail_msg("byte %d of %d differs", i, bytes);
        }
}

static void memory_is_limited(void **state)
{
    (void)state;
    if (getenv("SEFL_EMULATOR")) /* qemu-user sets no limit of the address space */
        skip();
    child_job j = { .command = "ulimit -v", .environment = env, .log = log_file() };
    unlink(log_file());
    j.memory_bytes = UINT64_C(1) << 27;
    CHECK_OK(child_run(&j));
    assert_string_equal(said(), "131072\n");
    j.command = "head -c 500000000 /dev/zero | tail > /dev/null; exit 1"; /* tail keeps one line */
    CHECK_STATUS(child_run(&j), SEFL_ESTATE);
    expect_error("memory exhausted");
}

static void allocation_failures(void **state)
{
    (void)state;
    TEST_FAULTS(FAULT_ALLOC, st = run("true", 0), (void)0);
}

static int end_all(void **state)
{
    buf_clear(&text);
    return folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_and_environment),
        cmocka_unit_test(no_descriptor_is_inherited),
        cmocka_unit_test(a_failure_quotes_the_last_line),
        cmocka_unit_test(the_time_limit_ends_it),
        cmocka_unit_test(the_whole_group_is_killed),
        cmocka_unit_test(what_it_leaves_behind_is_killed),
        cmocka_unit_test(a_process_outside_the_group_does_not_block),
        cmocka_unit_test(alive_stops_it),
        cmocka_unit_test(it_dies_with_its_parent),
        cmocka_unit_test(the_log_is_bounded),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, folder_make, end_all);
}

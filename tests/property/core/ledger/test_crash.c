/* kill -9 between any two system calls of a charge. A child opens the ledger, charges, and then
 * "releases" by appending to a second file; the parent follows it with ptrace(2) and kills it at
 * the n-th stop (each system call stops twice: before and after), for every n. Whatever n:
 *   - a release implies a charge in the ledger as the next process opens it;
 *   - the next process can always go on, and charging the same round again adds at most once.
 * The same trace shows the order of system calls: between the last write to the ledger and the
 * first byte of the release there is an fsync of the ledger that succeeded (kill -9 keeps the page
 * cache; this is what a power cut would need). */
#include "support/check.h"

#include "base/file.h"
#include "store/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64], path[96], released[96];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "%s/sefl-crash-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/ledger", dir);
    snprintf(released, sizeof released, "%s/released", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    unlink(released);
    return rmdir(dir);
}

/* independent noise, and correlated noise in a server's ledger and in a client's */
static const ledger_terms kinds[] = {
    { .task = { 1 },
      .noise = DP_NOISE_DISCRETE,
      .z = 8,
      .rate = 1,
      .sigma_steps = 38662,
      .epsilon_max = 50,
      .delta = 1e-6 },
    { .task = { 2 },
      .noise = DP_NOISE_JOINT,
      .z = 8,
      .rate = 1,
      .dim = 1000,
      .max_rounds_per_client = 4,
      .epsilon_max = 50,
      .delta = 1e-6,
      .separation = 2,
      .filter = { 1, { 3000 } },
      .units = 0x1p39 },
    { .task = { 3 },
      .noise = DP_NOISE_JOINT,
      .z = 8,
      .rate = 1,
      .dim = 1000,
      .epsilon_max = 50,
      .delta = 1e-6,
      .filter = { 1, { 3000 } },
      .horizon = 9,
      .units = 0x1p39 },
};
static ledger_terms terms;

enum { RELEASE_FD = 77 };

/* in the child */
static void charge_and_release(uint64_t round)
{
    ledger *l = NULL;
    int fd = open(released, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (fd < 0 || dup2(fd, RELEASE_FD) != RELEASE_FD)
        _exit(3);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(4);
    raise(SIGSTOP);
    if (ledger_open(&l, path, "people", NULL) != SEFL_OK)
        _exit(5);
    if (ledger_charge(l, &terms, round, NULL) != SEFL_OK)
        _exit(6);
    uint8_t byte = (uint8_t)round;
    if (write(RELEASE_FD, &byte, 1) != 1)
        _exit(7);
    ledger_close(l);
    _exit(0);
}

typedef struct trace {
    bool dirty;          /* a write to the ledger not followed by a good fsync */
    bool wrote;          /* at all */
    uint64_t ledger_fd;  /* the descriptor of those writes */
    bool released_dirty; /* a release began while dirty */
    unsigned stops;
} trace;

static void look_at(trace *t, pid_t pid, struct __ptrace_syscall_info *entry)
{
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof info, &info) <= 0)
        return;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        *entry = info;
        bool writes = info.entry.nr == SYS_write;
        if (writes && info.entry.args[0] == RELEASE_FD)
            t->released_dirty |= t->dirty || !t->wrote;
        else if (writes || info.entry.nr == SYS_ftruncate)
            t->dirty = t->wrote = true, t->ledger_fd = info.entry.args[0];
    } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && entry->op == PTRACE_SYSCALL_INFO_ENTRY &&
               entry->entry.nr == SYS_fsync && entry->entry.args[0] == t->ledger_fd &&
               info.exit.rval == 0) {
        t->dirty = false;
    }
}

/* Runs the child and kills it at stop number `at`; false when it ended by itself before. */
static bool run_and_kill(uint64_t round, unsigned at, trace *t)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        charge_and_release(round);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 4) {
        print_message("ptrace is not allowed here: skipped\n");
        skip();
    }
    assert_true(WIFSTOPPED(status));
    assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD), 0);
    struct __ptrace_syscall_info entry = { 0 };
    *t = (trace){ 0 };
    for (;; t->stops++) {
        if (t->stops == at) {
            kill(pid, SIGKILL);
            assert_int_equal(waitpid(pid, &status, 0), pid);
            return true;
        }
        assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            return false;
        }
        look_at(t, pid, &entry);
    }
}

/* What rounds 1 .. n cost. */
static double cost(uint64_t n)
{
    const uint64_t rounds[] = { 1, 2 };
    const uint64_t until = terms.horizon ? terms.horizon : n;
    const double slack = dp_filter_slack(&terms.filter, until, terms.dim, terms.z, terms.units);
    dp_event ev = { .noise = terms.noise, .z = terms.z, .rate = 1, .count = n };
    dp_claim c;
    ev.sigma_steps = terms.sigma_steps, ev.dim = terms.dim;
    if (terms.filter.b > 0)
        ev = dp_filter_event(&ev,
                             (terms.horizon ? dp_filter_s_of(&terms.filter, until, rounds, n)
                                            : dp_filter_s(&terms.filter, n, &(dp_turns){ 4, 2 })) +
                                 slack,
                             until);
    CHECK_OK(dp_epsilon(&c, &ev, 1, &(dp_question){ .delta = terms.delta }));
    return c.epsilon;
}

static void killed_anywhere(void **state)
{
    (void)state;
    unsigned kills = 0, lost_nothing = 0;
    CHECK_OK(ledger_create(path, "people"));
    for (uint64_t round = 1; round <= 2; round++) /* the first charge also brings the task */
        for (unsigned at = 0;; at++) {
            trace t;
            unlink(path);
            unlink(released);
            CHECK_OK(ledger_create(path, "people"));
            ledger *l = NULL;
            if (round == 2) {
                CHECK_OK(ledger_open(&l, path, "people", NULL));
                CHECK_OK(ledger_charge(l, &terms, 1, NULL));
                ledger_close(l);
            }
            bool killed = run_and_kill(round, at, &t);
            assert_false(t.released_dirty);
            sefl_buf out = { 0 };
            CHECK_OK(file_read(&out, released, 100));
            CHECK_OK(ledger_open(&l, path, "people", NULL));
            if (out.n > 0) {
                assert_true(ledger_has(l, terms.task, round));
                lost_nothing++;
            }
            /* goes on: once more is the same charge */
            CHECK_OK(ledger_charge(l, &terms, round, NULL));
            ledger_total total;
            CHECK_OK(ledger_spent(l, 0, &total));
            assert_int_equal(total.rounds, round);
            assert_true(fabs(total.server.epsilon - cost(round)) < 1e-9);
            ledger_close(l);
            buf_clear(&out);
            if (!killed) {
                assert_true(t.wrote && t.stops > 12);
                break;
            }
            kills++;
        }
    print_message("killed at %u points; %u times the release was out\n", kills, lost_nothing);
    assert_true(kills > 24 && lost_nothing >= 2 && lost_nothing < kills);
}

static void every_kind(void **state)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        terms = kinds[i];
        unlink(path);
        killed_anywhere(state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_kind) };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* CSP's journal of a sealed round, killed at any system call. A child runs two rounds (key, header,
 * set, charge, reveal, wipe, what CSP keeps for correlated noise, the next round, a voucher, a skip,
 * the end of what CSP kept) and acknowledges each step through
 * a pipe; the parent follows it with ptrace(2) and kills it at the n-th stop: a seeded sample of n,
 * every n under SEFL_SOAK. The next process finds:  - everything that was acknowledged, and all or
 * nothing of the interrupted step;  - the key of a round that is new or signed, never the key of a
 * revealed or skipped round;  - no obstacle to the rest of both rounds. */
#include "support/check.h"
#include "support/csp_desk.h"
#include "support/folder.h"
#include "support/store_place.h"

#include "base/alloc.h"
#include "base/file.h"

#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ACK_FD = 77, KEPT = 3, REFUSED = 2 };

static char folder[300], book[320];
static const uint8_t kem_1[CSP_KEY_BYTES] = { 1 }, kem_2[CSP_KEY_BYTES] = { 2 };
static const uint8_t id[NOISE_ID] = { 3 }, upload[32] = { 5 };
static round_entry kept[KEPT];
static head_refusal refused[REFUSED];
static csp_set set;

/* ---- the work ------------------------------------------------------------------------------- */

static sefl_status desk_open(desk *d)
{
    task t = desk_task();
    return desk_open_task(d, folder, book, &t);
}

typedef enum step {
    OPEN_DESK,
    KEY_1,
    SIGN_1,
    SET_1,
    CHARGE_1,
    OPEN_1,
    WIPE_1,
    KEEP_1,
    KEY_2,
    SIGN_2,
    FORGET_1,
    VOUCHER,
    SKIP_2,
    WIPE_2,
    HISTORY_1,
    STEPS
} step;

static sefl_status do_step(desk *d, step k)
{
    void *x = d->t.ctx;
    csp_round one = signed_round(1), two = signed_round(2);
    switch (k) {
    case OPEN_DESK:
        return desk_open(d);
    case KEY_1:
        return csp_store_key_make(&d->t, 1, kem_1);
    case SIGN_1:
        return csp_store_sign(&d->t, &one);
    case SET_1:
        return csp_store_set_put(&d->t, 1, &set);
    case CHARGE_1:
        return csp_store_charge(&d->t, 1);
    case OPEN_1:
        return desk_reveal(&d->t, 1, id, "output");
    case WIPE_1:
        return csp_store_key_wipe(&d->t, 1);
    case KEEP_1: /* the output has left */
        return d->t.put(x, CSP_HISTORY, 1, span_of_str("history"));
    case KEY_2:
        return csp_store_key_make(&d->t, 2, kem_2);
    case SIGN_2:
        return csp_store_sign(&d->t, &two);
    case FORGET_1:
        return csp_store_forget(&d->t, 1);
    case VOUCHER:
        return d->t.voucher_put(x, kept[0].client, 7, upload);
    case SKIP_2:
        return csp_store_skip(&d->t, 2, 1);
    case WIPE_2:
        return csp_store_key_wipe(&d->t, 2);
    default: /* round 2 is over, and b = 1 */
        return d->t.history_keep(x, 2, 1);
    }
}

/* In the child. */
static void work(void)
{
    desk d;
    for (step k = OPEN_DESK; k < STEPS; k++) {
        if (do_step(&d, k) != SEFL_OK) {
            fprintf(stderr, "step %d: %s\n", k, sefl_last_error());
            _exit(6);
        }
        uint8_t done = (uint8_t)k;
        if (write(ACK_FD, &done, 1) != 1)
            _exit(7);
    }
    desk_close(&d);
    _exit(0);
}

/* ---- what the next process finds -------------------------------------------------------------- */

/* Checks whether the effect of step k is there, and whether it may (not) be. acked: number of
 * acknowledged steps. */
static void all_or_nothing(const char *what, step k, size_t acked, bool there)
{
    if (there ? k > acked : k < acked)
        fail_msg("%s is %sthere after %zu steps", what, there ? "" : "not ", acked);
}

static void check_set(desk *d, size_t acked)
{
    csp_set got = { 0 };
    sefl_status st = csp_store_set_get(&d->t, 1, &got);
    assert_true(st == SEFL_OK || st == SEFL_ENOTFOUND);
    all_or_nothing("the set", SET_1, acked, st == SEFL_OK);
    if (st == SEFL_OK) {
        assert_true(got.kept_n == KEPT && got.refused_n == REFUSED && got.clients == 5);
        assert_memory_equal(got.kept, kept, sizeof kept);
        for (int i = 0; i < REFUSED; i++)
            assert_true(got.refused[i].index == refused[i].index &&
                        got.refused[i].reason == refused[i].reason);
    }
    csp_set_clear(&got);
}

static void check_key(desk *d, uint64_t round, csp_round_state state, const uint8_t *want,
                      step made, size_t acked)
{
    uint8_t got[CSP_KEY_BYTES];
    char path[400];
    sefl_status st = csp_store_key_get(&d->t, round, got);
    assert_true(st == SEFL_OK || st == SEFL_ENOTFOUND);
    if (st == SEFL_OK)
        assert_memory_equal(got, want, sizeof got);
    if (state == CSP_REVEALED || state == CSP_SKIPPED) {
        assert_int_equal(st, SEFL_ENOTFOUND);
        snprintf(path, sizeof path, "%s/task-1/round-%llu.kem", folder, (unsigned long long)round);
        assert_false(file_exists(path));
    } else {
        all_or_nothing("a key", made, acked, st == SEFL_OK);
    }
}

/* What CSP keeps for later rounds is there whole or not at all, and survives the wipe of its round
 * until it is destroyed; then no byte of it is left. */
static void check_history(desk *d, size_t acked)
{
    sefl_buf b = { 0 };
    char path[400];
    sefl_status st = d->t.get(d->t.ctx, CSP_HISTORY, 1, &b);
    snprintf(path, sizeof path, "%s/task-1/round-1.past", folder);
    assert_true(st == SEFL_OK || st == SEFL_ENOTFOUND);
    if (acked < HISTORY_1)
        all_or_nothing("what CSP keeps", KEEP_1, acked, st == SEFL_OK);
    if (acked > HISTORY_1) {
        assert_int_equal(st, SEFL_ENOTFOUND);
        assert_false(file_exists(path));
    }
    if (st == SEFL_OK)
        assert_true(b.n == 7 && memcmp(b.p, "history", 7) == 0);
    buf_clear(&b);
}

static void check(size_t acked)
{
    desk d;
    csp_round one, two;
    uint64_t serial = 0, taken = 9;
    uint8_t key[32], out_id[NOISE_ID], out_digest[32];
    bool charged;
    sefl_buf output = { 0 };
    CHECK_OK(desk_open(&d));
    void *x = d.t.ctx;
    CHECK_OK(csp_store_get(&d.t, 1, &one));
    CHECK_OK(csp_store_get(&d.t, 2, &two));
    all_or_nothing("header 1", SIGN_1, acked, one.state != CSP_NEW);
    all_or_nothing("header 2", SIGN_2, acked, two.state != CSP_NEW);
    all_or_nothing("the mark", OPEN_1, acked, one.state == CSP_REVEALED);
    all_or_nothing("the skip", SKIP_2, acked, two.state == CSP_SKIPPED);
    assert_true(one.state != CSP_SKIPPED && two.state != CSP_REVEALED);
    assert_true(one.state == CSP_NEW || one.signed_ms == 1001);
    check_key(&d, 1, one.state, kem_1, KEY_1, acked);
    check_key(&d, 2, two.state, kem_2, KEY_2, acked);
    check_set(&d, acked);
    check_history(&d, acked);
    CHECK_OK(account_has(d.a, 1, &charged));
    all_or_nothing("the charge", CHARGE_1, acked, charged);
    if (one.state == CSP_REVEALED) {
        sefl_status st = csp_store_kept(&d.t, 1, out_id, &output, out_digest);
        if (two.state == CSP_NEW) { /* else the next header was sent, and it may be erased */
            CHECK_OK(st);
            assert_int_equal(output.n, 6);
            assert_memory_equal(output.p, "output", 6);
        }
        uint64_t last;
        CHECK_OK(d.t.taken(x, kept[0].client, &taken, &last));
        assert_true(taken == 1 && last == 1);
    }
    sefl_status st = d.t.voucher_get(x, kept[0].client, &serial, key);
    all_or_nothing("the voucher", VOUCHER, acked, st == SEFL_OK);
    assert_true(st != SEFL_OK || (serial == 7 && memcmp(key, upload, 32) == 0));

    /* continues to the end; finished steps are not repeated */
    for (step k = KEY_1; k < STEPS; k++) {
        csp_set got = { 0 };
        bool is_done =
            (k == KEY_1 && one.state != CSP_NEW) || (k == SIGN_1 && one.state != CSP_NEW) ||
            (k == SET_1 && csp_store_set_get(&d.t, 1, &got) == SEFL_OK) ||
            (k == OPEN_1 && one.state == CSP_REVEALED) || (k == KEY_2 && two.state != CSP_NEW) ||
            (k == SIGN_2 && two.state != CSP_NEW) || (k == SKIP_2 && two.state == CSP_SKIPPED);
        if (!is_done)
            CHECK_OK(do_step(&d, k));
        csp_set_clear(&got);
    }
    csp_highest top;
    CHECK_OK(csp_store_highest(&d.t, &top));
    assert_true(top.header == 2 && top.revealed == 1 && top.skipped == 2);
    desk_close(&d);
    buf_clear(&output);
}

/* ---- killing ------------------------------------------------------------------------------------ */

static pid_t start(int *acks)
{
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fd[0]);
        if (dup2(fd[1], ACK_FD) != ACK_FD)
            _exit(3);
        close(fd[1]);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(4);
        raise(SIGSTOP);
        work();
    }
    close(fd[1]);
    *acks = fd[0];
    return pid;
}

/* Runs the child and kills it at its stop number `at`; false when it ended before. */
static bool run_and_kill(unsigned at, size_t *acked)
{
    int status, acks;
    bool killed = false;
    pid_t pid = start(&acks);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 4) {
        print_message("ptrace is not allowed here: skipped\n");
        close(acks);
        skip();
    }
    assert_true(WIFSTOPPED(status));
    for (unsigned stops = 0;; stops++) {
        if (stops == at) {
            killed = true;
            kill(pid, SIGKILL);
            assert_int_equal(waitpid(pid, &status, 0), pid);
            break;
        }
        assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            break;
        }
    }
    *acked = 0;
    for (uint8_t byte; read(acks, &byte, 1) == 1; ++*acked)
        assert_int_equal(byte, *acked);
    close(acks);
    return killed;
}

static bool one_kill(unsigned at, size_t *acked)
{
    char name[32];
    snprintf(name, sizeof name, "at-%u", at);
    snprintf(folder, sizeof folder, "%s", folder_path(name));
    snprintf(book, sizeof book, "%s.ledger", folder);
    CHECK_OK(ledger_create(book, "people"));
    bool killed = run_and_kill(at, acked);
    check(*acked);
    return killed;
}

static void killed_at_system_calls(void **state)
{
    (void)state;
    seeded g;
    unsigned long every = test_count(store_is_pg() ? 37 : 11, 1), kills = 0;
    size_t acked = 0, steps_hit = 0;
    bool hit[STEPS + 1] = { false };
    test_seed(&g, "csp journal kill");
    for (unsigned at = (unsigned)seeded_below(&g, every); one_kill(at, &acked);
         at += (unsigned)every) {
        kills++;
        steps_hit += !hit[acked];
        hit[acked] = true;
    }
    assert_int_equal(acked, STEPS);
    print_message("%lu kills, between %zu of %d steps\n", kills, steps_hit, STEPS + 1);
    assert_true(kills >= 20 && steps_hit >= 8);
}

static int begin(void **state)
{
    for (int i = 0; i < KEPT; i++)
        kept[i].client[0] = kept[i].body[1] = (uint8_t)(i + 1);
    refused[0] = (head_refusal){ .index = 0, .reason = HEAD_FORM };
    refused[1] = (head_refusal){ .index = 4, .reason = HEAD_SEAL };
    set = (csp_set){ .digest = { 8 },
                     .root = { 9 },
                     .clients = KEPT + REFUSED,
                     .kept_n = KEPT,
                     .refused_n = REFUSED,
                     .kept = kept,
                     .refused = refused };
    return folder_make_quick(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(killed_at_system_calls) };
    return cmocka_run_group_tests(tests, begin, folder_remove);
}

/* There are two processes. The guard is a copy of this one: it leads the group, waits for the
 * command and ends as the command ended. The system signals the guard when the caller's thread
 * dies, and the guard then kills the group: a signal for the command would reach only the shell.
 *
 * Invariants
 * 1. The guard, and the command before exec, call only async-signal-safe functions and allocate
 *    nothing: another thread may have held any lock when this process was copied.
 * 2. The leader of the group is reaped last. As long as it is a zombie, the system gives its number
 *    to no other process, so kill(-group) reaches this group or nobody. */
#define _GNU_SOURCE
#include "base/child.h"

#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HALF = CHILD_LOG / 2, LINE = 200, NOT_STARTED = 127 };
/* Tells the guard that the caller died. No program sends this signal to its group, and qemu-user
 * cannot deliver the two above it. */
#define CALLER_DIED (SIGRTMAX - 2)

/* ---- its output ------------------------------------------------------------------------------ */

/* The output of one run: the first HALF bytes go to the file at once, the last HALF wait in `tail`
 * (a ring) for the end. */
typedef struct output {
    int from, file; /* -1: closed; no file */
    uint64_t bytes; /* all bytes so far */
    sefl_buf tail;
    char line[LINE], last[LINE]; /* the current line, the last line that was not blank */
    size_t used;
} output;

static void end_line(output *o)
{
    while (o->used > 0 && o->line[o->used - 1] == ' ')
        o->used--;
    if (o->used > 0) {
        memcpy(o->last, o->line, o->used);
        o->last[o->used] = 0;
    }
    o->used = 0;
}

/* Control characters would let the command forge lines in a terminal. */
static void follow_lines(output *o, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n')
            end_line(o);
        else if (o->used < LINE - 1 && (o->used > 0 || p[i] > ' '))
            o->line[o->used++] = p[i] < ' ' || p[i] == 127 ? ' ' : (char)p[i];
    }
}

static void child_put(const output *o, const void *p, size_t n)
{
    if (o->file >= 0 && n > 0)
        (void)!file_write_all(o->file, span_of(p, n)); /* child.h: does not stop the command */
}

static void keep(output *o, const uint8_t *p, size_t n)
{
    follow_lines(o, p, n);
    for (size_t done = 0; done < n;) {
        size_t piece = n - done;
        if (o->bytes < HALF) {
            piece = piece < HALF - o->bytes ? piece : (size_t)(HALF - o->bytes);
            child_put(o, p + done, piece);
        } else {
            size_t at = (size_t)(o->bytes % HALF);
            piece = piece < HALF - at ? piece : HALF - at;
            memcpy(o->tail.p + at, p + done, piece);
        }
        o->bytes += piece;
        done += piece;
    }
}

/* Reads what the pipe holds, at most `most` bytes; closes it at its end. */
static void drain(output *o, size_t most)
{
    uint8_t piece[1 << 14];
    for (size_t got = 0; o->from >= 0 && got < most;) {
        ssize_t n = read(o->from, piece, sizeof piece);
        if (n > 0) {
            keep(o, piece, (size_t)n);
            got += (size_t)n;
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && errno == EAGAIN) {
            break;
        } else {
            close(o->from);
            o->from = -1;
        }
    }
}

static void end_output(output *o)
{
    char gap[80];
    size_t at = (size_t)(o->bytes % HALF);
    end_line(o);
    if (o->bytes > 2 * HALF) {
        int n = snprintf(gap, sizeof gap, "\n... %llu bytes are missing here ...\n",
                         (unsigned long long)(o->bytes - 2 * HALF));
        child_put(o, gap, (size_t)n);
        child_put(o, o->tail.p + at, HALF - at);
        child_put(o, o->tail.p, at);
    } else if (o->bytes > HALF) {
        child_put(o, o->tail.p, at > 0 ? at : HALF);
    }
    if (o->from >= 0)
        close(o->from);
    if (o->file >= 0)
        close(o->file);
    buf_clear(&o->tail);
}

static sefl_status begin_output(output *o, const child_job *j, int *to)
{
    int ends[2];
    uint8_t *ring;
    *o = (output){ .from = -1, .file = -1 };
    SEFL_PASS(buf_extend(&o->tail, &ring, HALF));
    SEFL_NEED(pipe2(ends, O_CLOEXEC) == 0, SEFL_EIO, "cannot make a pipe: %s", strerror(errno));
    o->from = ends[0];
    *to = ends[1];
    (void)fcntl(o->from, F_SETFL, O_NONBLOCK);
    if (j->log) {
        o->file = open(j->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
        SEFL_NEED(o->file >= 0, SEFL_EIO, "cannot open %s: %s", j->log, strerror(errno));
    }
    return SEFL_OK;
}

/* ---- the child process ----------------------------------------------------------------------- */

static void close_from(int first)
{
    struct rlimit most;
    if (close_range((unsigned)first, ~0U, 0) == 0)
        return;
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_max > 1 << 20)
        most.rlim_max = 1 << 20;
    for (int fd = first; fd < (int)most.rlim_max; fd++)
        close(fd);
}

static bool limit(int what, uint64_t most)
{
    return setrlimit(what, &(struct rlimit){ .rlim_cur = most, .rlim_max = most }) == 0;
}

/* The reason becomes the command's last line of output. */
static void need(bool ok, const char *why)
{
    if (ok)
        return;
    (void)!write(2, why, strlen(why));
    _exit(NOT_STARTED);
}

static void on_all_signals(void (*action)(int))
{
    for (int s = 1; s < NSIG; s++)
        (void)signal(s, action);
}

static void become_command(const child_job *j)
{
    static const char sh[] = "sh", option[] = "-c";
    const char *argv[] = { sh, option, j->command, NULL };
    on_all_signals(SIG_DFL);
    need(j->memory_bytes == 0 || limit(RLIMIT_AS, j->memory_bytes),
         "sefl: cannot set the limit of memory");
    need(!j->folder || chdir(j->folder) == 0, "sefl: cannot enter the folder of the command");
    execve("/bin/sh", (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)j->environment);
    need(false, "sefl: cannot run /bin/sh");
}

static void kill_group(int s)
{
    (void)s;
    (void)kill(0, SIGKILL);
}

/* Waits for the command and ends as it did. */
static void wait_as_guard(pid_t command)
{
    int status = 0;
    close_from(0);
    while (waitpid(command, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status)) {
        (void)signal(WTERMSIG(status), SIG_DFL);
        (void)kill(getpid(), WTERMSIG(status));
    }
    _exit(WEXITSTATUS(status));
}

/* Runs in the child (invariant 1). The guard ignores signals to the group, which are for the
 * command. */
static void become_guard(const child_job *j, int to, pid_t parent)
{
    sigset_t none;
    int out = fcntl(to, F_DUPFD, 3), in = open("/dev/null", O_RDONLY);
    on_all_signals(SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, it would take the command's exit status */
    (void)signal(CALLER_DIED, kill_group);
    sigemptyset(&none);
    if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(NOT_STARTED);
    need(in >= 0 && dup2(in, 0) == 0, "sefl: cannot open /dev/null");
    close_from(3);
    umask(077);
    need(setpgid(0, 0) == 0 && sigprocmask(SIG_SETMASK, &none, NULL) == 0,
         "sefl: cannot make a process group");
    need(limit(RLIMIT_CORE, 0), "sefl: cannot set the limit of core files");
    need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "sefl: cannot give up new privileges");
    need(prctl(PR_SET_PDEATHSIG, CALLER_DIED) == 0 && getppid() == parent,
         "sefl: the client ended");
    pid_t command = _Fork(); /* fork is not async-signal-safe here */
    need(command >= 0, "sefl: cannot start a process");
    if (command == 0)
        become_command(j);
    wait_as_guard(command);
}

/* True if the leader of the group has ended; it stays a zombie (invariant 2). */
static bool has_ended(pid_t leader)
{
    siginfo_t now = { 0 };
    int rc = waitid(P_PID, (id_t)leader, &now, WEXITED | WNOHANG | WNOWAIT);
    return (rc == 0 && now.si_pid == leader) || (rc != 0 && errno == ECHILD);
}

/* Waits for the end until the moment `until_ns` (0: any time). SEFL_OK: it has ended. */
static sefl_status await(const child_job *j, pid_t leader, output *o, uint64_t until_ns)
{
    while (!has_ended(leader)) {
        SEFL_NEED(until_ns == 0 || clock_now_ns() < until_ns, SEFL_ETIMEOUT, "the time is over");
        SEFL_NEED(progress_report(j->alive, 0, 0), SEFL_ECANCELLED, "stopped");
        (void)poll(&(struct pollfd){ .fd = o->from, .events = POLLIN }, 1, CHILD_TICK_MS);
        drain(o, CHILD_LOG);
    }
    return SEFL_OK;
}

/* Ends every process of the group, then takes the leader's exit status. */
static int end_group(pid_t leader, output *o)
{
    int status = -1;
    const child_job quiet = { 0 };
    if (!has_ended(leader)) {
        (void)kill(-leader, SIGTERM);
        (void)!await(&quiet, leader, o, clock_now_ns() + CHILD_GRACE_MS * UINT64_C(1000000));
    }
    (void)kill(-leader, SIGKILL);
    while (waitpid(leader, &status, 0) < 0 && errno == EINTR)
        ;
    drain(o, CHILD_LOG); /* a process that left the group may write for ever */
    return status;
}

/* ---- how it ended ---------------------------------------------------------------------------- */

static sefl_status judge(const child_job *j, sefl_status st, int status, const output *o)
{
    char how[96];
    const char *quote = o->last[0] ? "; its last line: " : "";
    if (st == SEFL_ECANCELLED)
        return sefl_fail(st, "the command was stopped");
    if (st == SEFL_ETIMEOUT)
        snprintf(how, sizeof how, "did not end within %.10g s", (double)j->timeout_ms / 1000);
    else if (status == -1)
        snprintf(how, sizeof how, "ended, and another part of this process took its exit status");
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was killed by signal %d (%s)", WTERMSIG(status),
                 sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status)) : "unknown");
    else if (WEXITSTATUS(status) != 0)
        snprintf(how, sizeof how, "exited with %d", WEXITSTATUS(status));
    else
        return SEFL_OK;
    return sefl_fail(st == SEFL_OK ? SEFL_ESTATE : st, "the command %s%s%s", how, quote, o->last);
}

sefl_status child_run(const child_job *j)
{
    sefl_status st = SEFL_OK;
    output o;
    int to = -1, status = -1;
    pid_t parent = getpid();
    SEFL_TRY(begin_output(&o, j, &to));
    pid_t leader = fork();
    SEFL_CHECK(leader >= 0, SEFL_EIO, "cannot start a process: %s", strerror(errno));
    if (leader == 0)
        become_guard(j, to, parent);
    (void)setpgid(leader, leader); /* whichever process comes first */
    close(to);
    to = -1;
    st = await(j, leader, &o,
               j->timeout_ms > 0 ? clock_now_ns() + j->timeout_ms * UINT64_C(1000000) : 0);
    status = end_group(leader, &o);
    end_line(&o);
    st = judge(j, st, status, &o);
done:
    if (to >= 0)
        close(to);
    end_output(&o);
    return st;
}

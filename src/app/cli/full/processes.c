#define _GNU_SOURCE
#include "cli/full/processes.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 16, END_MS = 3000, PAUSE_MS = 20 };

sefl_status processes_init(processes *f, const char *log_folder)
{
    *f = (processes){ 0 };
    ssize_t n = readlink("/proc/self/exe", f->program, sizeof f->program - 1);
    SEFL_NEED(n > 0, SEFL_EIO, "cannot find this program's file: /proc/self/exe: %s",
              strerror(errno));
    SEFL_NEED(snprintf(f->log, sizeof f->log, "%s", log_folder) < (int)sizeof f->log, SEFL_EINVAL,
              "%.64s...: the path is too long", log_folder);
    return SEFL_OK;
}

process *processes_find(processes *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->at[i].name, name) == 0)
            return &f->at[i];
    return NULL;
}

/* Runs in the child between fork and exec: allocates nothing and prints nothing. */
static void become(const processes *f, int log, pid_t parent, char **argv)
{
    static const int usual[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
    sigset_t none;
    int in = open("/dev/null", O_RDONLY);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        signal(usual[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (in < 0 || dup2(in, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(127);
    execv(f->program, argv);
    _exit(127);
}

sefl_status processes_start(processes *f, const char *name, const char *const *arguments)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX], *argv[ARGUMENTS_MAX + 2] = { f->program };
    int log = -1;
    process *one = processes_find(f, name);
    pid_t parent = getpid();
    SEFL_CHECK(!one || one->ended, SEFL_ESTATE, "%s is already running", name);
    SEFL_CHECK(one || f->n < PROCESSES_MAX, SEFL_ERANGE, "at most %d processes", PROCESSES_MAX);
    size_t n = 0;
    for (; arguments[n]; n++) {
        SEFL_CHECK(n < ARGUMENTS_MAX, SEFL_ERANGE, "%s: too many arguments", name);
        argv[n + 1] = (char *)(uintptr_t)arguments[n]; /* execv does not write to them */
    }
    snprintf(path, sizeof path, "%s/%s.log", f->log, name);
    log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    SEFL_CHECK(log >= 0, SEFL_EIO, "cannot open %s: %s", path, strerror(errno));
    if (!one) {
        one = &f->at[f->n++];
        snprintf(one->name, sizeof one->name, "%s", name);
    }
    one->ended = true; /* until the process exists */
    one->killed = false;
    fflush(NULL);
    pid_t pid = fork();
    SEFL_CHECK(pid >= 0, SEFL_EIO, "cannot start %s: %s", name, strerror(errno));
    if (pid == 0)
        become(f, log, parent, argv);
    one->pid = pid;
    one->ended = false;
done:
    if (log >= 0)
        close(log);
    return st;
}

static void look_at(process *one, int flags)
{
    int status;
    pid_t got;
    if (one->ended)
        return;
    do {
        got = waitpid(one->pid, &status, flags);
    } while (got < 0 && errno == EINTR);
    if (got == 0)
        return;
    one->ended = true;
    one->rc = got < 0               ? 127
              : WIFEXITED(status)   ? WEXITSTATUS(status)
              : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                    : 127;
}

void processes_look(processes *f)
{
    for (size_t i = 0; i < f->n; i++)
        look_at(&f->at[i], WNOHANG);
}

void processes_kill(processes *f, const char *name)
{
    process *one = processes_find(f, name);
    if (!one || one->ended)
        return;
    one->killed = true;
    kill(one->pid, SIGKILL);
    look_at(one, 0);
}

bool processes_all_ended(processes *f)
{
    processes_look(f);
    for (size_t i = 0; i < f->n; i++)
        if (!f->at[i].ended)
            return false;
    return true;
}

void processes_end(processes *f)
{
    if (processes_all_ended(f))
        return;
    for (size_t i = 0; i < f->n; i++)
        if (!f->at[i].ended)
            kill(f->at[i].pid, SIGTERM);
    for (unsigned ms = 0; ms < END_MS && !processes_all_ended(f); ms += PAUSE_MS)
        clock_pause_ms(PAUSE_MS);
    for (size_t i = 0; i < f->n; i++)
        processes_kill(f, f->at[i].name);
}

/* processes: child processes that run this program; the command that starts them always ends them.
 *
 *     processes f;
 *     SEFL_TRY(processes_init(&f, "runs/demo/log"));
 *     SEFL_TRY(processes_start(&f, "csp", (const char *[]){ "csp", "-c", "csp.yml", NULL }));
 *     processes_look(&f);                                   // which have ended?
 *     if (processes_find(&f, "csp")->ended) ...
 * done:
 *     processes_end(&f);                                    // SIGTERM, later SIGKILL; waits
 *
 * The output of a process is appended to LOG/NAME.log. A process is signalled by the id that fork
 * returned, and only before waitpid has returned it. If the caller dies, the kernel ends the
 * processes (PR_SET_PDEATHSIG).
 * Threads: the one that started the processes; it must live as long as they do. */
#ifndef CLI_FULL_PROCESSES_H
#define CLI_FULL_PROCESSES_H

#include "base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum { PROCESSES_MAX = 80, PROCESSES_NAME_MAX = 32 };

typedef struct process {
    char name[PROCESSES_NAME_MAX];
    pid_t pid;
    bool ended, killed; /* killed: by processes_kill */
    int rc;             /* exit code, or 128 + signal */
} process;

typedef struct processes {
    char program[PATH_MAX], log[PATH_MAX - PROCESSES_NAME_MAX - 8];
    process at[PROCESSES_MAX];
    size_t n;
} processes;

sefl_status processes_init(processes *f, const char *log_folder) SEFL_MUST_CHECK;

/* arguments end with NULL, the command first. A name that has ended may be started again. */
sefl_status processes_start(processes *f, const char *name,
                            const char *const *arguments) SEFL_MUST_CHECK;

void processes_look(processes *f);
/* NULL: never started. */
process *processes_find(processes *f, const char *name);
/* Sends SIGKILL and waits. */
void processes_kill(processes *f, const char *name);
void processes_end(processes *f);

#endif

/* processes: starts child processes that run this program, and ends them.
 *
 *     processes f;
 *     SEFL_TRY(processes_init(&f, "runs/demo/log"));
 *     SEFL_TRY(processes_start(&f, "csp", (const char *[]){ "csp", "-c", "csp.yml", NULL }));
 *     processes_look(&f);                                   // updates `ended`
 *     if (processes_find(&f, "csp")->ended) ...
 * done:
 *     processes_end(&f);                                    // SIGTERM, later SIGKILL; waits
 *
 * Each process appends its output to LOG/NAME.log. Signals go only to child processes that have not
 * been reaped, by their process id. If the caller dies, the kernel kills the processes
 * (PR_SET_PDEATHSIG).
 * Threads: only the thread that started the processes, which must outlive them. */
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
    int rc;             /* exit code, or 128 + signal number */
} process;

typedef struct processes {
    char program[PATH_MAX], log[PATH_MAX - PROCESSES_NAME_MAX - 8];
    process at[PROCESSES_MAX];
    size_t n;
} processes;

sefl_status processes_init(processes *f, const char *log_folder) SEFL_MUST_CHECK;

/* Starts `sefl` with the arguments: the command first, NULL last. A process that has ended may be
 * started again under the same name. */
sefl_status processes_start(processes *f, const char *name,
                            const char *const *arguments) SEFL_MUST_CHECK;

/* Updates `ended` and `rc` of each process. */
void processes_look(processes *f);
/* Returns the process with this name; NULL if none was started. */
process *processes_find(processes *f, const char *name);
/* True if every process has ended; calls processes_look. */
bool processes_all_ended(processes *f);
/* Sends SIGKILL and waits. */
void processes_kill(processes *f, const char *name);
void processes_end(processes *f);

#endif

/* processes: processes of this very program that a command starts and always ends.
 *
 *     processes f;
 *     SEFL_TRY(processes_init(&f, "runs/demo/log"));
 *     SEFL_TRY(processes_start(&f, "csp", (const char *[]){ "csp", "-c", "csp.yml", NULL }));
 *     processes_look(&f);                                   // whose end has come?
 *     if (processes_find(&f, "csp")->ended) ...
 * done:
 *     processes_end(&f);                                    // SIGTERM, a while, SIGKILL; all waited for
 *
 * What a process says goes to LOG/NAME.log, behind what is there already. Each is known by the id that
 * fork gave and signalled only until it has been waited for. Should the caller die, whatever way, the
 * kernel ends the rest (PR_SET_PDEATHSIG).
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
/* At once, and waited for. */
void processes_kill(processes *f, const char *name);
void processes_end(processes *f);

#endif

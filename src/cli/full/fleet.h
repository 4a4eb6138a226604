/* fleet: processes of this very program that a command starts and always ends.
 *
 *     fleet f;
 *     SEFL_TRY(fleet_init(&f, "runs/demo/log"));
 *     SEFL_TRY(fleet_start(&f, "csp", (const char *[]){ "csp", "-c", "csp.yml", NULL }));
 *     fleet_look(&f);                                   // whose end has come?
 *     if (fleet_find(&f, "csp")->ended) ...
 * done:
 *     fleet_end(&f);                                    // SIGTERM, a while, SIGKILL; all waited for
 *
 * What a process says goes to LOG/NAME.log, behind what is there already. Each is known by the id that
 * fork gave and signalled only until it has been waited for. Should the caller die, whatever way, the
 * kernel ends the rest (PR_SET_PDEATHSIG).
 * Threads: the one that started the processes; it must live as long as they do. */
#ifndef CLI_FULL_FLEET_H
#define CLI_FULL_FLEET_H

#include "base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum { FLEET_MAX = 80, FLEET_NAME_MAX = 32 };

typedef struct fleet_one {
    char name[FLEET_NAME_MAX];
    pid_t pid;
    bool ended, killed; /* killed: by fleet_kill */
    int rc;             /* exit code, or 128 + signal */
} fleet_one;

typedef struct fleet {
    char program[PATH_MAX], log[PATH_MAX - FLEET_NAME_MAX - 8];
    fleet_one at[FLEET_MAX];
    size_t n;
} fleet;

sefl_status fleet_init(fleet *f, const char *log_folder) SEFL_MUST_CHECK;

/* arguments end with NULL, the command first. A name that has ended may be started again. */
sefl_status fleet_start(fleet *f, const char *name, const char *const *arguments) SEFL_MUST_CHECK;

void fleet_look(fleet *f);
/* NULL: never started. */
fleet_one *fleet_find(fleet *f, const char *name);
/* At once, and waited for. */
void fleet_kill(fleet *f, const char *name);
void fleet_end(fleet *f);

#endif

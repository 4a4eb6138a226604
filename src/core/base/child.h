/* child: runs a shell command that gets nothing from this process but its environment list.
 *
 *     const char *env[] = { "PATH=/usr/bin:/bin", "ROUND=3", NULL };
 *     SEFL_TRY(child_run(&(child_job){ .command = "python3 train.py", .environment = env,
 *                                      .log = "trainer.log", .timeout_ms = 600000 }));
 *
 * The command is `sh -c COMMAND`. Before it starts, the child process
 *   - closes every descriptor. Its input is /dev/null; its output and errors are one pipe;
 *   - leads a new process group, resets all signals, and sets umask 077;
 *   - gives up core dumps and new privileges (setuid programs), and limits its memory if asked;
 *   - arranges that its group is killed with the thread that called child_run, even by kill -9.
 *
 * child_run returns when the command has ended. It ends the whole process group early when the time
 * is over or when `alive` returns false: SIGTERM, then SIGKILL after CHILD_GRACE_MS. Processes that
 * the command leaves behind in its group are killed too. A process that starts a session of its own
 * (setsid) leaves the group and survives; a systemd unit ends it with the service.
 *
 * The output is appended to the file `log` (mode 0600). If the command writes more than CHILD_LOG
 * bytes, the file receives the first and the last half of that, and a line that says how many bytes
 * are missing. A log that cannot be written does not stop the command.
 *
 * After a failure the message says how the command ended and quotes its last line of output.
 * Threads: any; this is a blocking call.   Secrets: none pass to the child by themselves. */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include "base/progress.h"
#include "base/status.h"

enum { CHILD_LOG = 1 << 20, CHILD_GRACE_MS = 2000, CHILD_TICK_MS = 50 };

typedef struct child_job {
    const char *command;
    const char *folder;             /* where it runs; NULL: where this process does */
    const char *const *environment; /* "NAME=value" each, NULL last: all that the child has */
    const char *log;                /* file for its output; NULL: dropped */
    uint64_t timeout_ms;            /* 0: no limit */
    uint64_t memory_bytes;          /* address space of each process; 0: no limit */
    const sefl_progress *alive;     /* called about every CHILD_TICK_MS, with 0 of 0; may be NULL */
} child_job;

/* SEFL_OK: the command exited with 0. SEFL_ESTATE: it failed. SEFL_ETIMEOUT: the time was over.
 * SEFL_ECANCELLED: `alive` returned false. SEFL_EIO: it could not be started. */
sefl_status child_run(const child_job *j) SEFL_MUST_CHECK;

#endif

/* own_task: reads a server's task. The task must name this server and be signed by both servers.
 *
 *     SEFL_TRY(own_task_read(&task, &envelope, "task.signed", key, OWN_TASK_CSP));
 *
 * Threads: any.   Secrets: none (it uses only the public half of the signing key). */
#ifndef ROLES_OWN_TASK_H
#define ROLES_OWN_TASK_H

#include "base/buf.h"
#include "crypto/sign.h"
#include "protocol/task.h"

typedef enum own_task_side { OWN_TASK_AGGREGATOR, OWN_TASK_CSP } own_task_side;

/* Reads the task; *envelope gets the file's bytes. SEFL_EAUTH if the task names another server in
 * this role, or if a signature is invalid. The caller always clears *t and *envelope. */
sefl_status own_task_read(task *t, sefl_buf *envelope, const char *path, const sign_key *key,
                          own_task_side side) SEFL_MUST_CHECK;

#endif

/* task_file: reads a file with a task, signed or not, and adds a server's signature.
 *
 *     SEFL_TRY(task_file_load(&file, &env, &t, "task.half"));   // env points into file
 *     SEFL_TRY(task_file_sign(&out, &env, &t, SIGNER_CSP, key));
 *
 * Threads: any.   Secrets: the signing key. */
#ifndef ROLES_TASK_FILE_H
#define ROLES_TASK_FILE_H

#include "base/buf.h"
#include "protocol/signed.h"
#include "protocol/task.h"

enum { TASK_FILE_MAX = ENVELOPE_CONTENT_MAX + 4096 };

/* Reads a task document, or an envelope that contains one; verifies no signature. The caller clears
 * file and t, also after a failure. */
sefl_status task_file_load(sefl_buf *file, envelope *env, task *t,
                           const char *path) SEFL_MUST_CHECK;

/* Signs the task in env and appends the new envelope to out. SEFL_EAUTH if the task names another
 * key for this server. */
sefl_status task_file_sign(sefl_buf *out, envelope *env, const task *t, signer who,
                           const sign_key *key) SEFL_MUST_CHECK;

#endif

/* server: what the roles aggregator and csp have in common: the trust list and the ready file.
 *
 * Threads: any; callers lock what they share.   Secrets: none. */
#ifndef ROLES_SERVER_H
#define ROLES_SERVER_H

#include "base/log.h"
#include "net/allowlist.h"
#include "protocol/task.h"

/* Reads the trust list at w->path again if it changed, or if there is none yet (`first`). *out: the
 * new one, or NULL: as before. *older: it is an older list than one before, which is logged. A list
 * that cannot be read leaves the one before in force. */
sefl_status server_read_list(allowlist **out, bool *older, trust_watch *w, bool first,
                             trust_role role, const sign_key *key, sefl_log *log) SEFL_MUST_CHECK;

/* Writes the ready file, "host:port" and a newline, if there is to be one, and logs it. */
sefl_status server_announce(const char *ready_file, const char *host, uint16_t port, const task *t,
                            sefl_log *log) SEFL_MUST_CHECK;
/* Deletes the ready file: one of an earlier run misleads scripts. */
void server_forget_ready(const char *ready_file);

#endif

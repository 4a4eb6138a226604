/* server: the code for trust lists and ready files that the aggregator and CSP share.
 *
 * Threads: any; callers lock shared data.   Secrets: none. */
#ifndef ROLES_SERVER_H
#define ROLES_SERVER_H

#include "base/log.h"
#include "config/address.h"
#include "config/settings.h"
#include "net/allowlist.h"
#include "protocol/task.h"

/* Loads the trust list at w->path if the file has changed, or if `first` is true. *out is
 * the new list, or NULL if it is unchanged. If the list is older than before, sets *older and logs
 * a line. If the list cannot be read, the previous one stays in force. */
sefl_status server_read_list(allowlist **out, bool *older, trust_watch *w, bool first,
                             trust_role role, const sign_key *key, sefl_log *log) SEFL_MUST_CHECK;

/* SEFL_EINVAL unless exactly one of `task` and `tasks` is set. */
sefl_status server_check_tasks(const settings *s) SEFL_MUST_CHECK;
/* SEFL_EINVAL if `page` is not a loopback address, or `page_tls` comes without `page_viewers`. */
sefl_status server_check_page(const host_port *local, const host_port *remote,
                              const settings *s) SEFL_MUST_CHECK;
/* Logs which task of a folder of tasks the server now serves. */
void server_say_task(const task *t, const char *folder, sefl_log *log);

/* Writes "host:port" and a newline to the ready file, unless that is NULL, and logs that the server
 * is ready; a warning comes first if the task claims no differential privacy. t is NULL for a
 * server with a folder of tasks. */
sefl_status server_announce(const char *ready_file, const char *host, uint16_t port, const task *t,
                            sefl_log *log) SEFL_MUST_CHECK;
/* Deletes the ready file, because one from an earlier run would mislead scripts. */
void server_forget_ready(const char *ready_file);

#endif

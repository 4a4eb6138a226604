/* confine: a long-running role gives up rights, so that a fault in it does less harm.
 *
 *     confine_start();                                    // first: no core file, no debugger
 *     SEFL_TRY(confine_user("sefl"));                     // after the port is bound, before files
 *
 * confine_start: RLIMIT_CORE 0 and not dumpable (keys, text and digits get into no core file, and
 * another process of the same user does not read this one's memory), and no new privileges, ever.
 * confine_user: root becomes this user, with its groups, permanently. Any other user may only name
 * itself. NULL or "": no change.
 * Threads: all of the process.   Secrets: none. */
#ifndef CLI_FULL_CONFINE_H
#define CLI_FULL_CONFINE_H

#include "base/log.h"
#include "base/status.h"

#include <stdbool.h>

void confine_start(void);
sefl_status confine_user(const char *name) SEFL_MUST_CHECK;
/* Warns if a server runs as root and no user to become is set. */
void confine_warn(sefl_log *log, const char *user);
/* May users other than the owner read this file? False for a credential of systemd, whose group
 * bits only reflect an access list for the service's user. mode (may be NULL): the mode bits. */
bool confine_others_read(const char *path, unsigned *mode);
/* Warns of a private key that other users can read. NULL: there is no such file. */
void confine_key(sefl_log *log, const char *path);
/* The same for a file of settings that holds a proxy's password: http://user:password@host. */
void confine_proxy(sefl_log *log, const char *proxy, const char *path);
/* memory_lock: the setting. "required": keys must be locked in memory. The function locks as much
 * as a server needs once, so that a limit that is too low fails here and not in a later round.
 * "try": a warning. Measured: 76 kB with a key of 4096 bits, and a page for each of four stores. */
enum { CONFINE_LOCKED_BYTES = 96 << 10 };
sefl_status confine_memory(sefl_log *log, const char *memory_lock) SEFL_MUST_CHECK;
/* Raises the limit of open files; warns if the system does not allow it. */
void confine_files(sefl_log *log, unsigned wanted);

#endif

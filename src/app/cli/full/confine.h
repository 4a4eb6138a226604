/* confine: drops the privileges of a long-running role, to limit the damage from a bug.
 *
 *     confine_start();                                    // first: no core dumps, no debugger
 *     SEFL_TRY(confine_user("sefl"));                     // after binding the port, before files
 *
 * confine_start sets RLIMIT_CORE to 0, clears the dumpable flag (no keys or text in core dumps;
 * other processes of the same user cannot read this one's memory) and sets no_new_privs.
 * confine_user switches permanently from root to this user and its groups. A process that does not
 * run as root may name only its own user. NULL or "" changes nothing.
 * Threads: the calls affect the whole process.   Secrets: none. */
#ifndef CLI_FULL_CONFINE_H
#define CLI_FULL_CONFINE_H

#include "base/log.h"
#include "base/status.h"

#include <stdbool.h>

void confine_start(void);
sefl_status confine_user(const char *name) SEFL_MUST_CHECK;
/* Warns if a server runs as root and no user to switch to is set. */
void confine_warn(sefl_log *log, const char *user);
/* True if users other than the owner can read this file. False for a systemd credential, whose
 * group bits only reflect an ACL for the service's user. mode (may be NULL) receives the mode
 * bits. */
bool confine_others_read(const char *path, unsigned *mode);
/* Warns if other users can read a private key. Does nothing if path is NULL. */
void confine_key(sefl_log *log, const char *path);
/* Warns if others can read a settings file with a proxy password: http://user:password@host. */
void confine_proxy(sefl_log *log, const char *proxy, const char *path);
/* Applies the setting memory_lock. "required": keys must be locked in memory. The function locks as
 * much memory as a server needs, so that too low a limit causes a failure now and not in a later
 * round. "try": it only warns. A server needs 76 kB (measured, 4096-bit key), plus a page for each
 * of four stores. */
enum { CONFINE_LOCKED_BYTES = 96 << 10 };
sefl_status confine_memory(sefl_log *log, const char *memory_lock) SEFL_MUST_CHECK;
/* Raises the limit on open files; warns if the system does not allow that. */
void confine_files(sefl_log *log, unsigned wanted);

#endif

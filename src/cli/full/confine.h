/* confine: what a long-running role gives up, so that a fault in it is worth less.
 *
 *     confine_start();                                      // first thing: no core file, no debugger
 *     SEFL_TRY(confine_user("sefl"));                       // after the port is bound, before files
 *
 * confine_start: RLIMIT_CORE 0 and not dumpable (keys, text and digits get into no core file, and
 * another process of the same user does not read this one's memory), and no new privileges, ever.
 * confine_user: root becomes this user, with its groups and for good. Somebody who is not root may only
 * name itself. NULL or "": stays who it is.
 * Threads: all of the process.   Secrets: none. */
#ifndef CLI_FULL_CONFINE_H
#define CLI_FULL_CONFINE_H

#include "base/log.h"
#include "base/status.h"

#include <stdbool.h>

void confine_start(void);
sefl_status confine_user(const char *name) SEFL_MUST_CHECK;
/* A warning for those who run a server as root without a user to become. */
void confine_warn(sefl_log *log, const char *user);
/* May others than its owner read this file? A credential of systemd's never: its mode says so with group
 * bits where an access list gives this service's user the right. mode (may be NULL): as chmod writes it. */
bool confine_others_read(const char *path, unsigned *mode);
/* A warning for a private key that others than its owner can read. NULL: no such file is named. */
void confine_key(sefl_log *log, const char *path);
/* The same for a file of settings in which a proxy's password stands: http://user:password@host. */
void confine_proxy(sefl_log *log, const char *proxy, const char *path);
/* memory_lock: the setting. "required": keys must be locked in memory; one lock as large as a server
 * needs is tried at once, so that a limit that is too low is an error here and not in a later round.
 * "try": a warning. Measured: 76 kB with a key of 4096 bits, and a page for each of four stores. */
enum { CONFINE_LOCKED_BYTES = 96 << 10 };
sefl_status confine_memory(sefl_log *log, const char *memory_lock) SEFL_MUST_CHECK;
/* So many files may be open, if the system allows it; a warning if not. */
void confine_files(sefl_log *log, unsigned wanted);

#endif

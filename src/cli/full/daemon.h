/* daemon: what the long-running roles (aggregator, csp, client) have in common on the command line.
 *
 * Settings come from a YAML file, and options of the same names override it (tls.cert is
 * --tls-cert, sign_key is --sign-key). Relative paths in the file count from its folder, in options
 * from the working folder. SIGTERM and SIGINT stop the role in good order; SIGHUP reads the log
 * level again and calls `reload`.
 *
 *     typedef struct session { daemon d; csp_settings cfg; } session;    // the daemon comes first
 *     DAEMON_CALLS(csp_role)
 *     static sefl_status start(void *self, const settings *set, void **role) { csp_role_new(...) }
 *     static int run(void *s) { return daemon_run(s, &cmd_csp, start, &csp_role_calls); }
 *
 * Threads: one caller; a thread of its own handles signals.   Secrets: none belong here. */
#ifndef CLI_FULL_DAEMON_H
#define CLI_FULL_DAEMON_H

#include "base/log.h"
#include "cli/options.h"

#include <stdatomic.h>

typedef struct daemon_calls {
    sefl_status (*run)(void *role);
    void (*stop)(void *role);
    void (*reload)(void *role);
    void (*free)(void *role);
} daemon_calls;

/* A daemon_calls of the functions NAME_run, NAME_stop, NAME_reload and NAME_free. */
#define DAEMON_CALLS(name)                  \
    static sefl_status call_run(void *role) \
    {                                       \
        return name##_run(role);            \
    }                                       \
    static void call_stop(void *role)       \
    {                                       \
        name##_stop(role);                  \
    }                                       \
    static void call_reload(void *role)     \
    {                                       \
        name##_reload(role);                \
    }                                       \
    static void call_free(void *role)       \
    {                                       \
        name##_free(role);                  \
    }                                       \
    static const daemon_calls name##_calls = { call_run, call_stop, call_reload, call_free };

typedef struct daemon {
    const char *file; /* settings; NULL: options alone */
    settings flags;   /* what the options say */

    const daemon_calls *calls;
    sefl_log log;
    log_level least; /* of the log unless a level is set */
    sefl_clock wall;
    const char *user;     /* to become when the port is bound; NULL: none */
    _Atomic(void *) role; /* NULL: not started yet */
    atomic_bool ended;
} daemon;

/* -c FILE; the first option of every daemon. */
#define DAEMON_CONFIG                                                               \
    {                                                                               \
        "config", SETTING_PATH, "", .letter = 'c', SETTING_TO(daemon, file),        \
                                    .help = "File of settings; options override it" \
    }

extern const setting_def daemon_options[]; /* that option alone */

/* The part of a cli_command that all daemons share; needs `run` and the struct `session`. */
#define DAEMON_COMMAND(its_schema, its_options)                                                   \
    .options = its_options, .size = sizeof(session), .schema = its_schema, .every_setting = true, \
    .set_at = offsetof(session, d.flags), CLI_RUN(run, NULL, NULL, 0)

/* Makes the role from its settings, which live until the role ends. The log is open. */
typedef sefl_status daemon_start(void *self, const settings *set, void **role);

/* self begins with a daemon. Exit code; a failure before the role runs can be misuse. */
int daemon_run(void *self, const cli_command *c, daemon_start *start, const daemon_calls *calls);

/* What a server does before it reads its keys: it locks memory (setting memory_lock), notes the
 * user to become, and warns if it runs as root or others can read its keys (confine.h). */
sefl_status daemon_confine(daemon *d, const settings *set) SEFL_MUST_CHECK;

/* For the roles' callback after their port is bound: self becomes the user that it names. */
sefl_status daemon_bound(void *self) SEFL_MUST_CHECK;

#endif

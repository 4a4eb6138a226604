/* daemon: the command-line code that the long-running roles (aggregator, csp, client) share.
 *
 * Settings come from a YAML file; options of the same names override them (tls.cert is --tls-cert,
 * sign_key is --sign-key). Paths in the file are relative to its folder, those in options to the
 * working folder. SIGTERM and SIGINT stop the role cleanly; SIGHUP reloads the log level and calls
 * `reload`.
 *
 *     typedef struct session { daemon d; csp_settings cfg; } session;    // the daemon comes first
 *     DAEMON_CALLS(csp_role, free)
 *     static sefl_status start(void *self, const settings *set, void **role) { csp_role_new(...) }
 *     static int run(void *s) { return daemon_run(s, &cmd_csp, start, &csp_role_calls); }
 *
 * Threads: one caller; a separate thread handles signals. Secrets: none. */
#ifndef CLI_FULL_DAEMON_H
#define CLI_FULL_DAEMON_H

#include "base/log.h"
#include "base/progress.h"
#include "cli/options.h"

#include <stdatomic.h>

typedef struct daemon_calls {
    sefl_status (*run)(void *role);
    void (*stop)(void *role);
    void (*reload)(void *role);
    void (*free)(void *role);
} daemon_calls;

/* Defines NAME_calls from the functions NAME_run, NAME_stop, NAME_reload and NAME_END. */
#define DAEMON_CALLS(name, end)             \
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
        name##_##end(role);                 \
    }                                       \
    static const daemon_calls name##_calls = { call_run, call_stop, call_reload, call_free };

typedef struct daemon {
    const char *file; /* settings file; NULL: all settings come from options */
    settings flags;   /* settings given as options */

    const daemon_calls *calls;
    sefl_log log;
    log_level least; /* minimum log level unless `log` is set */
    sefl_clock wall;
    const char *user;     /* user to switch to once the port is bound; NULL: none */
    int refused;          /* exit status if the role ends with SEFL_EAUTH; 0: CLI_FAILED */
    _Atomic(void *) role; /* NULL: not started yet */
    atomic_bool ended;
    sefl_progress going; /* says no after SIGTERM: for a start that waits */
} daemon;

/* The option -c FILE, the first option of every daemon. */
#define DAEMON_CONFIG                                                            \
    {                                                                            \
        "config", SETTING_PATH, "", .letter = 'c', SETTING_TO(daemon, file),     \
                                    .help = "Settings file; options override it" \
    }

extern const setting_def daemon_options[]; /* DAEMON_CONFIG alone */

/* The part of a cli_command that all daemons share; needs `run` and the struct `session`. */
#define DAEMON_COMMAND(its_schema, its_options)                                                   \
    .options = its_options, .size = sizeof(session), .schema = its_schema, .every_setting = true, \
    .set_at = offsetof(session, d.flags), CLI_RUN(run, NULL, NULL, 0)

/* Creates the role from its settings, which live until the role ends. The log is already open. */
typedef sefl_status daemon_start(void *self, const settings *set, void **role);

/* Runs the role; self begins with a daemon. Returns the exit code, which is CLI_MISUSE only for
 * failures before the role runs. */
int daemon_run(void *self, const cli_command *c, daemon_start *start, const daemon_calls *calls);

/* Prepares a server before it reads its keys: locks memory (setting memory_lock), stores the user
 * to switch to, and warns if it runs as root or if others can read its keys (confine.h). */
sefl_status daemon_confine(daemon *d, const settings *set) SEFL_MUST_CHECK;

/* Switches to the configured user. The roles call it once their port is bound. */
sefl_status daemon_bound(void *self) SEFL_MUST_CHECK;

#endif

#include "cli/full/confine.h"
#include "cli/full/daemon.h"
#include "cli/full/unlock.h"

typedef struct session {
    daemon d;
    csp_settings cfg;
    csp_key key;
} session;

DAEMON_CALLS(csp_role, free)

static sefl_status start(void *self, const settings *set, void **out)
{
    session *s = self;
    csp_role *role = NULL;
    sefl_log *log = &s->d.log;
    SEFL_PASS(csp_settings_make(&s->cfg, set));
    SEFL_PASS(daemon_confine(&s->d, set));
    SEFL_PASS(cli_unlock_csp(&s->key, &s->cfg));
    confine_key(log, s->cfg.key); /* the file is sealed; cli_unlock_get has checked its lock */
    SEFL_PASS(csp_role_new(&role, &(csp_role_options){ .settings = &s->cfg,
                                                       .sec = s->key.sec,
                                                       .root = s->key.root,
                                                       .log = log,
                                                       .ctx = s,
                                                       .bound = daemon_bound }));
    *out = role;
    return SEFL_OK;
}

static int run(void *self)
{
    session *s = self;
    int rc = daemon_run(self, &cmd_csp, start, &csp_role_calls);
    csp_key_clear(&s->key);
    return rc;
}

const cli_command cmd_csp = {
    .name = "csp",
    .about = "Holds the secret key, waits for the aggregation server (mutual TLS) and helps it to "
             "reveal each round's sum once. Refuses a sum below the threshold or beyond the "
             "privacy budget, and any sum while the two ledgers disagree. It exits with 0 when the "
             "task is over, unless it has a folder of tasks (setting tasks). SIGTERM stops it "
             "cleanly; a restart resumes the task. SIGHUP reloads "
             "the certificates and the log level. Every setting of the file is also an option.",
    .example = "sefl csp -c csp/csp.yml",
    DAEMON_COMMAND(csp_schema, daemon_options),
};

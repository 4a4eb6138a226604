#include "cli/full/confine.h"
#include "cli/full/daemon.h"
#include "cli/full/unlock.h"

#include "base/file.h"
#include "crypto/keyfile.h"
#include "crypto/secmem.h"
#include "roles/csp/csp_role.h"

typedef struct session {
    daemon d;
    csp_settings cfg;
    uint8_t *root; /* CSP's secret: root or sec */
    paillier_sec *sec;
} session;

/* Reads the secret key and unlocks it with key_lock, passphrase_file or the terminal. */
static sefl_status open_key(session *s)
{
    sefl_status st = SEFL_OK;
    const csp_settings *c = &s->cfg;
    sefl_buf file = { 0 };
    keyfile_info info;
    cli_unlock unlock = { .passphrase_file = c->passphrase_file, .key_file = c->key_lock };
    SEFL_TRY(file_read(&file, c->key, KEYFILE_BYTES_MAX));
    SEFL_TRY(keyfile_info_read(&info, buf_span(&file)));
    SEFL_CHECK(info.secret, SEFL_EINVAL, "this is a public key; CSP needs the secret key");
    SEFL_TRY(cli_unlock_get(&unlock, info.by));
    if (info.kind == KEYFILE_ROOT) {
        SEFL_TRY(secmem_new(&s->root, KEYFILE_ROOT_BYTES, NULL));
        SEFL_TRY(keyfile_root_read(s->root, buf_span(&file), &unlock.lock));
    } else {
        SEFL_TRY(keyfile_sec_read(&s->sec, buf_span(&file), &unlock.lock, NULL));
    }
done:
    cli_unlock_clear(&unlock);
    buf_clear(&file);
    return sefl_at(st, "%s", c->key);
}

DAEMON_CALLS(csp_role)

static sefl_status start(void *self, const settings *set, void **out)
{
    session *s = self;
    csp_role *role = NULL;
    sefl_log *log = &s->d.log;
    SEFL_PASS(csp_settings_make(&s->cfg, set));
    SEFL_PASS(daemon_confine(&s->d, set));
    SEFL_PASS(open_key(s));
    confine_key(log, s->cfg.key); /* the file is sealed; cli_unlock_get has checked its lock */
    SEFL_PASS(csp_role_new(&role, &(csp_role_options){ .settings = &s->cfg,
                                                       .sec = s->sec,
                                                       .root = s->root,
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
    paillier_sec_free(s->sec);
    secmem_free(s->root);
    return rc;
}

const cli_command cmd_csp = {
    .name = "csp",
    .summary = "run the cryptography service provider of a federation",
    .about = "Holds the secret key, waits for the aggregation server (mutual TLS) and helps it to "
             "reveal each round's sum once. Refuses a sum below the threshold or beyond the "
             "privacy budget, and any sum while the two ledgers disagree. It exits with 0 when the "
             "task is over. SIGTERM stops it cleanly; a restart resumes the task. SIGHUP reloads "
             "the certificates and the log level. Every setting of the file is also an option.",
    .example = "sefl csp -c csp/csp.yml",
    DAEMON_COMMAND(csp_schema, daemon_options),
};

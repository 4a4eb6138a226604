/* sefl csp: the cryptography service provider of a federation. */
#include "cli/cli.h"
#include "cli/full/confine.h"
#include "cli/full/role_settings.h"
#include "cli/full/signals.h"
#include "cli/full/unlock.h"

#include "base/file.h"
#include "crypto/keyfile.h"
#include "crypto/secmem.h"
#include "roles/csp/csp_role.h"

#include <signal.h>
#include <stdatomic.h>

typedef struct session {
    role_settings rs;
    sefl_log log;
    sefl_clock wall;
    _Atomic(csp_role *) role; /* NULL: not yet */
    const char *user;         /* to become; NULL: nobody else */
    atomic_bool ended;
} session;

/* CSP's secret: one of the two. */
typedef struct secret {
    uint8_t *root;
    paillier_sec *sec;
} secret;

/* The secret key, opened with key_lock, passphrase_file or what is typed. */
static sefl_status open_key(const csp_settings *c, secret *out)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    keyfile_info info;
    cli_unlock unlock = { .passphrase_file = c->passphrase_file, .key_file = c->key_lock };
    SEFL_TRY(file_read(&file, c->key, KEYFILE_BYTES_MAX));
    SEFL_TRY(keyfile_info_read(&info, buf_span(&file)));
    SEFL_CHECK(info.secret, SEFL_EINVAL, "it is a public key; CSP needs the secret one");
    SEFL_TRY(cli_unlock_get(&unlock, info.by));
    if (info.kind == KEYFILE_ROOT) {
        SEFL_TRY(secmem_new(&out->root, KEYFILE_ROOT_BYTES, NULL));
        SEFL_TRY(keyfile_root_read(out->root, buf_span(&file), &unlock.lock));
    } else {
        SEFL_TRY(keyfile_sec_read(&out->sec, buf_span(&file), &unlock.lock, NULL));
    }
done:
    cli_unlock_clear(&unlock);
    buf_clear(&file);
    return st == SEFL_OK ? st : sefl_fail_at(st, "%s", c->key);
}

static void on_signal(void *ctx, int sig)
{
    session *s = ctx;
    if (sig != SIGHUP)
        s->ended = true;
    csp_role *role = s->role; /* set before `ended` is looked at: one of us sees the other */
    if (!role)
        return;
    if (sig != SIGHUP) {
        csp_role_stop(role);
        return;
    }
    role_settings_relog(&s->rs, &s->log, LOG_DEBUG);
    csp_role_reload(role);
}

static sefl_status on_bound(void *ctx)
{
    const session *s = ctx;
    return confine_user(s->user);
}

static sefl_status work(session *s)
{
    sefl_status st = SEFL_OK;
    settings set;
    csp_settings cfg = { 0 };
    signals *sigs = NULL;
    secret key = { 0 };
    csp_role *role = NULL;
    SEFL_TRY(role_settings_read(&s->rs, &set));
    SEFL_TRY(csp_settings_make(&cfg, &set));
    s->wall = clock_wall();
    s->log = log_open(2, role_settings_level(&set, LOG_DEBUG), &s->wall);
    SEFL_TRY(confine_memory(&s->log, settings_text(&set, "memory_lock")));
    SEFL_TRY(open_key(&cfg, &key));
    s->user = cfg.user;
    confine_warn(&s->log, cfg.user);
    confine_key(&s->log, cfg.tls_key);
    confine_key(&s->log, cfg.sign_key);
    confine_key(&s->log, cfg.key); /* sealed; its lock: cli_unlock_get has looked */
    SEFL_TRY(signals_start(&sigs, on_signal, s));
    SEFL_TRY(csp_role_new(&role, &(csp_role_options){ .settings = &cfg,
                                                      .sec = key.sec,
                                                      .root = key.root,
                                                      .log = &s->log,
                                                      .ctx = s,
                                                      .bound = on_bound }));
    s->role = role;
    if (s->ended) /* a signal came meanwhile */
        csp_role_stop(role);
    if (!csp_role_task(role)->claim)
        log_warn(&s->log, "no differential privacy claimed by this task");
    SEFL_TRY(csp_role_run(role));
done:
    signals_end(sigs);
    csp_role_free(role);
    paillier_sec_free(key.sec);
    secmem_free(key.root);
    settings_clear(&set);
    return st;
}

static int run(int argc, char **argv)
{
    session s = { .rs = { .command = &cmd_csp, .schema = csp_schema } };
    int rc = role_settings_parse(&s.rs, argc, argv);
    if (rc == CLI_DONE) {
        confine_start();
        sefl_status st = work(&s);
        if (st != SEFL_OK)
            rc = cli_failed(&cmd_csp, st);
    }
    role_settings_clear(&s.rs);
    return rc;
}

const cli_command cmd_csp = {
    .name = "csp",
    .summary = "run the cryptography service provider of a federation",
    .usage = "-c csp.yml [--stay] [options]",
    .details = "Holds the secret key, waits for the aggregation server (mutual TLS) and opens\n"
               "each round of the task once: never below the threshold, past the budget or while\n"
               "the two ledgers disagree. Ends with 0 when the task is over. SIGTERM stops in\n"
               "good order; started again, it goes on. SIGHUP reads certificates and log level\n"
               "again.\n"
               "  -c, --config FILE     csp.yml; its relative paths count from its folder\n"
               "  --stay                serve on when the task is over\n"
               "Each setting of the file is an option too, which comes first:\n"
               "  --listen ADDR:PORT    port 0: the system chooses\n"
               "  --tls-cert F, --tls-key F, --tls-peers F\n"
               "                        certificate, its key, the aggregation server's CA\n"
               "  --ca DIR              folder of 'sefl ca new': its trust list says who gets\n"
               "                        in, and whose updates are counted\n"
               "  --sign-key F          this server's signing key\n"
               "  --key F               the file of 'sefl key new'; --key-lock F (a key file) or\n"
               "                        --passphrase-file F opens it, else the terminal is asked\n"
               "  --task F              the task, signed by both servers\n"
               "  --state DIR           journal\n"
               "  --ledger F            the population's privacy ledger\n"
               "  --memory-lock WORD    required (default): it is an error if the system does\n"
               "                        not lock keys in memory (ulimit -l); try: a warning\n"
               "  --threads N           0 (default): one a core\n"
               "  --link-silence S      gives AS up after so long without a byte (30)\n"
               "  --user NAME           root becomes NAME when the port is bound\n"
               "  --ready-file F        written when it serves: host:port\n"
               "  --health ADDR:PORT    GET /healthz over plain HTTP, on a loopback address\n"
               "  --log LEVEL           debug, info (default), warn, error, off",
    .example = "sefl csp -c csp/csp.yml",
    .run = run,
};

#include "base/alloc.h"
#include "config/paths.h"
#include "roles/csp/csp_role.h"
#include "roles/health.h"

const setting_def csp_schema[] = {
    { "listen", SETTING_TEXT, NULL, .help = "address:port; port 0: the system chooses" },
    { "tls.cert", SETTING_PATH, NULL, .help = "this server's certificate" },
    { "tls.key", SETTING_PATH, NULL, .help = "its key" },
    { "tls.peers", SETTING_PATH, NULL, .help = "the CA of the aggregation server" },
    { "ca", SETTING_PATH, "",
      .help = "folder of 'sefl ca new': its trust list says who gets in and whose updates count; a "
              "pad task needs it" },
    { "sign_key", SETTING_PATH, NULL, .help = "this server's signing key" },
    { "key", SETTING_PATH, NULL, .help = "the sealed file of 'sefl key new'" },
    { "key_lock", SETTING_PATH, "", .help = "the key file that opens it" },
    { "passphrase_file", SETTING_PATH, "",
      .help = "a file with the passphrase that opens it; neither: asks on the terminal" },
    { "task", SETTING_PATH, NULL, .help = "the task, signed by both servers" },
    { "state", SETTING_PATH, NULL, .help = "folder of the journal" },
    { "ledger", SETTING_PATH, NULL, .help = "the population's privacy ledger" },
    { "memory_lock", SETTING_WORD, "required", .words = "required try",
      .help =
          "keys that the system does not lock in memory (LimitMEMLOCK=): an error, or a warning" },
    { "threads", SETTING_U64, "0", .max = 256, .help = "0: one a core" },
    { "link_silence", SETTING_U64, "30", .min = 1, .max = 600,
      .help = "seconds without a byte after which the link to the aggregation server is given up" },
    { "ready_file", SETTING_PATH, "", .help = "written when it serves: host:port" },
    { "health", SETTING_TEXT, "",
      .help = "loopback address:port of /healthz, plain HTTP; empty: none" },
    { "user", SETTING_TEXT, "", .help = "whom root becomes when the port is bound" },
    { "log", SETTING_WORD, "info", .words = "debug info warn error off" },
    { "stay", SETTING_BOOL, "false", .help = "serve on when the task is over" },
    { 0 },
};

sefl_status csp_settings_make(csp_settings *out, const settings *s, const char *folder)
{
    sefl_status st = SEFL_OK;
    csp_settings c = { 0 };
    struct {
        char **to;
        const char *key;
    } paths[] = {
        { &c.ca, "ca" },
        { &c.cert, "tls.cert" },
        { &c.tls_key, "tls.key" },
        { &c.peers, "tls.peers" },
        { &c.sign_key, "sign_key" },
        { &c.key, "key" },
        { &c.key_lock, "key_lock" },
        { &c.task, "task" },
        { &c.passphrase_file, "passphrase_file" },
        { &c.state, "state" },
        { &c.ledger, "ledger" },
        { &c.ready_file, "ready_file" },
    };
    *out = c;
    SEFL_TRY(settings_complete(s));
    SEFL_TRY(settings_address(&c.host, &c.port, s, "listen", 0));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        SEFL_TRY(settings_path(paths[i].to, s, paths[i].key, folder));
    SEFL_CHECK(!c.key_lock || !c.passphrase_file, SEFL_EINVAL,
               "key_lock and passphrase_file: only one of them opens the key");
    SEFL_TRY(health_settings(&c.health_host, &c.health_port, s));
    if (*settings_text(s, "user"))
        SEFL_TRY(sefl_strdup(&c.user, settings_text(s, "user")));
    c.threads = (unsigned)settings_u64(s, "threads");
    c.link_silence_s = (unsigned)settings_u64(s, "link_silence");
    c.stay = settings_bool(s, "stay");
    *out = c, c = (csp_settings){ 0 };
done:
    csp_settings_clear(&c);
    return st;
}

void csp_settings_clear(csp_settings *c)
{
    char *all[] = {
        c->ca,         c->user,  c->host,   c->cert, c->tls_key,  c->peers,           c->sign_key,
        c->task,       c->state, c->ledger, c->key,  c->key_lock, c->passphrase_file, c->ready_file,
        c->health_host
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sefl_free(all[i]);
    *c = (csp_settings){ 0 };
}

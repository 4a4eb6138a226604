#include "base/alloc.h"
#include "config/paths.h"
#include "roles/aggregator/aggregator.h"
#include "roles/aggregator/lanes.h"
#include "roles/health.h"

const setting_def aggregator_schema[] = {
    { "listen", SETTING_TEXT, NULL, .help = "address:port; port 0: the system chooses" },
    { "csp", SETTING_TEXT, NULL, .help = "host:port of the cryptography service provider" },
    { "tls.cert", SETTING_PATH, NULL, .help = "this server's certificate" },
    { "tls.key", SETTING_PATH, NULL, .help = "its key" },
    { "tls.peers", SETTING_PATH, NULL, .help = "the CA of the clients, and no other" },
    { "tls.csp_peers", SETTING_PATH, NULL, .help = "the CA of the cryptography service provider" },
    { "ca", SETTING_PATH, "",
      .help = "folder of 'sefl ca new': its trust list says who gets in; empty: tls.peers does" },
    { "sign_key", SETTING_PATH, NULL, .help = "this server's signing key" },
    { "task", SETTING_PATH, NULL, .help = "the task, signed by both servers" },
    { "vocab", SETTING_PATH, NULL, .help = "the public word list" },
    { "init", SETTING_PATH, NULL, .help = "the initial model" },
    { "valid", SETTING_PATH, "",
      .help = "the public validation text that the task names; empty: none" },
    { "state", SETTING_PATH, NULL, .help = "folder of the journal and of updates" },
    { "models", SETTING_PATH, NULL, .help = "folder of released models" },
    { "models_keep", SETTING_U64, "20", .min = 2, .max = 1u << 30,
      .help = "how many of the latest models stay in that folder" },
    { "models_every", SETTING_U64, "100", .max = 1u << 30,
      .help = "of older models every so many-th stays; 1: all, 0: none" },
    { "ledger", SETTING_PATH, NULL, .help = "the population's privacy ledger" },
    { "memory_lock", SETTING_WORD, "required", .words = "required try",
      .help =
          "keys that the system does not lock in memory (LimitMEMLOCK=): an error, or a warning" },
    { "threads", SETTING_U64, "0", .max = 256, .help = "0: one a core" },
    { "connections", SETTING_U64, "512", .min = 1, .max = 65536, .help = "of clients, at most" },
    { "per_address", SETTING_U64, "128", .min = 1, .max = 65536,
      .help = "connections of one address, at most" },
    { "per_client", SETTING_U64, "8", .min = 1, .max = 1024,
      .help = "connections of one client, at most" },
    { "per_issuer", SETTING_U64, "0", .max = 65536,
      .help = "of all clients of a CA without a list of members; 0: a quarter of connections" },
    { "connection_rate", SETTING_U64, "50", .min = 1, .max = 100000,
      .help = "new connections of one address a second; ten times that at once" },
    { "request_rate", SETTING_U64, "20", .min = 1, .max = 100000,
      .help = "requests of one client a second; five times that at once" },
    { "idle", SETTING_U64, "60", .min = 1, .max = 3600,
      .help = "seconds after which a silent connection, or one that is too slow, is cut" },
    { "rate_min", SETTING_U64, "1024", .min = 1, .max = 1 << 30,
      .help = "bytes a second that a sender must reach" },
    { "linger", SETTING_U64, "30", .max = 86400, .help = "seconds it serves after the task's end" },
    { "link_silence", SETTING_U64, "30", .min = 1, .max = 600,
      .help = "seconds without a byte after which the link to CSP is given up" },
    { "lanes", SETTING_U64, "1", .min = 1, .max = LANES_MAX,
      .help = "threads, each with a connection to CSP, that make noise shares" },
    { "audit", SETTING_U64, "8", .max = 1u << 30,
      .help = "one session of noise shares in so many is audited; 0: none" },
    { "ready_file", SETTING_PATH, "", .help = "written when it serves: host:port" },
    { "health", SETTING_TEXT, "",
      .help = "loopback address:port of /healthz, plain HTTP; empty: none" },
    { "user", SETTING_TEXT, "", .help = "whom root becomes when the port is bound" },
    { "log", SETTING_WORD, "info", .words = "debug info warn error off" },
    { 0 },
};

sefl_status aggregator_settings_make(aggregator_settings *out, const settings *s,
                                     const char *folder)
{
    sefl_status st = SEFL_OK;
    aggregator_settings c = { 0 };
    struct {
        char **to;
        const char *key;
    } paths[] = {
        { &c.ca, "ca" },
        { &c.cert, "tls.cert" },
        { &c.tls_key, "tls.key" },
        { &c.peers, "tls.peers" },
        { &c.csp_peers, "tls.csp_peers" },
        { &c.sign_key, "sign_key" },
        { &c.task, "task" },
        { &c.vocab, "vocab" },
        { &c.init, "init" },
        { &c.valid, "valid" },
        { &c.state, "state" },
        { &c.models, "models" },
        { &c.ledger, "ledger" },
        { &c.ready_file, "ready_file" },
    };
    *out = c;
    SEFL_TRY(settings_complete(s));
    SEFL_TRY(settings_address(&c.host, &c.port, s, "listen", 0));
    SEFL_TRY(settings_address(&c.csp_host, &c.csp_port, s, "csp", 1));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        SEFL_TRY(settings_path(paths[i].to, s, paths[i].key, folder));
    SEFL_TRY(health_settings(&c.health_host, &c.health_port, s));
    if (*settings_text(s, "user"))
        SEFL_TRY(sefl_strdup(&c.user, settings_text(s, "user")));
    c.threads = (unsigned)settings_u64(s, "threads");
    c.models_keep = settings_u64(s, "models_keep");
    c.models_every = settings_u64(s, "models_every");
    c.connections = (unsigned)settings_u64(s, "connections");
    c.per_address = (unsigned)settings_u64(s, "per_address");
    c.per_client = (unsigned)settings_u64(s, "per_client");
    c.per_issuer = (unsigned)settings_u64(s, "per_issuer");
    if (c.per_issuer == 0)
        c.per_issuer = (c.connections + 3) / 4;
    c.connection_rate = (unsigned)settings_u64(s, "connection_rate");
    c.request_rate = (unsigned)settings_u64(s, "request_rate");
    c.idle_s = (unsigned)settings_u64(s, "idle");
    c.rate_min = (unsigned)settings_u64(s, "rate_min");
    c.linger_s = (unsigned)settings_u64(s, "linger");
    c.link_silence_s = (unsigned)settings_u64(s, "link_silence");
    c.lanes = (unsigned)settings_u64(s, "lanes");
    c.audit = settings_u64(s, "audit");
    *out = c, c = (aggregator_settings){ 0 };
done:
    aggregator_settings_clear(&c);
    return st;
}

void aggregator_settings_clear(aggregator_settings *c)
{
    char *all[] = { c->ca,    c->user,      c->host,     c->csp_host,   c->cert,   c->tls_key,
                    c->peers, c->csp_peers, c->sign_key, c->task,       c->vocab,  c->init,
                    c->state, c->models,    c->valid,    c->ready_file, c->ledger, c->health_host };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sefl_free(all[i]);
    *c = (aggregator_settings){ 0 };
}

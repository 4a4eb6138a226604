#include "roles/aggregator/aggregator.h"
#include "roles/aggregator/lanes.h"
#include "roles/health.h"
#include "roles/server.h"
#include "roles/server_settings.h"
#include "store/journal/journal.h"

#define TO(member) SETTING_TO(aggregator_settings, member)

const setting_def aggregator_schema[] = {
    { "listen", SETTING_ADDRESS, NULL, TO(listen), .example = "0.0.0.0:7000",
      .help = "address:port to listen on; if the port is 0, the system chooses one" },
    { "csp", SETTING_ADDRESS, NULL, TO(csp), .min = 1, .example = "csp.example:7001",
      .help = "host:port of the cryptography service provider" },
    SERVER_TLS(aggregator_settings),
    { "tls.peers", SETTING_PATH, NULL, TO(peers), .example = "peers.pem",
      .help = "the CA of the clients, and no other CA: CSP must not be able to enrol clients" },
    { "tls.csp_peers", SETTING_PATH, NULL, TO(csp_peers), .example = "csp_peers.pem",
      .help = "the CA of the cryptography service provider" },
    { "ca", SETTING_PATH, "", TO(ca), .example = "../ca/aggregator", .arg = "FOLDER",
      .help = "folder of 'sefl ca new' whose trust list admits clients; if empty, tls.peers does" },
    SERVER_TASK(aggregator_settings),
    { "vocab", SETTING_PATH, "", TO(files.vocab), .example = "../public/vocab.txt",
      .help = "the public vocabulary; empty if the task's model is external" },
    { "init", SETTING_PATH, "", TO(files.init), .example = "../public/init.safetensors",
      .help = "the initial model of `task`" },
    { "valid", SETTING_PATH, "", TO(files.valid), .example = "../public/valid.txt",
      .help = "the public validation text; empty if the task names none" },
    { "state", SETTING_PATH, NULL, TO(state), .example = "state", .arg = "FOLDER", .created = true,
      .help = "folder for the journal and the uploads" },
    { "store", SETTING_TEXT, "", TO(store), .arg = "URL",
      .help = "database, postgresql://USER@HOST/DATABASE: several aggregators share it and are one "
              "server (docs/OPERATING.md, section 4); if empty, the journal is in `state`" },
    { "shared", SETTING_PATH, "", TO(shared), .arg = "FOLDER", .created = true,
      .help = "with `store`: folder for uploads that every aggregator sees; set `models`, `ledger` "
              "and `ca` to places that every aggregator sees, too" },
    { "lease", SETTING_U64, "10", TO(lease_s), .min = 1, .max = 600,
      .help = "with `store`: seconds after which the others take over the work of an aggregator "
              "that does not answer" },
    { "models", SETTING_PATH, NULL, TO(files.models), .example = "models", .arg = "FOLDER",
      .created = true, .help = "folder for released models; with `tasks`, each has its own in it" },
    { "models_keep", SETTING_U64, "20", TO(files.keep), .min = 2, .max = 1u << 30,
      .help = "number of most recent models to keep" },
    { "models_every", SETTING_U64, "100", TO(files.every), .max = 1u << 30,
      .help = "keep one in this many older models; 1 keeps all, 0 keeps none" },
    { "integers_keep", SETTING_U64, "10", TO(files.integers), .max = 1u << 30,
      .help = "number of most recent rounds whose released integers to keep for 'sefl verify', up "
              "to twice as many; 0 keeps none" },
    SERVER_PROCESS(aggregator_settings, "127.0.0.1:7010", "127.0.0.1:7020"),
    { "connections", SETTING_U64, "512", TO(limits.connections), .min = 1, .max = 65536,
      .help = "maximum number of client connections" },
    { "per_address", SETTING_U64, "128", TO(limits.per_address), .min = 1, .max = 65536,
      .help = "maximum number of connections from one address" },
    { "per_client", SETTING_U64, "8", TO(limits.per_peer), .min = 1, .max = 1024,
      .help = "maximum number of connections from one client" },
    { "per_issuer", SETTING_U64, "0", TO(limits.per_issuer), .max = 65536,
      .help = "maximum number of connections from the clients of a CA whose members the trust list "
              "does not name; 0 means a quarter of `connections`" },
    { "connection_rate", SETTING_U64, "50", TO(limits.connection_rate), .min = 1, .max = 100000,
      .help = "limit of new connections per second and address; a burst may be ten times that" },
    { "request_rate", SETTING_U64, "20", TO(limits.request_rate), .min = 1, .max = 100000,
      .help = "limit of requests per second and client; a burst may be five times that" },
    { "idle", SETTING_U64, "60", TO(limits.idle_s), .min = 1, .max = 3600,
      .help = "seconds after which the server closes a silent or slow connection" },
    { "rate_min", SETTING_U64, "1024", TO(limits.rate_min), .min = 1, .max = 1 << 30,
      .help = "minimum upload speed in bytes per second" },
    { "linger", SETTING_U64, "30", TO(linger_s), .max = 86400,
      .help = "seconds for which the server keeps answering after the task has ended, and after "
              "the last request for the final model (in all at most ten times this, or twice if "
              "another task waits); members that are offline for longer miss it" },
    { "lanes", SETTING_U64, "1", TO(lanes), .min = 1, .max = LANES_MAX,
      .help = "number of threads that make noise shares, each with its own connection to CSP" },
    { "audit", SETTING_U64, "8", TO(audit), .max = 1u << 30,
      .help = "audit one noise session in this many; 0 audits none" },
    { 0 },
};

/* With `tasks`, the files of a task are in its own folder. */
static sefl_status no_files(const settings *s)
{
    static const char *const files[] = { "init", "vocab", "valid" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        SEFL_NEED(!*settings_text(s, files[i]), SEFL_EINVAL,
                  "%s: leave %s out: with `tasks`, the folder of each task has its own "
                  "init.safetensors, vocab.txt and valid.txt",
                  settings_origin(s, files[i]), files[i]);
    return SEFL_OK;
}

static sefl_status check_store(const aggregator_settings *c, const settings *s)
{
    if (!c->store) {
        SEFL_NEED(!c->shared, SEFL_EINVAL, "%s: `shared` has no use without `store`",
                  settings_origin(s, "shared"));
        return SEFL_OK;
    }
    SEFL_PASS(sefl_at(journal_check_store(c->store), "%s", settings_origin(s, "store")));
    SEFL_NEED(c->shared, SEFL_EINVAL,
              "%s: `store` needs `shared`, a folder for uploads that every aggregator sees",
              settings_origin(s, "store"));
    SEFL_NEED(!c->tasks, SEFL_EINVAL,
              "%s: aggregators that share a store serve one task: set `task`, not `tasks`",
              settings_origin(s, "tasks"));
    return SEFL_OK;
}

sefl_status aggregator_settings_make(aggregator_settings *out, const settings *s)
{
    aggregator_settings c = { 0 };
    *out = c;
    SEFL_PASS(settings_fill(s, &c));
    SEFL_PASS(server_check_tasks(s));
    if (c.tasks)
        SEFL_PASS(no_files(s));
    else
        SEFL_NEED(c.files.init, SEFL_EINVAL, "%s: init is not set: `task` needs its initial model",
                  settings_origin(s, "task"));
    SEFL_PASS(check_store(&c, s));
    SEFL_PASS(health_check(&c.health, s));
    SEFL_PASS(server_check_page(&c.page, &c.page_tls, s));
    if (c.limits.per_issuer == 0)
        c.limits.per_issuer = (c.limits.connections + 3) / 4;
    *out = c;
    return SEFL_OK;
}

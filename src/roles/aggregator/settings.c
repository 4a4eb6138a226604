#include "base/alloc.h"
#include "roles/aggregator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const setting_def aggregator_schema[] = {
    { "listen", SETTING_TEXT, NULL, .help = "address:port; port 0: the system chooses" },
    { "csp", SETTING_TEXT, NULL, .help = "host:port of the cryptography service provider" },
    { "tls.cert", SETTING_TEXT, NULL, .help = "this server's certificate" },
    { "tls.key", SETTING_TEXT, NULL, .help = "its key" },
    { "tls.peers", SETTING_TEXT, NULL, .help = "the CA of the clients, and no other" },
    { "tls.csp_peers", SETTING_TEXT, NULL, .help = "the CA of the cryptography service provider" },
    { "ca", SETTING_TEXT, "",
      .help = "folder of 'sefl ca new': its trust list says who gets in; empty: tls.peers does" },
    { "sign_key", SETTING_TEXT, NULL, .help = "this server's signing key" },
    { "task", SETTING_TEXT, NULL, .help = "the task, signed by both servers" },
    { "vocab", SETTING_TEXT, NULL, .help = "the public word list" },
    { "init", SETTING_TEXT, NULL, .help = "the initial model" },
    { "valid", SETTING_TEXT, "", .help = "public text to validate with; empty: none" },
    { "state", SETTING_TEXT, NULL, .help = "folder of the journal and of updates" },
    { "models", SETTING_TEXT, NULL, .help = "folder of released models" },
    { "ledger", SETTING_TEXT, NULL, .help = "the population's privacy ledger" },
    { "threads", SETTING_U64, "0", .max = 256, .help = "0: one a core" },
    { "connections", SETTING_U64, "512", .min = 1, .max = 65536, .help = "of clients, at most" },
    { "per_address", SETTING_U64, "128", .min = 1, .max = 65536,
      .help = "connections of one address, at most" },
    { "per_client", SETTING_U64, "8", .min = 1, .max = 1024,
      .help = "connections of one client, at most" },
    { "connection_rate", SETTING_U64, "50", .min = 1, .max = 100000,
      .help = "new connections of one address a second; ten times that at once" },
    { "request_rate", SETTING_U64, "20", .min = 1, .max = 100000,
      .help = "requests of one client a second; five times that at once" },
    { "idle", SETTING_U64, "60", .min = 1, .max = 3600,
      .help = "seconds after which a silent connection, or one that is too slow, is cut" },
    { "rate_min", SETTING_U64, "1024", .min = 1, .max = 1 << 30,
      .help = "bytes a second that a sender must reach" },
    { "linger", SETTING_U64, "30", .max = 86400, .help = "seconds it serves after the task's end" },
    { "ready_file", SETTING_TEXT, "", .help = "written when it serves: host:port" },
    { "user", SETTING_TEXT, "", .help = "whom root becomes when the port is bound" },
    { "log", SETTING_WORD, "info", .words = "debug info warn error off" },
    { 0 },
};

static const char *const path_keys[] = {
    "ca",    "tls.cert", "tls.key", "tls.peers", "tls.csp_peers", "sign_key", "task",
    "vocab", "init",     "valid",   "state",     "models",        "ledger",   "ready_file"
};

bool aggregator_setting_is_path(const char *key)
{
    for (size_t i = 0; i < sizeof path_keys / sizeof *path_keys; i++)
        if (strcmp(key, path_keys[i]) == 0)
            return true;
    return false;
}

/* host:port or [address]:port, port `least` to 65535. */
static sefl_status address_of(char **host, uint16_t *port, const settings *s, const char *key,
                              unsigned least)
{
    sefl_status st = SEFL_OK;
    const char *text = settings_text(s, key);
    const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
    char *stop = NULL;
    unsigned long n = 65536;
    if (text[0] == '[') {
        begin = text + 1, end = strchr(text, ']');
        colon = end && end[1] == ':' ? end + 1 : NULL;
    } else if (colon && memchr(text, ':', (size_t)(colon - text))) {
        end = NULL; /* an IPv6 address without brackets: where does the port begin? */
    }
    if (colon && end && colon[1] >= '0' && colon[1] <= '9')
        n = strtoul(colon + 1, &stop, 10);
    SEFL_CHECK(stop && *stop == 0 && n >= least && n <= 65535 && end > begin, SEFL_EINVAL,
               "%s: wants host:port or [address]:port, not \"%.64s\"", key, text);
    SEFL_TRY(sefl_new(host, (size_t)(end - begin) + 1, 1));
    memcpy(*host, begin, (size_t)(end - begin));
    *port = (uint16_t)n;
done:
    return st;
}

/* The value of a path key, from the folder of its file; NULL if it is empty. */
static sefl_status path_at(char **out, const settings *s, const char *key, const char *folder)
{
    sefl_status st = SEFL_OK;
    const char *value = settings_text(s, key);
    size_t n = strlen(value) + (folder ? strlen(folder) : 0) + 2;
    bool as_it_is = *value == '/' || !folder || !*folder;
    if (!*value)
        goto done;
    SEFL_TRY(sefl_new(out, n, 1));
    snprintf(*out, n, "%s%s%s", as_it_is ? "" : folder, as_it_is ? "" : "/", value);
done:
    return st;
}

sefl_status aggregator_settings_make(aggregator_settings *out, const settings *s,
                                     const char *folder)
{
    sefl_status st = SEFL_OK;
    aggregator_settings c = { 0 };
    struct {
        char **to;
        const char *key;
        bool must;
    } paths[] = {
        { &c.ca, "ca", false },
        { &c.cert, "tls.cert", true },
        { &c.tls_key, "tls.key", true },
        { &c.peers, "tls.peers", true },
        { &c.csp_peers, "tls.csp_peers", true },
        { &c.sign_key, "sign_key", true },
        { &c.task, "task", true },
        { &c.vocab, "vocab", true },
        { &c.init, "init", true },
        { &c.valid, "valid", false },
        { &c.state, "state", true },
        { &c.models, "models", true },
        { &c.ledger, "ledger", true },
        { &c.ready_file, "ready_file", false },
    };
    *out = c;
    SEFL_TRY(settings_complete(s));
    SEFL_TRY(address_of(&c.host, &c.port, s, "listen", 0));
    SEFL_TRY(address_of(&c.csp_host, &c.csp_port, s, "csp", 1));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        SEFL_TRY(path_at(paths[i].to, s, paths[i].key, folder));
        SEFL_CHECK(*paths[i].to || !paths[i].must, SEFL_EINVAL, "%s is empty: it wants a path",
                   paths[i].key);
    }
    if (*settings_text(s, "user"))
        SEFL_TRY(sefl_strdup(&c.user, settings_text(s, "user")));
    c.threads = (unsigned)settings_u64(s, "threads");
    c.connections = (unsigned)settings_u64(s, "connections");
    c.per_address = (unsigned)settings_u64(s, "per_address");
    c.per_client = (unsigned)settings_u64(s, "per_client");
    c.connection_rate = (unsigned)settings_u64(s, "connection_rate");
    c.request_rate = (unsigned)settings_u64(s, "request_rate");
    c.idle_s = (unsigned)settings_u64(s, "idle");
    c.rate_min = (unsigned)settings_u64(s, "rate_min");
    c.linger_s = (unsigned)settings_u64(s, "linger");
    SEFL_TRY(log_level_parse(&c.level, settings_text(s, "log")));
    *out = c, c = (aggregator_settings){ 0 };
done:
    aggregator_settings_clear(&c);
    return st;
}

void aggregator_settings_clear(aggregator_settings *c)
{
    char *all[] = { c->ca,    c->user,      c->host,     c->csp_host,   c->cert,  c->tls_key,
                    c->peers, c->csp_peers, c->sign_key, c->task,       c->vocab, c->init,
                    c->state, c->models,    c->valid,    c->ready_file, c->ledger };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sefl_free(all[i]);
    *c = (aggregator_settings){ 0 };
}

#include "base/alloc.h"
#include "roles/csp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const setting_def csp_schema[] = {
    { "listen", SETTING_TEXT, NULL, .help = "address:port; port 0: the system chooses" },
    { "tls.cert", SETTING_TEXT, NULL, .help = "this server's certificate" },
    { "tls.key", SETTING_TEXT, NULL, .help = "its key" },
    { "tls.peers", SETTING_TEXT, NULL, .help = "the CA of the aggregation server" },
    { "ca", SETTING_TEXT, "",
      .help = "folder of 'sefl ca new': its trust list says who gets in; empty: tls.peers does" },
    { "sign_key", SETTING_TEXT, NULL, .help = "this server's signing key" },
    { "key", SETTING_TEXT, NULL, .help = "the sealed secret key" },
    { "key_lock", SETTING_TEXT, "", .help = "the key file that opens it" },
    { "passphrase_file", SETTING_TEXT, "",
      .help = "a file with the passphrase that opens it; neither: asks on the terminal" },
    { "task", SETTING_TEXT, NULL, .help = "the task, signed by both servers" },
    { "state", SETTING_TEXT, NULL, .help = "folder of the journal" },
    { "ledger", SETTING_TEXT, NULL, .help = "the population's privacy ledger" },
    { "threads", SETTING_U64, "0", .max = 256, .help = "0: one a core" },
    { "ready_file", SETTING_TEXT, "", .help = "written when it serves: host:port" },
    { "user", SETTING_TEXT, "", .help = "whom root becomes when the port is bound" },
    { "log", SETTING_WORD, "info", .words = "debug info warn error off" },
    { "stay", SETTING_BOOL, "false", .help = "serve on when the task is over" },
    { 0 },
};

static const char *const path_keys[] = { "ca",        "tls.cert", "tls.key",
                                         "tls.peers", "sign_key", "key",
                                         "key_lock",  "task",     "passphrase_file",
                                         "state",     "ledger",   "ready_file" };

bool csp_setting_is_path(const char *key)
{
    for (size_t i = 0; i < sizeof path_keys / sizeof *path_keys; i++)
        if (strcmp(key, path_keys[i]) == 0)
            return true;
    return false;
}

/* address:port or [address]:port, port 0 to 65535. */
static sefl_status listen_address(char **host, uint16_t *port, const char *text)
{
    sefl_status st = SEFL_OK;
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
    SEFL_CHECK(stop && *stop == 0 && n <= 65535 && end > begin, SEFL_EINVAL,
               "listen: wants address:port or [address]:port, not \"%.64s\"", text);
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

sefl_status csp_settings_make(csp_settings *out, const settings *s, const char *folder)
{
    sefl_status st = SEFL_OK;
    csp_settings c = { 0 };
    struct {
        char **to;
        const char *key;
        bool must;
    } paths[] = {
        { &c.ca, "ca", false },
        { &c.cert, "tls.cert", true },
        { &c.tls_key, "tls.key", true },
        { &c.peers, "tls.peers", true },
        { &c.sign_key, "sign_key", true },
        { &c.key, "key", true },
        { &c.key_lock, "key_lock", false },
        { &c.task, "task", true },
        { &c.passphrase_file, "passphrase_file", false },
        { &c.state, "state", true },
        { &c.ledger, "ledger", true },
        { &c.ready_file, "ready_file", false },
    };
    *out = c;
    SEFL_TRY(settings_complete(s));
    SEFL_TRY(listen_address(&c.host, &c.port, settings_text(s, "listen")));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        SEFL_TRY(path_at(paths[i].to, s, paths[i].key, folder));
        SEFL_CHECK(*paths[i].to || !paths[i].must, SEFL_EINVAL, "%s is empty: it wants a path",
                   paths[i].key);
    }
    SEFL_CHECK(!c.key_lock || !c.passphrase_file, SEFL_EINVAL,
               "key_lock and passphrase_file: only one of them opens the key");
    if (*settings_text(s, "user"))
        SEFL_TRY(sefl_strdup(&c.user, settings_text(s, "user")));
    c.threads = (unsigned)settings_u64(s, "threads");
    c.stay = settings_bool(s, "stay");
    SEFL_TRY(log_level_parse(&c.level, settings_text(s, "log")));
    *out = c, c = (csp_settings){ 0 };
done:
    csp_settings_clear(&c);
    return st;
}

void csp_settings_clear(csp_settings *c)
{
    char *all[] = {
        c->ca,   c->user,  c->host,   c->cert, c->tls_key,  c->peers,           c->sign_key,
        c->task, c->state, c->ledger, c->key,  c->key_lock, c->passphrase_file, c->ready_file
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sefl_free(all[i]);
    *c = (csp_settings){ 0 };
}

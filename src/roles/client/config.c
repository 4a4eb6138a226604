#include "roles/client/config.h"

#include "base/alloc.h"
#include "config/paths.h"
#include "config/yaml/yaml.h"
#include "crypto/sign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const setting_def client_schema[] = {
    { "server", SETTING_TEXT, NULL, .help = "host:port of the aggregation server" },
    { "proxy", SETTING_TEXT, "environment",
      .help = "http://host:port of an HTTP CONNECT proxy; none; environment: https_proxy" },
    { "tls.cert", SETTING_PATH, NULL, .help = "this client's certificate" },
    { "tls.key", SETTING_PATH, NULL, .help = "its key" },
    { "tls.peers", SETTING_PATH, NULL, .help = "the CA of the aggregation server" },
    { "aggregator_key", SETTING_PATH, NULL,
      .help = "pinned signing key of the aggregation server" },
    { "csp_key", SETTING_PATH, NULL, .help = "pinned signing key of the CSP" },
    { "policy", SETTING_PATH, NULL, .help = "what the owner of the text agrees to" },
    { "text", SETTING_PATH, NULL, .help = "file or folder" },
    { "text_format", SETTING_WORD, "guess", .words = "guess text jsonl csv" },
    { "text_field", SETTING_TEXT, "text", .help = "the text's name in JSONL and CSV" },
    { "state", SETTING_PATH, NULL, .help = "folder for rounds under way and receipts" },
    { "ledger", SETTING_PATH, NULL,
      .help = "what the privacy of `text` has been charged, by all tasks" },
    { "threads", SETTING_U64, "0", .max = 256, .help = "0: one a core" },
    { "log", SETTING_WORD, "info", .words = "debug info warn error off" },
    { 0 },
};

const setting_def policy_schema[] = {
    { "epsilon_per_task", SETTING_DECIMAL, "0", .help = "largest target of a task; 0: no rule" },
    { "epsilon_total", SETTING_DECIMAL, "0", .help = "largest epsilon over all tasks; 0: no rule" },
    { "delta_max", SETTING_DECIMAL, "0.0001",
      .help = "largest delta of a task that claims an epsilon; 0: no rule" },
    { "clients_min", SETTING_U64, "0", .max = UINT32_MAX, .help = "smallest number in a sum" },
    { "noise_modes", SETTING_TEXT, "joint,own", .help = "of joint, own, none" },
    { "claim_none", SETTING_BOOL, "false", .help = "tasks that claim no differential privacy" },
    { "rounds_max", SETTING_U64, "0", .help = "most rounds of one task; 0: no rule" },
    { 0 },
};

static sefl_status pinned_key(uint8_t pub[SIGN_PUB_BYTES], const settings *s, const char *key,
                              const char *folder)
{
    sefl_status st = SEFL_OK;
    char *path = NULL;
    SEFL_TRY(settings_path(&path, s, key, folder));
    st = sign_pub_read(pub, path);
    if (st != SEFL_OK)
        st = sefl_fail_at(st, "%s", key);
done:
    sefl_free(path);
    return st;
}

sefl_status client_config_make(client_config *out, const settings *s, const char *folder)
{
    sefl_status st = SEFL_OK;
    client_config c = { 0 };
    const char *proxy, *format;
    *out = c;
    SEFL_TRY(settings_complete(s));
    SEFL_TRY(settings_address(&c.host, &c.port, s, "server", 1));
    proxy = settings_text(s, "proxy");
    if (strcmp(proxy, "environment") != 0)
        SEFL_TRY(sefl_strdup(&c.proxy, strcmp(proxy, "none") == 0 ? "" : proxy));
    SEFL_TRY(settings_path(&c.cert, s, "tls.cert", folder));
    SEFL_TRY(settings_path(&c.key, s, "tls.key", folder));
    SEFL_TRY(settings_path(&c.peers, s, "tls.peers", folder));
    SEFL_TRY(settings_path(&c.policy, s, "policy", folder));
    SEFL_TRY(settings_path(&c.text, s, "text", folder));
    SEFL_TRY(settings_path(&c.state, s, "state", folder));
    SEFL_TRY(settings_path(&c.ledger, s, "ledger", folder));
    SEFL_TRY(sefl_strdup(&c.text_field, settings_text(s, "text_field")));
    format = settings_text(s, "text_format");
    if (strcmp(format, "guess") != 0)
        SEFL_TRY(corpus_format_parse(&c.text_format, format));
    c.threads = (unsigned)settings_u64(s, "threads");
    SEFL_TRY(pinned_key(c.servers.as, s, "aggregator_key", folder));
    SEFL_TRY(pinned_key(c.servers.csp, s, "csp_key", folder));
    SEFL_CHECK(memcmp(c.servers.as, c.servers.csp, SIGN_PUB_BYTES) != 0, SEFL_EINVAL,
               "aggregator_key and csp_key are the same key: the two servers must be two parties");
    *out = c, c = (client_config){ 0 };
done:
    client_config_clear(&c);
    return st;
}

void client_config_clear(client_config *c)
{
    char *all[] = { c->host,   c->proxy, c->cert,       c->key,   c->peers,
                    c->policy, c->text,  c->text_field, c->state, c->ledger };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sefl_free(all[i]);
    *c = (client_config){ 0 };
}

/* ---- policy ---------------------------------------------------------------------------------- */

sefl_status policy_make(policy *out, const settings *s, const pinned *servers)
{
    sefl_status st = SEFL_OK;
    policy p = { .servers = *servers };
    *out = (policy){ 0 };
    SEFL_TRY(settings_complete(s));
    p.epsilon_task = strtod(settings_text(s, "epsilon_per_task"), NULL); /* the schema checked it */
    p.epsilon_total = strtod(settings_text(s, "epsilon_total"), NULL);
    p.delta_max = strtod(settings_text(s, "delta_max"), NULL);
    SEFL_CHECK(p.epsilon_task >= 0 && p.epsilon_total >= 0 && p.delta_max >= 0, SEFL_EINVAL,
               "an epsilon or delta below 0: it must be above, or 0 for no rule");
    p.threshold_min = (uint32_t)settings_u64(s, "clients_min");
    SEFL_TRY(release_modes_parse(&p.noise_modes, "noise_modes", settings_text(s, "noise_modes")));
    p.allow_no_claim = settings_bool(s, "claim_none");
    p.rounds_max = settings_u64(s, "rounds_max");
    *out = p;
done:
    return st;
}

sefl_status policy_read(policy *out, const char *path, const pinned *servers)
{
    sefl_status st = SEFL_OK;
    settings s;
    settings_init(&s, policy_schema);
    SEFL_TRY(yaml_read(&s, path));
    st = policy_make(out, &s, servers);
    if (st != SEFL_OK)
        st = sefl_fail_at(st, "%s", path);
done:
    settings_clear(&s);
    return st;
}

void policy_note_line(const char *path, const char *rule)
{
    char said[512]; /* the sentence so far: reading the file again may replace it */
    const char *at = path;
    settings s;
    snprintf(said, sizeof said, "%s", sefl_last_error());
    settings_init(&s, policy_schema);
    if (yaml_read(&s, path) == SEFL_OK)
        for (size_t i = 0; i < s.count; i++)
            if (strcmp(s.schema[i].key, rule) == 0 && s.origin[i])
                at = s.origin[i];
    sefl_note("%s: %s", at, said);
    settings_clear(&s);
}

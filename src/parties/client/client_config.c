#include "roles/client/client_config.h"

#include "config/yaml/yaml.h"
#include "crypto/sign.h"
#include "fed/hook.h"
#include "model/engine/engine.h"
#include "model/lm_settings.h"
#include "net/https_client.h"
#include "protocol/modes/mode.h"

#include <stdio.h>
#include <string.h>

#define TO(member) SETTING_TO(client_config, member)

const setting_def client_schema[] = {
    { "server", SETTING_ADDRESS, NULL, TO(server), .min = 1, .example = "as.example:7000",
      .help = "host:port of the aggregation server" },
    { "proxy", SETTING_TEXT, "environment", TO(proxy), .arg = "URL",
      .help = "HTTP CONNECT proxy (http://host:port), none, or environment, which uses the "
              "variables https_proxy and no_proxy" },
    { "tls.cert", SETTING_PATH, NULL, TO(cert), .example = "cert.pem",
      .help = "this client's certificate" },
    { "tls.key", SETTING_PATH, NULL, TO(key), .example = "key.pem", .secret = true,
      .help = "the certificate's private key" },
    { "tls.peers", SETTING_PATH, NULL, TO(peers), .example = "peers.pem",
      .help = "the CA of the aggregation server, and no other CA: CSP must not be able to pose as "
              "that server" },
    { "aggregator_key", SETTING_PATH, NULL, TO(aggregator_key), .example = "aggregator.pub",
      .help = "pinned signing key of the aggregation server" },
    { "csp_key", SETTING_PATH, NULL, TO(csp_key), .example = "csp.pub",
      .help = "pinned signing key of CSP" },
    { "policy", SETTING_PATH, NULL, TO(policy), .example = "policy.yml",
      .help = "the text owner's policy, which decides which tasks the client accepts" },
    { "text", SETTING_PATH, NULL, TO(text), .example = "text", .arg = "PATH",
      .help = "file or folder with the text to train on" },
    /* clang-format off */
    TEXT_FORMAT(SETTING_ROW, "text_", text_format, text_field)
    { "state", SETTING_PATH, NULL, TO(state), .example = "state", .arg = "FOLDER", .created = true,
      .help = "folder for rounds in progress, the upload key, receipts and proofs" },
    { "ledger", SETTING_PATH, NULL, TO(ledger), .example = "ledger",
      .help = "the privacy ledger of `text`, shared by all tasks" },
    ENGINE_SETTINGS(SETTING_ROW)
    HOOK_SETTINGS(SETTING_ROW)
    /* clang-format on */
    { "stay", SETTING_FLAG, "false", TO(stay),
      .help = "wait for the next task when a task is over or refused, instead of exiting" },
    { "models", SETTING_PATH, "", TO(models), .arg = "FOLDER", .created = true,
      .help = "folder for the models that the client keeps for its owner; if empty, `models` in "
              "the state folder" },
    { "models_keep", SETTING_CHOICE, "final", TO(models_keep), .words = CLIENT_KEEPS,
      .help = "which models to keep: the final one, each that the client receives (and the "
              "final one), or none" },
    { "eval", SETTING_CHOICE, "none", TO(eval), .words = "none own",
      .help = "own evaluates each model on text of the owner that the client does not train on; "
              "only the owner sees the result" },
    { "eval_share", SETTING_REAL, "0.1", TO(eval_share), .max = 1,
      .help = "share of the text that eval: own holds out of the training" },
    { "eval_text", SETTING_PATH, "", TO(eval_text), .arg = "PATH",
      .help = "file or folder with text for eval: own, instead of a part of `text`" },
    { "log", SETTING_WORD, "info", .words = "debug info warn error off",
      .help = "minimum log level" },
    { 0 },
};

#undef TO
#define TO(member) SETTING_TO(policy, member)

const setting_def policy_schema[] = {
    { "epsilon_per_task", SETTING_REAL, "0", TO(epsilon_task),
      .help = "maximum target epsilon of a task; 0 means no limit" },
    { "epsilon_total", SETTING_REAL, "0", TO(epsilon_total),
      .help = "maximum epsilon over all tasks; 0 means no limit" },
    { "delta_max", SETTING_REAL, "0.0001", TO(delta_max),
      .help = "maximum delta of a task that claims an epsilon; 0 means no limit" },
    { "clients_min", SETTING_U64, "0", TO(threshold_min),
      .help = "minimum number of clients in a sum" },
    { "noise_modes", SETTING_TEXT, "joint,own",
      .help = "comma-separated list of accepted noise modes:" RELEASE_MODES(RELEASE_MODE_WORD) },
    { "claim_none", SETTING_BOOL, "false", TO(allow_no_claim),
      .help = "accept tasks that claim no differential privacy" },
    { "rounds_max", SETTING_U64, "0", TO(rounds_max),
      .help = "maximum number of rounds in one task; 0 means no limit" },
    { 0 },
};

static sefl_status pinned_key(uint8_t pub[SIGN_PUB_BYTES], const settings *s, const char *key)
{
    sefl_status st = sign_pub_read(pub, settings_text(s, key));
    return sefl_at(st, "%s: %s", settings_origin(s, key), key);
}

static sefl_status check_eval(client_config *c, const settings *s)
{
    SEFL_NEED(!c->eval || !c->trainer, SEFL_EINVAL,
              "%s: eval is own, but `trainer` chooses its data itself: let it evaluate, or leave "
              "one of the two out",
              settings_origin(s, "eval"));
    SEFL_NEED(!c->eval || c->eval_text || (c->eval_share > 0 && c->eval_share < 1), SEFL_EINVAL,
              "%s: eval_share is %g: must be above 0 and below 1, or set eval_text",
              settings_origin(s, "eval_share"), c->eval_share);
    return SEFL_OK;
}

sefl_status client_config_make(client_config *out, const settings *s)
{
    client_config c = { 0 };
    *out = c;
    SEFL_PASS(settings_fill(s, &c));
    if (!c.proxy || strcmp(c.proxy, "none") == 0)
        c.proxy = "";
    else if (strcmp(c.proxy, "environment") == 0)
        c.proxy = NULL;
    SEFL_PASS(sefl_at(https_proxy_check(c.proxy), "%s: proxy", settings_origin(s, "proxy")));
    SEFL_PASS(check_eval(&c, s));
    SEFL_PASS(pinned_key(c.servers.as, s, "aggregator_key"));
    SEFL_PASS(pinned_key(c.servers.csp, s, "csp_key"));
    SEFL_NEED(memcmp(c.servers.as, c.servers.csp, SIGN_PUB_BYTES) != 0, SEFL_EINVAL,
              "%s: csp_key and aggregator_key are the same key: the servers must be two different "
              "parties",
              settings_origin(s, "csp_key"));
    *out = c;
    return SEFL_OK;
}

/* ---- policy ---------------------------------------------------------------------------------- */

sefl_status policy_make(policy *out, const settings *s, const pinned *servers)
{
    policy p = { .servers = *servers };
    *out = (policy){ 0 };
    SEFL_PASS(settings_fill(s, &p));
    SEFL_PASS(
        sefl_at(release_modes_parse(&p.noise_modes, "noise_modes", settings_text(s, "noise_modes")),
                "%s", settings_origin(s, "noise_modes")));
    *out = p;
    return SEFL_OK;
}

sefl_status policy_read(policy *out, const char *path, const pinned *servers)
{
    sefl_status st = SEFL_OK;
    settings s;
    settings_init(&s, policy_schema);
    SEFL_TRY(yaml_read(&s, path));
    SEFL_TRY(policy_make(out, &s, servers));
done:
    settings_clear(&s);
    return st;
}

void policy_note_line(const char *path, const char *rule)
{
    char said[512]; /* the message so far: reloading the file may replace it */
    settings s;
    snprintf(said, sizeof said, "%s", sefl_last_error());
    settings_init(&s, policy_schema);
    bool found = yaml_read(&s, path) == SEFL_OK && setting_find(policy_schema, rule) &&
                 settings_given(&s, rule);
    sefl_note("%s: %s", found ? settings_origin(&s, rule) : path, said);
    settings_clear(&s);
}

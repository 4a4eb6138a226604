#include "simulate/overview.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "config/yaml/yaml.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is(const settings *s, const char *key, const char *word)
{
    return strcmp(settings_text(s, key), word) == 0;
}

/* What its perplexity is measured on: a text's own validation part, or what is generated. */
static void name_text(overview *o, const settings *s)
{
    const char *path = settings_text(s, "data.path");
    if (*path)
        snprintf(o->text, sizeof o->text, "%.1000s, words %.1000s %.24s", path,
                 settings_text(s, "data.vocab"), settings_text(s, "data.vocab_words"));
    else
        snprintf(o->text, sizeof o->text,
                 "generated, seed %.24s, %.24s clients, %.24s words, alpha %.40s",
                 settings_text(s, "seed"), settings_text(s, "clients"),
                 settings_text(s, "data.words"), settings_text(s, "data.alpha"));
}

static void take_config(overview *o, const settings *s)
{
    name_text(o, s);
    snprintf(o->name, sizeof o->name, "%.200s", settings_text(s, "name"));
    const protection *p = protection_named(settings_text(s, "protection"));
    o->protection = p->name;
    o->full = p->two_servers && is(s, "crypto", "full");
    o->clients = (uint32_t)settings_u64(s, "clients");
    o->rounds_asked = settings_u64(s, "rounds.count");
    o->claim = p->quantises && is(s, "privacy.claim", "dp");
    snprintf(o->scheme, sizeof o->scheme, "%.15s", settings_text(s, "crypto.scheme"));
    snprintf(o->noise, sizeof o->noise, "%.15s",
             p->shown ? p->shown : settings_text(s, "privacy.noise"));
    snprintf(o->z, sizeof o->z, "%.40s",
             strcmp(o->noise, "none") == 0 ? "0" : settings_text(s, "privacy.z"));
    snprintf(o->block, sizeof o->block, "%.20s", settings_text(s, "model.block"));
}

static void take_rounds(overview *o, const run_round *r, size_t n)
{
    double released = 0, clients = 0, link = 0, up = 0;
    bool linked = false;
    for (size_t i = 0; i < n; i++) {
        o->skipped += r[i].skipped;
        o->blocked += r[i].blocked;
        o->seconds += r[i].seconds / (double)n;
        if (r[i].skipped)
            continue;
        released++;
        clients += r[i].clients;
        up += (double)r[i].up;
        o->train += r[i].train, o->encrypt += r[i].encrypt, o->sum += r[i].sum;
        o->twopc += r[i].twopc;
        if (r[i].link != UINT64_MAX)
            linked = true, link += (double)r[i].link;
        if (r[i].perplexity > 0) {
            o->last = r[i].perplexity;
            if (o->best == 0 || r[i].perplexity < o->best)
                o->best = r[i].perplexity, o->best_round = r[i].round;
        }
        if (r[i].has_epsilon) {
            o->has_epsilon = true;
            o->epsilon_server = r[i].epsilon_server;
            o->epsilon_others = r[i].epsilon_others;
        }
    }
    o->rounds = n;
    o->link = linked ? link / released : NAN;
    if (released == 0)
        return;
    o->clients_mean = clients / released;
    o->up_client = clients > 0 ? up / clients : 0;
    o->train /= released, o->encrypt /= released, o->sum /= released, o->twopc /= released;
}

sefl_status overview_read(overview *out, const char *folder)
{
    sefl_status st = SEFL_OK;
    settings s;
    run_round *list = NULL;
    run_state state = { 0 };
    size_t n = 0;
    run_folder f;
    settings_init(&s, experiment_schema());
    *out = (overview){ 0 };
    int len = snprintf(f.root, sizeof f.root, "%s", folder);
    SEFL_CHECK(len > 0 && (size_t)len < sizeof f.root, SEFL_EINVAL, "no folder's name");
    SEFL_CHECK(file_exists(run_path(&f, "config.yml")), SEFL_ENOTFOUND,
               "%s is no run: it has no config.yml (sefl simulate makes runs/NAME)", folder);
    snprintf(out->folder, sizeof out->folder, "%s", folder);
    SEFL_TRY(yaml_read(&s, run_path(&f, "config.yml")));
    take_config(out, &s);
    if (file_exists(run_path(&f, "metrics.jsonl")))
        SEFL_TRY(run_metrics_read(&list, &n, run_path(&f, "metrics.jsonl")));
    take_rounds(out, list, n);
    if (file_exists(run_path(&f, "state"))) {
        SEFL_TRY(run_state_read(&state, run_path(&f, "state")));
        out->over = state.over;
    }
done:
    run_state_clear(&state);
    sefl_free(list);
    settings_clear(&s);
    return st;
}

sefl_status overview_json(sefl_buf *out, const overview *o)
{
    json j = json_into(out);
    json_open(&j, '{');
    json_key(&j, "name"), json_str(&j, o->name);
    json_key(&j, "folder"), json_str(&j, o->folder);
    json_key(&j, "protection"), json_str(&j, o->protection);
    json_key(&j, "crypto"), json_str(&j, o->full ? "full" : "clear");
    json_key(&j, "scheme"), json_str(&j, o->scheme);
    json_key(&j, "noise"), json_str(&j, o->noise);
    json_key(&j, "z"), json_str(&j, o->z);
    json_key(&j, "block"), json_str(&j, o->block);
    json_key(&j, "clients"), json_u64(&j, o->clients);
    json_key(&j, "clients_mean"), json_real(&j, o->clients_mean);
    json_key(&j, "over"), json_bool(&j, o->over);
    json_key(&j, "rounds"), json_u64(&j, o->rounds);
    json_key(&j, "rounds_asked"), json_u64(&j, o->rounds_asked);
    json_key(&j, "skipped"), json_u64(&j, o->skipped);
    json_key(&j, "blocked"), json_u64(&j, o->blocked);
    if (o->last > 0) {
        json_key(&j, "last_perplexity"), json_real(&j, o->last);
        json_key(&j, "best_perplexity"), json_real(&j, o->best);
        json_key(&j, "best_round"), json_u64(&j, o->best_round);
    }
    json_key(&j, "text"), json_str(&j, o->text);
    json_key(&j, "claim"), json_str(&j, o->claim ? "dp" : "none");
    if (o->has_epsilon) {
        json_key(&j, "epsilon_server"), json_real(&j, o->epsilon_server);
        json_key(&j, "epsilon_others"), json_real(&j, o->epsilon_others);
    }
    json_key(&j, "round_seconds"), json_real(&j, o->seconds);
    json_key(&j, "train_seconds"), json_real(&j, o->train);
    json_key(&j, "encrypt_seconds"), json_real(&j, o->encrypt);
    json_key(&j, "sum_seconds"), json_real(&j, o->sum);
    json_key(&j, "2pc_seconds"), json_real(&j, o->twopc);
    json_key(&j, "up_bytes_per_client"), json_real(&j, o->up_client);
    if (!isnan(o->link))
        json_key(&j, "link_bytes"), json_real(&j, o->link);
    json_close(&j, '}');
    return json_end(&j);
}

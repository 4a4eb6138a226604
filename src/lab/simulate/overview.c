#include "simulate/overview.h"

#include "base/file.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/log.h"
#include "config/yaml/yaml.h"
#include "model/corpus/corpus.h"
#include "protocol/modes/mode.h"
#include "protocol/task_make.h"
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_NAME = 1001 };

/* Names a file by its contents, or by its path if it cannot be read: runs may reach the same text
 * through different folders. */
static void name_file(char out[TEXT_NAME], const char *path)
{
    uint8_t hash[SHA256_BYTES];
    if (*path && file_exists(path) && file_sha256(hash, NULL, path) == SEFL_OK)
        hex_write(out, hash, sizeof hash);
    else
        snprintf(out, TEXT_NAME, "%s", path);
}

/* Describes the text that perplexity is measured on: that of data.path, or generated. */
static void name_text(overview *o, const settings *s)
{
    const char *path = settings_text(s, "data.path");
    char text[TEXT_NAME], words[TEXT_NAME];
    corpus_paths at = { 0 };
    if (*path) {
        const bool found = corpus_paths_find(&at, path) == SEFL_OK;
        const char *valid = found && at.path[CORPUS_VALID] ? at.path[CORPUS_VALID]
                            : found                        ? at.path[CORPUS_TRAIN]
                                                           : path;
        name_file(text, valid);
        name_file(words, settings_text(s, "data.vocab"));
        snprintf(o->text, sizeof o->text, "%s, words %s %.24s", text, words,
                 settings_text(s, "data.vocab_words"));
        corpus_paths_clear(&at);
    } else
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
    snprintf(o->protection, sizeof o->protection, "%s", p->name);
    o->full = p->two_servers && settings_is(s, "crypto", "full");
    o->clients = (uint32_t)settings_u64(s, "clients");
    o->rounds_asked = settings_u64(s, "rounds.count");
    o->claim = p->quantises && settings_is(s, "privacy.claim", "dp");
    snprintf(o->scheme, sizeof o->scheme, "%.15s", settings_text(s, "crypto.scheme"));
    snprintf(o->noise, sizeof o->noise, "%.15s", p->shown ? p->shown : task_settings_mode(s)->name);
    const release_mode *mode = release_mode_named(span_of_str(o->noise));
    snprintf(o->z, sizeof o->z, "%.40s",
             mode && !mode->noisy ? "0" : settings_text(s, "privacy.z"));
    if (settings_is(s, "model.body", "external")) { /* its tensors have their own blocks */
        snprintf(o->block, sizeof o->block, "-");
        return;
    }
    static const char *const blocks[] = { "model.block", "model.block_embed",
                                          "model.block_decoder" };
    const bool one = settings_is(s, blocks[1], "0") && settings_is(s, blocks[2], "0");
    for (size_t i = 0, n = 0; i < (one ? 1 : 3); i++)
        n += (size_t)snprintf(o->block + n, sizeof o->block - n, "%s%.20s", i > 0 ? "/" : "",
                              settings_text(s, blocks[settings_is(s, blocks[i], "0") ? 0 : i]));
}

double overview_mean(const overview *o, double total)
{
    uint64_t n = o->t.rounds - o->t.skipped;
    return n > 0 ? total / (double)n : NAN;
}

/* 0 if there is no mean. */
static log_field mean(const char *key, const overview *o, double total)
{
    double v = overview_mean(o, total);
    return lf_real(key, isnan(v) ? 0 : v);
}

bool overview_differ(const overview *a, const overview *b)
{
    if (*a->text && *b->text)
        return strcmp(a->text, b->text) != 0;
    return *a->facts.text && *b->facts.text && strcmp(a->facts.text, b->facts.text) != 0;
}

static sefl_status read_simulated(overview *out, const run_folder *f)
{
    sefl_status st = SEFL_OK;
    settings s;
    run_log log = { 0 };
    run_state state = { 0 };
    settings_init(&s, experiment_schema());
    SEFL_TRY(yaml_read(&s, run_path(f, "config.yml")));
    take_config(out, &s);
    if (file_exists(run_path(f, "metrics.jsonl")))
        SEFL_TRY(run_log_read(&log, run_path(f, "metrics.jsonl")));
    out->t = run_log_totals(&log);
    out->facts = log.facts;
    if (*log.facts.z) /* the task's: privacy.epsilon or privacy.classic_epsilon may have set it */
        snprintf(out->z, sizeof out->z, "%.40s", log.facts.z);
    if (file_exists(run_path(f, "state"))) {
        SEFL_TRY(run_state_read(&state, run_path(f, "state")));
        out->over = state.over;
        out->test_best = state.test_best;
        out->test_last = state.test_last;
    }
done:
    run_state_clear(&state);
    run_log_clear(&log);
    settings_clear(&s);
    return st;
}

static void copy_text(char *out, size_t n, const char *text)
{
    snprintf(out, n, "%s", *text ? text : "-");
}

/* Any other run: metrics.jsonl says what is known. */
static sefl_status read_other(overview *out, const char *run)
{
    report r;
    SEFL_PASS(report_open(&r, run));
    const run_facts *f = &r.log.facts;
    out->t = run_log_totals(&r.log);
    out->facts = *f;
    out->over = true;
    out->full = strcmp(f->protection, "sefl") == 0 && !f->simulated;
    out->claim = !isnan(out->t.all.epsilon_server) || !isnan(f->delta);
    snprintf(out->name, sizeof out->name, "%.200s", r.name);
    copy_text(out->protection, sizeof out->protection, f->protection);
    copy_text(out->noise, sizeof out->noise, f->noise);
    copy_text(out->z, sizeof out->z, f->z);
    copy_text(out->block, sizeof out->block, "");
    copy_text(out->scheme, sizeof out->scheme, "");
    if (f->enrolled <= UINT32_MAX)
        out->clients = (uint32_t)f->enrolled;
    if (f->rounds <= UINT32_MAX)
        out->rounds_asked = (uint64_t)f->rounds;
    report_close(&r);
    return SEFL_OK;
}

sefl_status overview_read(overview *out, const char *folder)
{
    run_folder f;
    *out = (overview){ .facts = run_facts_none() };
    int len = snprintf(f.root, sizeof f.root, "%s", folder);
    SEFL_NEED(len > 0 && (size_t)len < sizeof f.root, SEFL_EINVAL,
              "the name of the run folder is empty or too long");
    snprintf(out->folder, sizeof out->folder, "%s", folder);
    if (file_exists(run_path(&f, "config.yml")))
        return read_simulated(out, &f);
    sefl_status st = read_other(out, folder);
    if (st == SEFL_ENOTFOUND && file_exists(folder))
        return sefl_fail(
            st, "%s is not a run: it has no config.yml of 'sefl simulate', and no " REPORT_PLACES,
            folder);
    return st;
}

sefl_status overview_json(sefl_buf *out, const overview *o)
{
    json j = json_into(out);
    const run_totals *t = &o->t;
    const run_line *all = &t->all;
    json_open(&j, '{');
    json_fields(
        &j, lf_str("name", o->name), lf_str("folder", o->folder),
        lf_str("kind", *o->text ? "simulation" : "federation"), lf_str("protection", o->protection),
        lf_str("crypto", o->full ? "full" : "clear"), lf_str("scheme", o->scheme),
        lf_str("noise", o->noise), lf_str("z", o->z),
        lf_if(*o->facts.filter, lf_str("filter", o->facts.filter)), lf_str("block", o->block),
        lf_u64("clients", o->clients), mean("clients_mean", o, all->clients),
        lf_bool("over", o->over), lf_u64("rounds", t->rounds),
        lf_u64("rounds_asked", o->rounds_asked), lf_u64("skipped", t->skipped),
        lf_u64("blocked", t->blocked),
        lf_if(t->best > 0, lf_real("last_perplexity", all->perplexity)),
        lf_if(all->word_perplexity > 0, lf_real("last_word_perplexity", all->word_perplexity)),
        lf_if(t->best > 0, lf_real("best_perplexity", t->best)),
        lf_if(t->best > 0, lf_u64("best_round", t->best_round)),
        lf_if(o->test_best > 0, lf_real("best_test_perplexity", o->test_best)),
        lf_if(o->test_last > 0, lf_real("last_test_perplexity", o->test_last)),
        lf_str("text", o->text), lf_str("claim", o->claim ? "dp" : "none"),
        lf_if(!isnan(all->epsilon_server), lf_real("epsilon_server", all->epsilon_server)),
        lf_if(!isnan(all->epsilon_others), lf_real("epsilon_others", all->epsilon_others)),
        lf_real("round_seconds", t->rounds ? all->seconds / (double)t->rounds : 0),
        mean("train_seconds", o, all->train_seconds),
        mean("encrypt_seconds", o, all->encrypt_seconds), mean("sum_seconds", o, all->sum_seconds),
        mean("2pc_seconds", o, all->twopc_seconds),
        lf_real("up_bytes_per_client", all->clients > 0 ? all->up_bytes / all->clients : 0),
        lf_if(!isnan(overview_mean(o, all->link_bytes)), mean("link_bytes", o, all->link_bytes)));
    json_close(&j, '}');
    return json_end(&j);
}

#include "roles/client/client_inside.h"

#include "base/alloc.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/outfile.h"
#include "model/engine/engine.h"
#include "model/lm.h"
#include "protocol/http.h"
#include "protocol/task_model.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FINAL_TRIES = 8, SHORT = 8 /* bytes of a hash in a name */ };

bool client_wants_models(const client *c)
{
    return c->cfg->models_keep != CLIENT_KEEPS_NONE || c->cfg->eval;
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool has_hash(const char *path, const uint8_t hash[SHA256_BYTES])
{
    uint8_t there[SHA256_BYTES];
    return file_exists(path) && file_sha256(there, NULL, path) == SEFL_OK &&
           memcmp(there, hash, SHA256_BYTES) == 0;
}

/* Chooses the path of a kept model. A kept file with another hash stays: both servers may have
 * signed that one, while AS alone signs which model is the final one. */
static sefl_status choose_path(const client *c, const client_model *m, const char *folder,
                               char path[PATH_MAX])
{
    char hash[HEX_CHARS(SHORT)], before[PATH_MAX];
    SEFL_PASS(file_path(before, "%s/round-%" PRIu64 ".safetensors", folder, m->round));
    memcpy(path, before, PATH_MAX);
    if (!file_exists(before) || has_hash(before, m->hash))
        return SEFL_OK;
    SEFL_PASS(file_path(path, "%s/round-%" PRIu64 "-%s.safetensors", folder, m->round,
                        hex_write(hash, m->hash, SHORT)));
    SEFL_NEED(!file_exists(path) || has_hash(path, m->hash), SEFL_EEXIST,
              "%s exists and has another hash: rename it, then start the client again", path);
    log_error(c->o.log,
              "another model of this round is kept already, or its file was changed: the new one "
              "gets another name; compare both hashes with those of other members",
              lf_u64("round", m->round), lf_str("kept", before), lf_str("new", path));
    return SEFL_OK;
}

/* Writes the path of a kept model and of its word list, and creates their folder. */
static sefl_status kept_paths(const client *c, const client_model *m, char path[PATH_MAX],
                              char words[PATH_MAX])
{
    char base[PATH_MAX], folder[PATH_MAX], name[TASK_FILE_NAME], id[HEX_CHARS(SHORT)];
    task_file_name(name, &c->t);
    if (c->cfg->models)
        SEFL_PASS(file_path(base, "%s", c->cfg->models));
    else
        SEFL_PASS(file_path(base, "%s/models", c->cfg->state));
    SEFL_PASS(file_path(folder, "%s/%s-%s", base, name, hex_write(id, c->t.id, SHORT)));
    SEFL_PASS(file_make_folder(base, 0755));
    SEFL_PASS(file_make_folder(folder, 0755));
    SEFL_PASS(choose_path(c, m, folder, path));
    return file_path(words, "%s/vocab.txt", folder);
}

/* Keeps the word list beside the models. */
static sefl_status keep_words(client *c, const char *words)
{
    if (c->t.external || has_hash(words, c->t.vocab_hash))
        return SEFL_OK;
    return outfile_copy(words, client_store_path(c->store, CLIENT_VOCAB), 0644, c->t.vocab_hash);
}

/* ---- the owner's own text -------------------------------------------------------------------- */

/* Borders of the units that are held out or not: documents, or the lines of a single one. */
typedef struct units {
    const size_t *line, *doc; /* doc: NULL if the units are lines */
    size_t n;
} units;

static size_t unit_line(const units *u, size_t i)
{
    return u->doc ? u->doc[i] : i;
}

static bool is_held(const corpus *text, const units *u, size_t i, double share)
{
    uint8_t digest[SHA256_BYTES];
    const size_t from = u->line[unit_line(u, i)], to = u->line[unit_line(u, i + 1)];
    sha256_join(digest, span_of_str("sefl held out 1"),
                span_of(text->token + from, (to - from) * sizeof *text->token));
    return (double)load_u64(digest) < share * 18446744073709551616.0;
}

/* Appends unit i of text to out, which has room for all of text. */
static void append_unit(corpus *out, const corpus *text, const units *u, size_t i)
{
    const size_t first = unit_line(u, i), last = unit_line(u, i + 1);
    const size_t from = text->line[first], n = text->line[last] - from;
    memcpy(out->token + out->tokens, text->token + from, n * sizeof *text->token);
    for (size_t k = first; k < last; k++)
        out->line[out->lines++] = out->tokens + text->line[k] - from;
    out->tokens += n;
    out->line[out->lines] = out->tokens;
    if (u->doc)
        out->docs++;
    else
        out->docs = 1;
    out->doc[out->docs] = out->lines;
}

static sefl_status new_part(corpus *out, const corpus *text)
{
    SEFL_PASS(sefl_new(&out->token, text->tokens, sizeof *out->token));
    SEFL_PASS(sefl_new(&out->line, text->lines + 1, sizeof *out->line));
    SEFL_PASS(sefl_new(&out->doc, text->docs + 1, sizeof *out->doc));
    out->marked = text->marked;
    return SEFL_OK;
}

sefl_status client_hold_out(corpus *text, corpus *held, double share)
{
    sefl_status st = SEFL_OK;
    corpus part[2] = { { 0 }, { 0 } };
    const units u = { .line = text->line,
                      .doc = text->docs > 1 ? text->doc : NULL,
                      .n = text->docs > 1 ? text->docs : text->lines };
    SEFL_TRY(new_part(&part[0], text));
    SEFL_TRY(new_part(&part[1], text));
    for (size_t i = 0; i < u.n; i++)
        append_unit(&part[is_held(text, &u, i, share)], text, &u, i);
    SEFL_CHECK(part[1].tokens >= 2 * LM_EVAL_BATCH && part[0].tokens >= 2, SEFL_EINVAL,
               "eval: own: the text is too short to hold out %g %% of it: give a larger "
               "eval_share, or a separate eval_text",
               100 * share);
    part[0].unknown = text->unknown; /* of the whole text */
    corpus_clear(text);
    *text = part[0], *held = part[1];
    part[0] = part[1] = (corpus){ 0 };
done:
    corpus_clear(&part[0]);
    corpus_clear(&part[1]);
    return st;
}

/* Computes the perplexity of a model file on the held-out text. */
static sefl_status judge(client *c, const char *path, double *perplexity)
{
    sefl_status st = SEFL_OK;
    float *theta = NULL;
    engine *e = NULL;
    double mean = NAN;
    sefl_progress p = client_progress(c);
    client_show_doing(c, "evaluating the model");
    SEFL_TRY(task_model_read(&theta, &c->t, path));
    SEFL_TRY(engine_new(&e, &(engine_config){ .device = c->cfg->device,
                                              .precision = c->cfg->precision,
                                              .model = &c->t.model,
                                              .optim = c->t.optim,
                                              .pool = c->pool }));
    SEFL_TRY(engine_theta(e, theta));
    SEFL_TRY(engine_evaluate(e, ENGINE_BASE, c->held.token, c->held.tokens, 0, &mean, &p));
    *perplexity = exp(mean);
done:
    engine_free(e);
    sefl_free(theta);
    return st;
}

/* Appends a line to eval.jsonl, which only the owner may read. */
static sefl_status write_result(const client *c, const client_model *m)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char path[PATH_MAX];
    int fd = -1;
    json j = json_into(&b);
    json_open(&j, '{');
    json_fields(&j, lf_str("task", c->t.name), lf_hash("id", c->t.id), lf_u64("round", m->round),
                lf_bool("final", m->final), lf_real("perplexity", m->perplexity),
                lf_u64("words", m->own_words), lf_key("model", m->hash));
    json_close(&j, '}');
    SEFL_TRY(json_end(&j));
    SEFL_TRY(wr_fmt(&b, "\n"));
    SEFL_TRY(file_path(path, "%s/eval.jsonl", c->cfg->state));
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    SEFL_CHECK(fd >= 0, SEFL_EIO, "cannot open %s: %s", path, strerror(errno));
    SEFL_TRY(file_write_all(fd, buf_span(&b)));
done:
    if (fd >= 0)
        close(fd);
    buf_clear(&b);
    return st;
}

static sefl_status evaluate(client *c, client_model *m, const char *path)
{
    if (!c->cfg->eval)
        return SEFL_OK;
    m->own_words = c->held.tokens;
    if (memcmp(c->judged, m->hash, SHA256_BYTES) == 0) { /* the same model as before */
        m->perplexity = c->perplexity;
        return SEFL_OK;
    }
    SEFL_PASS(judge(c, path, &m->perplexity));
    c->perplexity = m->perplexity;
    memcpy(c->judged, m->hash, SHA256_BYTES);
    return write_result(c, m);
}

/* ---- what the owner gets --------------------------------------------------------------------- */

static void report(client *c, const client_model *m)
{
    const bool judged = !isnan(m->perplexity);
    if (!m->path && !judged)
        return;
    log_info(c->o.log, m->final ? "final model" : "model", lf_u64("round", m->round),
             lf_if(m->path, lf_str("file", m->path)), lf_key("sha256", m->hash),
             lf_if(judged, lf_real("perplexity", m->perplexity)),
             lf_if(judged, lf_u64("own_words", m->own_words)));
    if (c->o.model)
        c->o.model(c->o.show_ctx, m);
}

sefl_status client_models_round(client *c, uint64_t round)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX], words[PATH_MAX];
    const char *from = client_store_path(c->store, CLIENT_MODEL);
    client_model m = { .round = round - 1, .perplexity = NAN };
    memcpy(m.hash, c->header.model, sizeof m.hash);
    if (c->cfg->models_keep == CLIENT_KEEPS_EACH && m.round > 0) {
        SEFL_TRY(kept_paths(c, &m, path, words));
        if (!has_hash(path, m.hash))
            SEFL_TRY(outfile_copy(path, from, 0644, m.hash));
        SEFL_TRY(keep_words(c, words));
        m.path = path;
        m.words = c->t.external ? NULL : words;
    }
    SEFL_TRY(evaluate(c, &m, from));
done:
    report(c, &m);
    if (st == SEFL_OK || client_stopped(c))
        return st;
    log_warn(c->o.log, "the model was not kept or not evaluated", lf_u64("round", m.round),
             lf_str("why", sefl_last_error()));
    return SEFL_OK; /* the round matters more */
}

static sefl_status get_final(client *c, client_reply *a)
{
    sefl_progress p = client_progress(c);
    client_reply now;
    bool same;
    SEFL_PASS(client_get_file(c->net, a, &(http_target){ .call = HTTP_MODEL },
                              client_store_path(c->store, CLIENT_FINAL), client_model_max(c),
                              c->end.model, &p));
    if (a->word == ANSWER_OK || client_no_answer(a))
        return SEFL_OK;
    SEFL_PASS(client_same_task(c, &now, &same));
    SEFL_NEED(now.word != ANSWER_OK || same, SEFL_ENOTFOUND,
              "the server serves another task now: ask its operator for the model");
    return SEFL_OK;
}

/* Returns the file with the final model in *at: the kept one, or the one just fetched. */
static sefl_status fetch_final(client *c, const char *path, const char *words, const char **at)
{
    const char *fetched = client_store_path(c->store, CLIENT_FINAL);
    *at = path;
    if (*path && has_hash(path, c->end.model)) /* kept before a restart */
        return SEFL_OK;
    sefl_status st = client_fetch(c, get_final, "fetching the final model", FINAL_TRIES);
    if (st != SEFL_OK && !client_stopped(c))
        sefl_note_before("the task is over, but its final model could not be fetched%s",
                         st == SEFL_ENOTFOUND
                             ? ""
                             : " (start the client again while the server serves the task)");
    SEFL_PASS(st);
    *at = fetched;
    if (!*path)
        return SEFL_OK;
    SEFL_PASS(outfile_copy(path, fetched, 0644, c->end.model));
    *at = path;
    (void)unlink(fetched);
    return keep_words(c, words);
}

sefl_status client_models_final(client *c)
{
    char path[PATH_MAX] = "", words[PATH_MAX];
    const char *at;
    client_model m = { .round = c->end.round, .final = true, .perplexity = NAN };
    if (!client_wants_models(c))
        return SEFL_OK;
    if (c->end.round == 0) {
        log_warn(c->o.log, "no final model: no round was released");
        return SEFL_OK;
    }
    memcpy(m.hash, c->end.model, sizeof m.hash);
    if (c->cfg->models_keep != CLIENT_KEEPS_NONE)
        SEFL_PASS(kept_paths(c, &m, path, words));
    SEFL_PASS(fetch_final(c, path, words, &at));
    if (*path) {
        m.path = path;
        m.words = c->t.external ? NULL : words;
    }
    sefl_status st = evaluate(c, &m, at);
    (void)unlink(client_store_path(c->store, CLIENT_FINAL));
    report(c, &m);
    return st;
}

#include "roles/aggregator/release.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "fed/step.h"
#include "model/engine/engine.h"
#include "protocol/task_model.h"
#include "roles/aggregator/integers.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct releases {
    releases_config c;
    engine *judge; /* for validation; or NULL */
    corpus valid;
};

/* ---- start ----------------------------------------------------------------------------------- */

/* Fails unless the initial model has the shape that the task describes: no client could use it. */
static sefl_status check_shape(const releases_config *c)
{
    float *theta = NULL;
    sefl_status st = task_model_read(&theta, c->task, c->files.init);
    sefl_free(theta);
    return st;
}

/* SEFL_EAUTH unless the file is the one that the task names. */
static sefl_status check_hash(const char *path, const uint8_t want[SHA256_BYTES], const char *what)
{
    uint8_t hash[SHA256_BYTES];
    SEFL_PASS(file_sha256(hash, NULL, path));
    SEFL_NEED(memcmp(hash, want, sizeof hash) == 0, SEFL_EAUTH,
              "%s is not the %s that the task names", path, what);
    return SEFL_OK;
}

sefl_status releases_check(const releases_config *c, vocab **words, corpus *valid)
{
    uint8_t hash[SHA256_BYTES];
    SEFL_PASS(check_hash(c->files.init, c->task->init_hash, "initial model"));
    SEFL_PASS(check_shape(c));
    if (c->task->external) {
        SEFL_NEED(!c->files.vocab && !c->files.valid, SEFL_EINVAL,
                  "the task's model is external: leave out `vocab` and `valid`");
        return SEFL_OK;
    }
    SEFL_NEED(c->files.vocab, SEFL_EINVAL,
              "`vocab` is not set: the task's model needs its vocabulary");
    /* the list is in its final order: a word's line is its number */
    SEFL_PASS(vocab_read(words, c->files.vocab,
                         &(vocab_settings){ .order = VOCAB_APPEARANCE, .kind = c->task->kind }));
    vocab_hash(*words, hash);
    SEFL_NEED(memcmp(hash, c->task->vocab_hash, sizeof hash) == 0, SEFL_EAUTH,
              "%s is not the vocabulary that the task names", c->files.vocab);
    SEFL_NEED(c->files.valid || !c->task->has_valid, SEFL_EINVAL,
              "the task names a validation text (valid.sha256): set `valid` to its file");
    if (!c->files.valid)
        return SEFL_OK;
    SEFL_NEED(c->task->has_valid, SEFL_EAUTH,
              "%s: the task names no validation text: leave `valid` out, or make a task with "
              "'sefl task new --valid'",
              c->files.valid);
    SEFL_PASS(check_hash(c->files.valid, c->task->valid_hash, "validation text (valid.sha256)"));
    SEFL_PASS(corpus_read(valid, *words, &(corpus_file){ .path = c->files.valid }, NULL));
    SEFL_NEED(valid->tokens >= 2 * LM_EVAL_BATCH, SEFL_EINVAL,
              "%s: %zu words are too few to validate with", c->files.valid, valid->tokens);
    return SEFL_OK;
}

sefl_status releases_new(releases **out, const releases_config *c)
{
    vocab *words = NULL;
    SEFL_MAKE(releases, r, out);
    r->c = *c;
    SEFL_TRY(releases_check(c, &words, &r->valid));
    SEFL_TRY(file_make_folder(c->files.models, 0755));
    if (c->files.valid)
        SEFL_TRY(
            engine_new(&r->judge, &(engine_config){ .model = &c->task->model, .pool = c->pool }));
    *out = r, r = NULL;
done:
    vocab_free(words);
    releases_free(r);
    return st;
}

void releases_free(releases *r)
{
    if (!r)
        return;
    engine_free(r->judge);
    corpus_clear(&r->valid);
    sefl_free(r);
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *const suffixes[] = { [RELEASE_MODEL] = ".safetensors",
                                        [RELEASE_OPTIMISER] = ".optimiser",
                                        [RELEASE_INTEGERS] = ".integers" };

sefl_status release_file_path(char out[PATH_MAX], const char *models, uint64_t round,
                              release_file what)
{
    return file_path(out, "%s/round-%" PRIu64 "%s", models, round, suffixes[what]);
}

sefl_status release_path(const releases *r, char out[PATH_MAX], uint64_t round)
{
    if (round == 0)
        return file_path(out, "%s", r->c.files.init);
    return release_file_path(out, r->c.files.models, round, RELEASE_MODEL);
}

static sefl_status memory_path(const releases *r, char out[PATH_MAX], uint64_t round)
{
    return release_file_path(out, r->c.files.models, round, RELEASE_OPTIMISER);
}

bool release_file_round(const char *name, uint64_t *round, release_file *what)
{
    int end = 0;
    if (sscanf(name, "round-%" SCNu64 "%n", round, &end) != 1)
        return false;
    for (unsigned i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcmp(name + end, suffixes[i]) == 0) {
            *what = (release_file)i;
            return true;
        }
    return false;
}

static int by_round(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* What release_settle keeps. Integers are kept in blocks of `integers` rounds: those of the latest
 * block and of the one before. start: the last models before each of the two blocks, from which
 * `sefl verify` computes the next ones; 0: none. */
typedef struct keeping {
    uint64_t models;   /* the first round whose model the settings keep */
    uint64_t integers; /* the same for integers; UINT64_MAX: none */
    uint64_t start[2];
} keeping;

static void note_start(keeping *k, uint64_t round, uint64_t latest, uint64_t block)
{
    if (block == 0)
        return;
    const uint64_t border = latest / block * block;
    if (round < border && round > k->start[1])
        k->start[1] = round;
    if (border >= block && round < border - block && round > k->start[0])
        k->start[0] = round;
}

/* A task with patience may end that many rounds after its best model, which must stay too. */
static sefl_status keep_from(const releases *r, DIR *d, uint64_t latest, keeping *out)
{
    sefl_status st = SEFL_OK;
    uint64_t *rounds = NULL, round, keep = r->c.files.keep;
    const uint64_t block = r->c.files.integers;
    size_t n = 0, room = 0;
    release_file what;
    if (block > 0)
        out->integers = latest / block > 0 ? (latest / block - 1) * block : 0;
    if (keep > 0 && keep < r->c.task->patience + UINT64_C(1))
        keep = r->c.task->patience + UINT64_C(1);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (!release_file_round(e->d_name, &round, &what) || what != RELEASE_MODEL ||
            round > latest)
            continue;
        note_start(out, round, latest, block);
        SEFL_TRY(sefl_room(&rounds, &room, n + 1, sizeof *rounds));
        rounds[n++] = round;
    }
    if (keep > 0 && n > keep) {
        qsort(rounds, n, sizeof *rounds, by_round);
        out->models = rounds[n - keep];
    }
done:
    sefl_free(rounds);
    return st;
}

static bool is_kept(const releases *r, const keeping *k, uint64_t latest, uint64_t round,
                    release_file what)
{
    if (what == RELEASE_INTEGERS)
        return round > latest || round >= k->integers;
    if (round >= latest || round == k->start[0] || round == k->start[1])
        return true;
    return what == RELEASE_MODEL &&
           (round >= k->models || (r->c.files.every > 0 && round % r->c.files.every == 0));
}

void release_settle(const releases *r, uint64_t latest)
{
    char path[PATH_MAX];
    uint64_t round;
    release_file what;
    keeping k = { .integers = UINT64_MAX };
    DIR *d = opendir(r->c.files.models);
    if (!d)
        return; /* the next release tries again */
    if (keep_from(r, d, latest, &k) != SEFL_OK)
        k.models = k.integers = 0; /* deletes no model */
    rewinddir(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (!release_file_round(e->d_name, &round, &what) || is_kept(r, &k, latest, round, what))
            continue;
        if (snprintf(path, sizeof path, "%s/%s", r->c.files.models, e->d_name) < (int)sizeof path)
            unlink(path);
    }
    closedir(d);
}

/* ---- the next model -------------------------------------------------------------------------- */

static sefl_status memory_of(const releases *r, step_state *s, uint64_t round)
{
    char path[PATH_MAX];
    if (round == 0 || r->c.task->server == TASK_AVERAGE) /* no state */
        return step_new(s, r->c.task);
    SEFL_PASS(memory_path(r, path, round));
    return step_read(s, path, r->c.task, round);
}

static sefl_status keep_memory(const releases *r, step_state *s, uint64_t round,
                               uint8_t hash[SHA256_BYTES])
{
    char path[PATH_MAX];
    s->round = round;
    if (r->c.task->server == TASK_AVERAGE)
        return SEFL_OK;
    SEFL_PASS(memory_path(r, path, round));
    SEFL_PASS(step_write(s, path));
    return file_sha256(hash, NULL, path);
}

static sefl_status keep_integers(const releases *r, uint64_t round, const int64_t *w,
                                 uint32_t clients, uint8_t hash[SHA256_BYTES])
{
    char path[PATH_MAX];
    if (r->c.files.integers == 0)
        return SEFL_OK;
    SEFL_PASS(release_file_path(path, r->c.files.models, round, RELEASE_INTEGERS));
    SEFL_PASS(integers_write(path, r->c.task, round, clients, w));
    return file_sha256(hash, NULL, path);
}

/* SEFL_ERANGE: a model that must not be released. */
static sefl_status validate(releases *r, const float *theta, release_made *out)
{
    double mean = NAN;
    uint64_t began = clock_now_ns();
    if (!r->judge)
        return SEFL_OK;
    SEFL_PASS(engine_theta(r->judge, theta));
    SEFL_PASS(sefl_at(
        engine_evaluate(r->judge, ENGINE_BASE, r->valid.token, r->valid.tokens, 0, &mean, NULL),
        "the new model on the validation text"));
    out->eval_seconds = clock_since(began);
    SEFL_PASS(release_check_loss(mean));
    out->has_perplexity = true;
    out->perplexity = exp(mean);
    if (r->c.task->kind == VOCAB_BPE)
        out->word_perplexity = corpus_word_perplexity(&r->valid, mean);
    return SEFL_OK;
}

/* Computes the next model and optimiser state in place. SEFL_ERANGE: the release check blocks
 * it. */
static sefl_status advance(releases *r, step_state *s, nn_real *theta, uint64_t *clip,
                           const int64_t *w, uint32_t clients, release_made *out)
{
    sefl_status st = SEFL_OK;
    const task *t = r->c.task;
    double *average = NULL;
    SEFL_TRY(release_check_sum(&out->numbers, t, w, clients));
    SEFL_TRY(sefl_new(&average, task_trained(t), sizeof *average));
    SEFL_TRY(step_average(average, t, *clip, w, clients, r->c.pool));
    SEFL_TRY(step_apply(s, t, theta, average, r->c.pool));
    SEFL_TRY(validate(r, theta, out));
    *clip = task_next_clip(t, *clip, w, clients);
done:
    sefl_free(average);
    return st;
}

sefl_status release_make(releases *r, const release_from *from, uint64_t round, const int64_t *w,
                         uint32_t clients, release_made *out)
{
    sefl_status st = SEFL_OK;
    const task *t = r->c.task;
    char path[PATH_MAX];
    nn_real *theta = NULL;
    step_state s = { 0 };
    uint64_t clip;
    uint8_t hash[SHA256_BYTES];
    *out = (release_made){ 0 };
    SEFL_TRY(release_path(r, path, from->round));
    SEFL_TRY(file_sha256(hash, NULL, path));
    SEFL_CHECK(memcmp(hash, from->hash, sizeof hash) == 0, SEFL_EIO,
               "%s has changed since round %" PRIu64 " released it", path, from->round);
    SEFL_TRY(task_model_read_clip(&theta, &clip, t, path));
    SEFL_TRY(memory_of(r, &s, from->round));
    st = advance(r, &s, theta, &clip, w, clients, out);
    if (st == SEFL_ERANGE) {
        out->blocked = true;
        snprintf(out->why, sizeof out->why, "%s", sefl_last_error());
        st = SEFL_OK;
        goto done;
    }
    SEFL_TRY(st);
    out->clip = 1e-9 * (double)clip; /* 0: fixed */
    SEFL_TRY(keep_memory(r, &s, round, out->optimiser));
    SEFL_TRY(keep_integers(r, round, w, clients, out->integers));
    SEFL_TRY(release_path(r, path, round));
    SEFL_TRY(task_model_write(path, t, theta, clip, hash));
    SEFL_TRY(file_sha256(out->hash, &out->bytes, path));
done:
    step_clear(&s);
    sefl_free(theta);
    return st;
}

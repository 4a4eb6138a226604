/* Computes the released models again from the kept integers (verify.h). */
#include "base/alloc.h"
#include "base/file.h"
#include "base/hex.h"
#include "fed/step.h"
#include "protocol/task_model.h"
#include "roles/aggregator/integers.h"
#include "roles/aggregator/release.h"
#include "roles/audit/verify_inside.h"

#include <dirent.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

typedef struct replay {
    verify *v;
    const verify_log *l;
    const verify_task *t;
    char folder[64], scratch[PATH_MAX]; /* a private folder for the computed model */
    float *theta;                       /* the model of round `at` */
    uint64_t clip;                      /* its clip */
    step_state s;
    uint64_t at;
    bool ready; /* theta and s are valid */
    int64_t *w;
    double *average;
    uint64_t models, follow, kept; /* files compared; models computed; files of integers */
} replay;

/* SEFL_EPROTO, with a finding, if the file is there and has another hash. */
static sefl_status check_file(replay *p, const verify_round *r, release_file what,
                              const uint8_t want[SHA256_BYTES], bool *there)
{
    char path[PATH_MAX];
    uint8_t hash[SHA256_BYTES];
    SEFL_PASS(release_file_path(path, p->t->models, r->round, what));
    *there = file_exists(path);
    if (!*there)
        return SEFL_OK;
    SEFL_PASS(file_sha256(hash, NULL, path));
    if (memcmp(hash, want, sizeof hash) == 0)
        return SEFL_OK;
    verify_say(p->v, VERIFY_WRONG, path,
               "it is not the file of round %" PRIu64 " in %s line %" PRIu64, r->round,
               verify_file_of(p->l, r->released), verify_line_of(r->released));
    return SEFL_EPROTO;
}

/* Loads the model that the release of r continues, and the optimiser's state. p->ready is false if
 * they are not kept any more. */
static sefl_status load_start(replay *p, const verify_round *r)
{
    sefl_status st = SEFL_OK;
    const task *t = &p->t->t;
    char path[PATH_MAX];
    uint8_t hash[SHA256_BYTES];
    p->ready = false;
    sefl_free(p->theta), p->theta = NULL;
    step_clear(&p->s);
    if (r->from == 0)
        SEFL_TRY(file_path(path, "%s", p->t->init));
    else
        SEFL_TRY(release_file_path(path, p->t->models, r->from, RELEASE_MODEL));
    if (!file_exists(path))
        goto done;
    SEFL_TRY(file_sha256(hash, NULL, path));
    if (memcmp(hash, r->model, sizeof hash) != 0) { /* the initial model; others are reported */
        if (r->from == 0)
            verify_say(p->v, VERIFY_WRONG, path, "it is not the initial model of the task");
        goto done;
    }
    SEFL_TRY(task_model_read_clip(&p->theta, &p->clip, t, path));
    if (r->from == 0 || t->server == TASK_AVERAGE) {
        SEFL_TRY(step_new(&p->s, t));
    } else {
        SEFL_TRY(release_file_path(path, p->t->models, r->from, RELEASE_OPTIMISER));
        if (!file_exists(path))
            goto done;
        SEFL_TRY(step_read(&p->s, path, t, r->from));
    }
    p->at = r->from;
    p->ready = true;
done:
    return st;
}

/* Makes the step of r and compares the model's hash with the log. */
static sefl_status make_step(replay *p, const verify_round *r, const char *integers)
{
    const task *t = &p->t->t;
    char model[PATH_MAX];
    uint32_t clients;
    uint8_t hash[SHA256_BYTES];
    SEFL_PASS(integers_read(integers, t, r->round, &clients, p->w));
    SEFL_PASS(step_average(p->average, t, p->clip, p->w, clients, NULL));
    SEFL_PASS(step_apply(&p->s, t, p->theta, p->average, NULL));
    p->clip = task_next_clip(t, p->clip, p->w, clients);
    p->s.round = p->at = r->round;
    SEFL_PASS(task_model_write(p->scratch, t, p->theta, p->clip, hash));
    SEFL_PASS(file_sha256(hash, NULL, p->scratch));
    if (memcmp(hash, r->made, sizeof hash) == 0) {
        p->follow++;
        return SEFL_OK;
    }
    SEFL_PASS(release_file_path(model, p->t->models, r->round, RELEASE_MODEL));
    verify_say(p->v, VERIFY_WRONG, model,
               "the model of round %" PRIu64 " in %s line %" PRIu64
               " does not follow from that of round %" PRIu64 " and %s",
               r->round, verify_file_of(p->l, r->released), verify_line_of(r->released), r->from,
               integers);
    p->ready = false;
    return SEFL_OK;
}

static sefl_status check_round(replay *p, const verify_round *r)
{
    char path[PATH_MAX];
    bool there;
    sefl_status st = check_file(p, r, RELEASE_MODEL, r->made, &there);
    if (st == SEFL_OK)
        p->models += there;
    else if (st != SEFL_EPROTO)
        return st;
    if (r->has_optimiser)
        st = check_file(p, r, RELEASE_OPTIMISER, r->optimiser, &there);
    there = false;
    st = r->has_integers ? check_file(p, r, RELEASE_INTEGERS, r->integers, &there) : SEFL_OK;
    if (st == SEFL_EPROTO || !there) {
        p->ready = false;
        return st == SEFL_EPROTO ? SEFL_OK : st;
    }
    p->kept++;
    if (!p->ready || p->at != r->from)
        SEFL_PASS(load_start(p, r));
    if (!p->ready)
        return SEFL_OK;
    SEFL_PASS(release_file_path(path, p->t->models, r->round, RELEASE_INTEGERS));
    return make_step(p, r, path);
}

/* A model that no entry of the log names; one of the last round may be newer than the log. */
static void find_strangers(replay *p)
{
    char path[PATH_MAX];
    uint64_t last = 0, round;
    release_file what;
    for (size_t i = 0; i < p->l->n; i++)
        if (memcmp(p->l->rounds[i].task, p->t->t.id, TASK_ID) == 0)
            last = p->l->rounds[i].round;
    DIR *d = opendir(p->t->models);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (!release_file_round(e->d_name, &round, &what) || what != RELEASE_MODEL)
            continue;
        const verify_round *r = verify_find_round(p->l, p->t->t.id, round, NULL);
        if ((r && r->released > 0) || file_path(path, "%s/%s", p->t->models, e->d_name) != SEFL_OK)
            continue;
        const bool newer =
            round == last || round == last + 1 || (round > last && verify_grew(p->l));
        verify_say(p->v, newer ? VERIFY_NOTE : VERIFY_WRONG, path,
                   newer ? "it is newer than the log" : "the log has no release of round %" PRIu64,
                   round);
    }
    closedir(d);
}

/* The latest release up to this round, of the task whose id begins with id[0..n); NULL: none. */
static const verify_round *release_before(const verify_log *l, const uint8_t *id, size_t n,
                                          uint64_t round)
{
    for (size_t i = l->n; i-- > 0;)
        if (l->rounds[i].released > 0 && l->rounds[i].round <= round &&
            memcmp(l->rounds[i].task, id, n) == 0)
            return &l->rounds[i];
    return NULL;
}

/* AS never deletes the latest two models (models_keep is at least 2). The settings say which others
 * it keeps, but they may have been different. */
static sefl_status find_deleted(const replay *p)
{
    char path[PATH_MAX];
    uint64_t nth = 0;
    if (verify_grew(p->l)) /* the server may have deleted more meanwhile */
        return SEFL_OK;
    for (size_t i = p->l->n; i-- > 0;) {
        const verify_round *r = &p->l->rounds[i];
        if (r->released == 0 || memcmp(r->task, p->t->t.id, TASK_ID) != 0)
            continue;
        const bool kept = nth < p->t->keep || (p->t->every > 0 && r->round % p->t->every == 0);
        SEFL_PASS(release_file_path(path, p->t->models, r->round, RELEASE_MODEL));
        if ((nth < 2 || kept) && !file_exists(path))
            verify_say(p->v, nth < 2 ? VERIFY_WRONG : VERIFY_NOTE, path,
                       nth < 2 ? "it is missing: the aggregator never deletes its latest models"
                               : "it is missing: by models_keep and models_every it should be "
                                 "here, unless these settings were different");
        nth++;
    }
    return SEFL_OK;
}

static sefl_status open_replay(replay *p)
{
    const task *t = &p->t->t;
    SEFL_PASS(sefl_new(&p->w, t->values, sizeof *p->w));
    SEFL_PASS(sefl_new(&p->average, task_trained(t), sizeof *p->average));
    SEFL_PASS(file_temp_folder(p->folder, sizeof p->folder, "sefl-verify"));
    return file_path(p->scratch, "%s/model", p->folder);
}

static void close_replay(replay *p)
{
    if (p->scratch[0])
        unlink(p->scratch);
    if (p->folder[0])
        rmdir(p->folder);
    step_clear(&p->s);
    sefl_free(p->theta);
    sefl_free(p->average);
    sefl_free(p->w);
}

sefl_status verify_models(verify *v, const verify_log *l, const verify_task *t)
{
    sefl_status st = SEFL_OK;
    replay p = { .v = v, .l = l, .t = t };
    const size_t before = v->wrong;
    uint64_t made = 0;
    v->told = 0;
    if (!file_exists(t->models) && !verify_has_task(l, t->t.id))
        return SEFL_OK;   /* the task has not begun */
    file_sync_skip(true); /* the computed models are deleted at once */
    SEFL_TRY(open_replay(&p));
    for (size_t i = 0; i < l->n; i++) {
        const verify_round *r = &l->rounds[i];
        if (r->released == 0 || memcmp(r->task, t->t.id, TASK_ID) != 0)
            continue;
        made++;
        if (check_round(&p, r) != SEFL_OK) {
            p.ready = false;
            if (verify_grew(l)) /* it may have deleted the file meanwhile */
                verify_say(v, VERIFY_NOTE, t->models, "round %" PRIu64 ": %s", r->round,
                           sefl_last_error());
            else
                verify_failed(v, t->models);
        }
        SEFL_CHECK(progress_report(v->c.progress, i + 1, l->n), SEFL_ECANCELLED, "stopped");
    }
    if (!l->broken) {
        find_strangers(&p);
        SEFL_TRY(find_deleted(&p));
    }
    if (v->wrong == before)
        verify_say(v, VERIFY_OK, t->models,
                   "%" PRIu64 " models released, %" PRIu64 " of them here; %" PRIu64
                   " computed again from the kept integers of %" PRIu64 " rounds, bit for bit",
                   made, p.models, p.follow, p.kept);
    if (p.follow < made)
        verify_say(v, VERIFY_NOTE, t->models,
                   "%" PRIu64 " models cannot be computed again: AS does not keep their integers, "
                   "or the models that they continue (integers_keep)",
                   made - p.follow);
done:
    file_sync_skip(false);
    close_replay(&p);
    return st;
}

/* ---- the models of clients ------------------------------------------------------------------- */

sefl_status verify_client_models(verify *v, const char *folder)
{
    if (!file_exists(folder))
        return SEFL_OK;
    SEFL_PASS(
        sefl_room(&v->client_models, &v->room_clients, v->n_clients + 1, sizeof *v->client_models));
    SEFL_PASS(sefl_strdup(&v->client_models[v->n_clients], folder));
    v->n_clients++;
    return SEFL_OK;
}

/* A model that a client names after round N is the latest one that the rounds up to N released. */
static void check_kept(verify *v, const char *path, const uint8_t id[8], uint64_t round, size_t *n)
{
    const verify_log *l = &v->logs[VERIFY_AGGREGATOR];
    const verify_round *r = release_before(l, id, 8, round);
    uint8_t hash[SHA256_BYTES];
    if (!r || verify_is_newer(l, r->task, round)) {
        verify_say(v, VERIFY_NOTE, path, "%s has no release of its task up to round %" PRIu64,
                   l->path, round);
        return;
    }
    if (file_sha256(hash, NULL, path) != SEFL_OK)
        verify_failed(v, path);
    else if (memcmp(hash, r->made, sizeof hash) != 0)
        verify_say(v, VERIFY_WRONG, path,
                   "it is not the model of round %" PRIu64 " in %s line %" PRIu64, r->round,
                   verify_file_of(l, r->released), verify_line_of(r->released));
    else
        ++*n;
}

/* FOLDER/NAME-TASK: the models of one task. */
static void look_at_kept(verify *v, const char *folder, const char *name, size_t *n)
{
    char path[PATH_MAX], base[PATH_MAX];
    uint8_t id[8];
    uint64_t round;
    release_file what;
    const size_t long_is = strlen(name);
    DIR *d;
    if (long_is < 17 || name[long_is - 17] != '-' ||
        !hex_read(id, sizeof id, name + long_is - 16) ||
        file_path(base, "%s/%s", folder, name) != SEFL_OK || !(d = opendir(base)))
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (release_file_round(e->d_name, &round, &what) && what == RELEASE_MODEL &&
            file_path(path, "%s/%s", base, e->d_name) == SEFL_OK)
            check_kept(v, path, id, round, n);
    closedir(d);
}

void verify_kept_models(verify *v)
{
    const verify_log *l = &v->logs[VERIFY_AGGREGATOR];
    const size_t before = v->wrong;
    size_t n = 0;
    v->told = 0;
    if (!l->there || l->broken)
        return;
    for (size_t i = 0; i < v->n_clients; i++) {
        DIR *d = opendir(v->client_models[i]);
        for (struct dirent *e; d && (e = readdir(d)) != NULL;)
            look_at_kept(v, v->client_models[i], e->d_name, &n);
        if (d)
            closedir(d);
    }
    if (n > 0 && v->wrong == before)
        verify_say(v, VERIFY_OK, "clients", "%zu models that they keep are as in %s", n, l->path);
}

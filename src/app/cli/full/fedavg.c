#include "cli/full/fedavg.h"

#include "base/alloc.h"
#include "base/dir.h"
#include "base/file.h"
#include "fed/step.h"
#include "protocol/task_model.h"
#include "roles/client/text.h"
#include "simulate/protection.h"
#include "simulate/servers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Reads the parts of the folder's federation that training needs. */
static sefl_status read_folder(federation *f, const fedavg_config *c)
{
    char path[PATH_MAX];
    int width = c->clients < 100 ? 2 : c->clients < 1000 ? 3 : 4;
    SEFL_PASS(file_path(path, "%s/public/vocab.txt", c->folder));
    SEFL_PASS(vocab_read(&f->words, path,
                         &(vocab_settings){ .order = VOCAB_APPEARANCE, .kind = VOCAB_ANY }));
    SEFL_PASS(file_path(path, "%s/public/valid.txt", c->folder));
    SEFL_PASS(corpus_read(&f->valid, f->words, &(corpus_file){ .path = path }, NULL));
    SEFL_PASS(file_path(path, "%s/public/init.safetensors", c->folder));
    SEFL_PASS(task_model_read(&f->theta, c->task, path));
    SEFL_PASS(sefl_new(&f->text, c->clients, sizeof *f->text));
    SEFL_PASS(sefl_new(&f->client, c->clients, sizeof *f->client));
    f->clients = c->clients;
    for (uint32_t i = 0; i < c->clients; i++) {
        f->client[i][0] = (uint8_t)i; /* only the seed of dropout depends on it */
        f->client[i][1] = (uint8_t)(i >> 8);
        SEFL_PASS(file_path(path, "%s/clients/client-%0*" PRIu32 "/text", c->folder, width, i + 1));
        SEFL_PASS(client_text_read(&f->text[i], f->words, &(corpus_file){ .path = path }, NULL));
    }
    return SEFL_OK;
}

/* A run, as the driver's ports see it. */
typedef struct plain {
    federation *f;
    work *work;
    step_state step;
    population_member *all;
    const double *average; /* of the round under way */
    const sefl_progress *progress;
} plain;

static sefl_status upload(void *ctx, const round_header *h, work_got *got)
{
    plain *p = ctx;
    federation *f = p->f;
    SEFL_NEED(progress_report(p->progress, h->round - 1, f->task.rounds), SEFL_ECANCELLED,
              "stopped");
    SEFL_PASS(work_round(p->work, got, h, f->theta, p->all, f->clients, NULL));
    p->average = got->average;
    return SEFL_OK;
}

static sefl_status release(void *ctx, const release_from *from, uint64_t round, const int64_t *w,
                           uint32_t clients, release_made *out)
{
    plain *p = ctx;
    (void)from, (void)round, (void)w, (void)clients, (void)out;
    return step_apply(&p->step, &p->f->task, p->f->theta, p->average, NULL);
}

/* Runs all rounds with the driver (simulate/servers.h). It signs headers and charges a ledger, here
 * with keys and a ledger that nobody else uses. */
static sefl_status run_rounds(plain *p, pool *threads)
{
    sefl_status st = SEFL_OK;
    federation *f = p->f;
    servers *v = NULL;
    sefl_rng rng = rng_system();
    char folder[256], path[300];
    SEFL_TRY(file_temp_folder(folder, sizeof folder, "sefl-demo"));
    snprintf(path, sizeof path, "%s/ledger", folder);
    SEFL_TRY(ledger_create(path, f->task.population));
    SEFL_TRY(sign_key_new(&f->as_key, &rng));
    SEFL_TRY(sign_key_new(&f->csp_key, &rng));
    SEFL_TRY(servers_new(&v, &(servers_config){ .federation = f,
                                                .as_ledger = path,
                                                .pool = threads,
                                                .ctx = p,
                                                .upload = upload,
                                                .release = release }));
    SEFL_TRY(servers_run(v));
done:
    servers_free(v);
    if (folder[0])
        dir_remove(folder);
    return st;
}

static sefl_status evaluate(const plain *p, double *perplexity)
{
    double loss;
    SEFL_PASS(work_evaluate(p->work, &loss, p->f->theta));
    *perplexity = exp(loss);
    return SEFL_OK;
}

sefl_status fedavg_run(fedavg_result *out, const fedavg_config *c, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    experiment e = { .protection = protection_named("none") };
    plain p = { .progress = progress };
    pool *threads = NULL;
    SEFL_TRY(sefl_new(&p.f, 1, sizeof *p.f));
    p.f->e = &e;
    p.f->task = *c->task;
    p.f->task.unit = TASK_UNIT_CLIENT; /* nothing is clipped */
    p.f->task.claim = false;
    SEFL_TRY(pool_new(&threads, c->threads));
    SEFL_TRY(read_folder(p.f, c));
    SEFL_TRY(work_new(&p.work, p.f, threads, NULL, NULL, NULL));
    SEFL_TRY(step_new(&p.step, &p.f->task));
    SEFL_TRY(sefl_new(&p.all, c->clients, sizeof *p.all));
    for (uint32_t i = 0; i < c->clients; i++)
        p.all[i].client = i;
    SEFL_TRY(evaluate(&p, &out->before));
    SEFL_TRY(run_rounds(&p, threads));
    SEFL_TRY(evaluate(&p, &out->after));
done:
    work_free(p.work);
    step_clear(&p.step);
    if (p.f)
        p.f->task = (task){ 0 }; /* the caller's */
    federation_free(p.f);
    sefl_free(p.all);
    pool_free(threads);
    return st;
}

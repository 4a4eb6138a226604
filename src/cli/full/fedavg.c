#include "cli/full/fedavg.h"

#include "base/alloc.h"
#include "base/file.h"
#include "roles/aggregator/step.h"
#include "roles/client/text.h"
#include "simulate/protection.h"
#include "simulate/work.h"

#include <inttypes.h>
#include <math.h>

/* Reads the parts of the folder's federation that training needs. */
static sefl_status read_folder(federation *f, const fedavg_config *c)
{
    char path[PATH_MAX];
    size_t count = 0;
    int width = c->clients < 100 ? 2 : c->clients < 1000 ? 3 : 4;
    SEFL_PASS(file_path(path, "%s/public/vocab.txt", c->folder));
    SEFL_PASS(vocab_read(&f->words, path, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    SEFL_PASS(file_path(path, "%s/public/valid.txt", c->folder));
    SEFL_PASS(corpus_read(&f->valid, f->words, &(corpus_file){ .path = path }, NULL));
    SEFL_PASS(file_path(path, "%s/public/init.safetensors", c->folder));
    SEFL_PASS(model_read(&f->meta, &f->theta, &count, path));
    SEFL_NEED(count == c->task->params, SEFL_EPROTO, "%s has %zu values, the task has %zu", path,
              count, c->task->params);
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

static sefl_status evaluate(work *w, const federation *f, double *perplexity)
{
    double loss;
    SEFL_PASS(work_evaluate(w, &loss, f->theta));
    *perplexity = exp(loss);
    return SEFL_OK;
}

sefl_status fedavg_run(fedavg_result *out, const fedavg_config *c, const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    experiment e = { .protection = protection_named("none") };
    federation *f = NULL;
    population_member *all = NULL;
    step_state step = { 0 };
    work *w = NULL;
    pool *threads = NULL;
    work_got got;
    SEFL_TRY(sefl_new(&f, 1, sizeof *f));
    f->e = &e;
    f->task = *c->task;
    f->task.unit = TASK_UNIT_CLIENT; /* nothing is clipped */
    SEFL_TRY(pool_new(&threads, c->threads));
    SEFL_TRY(read_folder(f, c));
    SEFL_TRY(work_new(&w, f, threads, NULL, NULL));
    SEFL_TRY(step_new(&step, &f->task));
    SEFL_TRY(sefl_new(&all, c->clients, sizeof *all));
    for (uint32_t i = 0; i < c->clients; i++)
        all[i].client = i;
    SEFL_TRY(evaluate(w, f, &out->before));
    for (uint64_t round = 1; round <= c->task->rounds; round++) {
        SEFL_CHECK(progress_report(progress, round - 1, c->task->rounds), SEFL_ECANCELLED,
                   "stopped");
        SEFL_TRY(work_round(w, &got, &(round_header){ .round = round }, f->theta, all, c->clients,
                            NULL));
        SEFL_TRY(step_apply(&step, &f->task, f->theta, got.average));
    }
    SEFL_TRY(evaluate(w, f, &out->after));
done:
    work_free(w);
    step_clear(&step);
    if (f)
        f->task = (task){ 0 }; /* the caller's */
    federation_free(f);
    sefl_free(all);
    pool_free(threads);
    return st;
}

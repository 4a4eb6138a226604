/* AS decides which task runs: one that has begun and is not over, otherwise the first of the folder
 * that is new. So a restart continues the task that was interrupted, even if a task with an earlier
 * name has arrived meanwhile. A task is over once its last release is durable and CSP knows that it
 * is over; if CSP cannot be reached then, the next task goes on, and a restart tells CSP again. */
#include "roles/aggregator/inside.h"

#include "base/file.h"
#include "base/hex.h"
#include "roles/server.h"

#include <stdio.h>

enum { LOOK_MS = 1000 };

typedef enum progress { IS_NEW, HAS_BEGUN, IS_OVER } progress;

static sefl_status progress_of(aggregator *a, const task_entry *e, progress *out)
{
    sefl_status st = SEFL_OK;
    journal *j = NULL;
    agg_memory m;
    sefl_buf bye = { 0 };
    *out = IS_NEW;
    SEFL_TRY(journal_open(&j, a->o.settings->state, "aggregator", e->id));
    as_disk d = { .j = j, .coins = &a->coins };
    as_store s = as_disk_store(&d);
    st = as_store_memory(&s, &m);
    if (st == SEFL_ENOTFOUND) {
        st = SEFL_OK;
        goto done;
    }
    SEFL_TRY(st);
    *out = m.phase == AGG_DONE && s.get(s.ctx, AS_BYE, 0, &bye) == SEFL_OK ? IS_OVER : HAS_BEGUN;
done:
    buf_clear(&bye);
    journal_close(j);
    return st;
}

/* Chooses the task that runs next; *any: there is one. */
static sefl_status choose(aggregator *a, task_entry *out, bool *any)
{
    task_entry e;
    progress p;
    *any = false;
    task_queue_look(a->queue);
    for (size_t i = 0; task_queue_at(a->queue, i, &e);) {
        SEFL_PASS(progress_of(a, &e, &p));
        if (p == IS_OVER) {
            task_queue_pass(a->queue, &e, NULL);
            continue; /* the next task has its number now */
        }
        if (p == HAS_BEGUN || !*any)
            *out = e, *any = true;
        if (p == HAS_BEGUN)
            break;
        i++;
    }
    return SEFL_OK;
}

/* Reads the task and finds its files. Its models get a folder of their own: NAME-ID. */
static sefl_status read_task(aggregator *a, const task_entry *e)
{
    const aggregator_settings *c = a->o.settings;
    char id[HEX_CHARS(8)];
    SEFL_PASS(task_queue_read(a->queue, e, &a->task, &a->envelope));
    SEFL_PASS(task_queue_path(a->queue, a->init, e, "init.safetensors"));
    SEFL_PASS(task_queue_path(a->queue, a->vocab, e, "vocab.txt"));
    SEFL_PASS(task_queue_path(a->queue, a->valid, e, "valid.txt"));
    SEFL_PASS(file_path(a->models, "%s/%s-%s", c->files.models, e->name, hex_write(id, e->id, 8)));
    SEFL_PASS(file_path(a->metrics, "%s/metrics.jsonl", a->models));
    a->files = c->files;
    a->files.models = a->models, a->files.init = a->init;
    a->files.vocab = a->task.external ? NULL : a->vocab;
    a->files.valid = a->task.has_valid ? a->valid : NULL;
    return SEFL_OK;
}

/* Checks the task's files before anything is written. */
static sefl_status check_files(const aggregator *a)
{
    vocab *words = NULL;
    corpus valid = { 0 };
    sefl_status st =
        releases_check(&(releases_config){ .task = &a->task, .files = a->files }, &words, &valid);
    corpus_clear(&valid);
    vocab_free(words);
    return st;
}

static sefl_status run_task(aggregator *a, const task_entry *e)
{
    sefl_status st = read_task(a, e);
    if (st == SEFL_OK)
        st = check_files(a);
    if (st != SEFL_OK) {
        if (st != SEFL_ENOMEM)
            task_queue_pass(a->queue, e, sefl_last_error());
        return st == SEFL_ENOMEM ? st : SEFL_OK;
    }
    SEFL_PASS(file_make_folder(a->o.settings->files.models, 0755));
    SEFL_PASS(agg_task_begin(a));
    server_say_task(&a->task, e->name, a->o.log);
    SEFL_PASS(agg_task_run(a));
    task_queue_pass(a->queue, e, NULL);
    return SEFL_OK;
}

sefl_status agg_queue_run(aggregator *a)
{
    sefl_status st = SEFL_OK;
    task_entry e;
    bool any;
    while (st == SEFL_OK && !atomic_load(&a->stop)) {
        st = choose(a, &e, &any);
        if (st == SEFL_OK && any) {
            agg_task_end(a); /* the server that had no task */
            st = run_task(a, &e);
            agg_task_end(a);
        } else if (st == SEFL_OK && !a->server) {
            log_info(a->o.log, "no task now", lf_str("folder", a->o.settings->tasks));
            st = agg_idle_begin(a);
        } else if (st == SEFL_OK) {
            agg_pause(a, LOOK_MS);
        }
    }
    return st;
}

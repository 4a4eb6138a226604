/* AS decides which task runs.
 *  1. A task that has begun ends before another begins. The journal remembers its id, so a restart
 *     continues it, even if a task with an earlier name has arrived. If its folder is gone, AS
 *     waits until it is back: the ledgers of the two servers may differ by a charge of this task,
 *     and the next task could not begin.
 *  2. Otherwise the first new task runs. Before its first round opens nothing depends on it: if its
 *     folder disappears, the task is withdrawn.
 *  3. A task is over once its last release is durable and CSP knows that it is over. If CSP cannot
 *     be reached then, the next task begins, and a restart tells CSP again. */
#include "roles/aggregator/as_inside.h"

#include "base/file.h"
#include "base/hex.h"
#include "roles/server.h"

#include <string.h>

enum { LOOK_MS = 1000 };

static const char current[] = "current task"; /* a lasting fact: the id of the latest task */

typedef enum progress { IS_NEW, HAS_BEGUN, IS_DONE, IS_OVER } progress;

static sefl_status read_progress(aggregator *a, journal *j, progress *out)
{
    agg_memory m;
    sefl_buf bye = { 0 };
    as_disk d = { .j = j, .coins = &a->coins };
    as_store s = as_disk_store(&d);
    sefl_status st = as_store_memory(&s, &m);
    *out = IS_NEW;
    if (st == SEFL_ENOTFOUND)
        return SEFL_OK;
    SEFL_PASS(st);
    if (m.phase == AGG_DONE)
        *out = s.get(s.ctx, AS_BYE, 0, &bye) == SEFL_OK ? IS_OVER : IS_DONE;
    else if (m.round > 1 || m.phase >= AGG_COLLECTING)
        *out = HAS_BEGUN;
    buf_clear(&bye);
    return SEFL_OK;
}

/* Sets *out to a task's progress, and latest (may be NULL) to the id of the latest task (or 0). */
static sefl_status progress_of(aggregator *a, const uint8_t id[TASK_ID], progress *out,
                               uint8_t latest[TASK_ID])
{
    sefl_status st = SEFL_OK;
    journal *j = NULL;
    sefl_buf b = { 0 };
    SEFL_TRY(journal_open(&j, a->o.settings->state, "aggregator", id));
    SEFL_TRY(read_progress(a, j, out));
    if (!latest)
        goto done;
    memset(latest, 0, TASK_ID);
    st = journal_lasting_get(j, current, &b);
    if (st == SEFL_OK && b.n == TASK_ID)
        memcpy(latest, b.p, TASK_ID);
    st = st == SEFL_ENOTFOUND ? SEFL_OK : st;
done:
    buf_clear(&b);
    journal_close(j);
    return st;
}

/* Looks for a task that has begun. *blocked: there is one, and its folder is missing; logs that
 * when *blocked becomes true. */
static sefl_status find_begun(aggregator *a, const task_entry *some, task_entry *out, bool *any,
                              bool *blocked)
{
    static const uint8_t none[TASK_ID];
    uint8_t latest[TASK_ID];
    progress p;
    *any = false;
    SEFL_PASS(progress_of(a, some->id, &p, latest));
    memcpy(a->latest, latest, TASK_ID);
    if (memcmp(latest, none, TASK_ID) != 0)
        SEFL_PASS(progress_of(a, latest, &p, NULL));
    else
        p = IS_NEW;
    if (p != HAS_BEGUN && p != IS_DONE) {
        *blocked = false;
        return SEFL_OK;
    }
    for (size_t i = 0; !*any && task_queue_at(a->queue, i, out); i++)
        *any = memcmp(out->id, latest, TASK_ID) == 0;
    bool before = *blocked;
    *blocked = !*any && p == HAS_BEGUN;
    if (*blocked && !before)
        log_error(a->o.log,
                  "a task that has begun is not in the folder, or is refused: put it back",
                  lf_hash("task", latest));
    return SEFL_OK;
}

/* After a restart: other tasks in the folder that are over wait for nothing. */
static sefl_status pass_over(aggregator *a, const task_entry *but)
{
    task_entry e;
    progress p;
    size_t i = 0;
    while (task_queue_at(a->queue, i, &e)) {
        SEFL_PASS(progress_of(a, e.id, &p, NULL));
        if ((p == IS_DONE || p == IS_OVER) && memcmp(e.id, but->id, TASK_ID) != 0)
            task_queue_pass(a->queue, &e, NULL);
        else
            i++;
    }
    return SEFL_OK;
}

/* Chooses the task that runs next; *any: there is one. */
static sefl_status choose(aggregator *a, task_entry *out, bool *any)
{
    task_entry e;
    progress p;
    *any = false;
    task_queue_look(a->queue);
    if (!task_queue_at(a->queue, 0, &e))
        return SEFL_OK;
    SEFL_PASS(find_begun(a, &e, out, any, &a->blocked));
    if (*any)
        SEFL_PASS(pass_over(a, out));
    while (!*any && !a->blocked && task_queue_at(a->queue, 0, out)) {
        SEFL_PASS(progress_of(a, out->id, &p, NULL));
        *any = p == IS_NEW || p == HAS_BEGUN; /* begun: by a server with the setting `task` */
        if (!*any)
            task_queue_pass(a->queue, out, NULL);
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
    SEFL_PASS(journal_lasting_put(a->journal, current, span_of(e->id, TASK_ID)));
    server_say_task(&a->task, e->name, a->o.log);
    st = agg_task_run(a);
    if (st == SEFL_ECANCELLED && a->withdrawn && !atomic_load(&a->stop)) {
        log_warn(a->o.log, "task withdrawn: its folder is gone", lf_str("folder", e->name));
        return SEFL_OK;
    }
    SEFL_PASS(st);
    task_queue_pass(a->queue, e, NULL);
    return SEFL_OK;
}

void agg_queue_tick(aggregator *a)
{
    task_entry e;
    task_queue_look(a->queue);
    if (!a->rounds || a->withdrawn || rounds_phase(a->rounds, NULL, NULL) != AGG_STARTING ||
        task_queue_find(a->queue, a->task.id, &e))
        return;
    a->withdrawn = true;
    rounds_stop(a->rounds);
}

uint64_t agg_queue_others(aggregator *a)
{
    task_entry e;
    uint64_t n = 0;
    for (size_t i = 0; a->queue && task_queue_at(a->queue, i, &e); i++)
        n += memcmp(e.id, a->task.id, TASK_ID) != 0;
    return n;
}

/* After a restart without a task to run: begins the latest task, whose rounds are all over, and
 * ends it at once, so that the page keeps its results. */
static void recall(aggregator *a)
{
    task_entry e;
    if (a->kept.known || a->blocked || !task_queue_find(a->queue, a->latest, &e))
        return;
    if (read_task(a, &e) != SEFL_OK || agg_task_begin(a) != SEFL_OK)
        log_warn(a->o.log, "the page cannot show the results of the latest task",
                 lf_str("folder", e.name), lf_str("why", sefl_last_error()));
    agg_task_end(a);
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
            recall(a);
            log_info(a->o.log, "no task now", lf_str("folder", a->o.settings->tasks));
            st = agg_idle_begin(a);
        } else if (st == SEFL_OK) {
            agg_pause(a, LOOK_MS);
        }
    }
    return st;
}

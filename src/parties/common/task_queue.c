#include "roles/task_queue.h"

#include "base/alloc.h"
#include "base/file.h"
#include "store/ledger.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TASKS_MAX = 4096 };   /* as many as a ledger can have */
enum { NAME_LONGEST = 100 }; /* the folder of a task's models has a longer name */

typedef struct item {
    task_entry e;
    uint64_t node, size; /* of task.signed as it was read, with the time of its last change */
    struct timespec changed;
    bool out;  /* refused, over, or not readable */
    bool seen; /* the folder still has it */
} item;

struct task_queue {
    task_queue_config c;
    char population[TASK_NAME_MAX + 1];
    pthread_mutex_t lock;
    item *at; /* sorted by name */
    size_t n, room;
    bool failed; /* the folder could not be read; logged */
};

/* ---- one task -------------------------------------------------------------------------------- */

static void refuse(const task_queue *q, item *i, const char *why)
{
    i->out = true;
    log_error(q->c.log, "task refused: it is left out", lf_str("folder", i->e.name),
              lf_str("why", why));
}

sefl_status task_queue_path(const task_queue *q, char out[PATH_MAX], const task_entry *e,
                            const char *file)
{
    return file_path(out, "%s/%s/%s", q->c.folder, e->name, file);
}

static sefl_status read_task(const task_queue *q, const task_entry *e, task *t, sefl_buf *bytes)
{
    char path[PATH_MAX];
    SEFL_NEED(strlen(e->name) <= NAME_LONGEST, SEFL_EINVAL,
              "the folder's name has more than %d characters: rename it", NAME_LONGEST);
    SEFL_PASS(task_queue_path(q, path, e, TASK_QUEUE_FILE));
    SEFL_PASS(own_task_read(t, bytes, path, q->c.key, q->c.side));
    SEFL_NEED(strcmp(t->population, q->population) == 0, SEFL_EINVAL,
              "the task's population is \"%s\", but the ledger %s is of \"%s\": a server has one "
              "ledger, so run another pair of servers for that population",
              t->population, q->c.ledger, q->population);
    return q->c.fits ? q->c.fits(q->c.ctx, t) : SEFL_OK;
}

/* With the lock. */
static void take(task_queue *q, item *i)
{
    task t = { 0 };
    sefl_buf bytes = { 0 };
    i->out = false;
    memset(i->e.id, 0, sizeof i->e.id);
    const sefl_status st = read_task(q, &i->e, &t, &bytes);
    if (st == SEFL_OK) {
        memcpy(i->e.id, t.id, sizeof i->e.id);
        log_info(q->c.log, "task queued", lf_str("folder", i->e.name), lf_str("name", t.name),
                 lf_hash("task", t.id), lf_u64("rounds", t.rounds));
    } else if (st == SEFL_ENOTFOUND) {
        i->out = true;
        log_info(q->c.log, "task not signed by both yet: its folder has no " TASK_QUEUE_FILE,
                 lf_str("folder", i->e.name));
    } else {
        refuse(q, i, sefl_last_error());
    }
    task_clear(&t);
    buf_clear(&bytes);
}

/* ---- the folder ------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const item *)a)->e.name, ((const item *)b)->e.name);
}

static item *find_name(const task_queue *q, const char *name)
{
    for (size_t i = 0; i < q->n; i++)
        if (strcmp(q->at[i].e.name, name) == 0)
            return &q->at[i];
    return NULL;
}

/* Looks at one name in the folder; reads its task if that is new or changed. */
static sefl_status look_at(task_queue *q, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    item *i = find_name(q, name);
    SEFL_PASS(file_path(path, "%s/%s", q->c.folder, name));
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return SEFL_OK; /* a file beside the tasks, or just gone */
    SEFL_PASS(file_path(path, "%s/%s/%s", q->c.folder, name, TASK_QUEUE_FILE));
    if (stat(path, &st) != 0)
        st = (struct stat){ 0 };
    if (!i) {
        SEFL_NEED(q->n < TASKS_MAX, SEFL_ERANGE, "%s has more than %d tasks: delete old ones",
                  q->c.folder, TASKS_MAX);
        SEFL_PASS(sefl_room(&q->at, &q->room, q->n + 1, sizeof *q->at));
        i = &q->at[q->n++];
        *i = (item){ 0 };
        snprintf(i->e.name, sizeof i->e.name, "%s", name);
    } else if (i->node == st.st_ino && i->size == (uint64_t)st.st_size &&
               memcmp(&i->changed, &st.st_mtim, sizeof i->changed) == 0) {
        i->seen = true;
        return SEFL_OK;
    }
    i->node = st.st_ino, i->size = (uint64_t)st.st_size, i->changed = st.st_mtim;
    i->seen = true;
    take(q, i);
    return SEFL_OK;
}

static sefl_status task_queue_look_one(task_queue *q)
{
    sefl_status st = SEFL_OK;
    size_t n = 0;
    DIR *d = opendir(q->c.folder);
    SEFL_NEED(d, SEFL_EIO, "cannot read the folder of tasks %s: %s", q->c.folder, strerror(errno));
    for (size_t i = 0; i < q->n; i++)
        q->at[i].seen = false;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.')
            SEFL_TRY(look_at(q, e->d_name));
    for (size_t i = 0; i < q->n; i++)
        if (q->at[i].seen)
            q->at[n++] = q->at[i];
    q->n = n;
    if (q->n > 0)
        qsort(q->at, q->n, sizeof *q->at, by_name);
done:
    closedir(d);
    return st;
}

void task_queue_look(task_queue *q)
{
    pthread_mutex_lock(&q->lock);
    bool failed = task_queue_look_one(q) != SEFL_OK;
    if (failed && !q->failed)
        log_error(q->c.log, "tasks not read", lf_str("why", sefl_last_error()));
    q->failed = failed;
    pthread_mutex_unlock(&q->lock);
}

/* ---- public ---------------------------------------------------------------------------------- */

sefl_status task_queue_new(task_queue **out, const task_queue_config *c)
{
    ledger *book = NULL;
    SEFL_MAKE(task_queue, q, out);
    q->c = *c;
    pthread_mutex_init(&q->lock, NULL);
    SEFL_TRY(ledger_open_read(&book, c->ledger));
    snprintf(q->population, sizeof q->population, "%s", ledger_population(book));
    SEFL_TRY(task_queue_look_one(q));
    *out = q, q = NULL;
done:
    ledger_close(book);
    task_queue_free(q);
    return st;
}

void task_queue_free(task_queue *q)
{
    if (!q)
        return;
    sefl_free(q->at);
    pthread_mutex_destroy(&q->lock);
    sefl_free(q);
}

bool task_queue_at(task_queue *q, size_t i, task_entry *out)
{
    bool found = false;
    pthread_mutex_lock(&q->lock);
    for (size_t k = 0; k < q->n && !found; k++)
        if (!q->at[k].out && i-- == 0)
            *out = q->at[k].e, found = true;
    pthread_mutex_unlock(&q->lock);
    return found;
}

static bool is_of(const item *i, const uint8_t id[TASK_ID])
{
    return memcmp(i->e.id, id, TASK_ID) == 0;
}

bool task_queue_find(task_queue *q, const uint8_t id[TASK_ID], task_entry *out)
{
    bool found = false;
    pthread_mutex_lock(&q->lock);
    for (size_t k = 0; k < q->n && !found; k++)
        if (is_of(&q->at[k], id))
            *out = q->at[k].e, found = true;
    pthread_mutex_unlock(&q->lock);
    return found;
}

sefl_status task_queue_read(task_queue *q, const task_entry *e, task *t, sefl_buf *bytes)
{
    SEFL_PASS(read_task(q, e, t, bytes));
    SEFL_NEED(memcmp(t->id, e->id, TASK_ID) == 0, SEFL_EAUTH, "%s was replaced by another task",
              e->name);
    return SEFL_OK;
}

void task_queue_pass(task_queue *q, const task_entry *e, const char *why)
{
    pthread_mutex_lock(&q->lock);
    for (size_t k = 0; k < q->n; k++) {
        if (q->at[k].out || !is_of(&q->at[k], e->id))
            continue;
        if (why)
            refuse(q, &q->at[k], why);
        else
            q->at[k].out = true; /* two folders may have the same task */
    }
    pthread_mutex_unlock(&q->lock);
}

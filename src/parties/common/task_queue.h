/* task_queue: a server's folder of tasks (setting `tasks`). Each sub-folder is one task; its files
 * are named below. Tasks are ordered by the name of their folder.
 *
 *     tasks/01-notes/task.signed         both servers: the task, signed by both
 *     tasks/01-notes/init.safetensors    AS: the files that the task names
 *     tasks/01-notes/vocab.txt
 *     tasks/01-notes/valid.txt
 *
 *     SEFL_TRY(task_queue_new(&q, &(task_queue_config){ .folder = "tasks", .key = key, ... }));
 *     task_queue_look(q);                              // about once a second
 *     for (size_t i = 0; (e = task_queue_at(q, i)); i++)
 *         ...
 *
 * `sefl task queue` prepares a folder under a name that begins with a point and renames it, so a
 * server never reads half a task; names with a leading point are ignored. A folder without
 * task.signed waits for that file. A task that cannot be read, that
 * names other servers, that both servers have not signed, or whose population is not the ledger's
 * is refused: the log shows why, once, and the server goes on with the others. A refused folder is
 * read again when its task.signed is replaced.
 * Threads: any; calls lock.   Secrets: none. */
#ifndef ROLES_TASK_QUEUE_H
#define ROLES_TASK_QUEUE_H

#include "base/log.h"
#include "roles/own_task.h"

#include <limits.h>

#define TASK_QUEUE_FILE "task.signed"

typedef struct task_queue task_queue;

typedef struct task_queue_config {
    const char *folder; /* must exist */
    const char *ledger; /* the server's ledger: its population is the only one */
    const sign_key *key;
    own_task_side side;
    void *ctx;
    /* Another condition that a task must meet; the message says why it does not. May be NULL. */
    sefl_status (*fits)(void *ctx, const task *t);
    sefl_log *log;
} task_queue_config;

/* What it borrows must outlive the queue. */
sefl_status task_queue_new(task_queue **out, const task_queue_config *c) SEFL_MUST_CHECK;
void task_queue_free(task_queue *q);

/* Reads the folder again, and the tasks that are new or changed. */
void task_queue_look(task_queue *q);

typedef struct task_entry {
    char name[NAME_MAX + 1];
    uint8_t id[TASK_ID];
} task_entry;

/* Copies the i-th task that is neither refused nor passed, in order of names; false: there are not
 * that many. */
bool task_queue_at(task_queue *q, size_t i, task_entry *out);
/* Finds a task by its id, even a passed one. */
bool task_queue_find(task_queue *q, const uint8_t id[TASK_ID], task_entry *out);

/* Reads the task and the bytes of its envelope, as own_task_read does. SEFL_EAUTH if it is no
 * longer the one of the entry. */
sefl_status task_queue_read(task_queue *q, const task_entry *e, task *t,
                            sefl_buf *bytes) SEFL_MUST_CHECK;
/* Writes the path of a file in the entry's folder. */
sefl_status task_queue_path(const task_queue *q, char out[PATH_MAX], const task_entry *e,
                            const char *file) SEFL_MUST_CHECK;

/* Leaves a task out from now on: it is over, or refused for the reason `why`, which is logged. */
void task_queue_pass(task_queue *q, const task_entry *e, const char *why);

#endif

/* inside: declarations shared by journal.c (the database) and files.c (all other files).
 *
 * A thread takes `rows` (recursive, held during a transaction) before `files`, never after it. No
 * code in files.c takes `rows`, so writing a large secret does not delay a receipt. */
#ifndef STORE_JOURNAL_INSIDE_H
#define STORE_JOURNAL_INSIDE_H

#include "store/journal/db.h"
#include "store/journal/journal.h"

#include <pthread.h>

struct journal {
    db *d;
    char *folder;
    int lock;         /* descriptor of folder/lock */
    uint8_t task[32]; /* constant while the journal is open, like `number` */
    uint64_t number;  /* T, the number of the task */
    bool in_transaction;
    bool has_rows, has_files; /* which locks are initialised */
    pthread_mutex_t rows, files;
};

/* Completes wipes, deletes unfinished files. SEFL_ESTATE if a folder has a task above `tasks`. */
sefl_status files_settle(journal *j, uint64_t tasks) SEFL_MUST_CHECK;

#endif

/* journal_inside: declarations shared by journal.c (the database) and the files of a round: files.c
 * (the interface), folder_files.c (in a folder) and db_files.c (in a shared database).
 *
 * A thread takes `rows` (recursive, held during a transaction) before `files`, never after it. No
 * code of the files takes `rows`, so writing a large secret does not delay a receipt: in a shared
 * store files have a connection of their own. */
#ifndef STORE_JOURNAL_JOURNAL_INSIDE_H
#define STORE_JOURNAL_JOURNAL_INSIDE_H

#include "store/db/db.h"
#include "store/journal/journal.h"
#include "store/journal/lease.h"

#include <limits.h>
#include <pthread.h>

typedef struct round_files round_files;

struct journal {
    db *d;
    db *big; /* shared store: the connection for files, under `files`; else NULL */
    const round_files *f;
    uint8_t root[32]; /* shared store */
    lease guard;      /* every write checks it; its name is empty: none */
    char *folder;
    int lock;         /* descriptor of folder/lock */
    uint8_t task[32]; /* constant while the journal is open, like `number` */
    uint64_t number;  /* T, the number of the task */
    bool in_transaction;
    bool has_rows, has_files; /* which locks are initialised */
    pthread_mutex_t rows, files;
};

typedef sefl_status kem_keep_fn(void *ctx, uint64_t round, bool *yes);

/* A round's files, or the secret that outlives them; each has a key of its own. */
typedef enum round_part { ROUND_FILES, ROUND_PAST } round_part;

/* Where the files of a round are. Names are checked, and `files` is locked. */
struct round_files {
    /* Makes the round file key if `rng` is not NULL and there is none. */
    sefl_status (*key)(journal *j, uint64_t round, round_part part, uint8_t key[32],
                       const sefl_rng *rng);
    sefl_status (*put)(journal *j, uint64_t round, round_part part, const char *name,
                       sefl_span bytes);
    sefl_status (*get)(journal *j, uint64_t round, round_part part, const char *name,
                       sefl_buf *out);
    sefl_status (*wipe)(journal *j, uint64_t round); /* ROUND_FILES */
    sefl_status (*past_keep)(journal *j, uint64_t from, uint64_t to);
    sefl_status (*kem_put)(journal *j, uint64_t round, const uint8_t *bytes); /* NULL: wipes */
    sefl_status (*kem_get)(journal *j, uint64_t round, uint8_t bytes[JOURNAL_KEM]);
    sefl_status (*kem_sweep)(journal *j, kem_keep_fn *keep, void *ctx); /* locks itself */
};
extern const round_files folder_files, db_files;

/* Completes wipes, deletes unfinished files. SEFL_ESTATE if a folder has a task above `tasks`. */
sefl_status files_settle(journal *j, uint64_t tasks) SEFL_MUST_CHECK;
/* Makes folder/task-T/round-N, and deletes it (of a round without a key in the folder). */
sefl_status folder_make_round(const journal *j, char out[PATH_MAX], uint64_t round) SEFL_MUST_CHECK;
sefl_status folder_wipe_round(journal *j, uint64_t round) SEFL_MUST_CHECK;
/* journal_seed_*, with `files` locked. */
sefl_status folder_seed_put(const journal *j, unsigned lane, const uint8_t id[32],
                            const uint8_t secret[32]) SEFL_MUST_CHECK;
sefl_status folder_seed_get(const journal *j, unsigned lane, const uint8_t id[32],
                            uint8_t secret[32]) SEFL_MUST_CHECK;
sefl_status folder_seed_wipe(const journal *j, unsigned lane, const uint8_t id[32]) SEFL_MUST_CHECK;
/* Runs one statement of round `round` under the lock. `fn` takes each row, NULL: there are none. A
 * write outside a transaction checks the guard in one of its own. */
sefl_status journal_rows_args(journal *j, uint64_t round, db_row_fn *fn, void *ctx, const char *sql,
                              const db_value *args) SEFL_MUST_CHECK;
#define journal_rows(j, round, fn, ctx, sql, ...) \
    journal_rows_args((j), (round), (fn), (ctx), (sql), DB_VALUES(__VA_ARGS__))
/* Copies a column that must have n bytes. */
sefl_status journal_take(const db_row *row, int col, void *out, size_t n) SEFL_MUST_CHECK;
/* Binds a new database to at->owner; SEFL_ESTATE if it has another one. Does nothing without. */
sefl_status owner_bind(db *d, const journal_place *at) SEFL_MUST_CHECK;
/* Takes part in the transaction of d: fails as lease_check does; without a guard does nothing. */
sefl_status guard_check(const journal *j, db *d) SEFL_MUST_CHECK;

#endif

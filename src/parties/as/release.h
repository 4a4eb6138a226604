/* release: makes, evaluates and keeps the model files that rounds release.
 *
 *     models/round-N.safetensors   released by round N (safetensors, model/file/model_file.h)
 *     models/round-N.optimiser     state of the server's optimiser after round N (step.h)
 *     models/round-N.integers      the integers that round N released (integers.h)
 *
 * Round N starts from the model of the latest round before it that was released, or from the task's
 * initial model, called round 0 here. A round that is skipped, or that the release check blocks
 * (sum/release_check.h), writes no model.
 *
 *     SEFL_TRY(releases_new(&r, &cfg));       // checks init and word list against the task
 *     SEFL_TRY(release_make(r, &(release_from){ .round = 3, .hash = h }, 4, w, clients, &made));
 *     release_settle(r, 4);                   // round 4 is durable: deletes older files
 *
 * release_make reads only files that never change and writes its own files atomically; if repeated
 * after a crash, it writes the same bytes. The paths in a config must outlive the releases.
 * Threads: one owner; others may call release_path and read the files.   Secrets: none. */
#ifndef ROLES_AGGREGATOR_RELEASE_H
#define ROLES_AGGREGATOR_RELEASE_H

#include "base/pool.h"
#include "model/corpus/corpus.h"
#include "sum/release_check.h"

#include <limits.h>

typedef struct releases releases;

typedef struct release_files {
    const char *models; /* folder, created if it does not exist */
    const char *init;   /* the initial model's file */
    const char *vocab;  /* the public word list; NULL if the task's model is external */
    const char *valid;  /* the public validation text that the task names; NULL if it names none */
    uint64_t keep;      /* number of latest models to keep; 0: all */
    uint64_t every;     /* also keeps older models whose round is a multiple of this; 0: none */
    uint64_t integers;  /* number of latest rounds whose integers to keep, up to twice as many; 0:
                           none */
} release_files;

typedef struct releases_config {
    const task *task;
    release_files files;
    pool *pool;
} releases_config;

/* Reads init, vocab and valid; SEFL_EAUTH if one is not the file that the task names. Changes no
 * file. Both outputs start empty; the caller always frees *words and clears *valid. */
sefl_status releases_check(const releases_config *c, vocab **words, corpus *valid) SEFL_MUST_CHECK;

/* Call it after releases_check. */
sefl_status releases_new(releases **out, const releases_config *c) SEFL_MUST_CHECK;
void releases_free(releases *r);

/* Returns the path of the model that a round released; round 0: the initial model. */
sefl_status release_path(const releases *r, char out[PATH_MAX], uint64_t round) SEFL_MUST_CHECK;
/* The same for any of the three files of a round, in a folder of models. */
typedef enum release_file { RELEASE_MODEL, RELEASE_OPTIMISER, RELEASE_INTEGERS } release_file;
sefl_status release_file_path(char out[PATH_MAX], const char *models, uint64_t round,
                              release_file what) SEFL_MUST_CHECK;
/* True if this is the name of such a file; returns its round and which file it is. */
bool release_file_round(const char *name, uint64_t *round, release_file *what);

sefl_status release_make(releases *r, const release_from *from, uint64_t round, const int64_t *w,
                         uint32_t clients, release_made *out) SEFL_MUST_CHECK;
/* `latest` is the round whose model the next round starts from. Deletes the optimiser files of
 * earlier rounds and the models and integers that the settings do not keep, but never the latest
 * model or a file of a later round. It also keeps the model and the optimiser's state from which
 * the kept integers continue. A download in progress continues, since the server has the file open.
 * The next release and the next start retry any deletion that fails. */
void release_settle(const releases *r, uint64_t latest);

#endif

/* release: models as files: the one a round starts from, the next one, how good it is.
 *
 *     models/round-N.safetensors   released by round N (safetensors, model/file/model_file.h)
 *     models/round-N.optimiser     what the server's optimiser remembers after it (step.h)
 *
 * Round N starts from the model that the latest released round before it made; the first from the
 * task's initial model, called round 0 here. A skipped round makes none, and neither does one
 * that the release check blocks (sum/release_check.h): nothing is written then.
 *
 *     SEFL_TRY(releases_new(&r, &cfg));       // checks init and word list against the task
 *     SEFL_TRY(release_make(r, &(release_from){ .round = 3, .hash = h }, 4, w, clients, &made));
 *     release_settle(r, 4);                   // round 4 is durably the latest: older files go
 *
 * release_make reads only files that do not change and writes each of its own atomically:
 * repeated after a crash it makes the same bytes. The paths of a config are borrowed.
 * Threads: one owner; release_path and files may be read by others.   Secrets: none. */
#ifndef ROLES_AGGREGATOR_RELEASE_H
#define ROLES_AGGREGATOR_RELEASE_H

#include "base/pool.h"
#include "model/corpus/corpus.h"
#include "sum/release_check.h"

#include <limits.h>

typedef struct releases releases;

typedef struct releases_config {
    const task *task;
    const char *models; /* folder, made if it is not there */
    const char *init;   /* the initial model's file */
    const char *vocab;  /* the public word list */
    const char *valid;  /* the public text that the task names; NULL where it names none */
    uint64_t keep;      /* how many of the latest models stay; 0: all */
    uint64_t every;     /* of the older ones those whose round is a multiple of this; 0: none */
    pool *pool;
} releases_config;

/* Reads init, vocab and valid; SEFL_EAUTH if one is not what the task names. Changes no file. The
 * caller frees *words and clears *valid in any case; both start empty. */
sefl_status releases_check(const releases_config *c, vocab **words, corpus *valid) SEFL_MUST_CHECK;

/* After releases_check. */
sefl_status releases_new(releases **out, const releases_config *c) SEFL_MUST_CHECK;
void releases_free(releases *r);

/* The file of the model that a round released; round 0: the initial one. */
sefl_status release_path(const releases *r, char out[PATH_MAX], uint64_t round) SEFL_MUST_CHECK;

sefl_status release_make(releases *r, const release_from *from, uint64_t round, const int64_t *w,
                         uint32_t clients, release_made *out) SEFL_MUST_CHECK;
/* `latest` is the round that made the model the next round starts from. Deletes the optimiser
 * files of earlier rounds, and the models that the settings do not keep; never the latest, nor
 * one of a later round. A download that is under way goes on: the server has the file open. Best
 * effort: what cannot be deleted now is tried again after the next release, and at the next
 * start. */
void release_settle(const releases *r, uint64_t latest);

#endif

/* builtin: the port (train_job.h) of the built-in training: the model and the engine on the
 * client's text.
 *
 *     SEFL_TRY(builtin_new(&b, &(builtin_config){ .task = t, .words = v, .text = &text }));
 *     train_port port = builtin_port(b);                   // b outlives the port
 *     builtin_free(b);
 *
 * Unit client: it trains for local_epochs or local_steps with the engine. Unit record: it makes one
 * separate step for each record, on the CPU (fed_train.h). The engine and its memory exist only
 * during a call. If training diverges, the client uploads zeros, because a missing upload would
 * reveal something about its text to everyone who counts uploads.
 *
 * Memory: what the engine needs (engine_facts; on the CPU lm_memory, 4 bytes per value and a copy
 * of the text); records: 8 more bytes per value. Secret: the text and all results; our copies are
 * wiped. Threads: one owner; uses the pool. */
#ifndef ROLES_CLIENT_BUILTIN_H
#define ROLES_CLIENT_BUILTIN_H

#include "base/log.h"
#include "base/pool.h"
#include "fed/train_job.h"

typedef struct builtin_config {
    const task *task;
    const vocab *words;
    const corpus *text;             /* of all jobs; builtin_new checks it */
    pool *pool;                     /* NULL: only the calling thread */
    const char *device, *precision; /* as in model/engine/engine.h; records train on the CPU */
    sefl_log *log;                  /* NULL: silent */
} builtin_config;

typedef struct builtin builtin;

/* Everything that the config points to must outlive the result. SEFL_EAUTH if the words are not the
 * task's, SEFL_EINVAL for a text that is too short to train on. */
sefl_status builtin_new(builtin **out, const builtin_config *c) SEFL_MUST_CHECK;
void builtin_free(builtin *b);

train_port builtin_port(builtin *b);

#endif

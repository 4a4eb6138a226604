/* draft: the public files of a new task: the word list, the initial model, and their hashes in the
 * task's settings. Everything comes from public data.
 *
 *     SEFL_TRY(draft_vocab(&v, &task, "valid.txt", NULL, "vocab.txt"));
 *     SEFL_TRY(draft_model(&task, v, 1, "init.safetensors"));
 *     SEFL_TRY(draft_hash(&task, "valid.sha256", "valid.txt"));
 *     SEFL_TRY(task_make(&document, &task, NULL, &keys));         // protocol/task_make.h
 *
 * Threads: any, on different settings.   Secrets: none. */
#ifndef ROLES_DRAFT_H
#define ROLES_DRAFT_H

#include "config/settings.h"
#include "model/corpus/vocab.h"

/* Returns how the task orders its words. */
vocab_settings draft_order(const settings *t);

/* Counts the words of a public text, and each word of the list `also` (NULL: none) once. Numbers
 * them in the task's order and writes the list; sets vocab.sha256 and model.vocab. */
sefl_status draft_vocab(vocab **out, settings *t, const char *text, const char *also,
                        const char *path) SEFL_MUST_CHECK;
/* Writes a finished vocabulary; sets vocab.sha256 and model.vocab. */
sefl_status draft_words(settings *t, const vocab *v, const char *path) SEFL_MUST_CHECK;

/* Draws the task's model from a public seed and writes it; sets init.sha256. */
sefl_status draft_model(settings *t, const vocab *v, uint64_t seed,
                        const char *path) SEFL_MUST_CHECK;

/* Sets `key` to the SHA-256 of a file. */
sefl_status draft_hash(settings *t, const char *key, const char *path) SEFL_MUST_CHECK;

#endif

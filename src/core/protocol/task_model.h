/* task_model: reads and writes the models of a task as files (model/file/model_file.h).
 *
 *     float *theta = NULL;
 *     SEFL_TRY(task_model_read(&theta, &t, "init.safetensors"));       // t.params values
 *     SEFL_TRY(task_model_write("round-1.safetensors", &t, theta, hash));
 *
 * The initial model of an external task may be any safetensors file with the task's tensors.
 * Threads: any.   Secrets: none; models of rounds are public to the parties. */
#ifndef PROTOCOL_TASK_MODEL_H
#define PROTOCOL_TASK_MODEL_H

#include "protocol/task.h"

/* Sets *theta to an array of t->params values, which the caller frees with sefl_free. SEFL_EPROTO
 * if the file is damaged or belongs to a model with another shape or another vocabulary. */
sefl_status task_model_read(float **theta, const task *t, const char *path) SEFL_MUST_CHECK;

/* The same, with the clip of the round that starts from this model, in billionths. It is
 * privacy.clip if the file has none of this task, and 0 if the task's clip is fixed. SEFL_EPROTO if
 * it is outside the task's range (task_clip_fits). */
sefl_status task_model_read_clip(float **theta, uint64_t *clip, const task *t,
                                 const char *path) SEFL_MUST_CHECK;

/* Writes atomically and durably; hash becomes the SHA-256 of the values (not of the file). clip: of
 * the next round; 0 if the task's clip is fixed. */
sefl_status task_model_write(const char *path, const task *t, const float *theta, uint64_t clip,
                             uint8_t hash[SHA256_BYTES]) SEFL_MUST_CHECK;

#endif

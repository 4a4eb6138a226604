/* model_open: a model file (model/file/model_file.h) as a model ready for use, and the vocabulary
 * that it was trained with.
 *
 *     SEFL_TRY(model_open(&m, &meta, path, 0, 0, pool));
 *     SEFL_TRY(model_check_vocab(&meta, v));
 *
 * Threads: any.   Secrets: as model_file.h. */
#ifndef MODEL_MODEL_OPEN_H
#define MODEL_MODEL_OPEN_H

#include "model/corpus/vocab.h"
#include "model/file/model_file.h"
#include "model/lm.h"

/* Reads a model and makes it ready for use; batch and steps as in lm_config (0: the default). */
sefl_status model_open(lm **out, model_meta *meta, const char *path, uint32_t batch, uint32_t steps,
                       pool *p) SEFL_MUST_CHECK;

/* SEFL_EINVAL, with both hashes, if the model was trained with another vocabulary. If the file does
 * not record the vocabulary, only the size is checked. */
sefl_status model_check_vocab(const model_meta *meta, const vocab *v) SEFL_MUST_CHECK;

/* Stores the vocabulary's kind, order and hash in meta. */
void model_meta_set_vocab(model_meta *meta, const vocab *v);

#endif

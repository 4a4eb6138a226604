/* model_file: a trained model as a safetensors file, ours and PyTorch's.
 *
 *     SEFL_TRY(model_write(path, &meta, lm_theta(m)));
 *     SEFL_TRY(model_open(&m, &meta, path, 0, 0, pool)); // a model ready for use
 *     SEFL_TRY(model_check_vocab(&meta, v));             // the words it was trained with
 *
 * Our own file holds every parameter under its name (model/lm.h) as it is trained and sent: a
 * block-Hankel matrix is a vector of its values, shape [count]; with block 1 it is the dense
 * matrix, shape [rows, cols]. Metadata, all strings:
 *
 *     sefl          "model 1"
 *     format        "pt": what PyTorch's own loader asks for
 *     model         "lstm" or "transformer"
 *     vocab embed hidden layers heads block       whole numbers
 *     tied          "true" or "false"
 *     vocab_order   "interleaved", "appearance" or "frequency"; "" if not known
 *     vocab_sha256  64 hex digits (model/corpus/vocab.h); "" if not known
 *     values_sha256 of all values, float32 in the order of model/lm.h: a damaged file is noticed.
 *                   A file without it (saved again by another program) is taken as it is.
 *
 * model_export writes the expanded dense weights under the names of PyTorch's word-language-model
 * example, so that load_state_dict takes them: tied weights twice, and for the Transformer the
 * table of positions, `pos_encoder.pe`, which that example keeps among its weights. model_import is
 * the way back: sizes from the shapes, each matrix projected onto the nearest block-Hankel one.
 *
 * Reading refuses missing, additional or misshapen arrays, and values that are not finite.
 *
 * Threads: any.   Secrets: a model is as secret as its owner holds it; no values
 * are printed here. */
#ifndef MODEL_FILE_MODEL_FILE_H
#define MODEL_FILE_MODEL_FILE_H

#include "model/corpus/vocab.h"
#include "model/lm.h"

typedef struct model_meta {
    lm_config cfg; /* batch and steps are not stored */
    bool has_vocab;
    vocab_order order;
    uint8_t vocab_hash[SHA256_BYTES];
} model_meta;

/* Notes the vocabulary's order and hash. */
void model_meta_set_vocab(model_meta *meta, const vocab *v);

/* Atomic and durable. theta is laid out as lm_config_params says. */
sefl_status model_write(const char *path, const model_meta *meta,
                        const nn_real *theta) SEFL_MUST_CHECK;

/* *theta is the caller's to sefl_free, *count values. */
sefl_status model_read(model_meta *meta, nn_real **theta, size_t *count,
                       const char *path) SEFL_MUST_CHECK;

/* The same, as a model; batch and steps as in lm_config (0: the usual). */
sefl_status model_open(lm **out, model_meta *meta, const char *path, uint32_t batch, uint32_t steps,
                       pool *p) SEFL_MUST_CHECK;

/* SEFL_EINVAL, with both hashes, if these are not the words that the model was trained with. A
 * model that does not know its vocabulary is only held to its size. */
sefl_status model_check_vocab(const model_meta *meta, const vocab *v) SEFL_MUST_CHECK;

sefl_status model_export(const char *path, const model_meta *meta,
                         const nn_real *theta) SEFL_MUST_CHECK;

/* meta->cfg gives block, heads (neither can be seen in the file) and tied; the rest is filled in.
 * *distance: the norm of what projection changed, over the norm of all weights. */
sefl_status model_import(model_meta *meta, nn_real **theta, size_t *count, double *distance,
                         const char *path) SEFL_MUST_CHECK;

#endif

/* model_file: reads and writes a trained model as a safetensors file, in our format or PyTorch's.
 *
 *     SEFL_TRY(model_write(path, &meta, lm_theta(m)));
 *     SEFL_TRY(model_open(&m, &meta, path, 0, 0, pool)); // a model ready for use
 *     SEFL_TRY(model_check_vocab(&meta, v));             // trained with this vocabulary?
 *
 * Our format stores every parameter under its name (model/lm.h) in the form that is trained and
 * sent. A block-Hankel matrix is stored as the vector of its values, shape [count]; with block 1,
 * as the dense matrix, shape [rows, cols]. All metadata are strings:
 *
 *     sefl          "model 1"
 *     format        "pt", which PyTorch's loader requires
 *     model         "lstm" or "transformer"
 *     vocab embed hidden layers heads block       whole numbers
 *     block_embed block_decoder                   whole numbers; missing if equal to block
 *     tied          "true" or "false"
 *     vocab_order   "interleaved", "appearance" or "frequency"; "" if unknown
 *     vocab_sha256  64 hex digits (model/corpus/vocab.h); "" if unknown
 *     values_sha256 hash of all values, float32 in the order of model/lm.h; detects a damaged file.
 *                   A file without it (saved by another program) is accepted.
 *
 * model_export writes the expanded dense weights under the names of PyTorch's word-language-model
 * example, so that load_state_dict accepts them. It writes tied weights twice, and for the
 * Transformer the position table `pos_encoder.pe`, which the example keeps among its weights.
 * model_import reads such a file: it infers sizes from shapes and replaces each matrix with the
 * nearest block-Hankel one.
 *
 * Readers refuse missing, additional or misshapen arrays, and values that are not finite.
 *
 * Threads: any.   Secrets: the owner decides whether a model is secret; this module prints no
 * values. */
#ifndef MODEL_FILE_MODEL_FILE_H
#define MODEL_FILE_MODEL_FILE_H

#include "base/sha256.h"
#include "model/corpus/vocab.h"
#include "model/lm.h"

typedef struct model_meta {
    lm_config cfg; /* batch and steps are not stored */
    bool has_vocab;
    vocab_order order;
    uint8_t vocab_hash[SHA256_BYTES];
} model_meta;

/* Stores the vocabulary's order and hash in meta. */
void model_meta_set_vocab(model_meta *meta, const vocab *v);

/* Writes atomically and durably. lm_config_params describes the layout of theta. */
sefl_status model_write(const char *path, const model_meta *meta,
                        const nn_real *theta) SEFL_MUST_CHECK;
/* Like model_write; also returns values_sha256, the SHA-256 of the values as floats. */
sefl_status model_write_hash(const char *path, const model_meta *meta, const nn_real *theta,
                             uint8_t hash[SHA256_BYTES]) SEFL_MUST_CHECK;

/* Sets *theta to an array of *count values, which the caller frees with sefl_free. */
sefl_status model_read(model_meta *meta, nn_real **theta, size_t *count,
                       const char *path) SEFL_MUST_CHECK;

/* Reads a model and makes it ready for use; batch and steps as in lm_config (0: the default). */
sefl_status model_open(lm **out, model_meta *meta, const char *path, uint32_t batch, uint32_t steps,
                       pool *p) SEFL_MUST_CHECK;

/* SEFL_EINVAL, with both hashes, if the model was trained with another vocabulary. If the file does
 * not record the vocabulary, only the size is checked. */
sefl_status model_check_vocab(const model_meta *meta, const vocab *v) SEFL_MUST_CHECK;

/* SEFL_EINVAL, with the first setting that differs, unless the model has the shape of cfg. */
sefl_status model_check_shape(const model_meta *meta, const lm_config *cfg) SEFL_MUST_CHECK;

sefl_status model_export(const char *path, const model_meta *meta,
                         const nn_real *theta) SEFL_MUST_CHECK;

/* The caller sets the block sizes, heads and tied in meta->cfg, which the file does not determine;
 * the call fills in the rest. *distance: relative change of the weights by the projection. */
sefl_status model_import(model_meta *meta, nn_real **theta, size_t *count, double *distance,
                         const char *path) SEFL_MUST_CHECK;

#endif

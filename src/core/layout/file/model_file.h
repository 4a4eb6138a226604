/* model_file: reads and writes a trained model as a safetensors file, in our format or PyTorch's.
 *
 *     SEFL_TRY(model_write(path, &meta, lm_theta(m)));      // a built-in model
 *     SEFL_TRY(model_read(&meta, &theta, &n, path));        // model/model_open.h makes it an lm
 *
 *     SEFL_TRY(model_list_tensors(&l, path));               // any model: its layout
 *     SEFL_TRY(model_read_tensors(&theta, &l, path));
 *     SEFL_TRY(model_write_tensors(path, &l, theta, hash));
 *
 * Our format stores every tensor under its name (model/layout.h) in the form that is trained and
 * sent. A block-Hankel matrix is stored as the vector of its values, shape [count]; a dense tensor
 * in its own shape. All metadata are strings:
 *
 *     sefl          "model 1"
 *     format        "pt", which PyTorch's loader requires
 *     model         "lstm", "transformer" or "external"
 *     vocab embed hidden layers heads block       whole numbers
 *     block_embed block_decoder                   whole numbers; missing if equal to block
 *     tied          "true" or "false"
 *     vocab_kind    "bpe"; missing if the vocabulary is a word list
 *     vocab_order   "interleaved", "appearance" or "frequency"; "" if unknown
 *     vocab_sha256  64 hex digits (model/corpus/vocab.h); "" if unknown
 *     clip          the next round's clip in billionths, and the first 16 hex digits of the task's
 *                   id; only if the task finds its clip (privacy.clip_quantile)
 *     values_sha256 hash of all values, float32 in the order of the layout; detects a damaged file.
 *                   A file without it (saved by another program) is accepted.
 * An external model has, instead of those from vocab to vocab_sha256, only
 *     blocks        its block-Hankel tensors as in layout_parse; missing if there are none
 * A dense external model is a plain safetensors file, which every program can load.
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
#include "model/layout.h"

enum { MODEL_CLIP_TASK = 8 };

typedef struct model_meta {
    lm_config cfg; /* batch and steps are not stored */
    bool has_vocab;
    vocab_kind kind;
    vocab_order order;
    uint8_t vocab_hash[SHA256_BYTES];
    uint64_t clip;                      /* 0: none */
    uint8_t clip_task[MODEL_CLIP_TASK]; /* the task that found it */
} model_meta;

/* Writes atomically and durably. lm_config_layout describes theta. */
sefl_status model_write(const char *path, const model_meta *meta,
                        const nn_real *theta) SEFL_MUST_CHECK;
/* Like model_write; also returns values_sha256, the SHA-256 of the values as floats. */
sefl_status model_write_hash(const char *path, const model_meta *meta, const nn_real *theta,
                             uint8_t hash[SHA256_BYTES]) SEFL_MUST_CHECK;

/* Sets *theta to an array of *count values, which the caller frees with sefl_free. */
sefl_status model_read(model_meta *meta, nn_real **theta, size_t *count,
                       const char *path) SEFL_MUST_CHECK;

/* Sets hash to the SHA-256 of the values of a file in our format, of any model. SEFL_EPROTO if the
 * file is damaged. */
sefl_status model_read_hash(uint8_t hash[SHA256_BYTES], const char *path) SEFL_MUST_CHECK;

/* ---- external models ----------------------------------------------------------------------- */

/* Like model_write_hash, for a layout. */
sefl_status model_write_tensors(const char *path, const layout *l, const nn_real *theta,
                                uint8_t hash[SHA256_BYTES]) SEFL_MUST_CHECK;

/* Sets *theta to an array of l->count values, which the caller frees with sefl_free. The file may
 * be one of ours, or any safetensors file that has exactly the tensors of the layout, dense;
 * matrices with a block above 1 are then projected. SEFL_EPROTO if a tensor is missing,
 * unexpected, misshapen or not finite; the message names it. */
sefl_status model_read_tensors(nn_real **theta, const layout *l, const char *path) SEFL_MUST_CHECK;

/* Lists the tensors of a safetensors file; the caller clears *out. SEFL_EUNSUPPORTED if one is not
 * of floating-point numbers or has too many dimensions. */
sefl_status model_list_tensors(layout *out, const char *path) SEFL_MUST_CHECK;

/* ---- built-in models ----------------------------------------------------------------------- */

/* SEFL_EINVAL, with the first setting that differs, unless the model has the shape of cfg. */
sefl_status model_check_shape(const model_meta *meta, const lm_config *cfg) SEFL_MUST_CHECK;

sefl_status model_export(const char *path, const model_meta *meta,
                         const nn_real *theta) SEFL_MUST_CHECK;

/* The caller sets the block sizes, heads and tied in meta->cfg, which the file does not determine;
 * the call fills in the rest. *distance: relative change of the weights by the projection. */
sefl_status model_import(model_meta *meta, nn_real **theta, size_t *count, double *distance,
                         const char *path) SEFL_MUST_CHECK;

#endif

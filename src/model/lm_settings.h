/* lm_settings: the table of settings for a model's shape. Tasks, experiments
 * (protocol/task_fields.h) and `sefl train` share its names, ranges and defaults.
 *
 *     MODEL_SETTINGS(ROW, t.model)
 *
 * calls ROW(key, kind, member, fallback, min, max, words, help) for each field of an lm_config that
 * users set; `member` begins with the second argument. Kinds: COUNT (uint32_t), BOOL (bool). */
#ifndef MODEL_LM_SETTINGS_H
#define MODEL_LM_SETTINGS_H

#include "model/lm.h"

#define MODEL_BODIES    "lstm transformer"
#define MODEL_BODY_HELP "model architecture"

/* clang-format off */
#define MODEL_SETTINGS(ROW, P)                                                                     \
    ROW("model.embed", COUNT, P.embed, "200", 1, 65536, NULL, "embedding size")                    \
    ROW("model.hidden", COUNT, P.hidden, "200", 1, 65536, NULL, "hidden layer size")               \
    ROW("model.layers", COUNT, P.layers, "2", 1, LM_MAX_LAYERS, NULL, "number of layers")          \
    ROW("model.heads", COUNT, P.heads, "2", 1, 65536, NULL, "attention heads of a transformer")    \
    ROW("model.block", COUNT, P.block, "32", 1, BHM_MAX_BLOCK, NULL,                               \
        "block size of the Hankel matrices; 1 means dense matrices")                               \
    ROW("model.block_embed", COUNT, P.block_embed, "0", 0, BHM_MAX_BLOCK, NULL,                    \
        "block size of the embedding; 0 means model.block")                                        \
    ROW("model.block_decoder", COUNT, P.block_decoder, "0", 0, BHM_MAX_BLOCK, NULL,                \
        "block size of the decoder; 0 means model.block")                                          \
    ROW("model.tied", BOOL, P.tied, "false", 0, 0, NULL,                                           \
        "share the weights between the embedding and the decoder")
/* clang-format on */

#endif

/* lm_settings: the settings that several schemas share; arguments state what differs.
 *
 *     RUN_SEED, DATA_SETTINGS                   `sefl train`, experiments
 *     ENGINE_SETTINGS (model/engine/engine.h)   `sefl train`, experiments, clients; `sefl model`
 *     TEXT_FORMAT                               `sefl train`, clients; `sefl data`, `sefl model`
 *     all others                                `sefl train`, tasks (protocol/task_fields.h),
 *                                               experiments (they have a task's settings);
 *                                               `sefl model` has MODEL_BODY and MODEL_SHAPE,
 *                                               `sefl data` has VOCAB_ORDER, VOCAB_KIND
 *
 * MODEL_SETTINGS(ROW, t.model) calls ROW(key, kind, member, fallback, min, max, words, help, ...)
 * for each setting of a model. `kind` is a setting_type: U64, CHOICE, ...; other members of the
 * setting_def may follow the help text. SETTING_ROW (config/settings.h) makes it a schema entry. */
#ifndef MODEL_LM_SETTINGS_H
#define MODEL_LM_SETTINGS_H

#include "model/bhm/bhm.h"
#include "model/lm_config.h"

/* clang-format off */
#define RUN_SEED(ROW)                                                                              \
    ROW("seed", U64, seed, "1", 0, 0, NULL, "seed of all random numbers", .was = "train.seed")

#define DATA_SETTINGS(ROW, file, usual_file, list, keep)                                           \
    ROW("data.path", PATH, file, usual_file, 0, 0, NULL,                                           \
        "text: a file, or a folder with train, valid and test files (.txt, .jsonl, .csv); without "\
        "it, an experiment generates text", .arg = "PATH")                                         \
    ROW("data.vocab", PATH, list, "", 0, 0, NULL,                                                  \
        "vocabulary: a word list or a BPE file, public in a federation; if empty, it is made from "\
        "the training text")                                                                       \
    ROW("data.vocab_words", U64, keep, "0", 0, VOCAB_WORDS_MAX, NULL,                              \
        "number of most frequent words to keep; 0 keeps all. With vocab.kind bpe: number of "      \
        "tokens to train; 0 means 8192", .was = "data.max_words")

#define TEXT_FORMAT(ROW, prefix, format, field)                                                    \
    ROW(prefix "format", CHOICE, format, "guess", 0, 0, CORPUS_FORMATS,                            \
        "format of the text; guess chooses by the file's extension")                               \
    ROW(prefix "field", TEXT, field, "text", 0, 0, NULL,                                           \
        "JSON member or CSV column that contains the text", .arg = "NAME")

#define MODEL_BODIES KIND_WORDS(LM_BODIES)
#define MODEL_BODY(ROW, kind, body, bodies)                                                        \
    ROW("model.body", kind, body, "lstm", 0, 0, bodies, "model architecture", .was = "model.kind")

#define MODEL_SHAPE(ROW, P)                                                                        \
    ROW("model.embed", U64, P.embed, "200", 1, 65536, NULL, "embedding size")                      \
    ROW("model.hidden", U64, P.hidden, "200", 1, 65536, NULL, "hidden layer size")                 \
    ROW("model.layers", U64, P.layers, "2", 1, LM_MAX_LAYERS, NULL, "number of layers")            \
    ROW("model.heads", U64, P.heads, "2", 1, 65536, NULL, "attention heads of a transformer")      \
    ROW("model.block", U64, P.block, "32", 1, BHM_MAX_BLOCK, NULL,                                 \
        "block size of the Hankel matrices; 1 means dense matrices")                               \
    ROW("model.block_embed", U64, P.block_embed, "0", 0, BHM_MAX_BLOCK, NULL,                      \
        "block size of the embedding; 0 means model.block")                                        \
    ROW("model.block_decoder", U64, P.block_decoder, "0", 0, BHM_MAX_BLOCK, NULL,                  \
        "block size of the decoder; 0 means model.block")                                          \
    ROW("model.tied", BOOL, P.tied, "false", 0, 0, NULL,                                           \
        "share the weights between the embedding and the decoder")

#define MODEL_SETTINGS(ROW, P)                                                                     \
    MODEL_SHAPE(ROW, P)                                                                            \
    ROW("model.batch", U64, P.batch, "20", 1, 65536, NULL, "batch size in sequences",              \
        .was = "train.batch")                                                                      \
    ROW("model.steps", U64, P.steps, "35", 1, 65536, NULL, "sequence length in tokens",            \
        .was = "train.bptt")

#define VOCAB_ORDER(ROW, order)                                                                    \
    ROW("vocab.order", CHOICE, order, "interleaved", 0, 0, VOCAB_ORDERS,                           \
        "order of the words in the vocabulary", .was = "data.order")

#define VOCAB_KIND(ROW, kind)                                                                      \
    ROW("vocab.kind", CHOICE, kind, "words", 0, 0, VOCAB_KINDS,                                    \
        "what the vocabulary contains: words, which white space separates, or bpe: byte-level "    \
        "sub-word tokens, which can write any text, so that no word is unknown")

#define TRAINING_RATE(ROW, P)                                                                      \
    ROW("training.optimiser", CHOICE, P.optim.kind, "sgd", 0, 0, KIND_WORDS(OPTIMISERS),           \
        "optimiser for training on the text", .was = "train.optimiser")                            \
    ROW("training.lr", REAL, P.lr, "0", 0, 1000000, NULL,                                          \
        "learning rate; 0 means 0.001 for adam, else 20 for lstm and 5 for transformer",           \
        .was = "train.lr", .arg = "RATE")                                                          \
    ROW("training.schedule", CHOICE, P.schedule, "constant", 0, 0, KIND_WORDS(SCHEDULES),          \
        "how the learning rate changes over a task's rounds, from lr to lr_last; 'sefl train' has "\
        "no rounds and accepts only constant")

#define OPTIMISER_SETTINGS(ROW, group, P, where, usual_beta2, usual_epsilon)                       \
    ROW(group "momentum", REAL, P.momentum, "0.9", 0, 1, NULL,                                     \
        "coefficient of the momentum optimiser" where)                                             \
    ROW(group "beta1", REAL, P.beta1, "0.9", 0, 1, NULL, "beta1 of Adam" where)                    \
    ROW(group "beta2", REAL, P.beta2, usual_beta2, 0, 1, NULL, "beta2 of Adam" where)              \
    ROW(group "epsilon", REAL, P.epsilon, usual_epsilon, 0, 1, NULL, "epsilon of Adam" where)

#define TRAINING_OPTIMISER(ROW, P)                                                                 \
    OPTIMISER_SETTINGS(ROW, "training.", P.optim, "", "0.999", "1e-8")

#define TRAINING_EPOCHS(ROW, P, epochs, usual, least)                                              \
    ROW("training.weight_decay", REAL, P.optim.weight_decay, "0", 0, 1, NULL,                      \
        "decoupled weight decay: each step also subtracts lr x weight_decay x the parameters")     \
    ROW("training.gradient_clip", REAL, P.gradient_clip, "0.25", 0, 1000000, NULL,                 \
        "maximum L2 norm of the gradient of a batch (of a record, if privacy.unit is record); 0 "  \
        "means no limit", .was = "train.clip")                                                     \
    ROW("training.dropout", REAL, P.dropout, "0.2", 0, 1, NULL,                                    \
        "dropout probability during training", .was = "train.dropout")                             \
    ROW("training.epochs", U64, epochs, usual, least, 1000000, NULL,                               \
        "number of passes over the text, per round in a task; 0 if a task sets training.steps",    \
        .was = "train.epochs")
/* clang-format on */

#endif

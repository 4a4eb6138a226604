/* experiment_start: what the runs of an experiment start from: data.vocab and model.init.
 *
 * Threads: any.   Secrets: none. */
#ifndef SIMULATE_EXPERIMENT_START_H
#define SIMULATE_EXPERIMENT_START_H

#include "model/corpus/corpus.h"
#include "model/file/model_file.h"
#include "simulate/experiment.h"

vocab_settings experiment_vocab(const experiment *e, const settings *set);

/* Reads data.vocab, or counts the words of the training text. */
sefl_status experiment_words(vocab **out, const experiment *e, const corpus_file *train,
                             const vocab_settings *vs) SEFL_MUST_CHECK;

/* Reads model.init, which must have this shape and vocabulary; words NULL: any vocabulary. */
sefl_status experiment_init(float **theta, size_t *count, const char *path, lm_config cfg,
                            const vocab *words) SEFL_MUST_CHECK;

/* Checks data.vocab, and the shape and vocabulary of model.init, as a run does. Words of generated
 * text are not compared. */
sefl_status experiment_check_start(const experiment *e, const settings *set) SEFL_MUST_CHECK;

#endif

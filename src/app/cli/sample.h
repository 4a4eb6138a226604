/* sample: generates text with a language model, for `sefl model generate` and for reports.
 *
 *     SEFL_TRY(sample_words(&text, m, v, span_of_str("the"), 100, 1.0, seed));
 *     SEFL_TRY(sample_run(&r));                         // sets r.sample, if the model is there
 *
 * Threads: one caller.   Secrets: none; a released model is public. */
#ifndef CLI_SAMPLE_H
#define CLI_SAMPLE_H

#include "model/corpus/vocab.h"
#include "model/lm.h"
#include "report/report.h"

/* Appends the words that follow the prompt, separated by spaces, or the text of that many BPE
 * tokens; <eos> ends a line. m must have batch size 1. */
sefl_status sample_words(sefl_buf *text, lm *m, const vocab *v, sefl_span prompt, size_t words,
                         double temperature, uint64_t seed) SEFL_MUST_CHECK;

/* Appends a text of a fixed length that a model file's model writes with the words of that file. */
sefl_status sample_file(sefl_buf *text, const char *model, const char *words) SEFL_MUST_CHECK;

/* Looks for the model of the last released round and its word list in the folders of a simulation,
 * a demo, a provisioned federation or an aggregator. Leaves r->sample NULL if one is missing, or if
 * the model is external. */
sefl_status sample_run(report *r) SEFL_MUST_CHECK;

#endif

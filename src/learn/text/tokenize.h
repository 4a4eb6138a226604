/* tokenize: raw text as readable tokens, one line for each line of the text, and back.
 *
 *     SEFL_TRY(tokenize_bpe(&out, v, text, false));      // "_the _M \xc3\xbc ller ,\n"
 *     SEFL_TRY(tokenize_back(&text, v, out, false));     // the same bytes again
 *     SEFL_TRY(tokenize_words(&out, text));              // "the Müller ,\n", for a word list
 *
 * The text of the first two may be any bytes; a line feed is the token <eos>, and the last line may
 * lack it. Spaces separate the tokens of a line, which are shown as in a vocabulary file (vocab.h),
 * or as their numbers. tokenize_words splits words from punctuation; it keeps lines and, within a
 * line, replaces white space by single spaces. A punctuation mark is a word of its own; the same
 * mark several times in a row is one word (...).
 *
 * Threads: any. */
#ifndef MODEL_CORPUS_TOKENIZE_H
#define MODEL_CORPUS_TOKENIZE_H

#include "base/buf.h"
#include "model/corpus/vocab.h"

/* v has kind VOCAB_BPE. numbers: show numbers instead of tokens. */
sefl_status tokenize_bpe(sefl_buf *out, const vocab *v, sefl_span text,
                         bool numbers) SEFL_MUST_CHECK;

/* SEFL_EPROTO, with the line, for what is not a token of the vocabulary. */
sefl_status tokenize_back(sefl_buf *out, const vocab *v, sefl_span tokens,
                          bool numbers) SEFL_MUST_CHECK;

/* SEFL_EPROTO if the text is not UTF-8. */
sefl_status tokenize_words(sefl_buf *out, sefl_span text) SEFL_MUST_CHECK;

#endif

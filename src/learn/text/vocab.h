/* vocab: the vocabulary of a model: a list of words, or of sub-word tokens, and their numbers.
 *
 *     vocab *v = NULL;
 *     SEFL_TRY(vocab_new(&v, VOCAB_WORDS));
 *     SEFL_TRY(vocab_count(v, word));                    // for each word of public text
 *     SEFL_TRY(vocab_finish(v, &(vocab_settings){ .order = VOCAB_INTERLEAVED, .block = 32 }));
 *     uint32_t id = vocab_id(v, word);                   // the number of <unk> if it is unknown
 *
 * VOCAB_WORDS: white space separates the words of a text. vocab_read() reads a word list: one word
 * per line, optionally with a tab and a count; the line number minus one is the word's number. A
 * finished list always contains `<unk>` and `<eos>`: vocab_finish appends a missing <unk>, and
 * vocab_read puts missing ones first.
 *
 * VOCAB_BPE: the tokens are all 256 bytes, `<eos>`, and byte strings that training has merged from
 * them (model/corpus/bpe.h), so every text can be written with them and there is no <unk>. Before
 * vocab_finish, which trains the tokens, the words counted are the pieces of bpe_piece. The file:
 *
 *     sefl-bpe 1 N                  format, version, number of tokens
 *     TOKEN tab RANK                for each token, in the order of their numbers
 *
 * TOKEN is printable ASCII, except that `_` stands for a space and \xHH for any other byte. The
 * RANK of a byte is its value; the ranks of the merged tokens continue from 256 in the order of
 * their training; the rank of <eos> is `-`. Each merged token consists of two tokens of lower rank.
 * A tab and a count may follow. No word list begins with such a line, so no reader confuses them.
 *
 * A federation uses a public file, or one built from public text: a vocabulary built from private
 * text reveals which words, or which parts of words and names, the text contains.
 *
 * The order matters, because rows in the same block of a block-Hankel matrix share values:
 *   interleaved  the word of frequency rank r goes to block r mod blocks, place r div blocks, where
 *                blocks = ceil(words / block); a short last block is skipped once it is full
 *   appearance   in order of first appearance (in a word list: as listed; tokens: by rank)
 *   frequency    most frequent first; words with equal counts in order of appearance
 *
 * The hash is the `sha256sum` of the file that vocab_write writes without counts.
 *
 * Threads: a finished vocabulary may be shared.   Cost: about 50 ns and 40 bytes per word. */
#ifndef MODEL_CORPUS_VOCAB_H
#define MODEL_CORPUS_VOCAB_H

#include "base/sha256.h"
#include "model/lm_config.h"

#include <stdbool.h>

enum {
    VOCAB_TOKENS_MAX = 1 << 18, /* VOCAB_BPE */
    VOCAB_TOKENS_USUAL = 8192,
    VOCAB_NO_UNK = UINT32_MAX,
};

typedef struct vocab_settings {
    vocab_order order;
    uint32_t block;     /* block size of the model, for VOCAB_INTERLEAVED; 0 means 1 */
    uint32_t max_words; /* keeps only the most frequent words, <unk> and <eos> included; 0: all;
                           VOCAB_BPE: number of tokens to train; 0: VOCAB_TOKENS_USUAL */
    uint64_t min_count; /* keeps words seen at least this often; the others count as <unk> */
    vocab_kind kind;    /* vocab_read: the kind of file that is expected */
} vocab_settings;

typedef struct vocab vocab;

sefl_status vocab_new(vocab **out, vocab_kind kind) SEFL_MUST_CHECK;
void vocab_free(vocab *v);

/* Counts one occurrence of a word, which contains no white space. Call it before vocab_finish. */
sefl_status vocab_count(vocab *v, sefl_span word) SEFL_MUST_CHECK;

/* Selects and numbers the words; trains and numbers the tokens. SEFL_EINVAL if only <unk> and <eos>
 * would remain. */
sefl_status vocab_finish(vocab *v, const vocab_settings *s) SEFL_MUST_CHECK;

/* Reads a finished vocabulary from its file. SEFL_EPROTO, with file and line, for a file of another
 * kind than s->kind, an empty line, several words on a line, a repeated word, an invalid count, and
 * for tokens that do not meet the rules above. */
sefl_status vocab_read(vocab **out, const char *path, const vocab_settings *s) SEFL_MUST_CHECK;
sefl_status vocab_read_over(vocab **out, sefl_span bytes, const char *name,
                            const vocab_settings *s) SEFL_MUST_CHECK;

/* Writes the file atomically; with `counts`, a tab and the count follow each word. */
sefl_status vocab_write(const vocab *v, const char *path, bool counts) SEFL_MUST_CHECK;

uint32_t vocab_size(const vocab *v);
vocab_kind vocab_kind_of(const vocab *v);
uint32_t vocab_unk(const vocab *v); /* VOCAB_BPE: VOCAB_NO_UNK */
uint32_t vocab_eos(const vocab *v);
bool vocab_find(const vocab *v, sefl_span word, uint32_t *id);
uint32_t vocab_id(const vocab *v, sefl_span word);
sefl_span vocab_word(const vocab *v, uint32_t id);
uint32_t vocab_rank(const vocab *v, uint32_t id); /* VOCAB_BPE: of a token; UINT32_MAX for <eos> */
uint64_t vocab_count_of(const vocab *v, uint32_t id);
vocab_order vocab_order_of(const vocab *v);
void vocab_hash(const vocab *v, uint8_t out[SHA256_BYTES]);

/* Returns the number of the word with this frequency rank, out of n words, in interleaved order. */
uint32_t vocab_interleave(uint32_t rank, uint32_t n, uint32_t block);

#endif

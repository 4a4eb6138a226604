/* bpe: byte-level byte-pair encoding [SHB16]: text as sub-word tokens, without unknown words.
 *
 *     SEFL_TRY(bpe_encoder_new(&e, v));                  // v: a finished VOCAB_BPE vocabulary
 *     SEFL_TRY(bpe_encode(e, text, &ids, &n));           // valid until the next call
 *     SEFL_TRY(bpe_decode(&out, v, ids, n));             // appends the same bytes to out
 *
 * A text is first split into pieces. A piece is a run of letters, a run of digits or a run of other
 * characters, with at most one space before it; or white space. A letter is a-z, A-Z or any byte
 * from 0x80, except the punctuation of U+00A1-U+00BF, U+2000-U+207F and U+3000-U+303F. A piece has
 * at most BPE_PIECE_MAX bytes; longer runs are cut. No token crosses a piece.
 *
 * A piece that is a token becomes that token. Any other piece begins as its bytes; the adjacent
 * pair whose bytes together are the token of lowest rank is merged (the leftmost one, if there are
 * several), until no pair is a token.
 *
 * Training begins with the 256 bytes and repeats: the most frequent adjacent pair of tokens inside
 * the pieces becomes a new token. The text alone determines the result: of equally frequent pairs,
 * the one whose tokens are older wins. Training ends at the wanted number of tokens, or when no
 * pair occurs twice.
 *
 * Threads: an encoder has one owner. Secrets: the encoder keeps pieces of the text; messages show
 * none.   Cost: encoding about 30 MB/s; training WikiText-2 (11 MB, 8,192 tokens) 0.3 s. */
#ifndef MODEL_CORPUS_BPE_H
#define MODEL_CORPUS_BPE_H

#include "base/buf.h"
#include "model/corpus/vocab.h"

enum {
    BPE_PIECE_MAX = 128,                   /* bytes of a piece, and so of a token */
    BPE_SHOWN_MAX = 4 * BPE_PIECE_MAX + 1, /* characters of a token as text, and the final 0 */
};

/* Removes the next piece from the front of *text, which may be any bytes; false if it is empty. */
bool bpe_piece(sefl_span *text, sefl_span *piece);

/* True if the piece is a run of other characters than letters, digits and white space. */
bool bpe_is_punctuation(sefl_span piece);

/* Writes a token as a vocabulary file shows it (vocab.h) and returns its length. */
size_t bpe_show(char out[BPE_SHOWN_MAX], sefl_span token);

/* Reads a token as bpe_show writes it, and only so; false for any other text. */
bool bpe_unshow(uint8_t out[BPE_PIECE_MAX], size_t *n, sefl_span shown);

/* Trains on counted pieces (a literal <eos> is not one) and fills the empty VOCAB_BPE vocabulary
 * `tokens`: up to `size` - 1 tokens in the order of their ranks, without <eos>. */
sefl_status bpe_train(vocab *tokens, const vocab *pieces, uint32_t size) SEFL_MUST_CHECK;

/* Encodes one piece, of at most BPE_PIECE_MAX bytes; returns the number of tokens. */
size_t bpe_encode_piece(uint32_t ids[BPE_PIECE_MAX], const vocab *v, sefl_span piece);

typedef struct bpe_encoder bpe_encoder;

/* The encoder remembers the pieces it has seen. It borrows v. */
sefl_status bpe_encoder_new(bpe_encoder **out, const vocab *v) SEFL_MUST_CHECK;
void bpe_encoder_free(bpe_encoder *e);
sefl_status bpe_encode(bpe_encoder *e, sefl_span text, const uint32_t **ids,
                       size_t *n) SEFL_MUST_CHECK;

/* Appends the bytes of the tokens to *out; <eos> is a line feed. SEFL_EPROTO for a number that is
 * not a token's. */
sefl_status bpe_decode(sefl_buf *out, const vocab *v, const uint32_t *ids,
                       size_t n) SEFL_MUST_CHECK;

#endif

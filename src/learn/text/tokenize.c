#include "model/corpus/tokenize.h"

#include "base/utf8.h"
#include "model/corpus/bpe.h"

#include <string.h>

/* Removes the next line, without its line feed, from the front of *text; *end: it had one. */
static bool next_line(sefl_span *text, sefl_span *line, bool *end)
{
    if (text->n == 0)
        return false;
    const uint8_t *at = memchr(text->p, '\n', text->n);
    const size_t n = at ? (size_t)(at - text->p) : text->n;
    *end = at != NULL;
    *line = span_of(text->p, n);
    *text = span_of(text->p + n + *end, text->n - n - *end);
    return true;
}

sefl_status tokenize_bpe(sefl_buf *out, const vocab *v, sefl_span text, bool numbers)
{
    sefl_status st = SEFL_OK;
    bpe_encoder *e = NULL;
    sefl_span line;
    bool end;
    SEFL_TRY(bpe_encoder_new(&e, v));
    while (next_line(&text, &line, &end)) {
        const uint32_t *ids;
        size_t n;
        char shown[BPE_SHOWN_MAX];
        SEFL_TRY(bpe_encode(e, line, &ids, &n));
        for (size_t i = 0; i < n; i++) {
            if (i > 0)
                SEFL_TRY(wr_u8(out, ' '));
            if (numbers)
                SEFL_TRY(wr_fmt(out, "%u", ids[i]));
            else
                SEFL_TRY(wr_raw(out, shown, bpe_show(shown, vocab_word(v, ids[i]))));
        }
        if (end)
            SEFL_TRY(wr_u8(out, '\n'));
    }
done:
    bpe_encoder_free(e);
    return st;
}

static bool token_at(uint32_t *id, const vocab *v, sefl_span word, bool numbers)
{
    uint8_t bytes[BPE_PIECE_MAX];
    size_t n;
    if (!numbers)
        return bpe_unshow(bytes, &n, word) && vocab_find(v, span_of(bytes, n), id) &&
               *id != vocab_eos(v);
    uint64_t number = 0;
    if (word.n == 0 || word.n > 9)
        return false;
    for (size_t i = 0; i < word.n; i++) {
        if (word.p[i] < '0' || word.p[i] > '9')
            return false;
        number = 10 * number + (word.p[i] - '0');
    }
    *id = (uint32_t)number;
    return number < vocab_size(v) && *id != vocab_eos(v);
}

sefl_status tokenize_back(sefl_buf *out, const vocab *v, sefl_span tokens, bool numbers)
{
    sefl_span line;
    bool end;
    for (unsigned long long at = 1; next_line(&tokens, &line, &end); at++) {
        while (line.n > 0) {
            const uint8_t *space = memchr(line.p, ' ', line.n);
            const size_t n = space ? (size_t)(space - line.p) : line.n;
            uint32_t id;
            SEFL_NEED(token_at(&id, v, span_of(line.p, n), numbers), SEFL_EPROTO,
                      "line %llu: not %s of the vocabulary, separated by single spaces", at,
                      numbers ? "numbers of tokens (--ids)" : "tokens");
            SEFL_PASS(bpe_decode(out, v, &id, 1));
            line = span_of(line.p + n + (space != NULL), line.n - n - (space != NULL));
        }
        if (end)
            SEFL_PASS(wr_u8(out, '\n'));
    }
    return SEFL_OK;
}

/* Removes the next mark from the front of *marks, as often as it is repeated there. */
static sefl_span next_mark(sefl_span *marks)
{
    uint32_t code;
    const size_t len = utf8_decode(marks->p, marks->n, &code);
    size_t n = len;
    while (marks->n - n >= len && memcmp(marks->p, marks->p + n, len) == 0)
        n += len;
    sefl_span mark = span_of(marks->p, n);
    *marks = span_of(marks->p + n, marks->n - n);
    return mark;
}

static sefl_status put_word(sefl_buf *out, sefl_span word, bool *first)
{
    if (!*first)
        SEFL_PASS(wr_u8(out, ' '));
    *first = false;
    return wr_raw(out, word.p, word.n);
}

sefl_status tokenize_words(sefl_buf *out, sefl_span text)
{
    sefl_span line, word, piece;
    bool end;
    SEFL_NEED(utf8_good(text) == text.n, SEFL_EPROTO, "the text is not UTF-8 (byte %zu)",
              utf8_good(text));
    while (next_line(&text, &line, &end)) {
        bool first = true;
        while (utf8_word(&line, &word))
            while (bpe_piece(&word, &piece))
                if (!bpe_is_punctuation(piece))
                    SEFL_PASS(put_word(out, piece, &first));
                else
                    while (piece.n > 0)
                        SEFL_PASS(put_word(out, next_mark(&piece), &first));
        if (end)
            SEFL_PASS(wr_u8(out, '\n'));
    }
    return SEFL_OK;
}

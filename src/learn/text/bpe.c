#include "model/corpus/bpe.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

/* ---- pieces -------------------------------------------------------------------------------- */

enum { LETTER, DIGIT, OTHER, SPACE };

/* The class of the character at p, n > 0 bytes left, and its length. Bytes that are not UTF-8 are
 * letters of one byte. */
static int class_of(const uint8_t *p, size_t n, size_t *len)
{
    const uint8_t c = p[0], lower = c | 0x20;
    *len = 1;
    if (c < 0x80)
        return lower >= 'a' && lower <= 'z'           ? LETTER
               : c >= '0' && c <= '9'                 ? DIGIT
               : c == ' ' || (c >= '\t' && c <= '\r') ? SPACE
                                                      : OTHER;
    /* U+00A1 to U+00BF without the letters U+00AA, U+00B5 and U+00BA */
    if (c == 0xc2 && n > 1 && p[1] >= 0xa1 && p[1] <= 0xbf && p[1] != 0xaa && p[1] != 0xb5 &&
        p[1] != 0xba)
        return *len = 2, OTHER;
    /* U+2000 to U+207F, U+3000 to U+303F */
    if (n > 2 && p[2] >> 6 == 2 &&
        ((c == 0xe2 && (p[1] == 0x80 || p[1] == 0x81)) || (c == 0xe3 && p[1] == 0x80)))
        return *len = 3, OTHER;
    return LETTER;
}

bool bpe_piece(sefl_span *text, sefl_span *piece)
{
    const uint8_t *p = text->p;
    const size_t n = text->n;
    size_t i = 0, len;
    if (n == 0)
        return false;
    if (p[0] == ' ' && n > 1 && class_of(p + 1, n - 1, &len) != SPACE)
        i = 1;
    const int class = class_of(p + i, n - i, &len);
    do
        i += len;
    while (i < n && class_of(p + i, n - i, &len) == class && i + len <= BPE_PIECE_MAX);
    if (class == SPACE && i > 1 && i < n && p[i - 1] == ' ' &&
        class_of(p + i, n - i, &len) != SPACE)
        i--; /* the last space belongs to the next piece */
    *piece = span_of(p, i);
    *text = span_of(p + i, n - i);
    return true;
}

bool bpe_is_punctuation(sefl_span piece)
{
    size_t len;
    const size_t i = piece.n > 1 && piece.p[0] == ' ';
    return piece.n > 0 && class_of(piece.p + i, piece.n - i, &len) == OTHER;
}

/* ---- tokens as text ------------------------------------------------------------------------ */

static bool is_plain(uint8_t c)
{
    return c > ' ' && c < 0x7f && c != '\\' && c != '_';
}

size_t bpe_show(char out[BPE_SHOWN_MAX], sefl_span token)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = 0;
    assert(token.n <= BPE_PIECE_MAX);
    for (size_t i = 0; i < token.n; i++) {
        const uint8_t c = token.p[i];
        if (is_plain(c) || c == ' ') {
            out[n++] = (char)(c == ' ' ? '_' : c);
            continue;
        }
        out[n++] = '\\', out[n++] = 'x';
        out[n++] = digits[c >> 4], out[n++] = digits[c & 15];
    }
    out[n] = 0;
    return n;
}

/* The value of a lower-case hex digit; 16 for any other byte. */
static unsigned hex_digit(uint8_t c)
{
    return c >= '0' && c <= '9' ? c - 48u : c >= 'a' && c <= 'f' ? c - 87u : 16;
}

bool bpe_unshow(uint8_t out[BPE_PIECE_MAX], size_t *n, sefl_span shown)
{
    size_t m = 0;
    for (size_t i = 0; i < shown.n; m++) {
        const uint8_t c = shown.p[i];
        if (m == BPE_PIECE_MAX)
            return false;
        if (is_plain(c) || c == '_') {
            out[m] = c == '_' ? ' ' : c;
            i++;
            continue;
        }
        if (c != '\\' || shown.n - i < 4 || shown.p[i + 1] != 'x')
            return false;
        const unsigned high = hex_digit(shown.p[i + 2]), low = hex_digit(shown.p[i + 3]);
        out[m] = (uint8_t)(high << 4 | low);
        if (high > 15 || low > 15 || is_plain(out[m]) || out[m] == ' ')
            return false;
        i += 4;
    }
    *n = m;
    return m > 0;
}

/* ---- encoding and decoding ----------------------------------------------------------------- */

size_t bpe_encode_piece(uint32_t ids[BPE_PIECE_MAX], const vocab *v, sefl_span piece)
{
    uint8_t start[BPE_PIECE_MAX + 1];     /* of each part; the end of the piece follows */
    uint32_t pair[BPE_PIECE_MAX] = { 0 }; /* rank of parts i and i + 1 together */
    size_t n = piece.n, from, to = n;     /* pairs from <= i < to are looked up */
    uint32_t id;
    assert(n > 0 && n <= BPE_PIECE_MAX);
    if (vocab_find(v, piece, &ids[0]) && ids[0] != vocab_eos(v))
        return 1;
    for (size_t i = 0; i <= n; i++)
        start[i] = (uint8_t)i;
    for (from = 0;;) {
        for (size_t i = from; i < to && i + 1 < n; i++)
            pair[i] = vocab_find(v, span_of(piece.p + start[i], start[i + 2] - start[i]), &id)
                          ? vocab_rank(v, id)
                          : UINT32_MAX;
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            best = pair[i] < pair[best] ? i : best;
        if (n < 2 || pair[best] == UINT32_MAX)
            break;
        n--;
        memmove(start + best + 1, start + best + 2, n - best);
        memmove(pair + best, pair + best + 1, (n - best) * sizeof *pair);
        from = best > 0 ? best - 1 : 0, to = best + 1;
    }
    for (size_t i = 0; i < n; i++)
        vocab_find(v, span_of(piece.p + start[i], start[i + 1] - start[i]), &ids[i]);
    return n;
}

enum { SEEN_MAX = 1 << 18 };

struct bpe_encoder {
    const vocab *v;
    vocab *seen;     /* pieces */
    size_t *at;      /* tokens of piece i: known[at[i] .. at[i + 1]) */
    uint32_t *known; /* tokens of all seen pieces */
    uint32_t *out;
    size_t at_cap, known_n, known_cap, out_cap;
};

sefl_status bpe_encoder_new(bpe_encoder **out, const vocab *v)
{
    SEFL_MAKE(bpe_encoder, e, out);
    assert(vocab_kind_of(v) == VOCAB_BPE);
    e->v = v;
    SEFL_TRY(vocab_new(&e->seen, VOCAB_WORDS));
    SEFL_TRY(sefl_room(&e->at, &e->at_cap, 1, sizeof *e->at));
    e->at[0] = 0;
    SEFL_HAND_OVER(out, e, bpe_encoder_free);
}

void bpe_encoder_free(bpe_encoder *e)
{
    if (!e)
        return;
    vocab_free(e->seen);
    sefl_free(e->at);
    sefl_free(e->known);
    sefl_free(e->out);
    sefl_free(e);
}

static sefl_status remember(bpe_encoder *e, sefl_span piece, const uint32_t *ids, size_t n)
{
    const uint32_t seen = vocab_size(e->seen);
    if (seen == SEEN_MAX)
        return SEFL_OK;
    SEFL_PASS(sefl_room(&e->known, &e->known_cap, e->known_n + n, sizeof *e->known));
    SEFL_PASS(sefl_room(&e->at, &e->at_cap, seen + (size_t)2, sizeof *e->at));
    SEFL_PASS(vocab_count(e->seen, piece));
    memcpy(e->known + e->known_n, ids, n * sizeof *ids);
    e->known_n += n;
    e->at[seen + 1] = e->known_n;
    return SEFL_OK;
}

sefl_status bpe_encode(bpe_encoder *e, sefl_span text, const uint32_t **ids, size_t *n)
{
    uint32_t fresh[BPE_PIECE_MAX], i;
    sefl_span piece;
    size_t done = 0;
    while (bpe_piece(&text, &piece)) {
        /* a piece has at most as many tokens as bytes */
        SEFL_PASS(sefl_room(&e->out, &e->out_cap, done + piece.n, sizeof *e->out));
        if (vocab_find(e->seen, piece, &i)) {
            const size_t k = e->at[i + 1] - e->at[i];
            memcpy(e->out + done, e->known + e->at[i], k * sizeof *e->out);
            done += k;
            continue;
        }
        const size_t k = bpe_encode_piece(fresh, e->v, piece);
        SEFL_PASS(remember(e, piece, fresh, k));
        memcpy(e->out + done, fresh, k * sizeof *e->out);
        done += k;
    }
    *ids = e->out;
    *n = done;
    return SEFL_OK;
}

sefl_status bpe_decode(sefl_buf *out, const vocab *v, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        SEFL_NEED(ids[i] < vocab_size(v), SEFL_EPROTO,
                  "token %u does not exist: the vocabulary has %u tokens", ids[i], vocab_size(v));
        sefl_span w = vocab_word(v, ids[i]);
        SEFL_PASS(ids[i] == vocab_eos(v) ? wr_u8(out, '\n') : wr_raw(out, w.p, w.n));
    }
    return SEFL_OK;
}

#include "model/corpus/vocab.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/outfile.h"
#include "base/random.h"
#include "base/utf8.h"
#include "model/corpus/bpe.h"
#include "model/corpus/lines.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Invariants
 * 1. text holds word 0, LF, word 1, LF, ...; word i is text[at[i] .. at[i+1]-1). (A token may be
 *    or contain a LF too.)
 * 2. slot[] is an open-addressed table of id + 1 (0: free), a power of two, at most half full. */
struct vocab {
    sefl_buf text;
    size_t *at;      /* n + 1 */
    uint64_t *count; /* n */
    uint32_t *rank;  /* n; VOCAB_BPE only */
    uint32_t *slot;
    size_t slots;
    uint32_t n, cap;
    uint32_t unk, eos;
    vocab_kind kind;
    vocab_order order;
    bool finished;
    uint64_t key[2]; /* of the table's hash */
};

static const char unk_text[] = "<unk>", eos_text[] = "<eos>";

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
    v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
}

static void sip_take(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

/* SipHash-1-3 [AB12]. The key is random, so nobody can write a vocabulary or a
 * text whose words collide: a peer chooses both. */
static uint64_t hash_of(const vocab *o, sefl_span w)
{
    uint64_t v[4] = { o->key[0] ^ 0x736f6d6570736575u, o->key[1] ^ 0x646f72616e646f6du,
                      o->key[0] ^ 0x6c7967656e657261u, o->key[1] ^ 0x7465646279746573u };
    uint64_t last = (uint64_t)w.n << 56;
    size_t i = 0;
    for (; i + 8 <= w.n; i += 8)
        sip_take(v, load_u64(w.p + i));
    for (size_t k = 0; i + k < w.n; k++)
        last |= (uint64_t)w.p[i + k] << 8 * k;
    sip_take(v, last);
    v[2] ^= 0xff;
    for (int k = 0; k < 3; k++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

sefl_span vocab_word(const vocab *v, uint32_t id)
{
    assert(id < v->n);
    return span_of(v->text.p + v->at[id], v->at[id + 1] - v->at[id] - 1);
}

static size_t slot_of(const vocab *v, sefl_span word)
{
    size_t i = (size_t)hash_of(v, word) & (v->slots - 1);
    for (; v->slot[i]; i = (i + 1) & (v->slots - 1)) {
        sefl_span w = vocab_word(v, v->slot[i] - 1);
        if (w.n == word.n && memcmp(w.p, word.p, w.n) == 0)
            break;
    }
    return i;
}

static sefl_status rehash(vocab *v, size_t slots)
{
    uint32_t *fresh;
    SEFL_PASS(sefl_new(&fresh, slots, sizeof *fresh));
    sefl_free(v->slot);
    v->slot = fresh;
    v->slots = slots;
    for (uint32_t id = 0; id < v->n; id++)
        v->slot[slot_of(v, vocab_word(v, id))] = id + 1;
    return SEFL_OK;
}

/* Makes room for one more word. */
static sefl_status make_room(vocab *v)
{
    SEFL_NEED(v->n < VOCAB_WORDS_MAX, SEFL_ERANGE, "more than %d different words", VOCAB_WORDS_MAX);
    if (v->n == v->cap) {
        uint32_t cap = v->cap ? 2 * v->cap : 1024;
        SEFL_PASS(sefl_grow(&v->count, v->n * sizeof *v->count, cap * sizeof *v->count));
        SEFL_PASS(sefl_grow(&v->at, v->at ? (v->n + (size_t)1) * sizeof *v->at : 0,
                            (cap + (size_t)1) * sizeof *v->at));
        if (v->kind == VOCAB_BPE)
            SEFL_PASS(sefl_grow(&v->rank, v->n * sizeof *v->rank, cap * sizeof *v->rank));
        if (v->n == 0)
            v->at[0] = 0;
        v->cap = cap;
    }
    if (2 * ((size_t)v->n + 1) > v->slots)
        SEFL_PASS(rehash(v, v->slots ? 2 * v->slots : 4096));
    return SEFL_OK;
}

/* Appends a new word. */
static sefl_status append(vocab *v, sefl_span word, uint64_t count, uint32_t *id)
{
    SEFL_PASS(make_room(v));
    SEFL_PASS(buf_reserve(&v->text, word.n + 1));
    SEFL_PASS(wr_raw(&v->text, word.p, word.n));
    SEFL_PASS(wr_u8(&v->text, '\n'));
    size_t slot = slot_of(v, word);
    v->at[v->n + 1] = v->text.n;
    v->count[v->n] = count;
    if (v->rank)
        v->rank[v->n] = v->n; /* until it is set */
    *id = v->n++;
    v->slot[slot] = *id + 1;
    return SEFL_OK;
}

sefl_status vocab_new(vocab **out, vocab_kind kind)
{
    sefl_status st = SEFL_OK;
    vocab *v = NULL;
    sefl_rng rng = rng_system();
    SEFL_TRY(sefl_new(&v, 1, sizeof *v));
    SEFL_TRY(rng_fill(&rng, v->key, sizeof v->key));
    v->kind = kind;
    *out = v, v = NULL;
done:
    sefl_free(v);
    return st;
}

void vocab_free(vocab *v)
{
    if (!v)
        return;
    buf_clear(&v->text);
    sefl_free(v->at);
    sefl_free(v->count);
    sefl_free(v->rank);
    sefl_free(v->slot);
    sefl_free(v);
}

bool vocab_find(const vocab *v, sefl_span word, uint32_t *id)
{
    uint32_t found = v->slots ? v->slot[slot_of(v, word)] : 0;
    if (found)
        *id = found - 1;
    return found != 0;
}

sefl_status vocab_count(vocab *v, sefl_span word)
{
    uint32_t id;
    assert(!v->finished);
    if (vocab_find(v, word, &id)) {
        v->count[id]++;
        return SEFL_OK;
    }
    return append(v, word, 1, &id);
}

uint32_t vocab_interleave(uint32_t rank, uint32_t n, uint32_t block)
{
    uint32_t blocks = (n + block - 1) / block, last = n - (blocks - 1) * block;
    uint64_t even = (uint64_t)last * blocks; /* ranks in places that every block has */
    if (rank < even)
        return rank % blocks * block + rank / blocks;
    uint32_t rest = rank - (uint32_t)even; /* only when the last block is cut: blocks > 1 */
    return rest % (blocks - 1) * block + last + rest / (blocks - 1);
}

typedef struct ranked {
    uint64_t count;
    uint32_t id;
} ranked;

static int more_frequent_first(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int earlier_first(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Chooses the *n_out words to keep, most frequent first; counts the others as <unk>. */
static void choose(vocab *v, ranked *r, uint32_t *n_out, const vocab_settings *s)
{
    uint32_t n = 0, max = s->max_words ? s->max_words : UINT32_MAX, special = 2;
    qsort(r, v->n, sizeof *r, more_frequent_first);
    for (uint32_t i = 0; i < v->n; i++) {
        bool keeps = r[i].id == v->unk || r[i].id == v->eos;
        special -= keeps;
        if (keeps || (r[i].count >= s->min_count && n + special < max))
            r[n++] = r[i];
        else
            v->count[v->unk] += r[i].count;
    }
    for (uint32_t i = 0; i < n; i++)
        r[i].count = v->count[r[i].id]; /* the count of <unk> may have increased */
    qsort(r, n, sizeof *r, more_frequent_first);
    *n_out = n;
}

/* Selects the words, or keeps all tokens, and numbers them. */
static sefl_status number(vocab *v, const vocab_settings *s)
{
    sefl_status st = SEFL_OK;
    ranked *r = NULL;
    uint32_t *from = NULL; /* new number -> old number */
    vocab *fresh = NULL;
    uint32_t n = 0, id, block = s->block ? s->block : 1;
    const vocab_settings all = { 0 };
    SEFL_TRY(sefl_new(&r, v->n, sizeof *r));
    SEFL_TRY(sefl_new(&from, v->n, sizeof *from));
    SEFL_TRY(vocab_new(&fresh, v->kind));
    for (uint32_t i = 0; i < v->n; i++)
        r[i] = (ranked){ v->count[i], i };
    choose(v, r, &n, v->kind == VOCAB_BPE ? &all : s);
    SEFL_CHECK(n > 2, SEFL_EINVAL,
               "a vocabulary of %" PRIu32 " words has no words except %s and %s", n, unk_text,
               eos_text);
    if (s->order == VOCAB_APPEARANCE)
        qsort(r, n, sizeof *r, earlier_first);
    for (uint32_t i = 0; i < n; i++)
        from[s->order == VOCAB_INTERLEAVED ? vocab_interleave(i, n, block) : i] = r[i].id;
    for (uint32_t i = 0; i < n; i++) {
        SEFL_TRY(append(fresh, vocab_word(v, from[i]), v->count[from[i]], &id));
        if (v->rank)
            fresh->rank[i] = v->rank[from[i]];
    }
    fresh->order = s->order;
    fresh->unk = VOCAB_NO_UNK;
    fresh->finished =
        vocab_find(fresh, span_of_str(eos_text), &fresh->eos) &&
        (v->kind == VOCAB_BPE || vocab_find(fresh, span_of_str(unk_text), &fresh->unk));
    assert(fresh->finished);
    vocab old = *v; /* handed over whole */
    *v = *fresh;
    *fresh = old;
done:
    vocab_free(fresh);
    sefl_free(from);
    sefl_free(r);
    return st;
}

/* ---- tokens -------------------------------------------------------------------------------- */

static const char bpe_mark[] = "sefl-bpe ";
enum { BPE_VERSION = 1, BPE_LINE_MAX = BPE_SHOWN_MAX + 48 };

/* Replaces the counted pieces by the tokens trained on them, with their counts in that text. */
static sefl_status vocab_train(vocab *v, const vocab_settings *s)
{
    sefl_status st = SEFL_OK;
    vocab *tokens = NULL;
    uint32_t ids[BPE_PIECE_MAX];
    const uint32_t size = s->max_words ? s->max_words : VOCAB_TOKENS_USUAL;
    SEFL_CHECK(size > 257 && size <= VOCAB_TOKENS_MAX, SEFL_EINVAL,
               "a BPE vocabulary of %" PRIu32 " tokens: choose 258 to %d (256 bytes and %s are "
               "always in it)",
               size, VOCAB_TOKENS_MAX, eos_text);
    SEFL_TRY(vocab_new(&tokens, VOCAB_BPE));
    SEFL_TRY(bpe_train(tokens, v, size));
    memset(tokens->count, 0, tokens->n * sizeof *tokens->count);
    SEFL_TRY(append(tokens, span_of_str(eos_text), v->count[v->eos], &tokens->eos));
    tokens->rank[tokens->eos] = UINT32_MAX;
    tokens->unk = VOCAB_NO_UNK;
    for (uint32_t i = 0; i < v->n; i++) {
        if (i == v->eos)
            continue;
        const size_t n = bpe_encode_piece(ids, tokens, vocab_word(v, i));
        for (size_t k = 0; k < n; k++)
            tokens->count[ids[k]] += v->count[i];
    }
    vocab old = *v;
    *v = *tokens;
    *tokens = old;
done:
    vocab_free(tokens);
    return st;
}

sefl_status vocab_finish(vocab *v, const vocab_settings *s)
{
    assert(!v->finished);
    if (!vocab_find(v, span_of_str(eos_text), &v->eos))
        SEFL_PASS(append(v, span_of_str(eos_text), 0, &v->eos));
    if (v->kind == VOCAB_BPE)
        SEFL_PASS(vocab_train(v, s));
    else if (!vocab_find(v, span_of_str(unk_text), &v->unk))
        SEFL_PASS(append(v, span_of_str(unk_text), 0, &v->unk));
    return number(v, s);
}

/* Reads a decimal number without leading zeros. */
static bool parse_u64(sefl_span s, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, s.p[i] - '0', &v))
            return false;
    *out = v;
    return s.n > 0 && (s.n == 1 || s.p[0] != '0');
}

/* Removes the text up to the next `end` from the front of *line. */
static sefl_span cut(sefl_span *line, char end)
{
    const uint8_t *at = line->n ? memchr(line->p, end, line->n) : NULL;
    const size_t n = at ? (size_t)(at - line->p) : line->n, taken = n + (at != NULL);
    sefl_span s = span_of(line->p, n);
    *line = span_of(line->p + taken, line->n - taken);
    return s;
}

/* TOKEN tab RANK [tab COUNT]. ranks: which ranks have been seen. */
static sefl_status read_token(vocab *v, sefl_span line, uint32_t size, bool *ranks)
{
    uint8_t bytes[BPE_PIECE_MAX];
    size_t n = 0;
    uint64_t rank = 0, count = 0;
    uint32_t id;
    sefl_span shown = cut(&line, '\t'), number_ = cut(&line, '\t'), counted = line;
    const bool eos = number_.n == 1 && number_.p[0] == '-';
    SEFL_NEED(bpe_unshow(bytes, &n, shown), SEFL_EPROTO,
              "not a token: printable ASCII with _ for a space and \\xHH for other bytes, at most "
              "%d bytes",
              BPE_PIECE_MAX);
    sefl_span token = span_of(bytes, n);
    const bool is_eos = n == sizeof eos_text - 1 && memcmp(bytes, eos_text, n) == 0;
    SEFL_NEED(eos == is_eos && (eos || (parse_u64(number_, &rank) && rank < size - 1)), SEFL_EPROTO,
              "the rank must be a number below %" PRIu32 ", for %s the sign -", size - 1, eos_text);
    SEFL_NEED(counted.n == 0 || parse_u64(counted, &count), SEFL_EPROTO,
              "the count is not a number");
    SEFL_NEED(!vocab_find(v, token, &id), SEFL_EPROTO, "the token is already on line %" PRIu32,
              id + 2);
    SEFL_NEED(eos || !ranks[rank], SEFL_EPROTO, "rank %" PRIu64 " is not unique", rank);
    SEFL_NEED(eos || (rank < 256) == (n == 1), SEFL_EPROTO,
              "ranks 0 to 255 belong to the single bytes, and only to them");
    SEFL_NEED(n > 1 || bytes[0] == rank, SEFL_EPROTO, "the rank of a byte is its value, %u",
              bytes[0]);
    SEFL_PASS(append(v, token, count, &id));
    v->rank[id] = eos ? UINT32_MAX : (uint32_t)rank;
    if (eos)
        v->eos = id;
    else
        ranks[rank] = true;
    return SEFL_OK;
}

/* True if some two tokens of lower rank make this one. */
static bool is_merged(const vocab *v, uint32_t id)
{
    sefl_span w = vocab_word(v, id);
    uint32_t a, b;
    for (size_t k = 1; k < w.n; k++)
        if (vocab_find(v, span_of(w.p, k), &a) && v->rank[a] < v->rank[id] &&
            vocab_find(v, span_of(w.p + k, w.n - k), &b) && v->rank[b] < v->rank[id])
            return true;
    return false;
}

/* Reads the tokens after the first line, which is `head`. */
static sefl_status read_tokens(vocab *v, line_reader *in, sefl_span head)
{
    sefl_status st = SEFL_OK;
    bool *ranks = NULL, more;
    uint64_t version = 0, size = 0;
    sefl_span line;
    (void)cut(&head, ' ');
    sefl_span number_ = cut(&head, ' ');
    SEFL_CHECK(parse_u64(number_, &version) && version == BPE_VERSION, SEFL_EPROTO,
               "%s: this program reads BPE vocabularies of version %d only", in->path, BPE_VERSION);
    SEFL_CHECK(parse_u64(head, &size) && size > 257 && size <= VOCAB_TOKENS_MAX, SEFL_EPROTO,
               "%s:1: the number of tokens must be 258 to %d", in->path, VOCAB_TOKENS_MAX);
    SEFL_TRY(sefl_new(&ranks, (size_t)size, sizeof *ranks));
    for (;;) {
        SEFL_TRY(lines_next(in, &line, &more));
        if (!more)
            break;
        SEFL_TRY(sefl_at(v->n < size ? read_token(v, line, (uint32_t)size, ranks)
                                     : sefl_fail(SEFL_EPROTO, "more than %" PRIu64 " tokens", size),
                         "%s:%" PRIu64, in->path, in->line));
    }
    /* the ranks are unique and below size - 1, and <eos> is there once: so all are there */
    SEFL_CHECK(v->n == size, SEFL_EPROTO,
               "%s: has %" PRIu32 " tokens, its first line names %" PRIu64, in->path, v->n, size);
    for (uint32_t i = 0; i < v->n; i++)
        SEFL_CHECK(i == v->eos || v->rank[i] < 256 || is_merged(v, i), SEFL_EPROTO,
                   "%s:%" PRIu32 ": no two tokens of lower rank make this token", in->path, i + 2);
    v->unk = VOCAB_NO_UNK;
done:
    sefl_free(ranks);
    return st;
}

/* ---- files --------------------------------------------------------------------------------- */

/* Adds a line of a word list. */
static sefl_status read_word(vocab *v, const line_reader *in, sefl_span text)
{
    sefl_span word, count_text, extra;
    uint64_t count = 0;
    uint32_t id;
    unsigned long long line = (unsigned long long)in->line;
    SEFL_NEED(utf8_word(&text, &word), SEFL_EPROTO, "%s:%llu: the line has no word", in->path,
              line);
    bool has_count = utf8_word(&text, &count_text), fits = true, digits = true;
    for (size_t i = 0; has_count && i < count_text.n; i++) {
        digits = digits && count_text.p[i] >= '0' && count_text.p[i] <= '9';
        fits = fits && !__builtin_mul_overflow(count, 10, &count) &&
               !__builtin_add_overflow(count, count_text.p[i] - '0', &count);
    }
    SEFL_NEED(digits && !utf8_word(&text, &extra), SEFL_EPROTO,
              "%s:%llu: not a vocabulary: a line has one word and at most a count after it "
              "('sefl data vocab TEXT --out FILE' builds one from text)",
              in->path, line);
    SEFL_NEED(fits, SEFL_EPROTO, "%s:%llu: the count is too large", in->path, line);
    SEFL_NEED(!vocab_find(v, word, &id), SEFL_EPROTO, "%s:%llu: the word is already on line %u",
              in->path, line, id + 1);
    return append(v, word, count, &id);
}

/* Sets v->kind by the first line. */
static sefl_status read_list(vocab *v, line_reader *in, vocab_kind want)
{
    const size_t mark = sizeof bpe_mark - 1;
    sefl_span text;
    bool more;
    SEFL_PASS(lines_next(in, &text, &more));
    SEFL_NEED(more, SEFL_EPROTO, "%s: is empty: a vocabulary has one word per line", in->path);
    v->kind = text.n >= mark && memcmp(text.p, bpe_mark, mark) == 0 ? VOCAB_BPE : VOCAB_WORDS;
    SEFL_NEED(want != VOCAB_WORDS || v->kind == VOCAB_WORDS, SEFL_EPROTO,
              "%s: is a BPE vocabulary, not a word list: set vocab.kind to bpe, or use a word list",
              in->path);
    SEFL_NEED(want != VOCAB_BPE || v->kind == VOCAB_BPE, SEFL_EPROTO,
              "%s: is not a BPE vocabulary ('sefl data vocab TEXT --kind bpe --out FILE' trains "
              "one); for a word list, set vocab.kind to words",
              in->path);
    if (v->kind == VOCAB_BPE)
        return read_tokens(v, in, text);
    for (; more;) {
        SEFL_PASS(read_word(v, in, text));
        SEFL_PASS(lines_next(in, &text, &more));
    }
    return SEFL_OK;
}

/* Puts <unk> and <eos> at the front if the list lacks them, because they will be frequent. */
static sefl_status with_specials(vocab **v)
{
    sefl_status st = SEFL_OK;
    vocab *fresh = NULL;
    uint32_t id, most = 0;
    bool has_unk = vocab_find(*v, span_of_str(unk_text), &id);
    bool has_eos = vocab_find(*v, span_of_str(eos_text), &id);
    if (has_unk && has_eos)
        return SEFL_OK;
    for (uint32_t i = 1; i < (*v)->n; i++)
        most = (*v)->count[i] > (*v)->count[most] ? i : most;
    SEFL_TRY(vocab_new(&fresh, VOCAB_WORDS));
    if (!has_unk)
        SEFL_TRY(append(fresh, span_of_str(unk_text), (*v)->count[most], &id));
    if (!has_eos)
        SEFL_TRY(append(fresh, span_of_str(eos_text), (*v)->count[most], &id));
    for (uint32_t i = 0; i < (*v)->n; i++)
        SEFL_TRY(append(fresh, vocab_word(*v, i), (*v)->count[i], &id));
    vocab *old = *v;
    *v = fresh;
    fresh = old;
done:
    vocab_free(fresh);
    return st;
}

/* Closes the reader. */
static sefl_status read_all(vocab **out, line_reader *in, const vocab_settings *s)
{
    sefl_status st = SEFL_OK;
    vocab *v = NULL;
    SEFL_TRY(vocab_new(&v, VOCAB_WORDS));
    SEFL_TRY(read_list(v, in, s->kind));
    if (v->kind == VOCAB_BPE) {
        SEFL_CHECK(s->max_words == 0 || s->max_words >= v->n, SEFL_EINVAL,
                   "%s has %" PRIu32 " tokens and cannot be cut to %" PRIu32
                   ": train a smaller one",
                   in->path, v->n, s->max_words);
        SEFL_TRY(number(v, s));
    } else {
        SEFL_TRY(with_specials(&v));
        SEFL_TRY(vocab_finish(v, s));
    }
    *out = v, v = NULL;
done:
    lines_close(in);
    vocab_free(v);
    return st;
}

sefl_status vocab_read(vocab **out, const char *path, const vocab_settings *s)
{
    line_reader in;
    SEFL_PASS(lines_open(&in, path));
    return read_all(out, &in, s);
}

sefl_status vocab_read_over(vocab **out, sefl_span bytes, const char *name, const vocab_settings *s)
{
    line_reader in;
    lines_over(&in, bytes, name);
    return read_all(out, &in, s);
}

/* Writes what follows a word, or the whole line of a token; returns its length. */
static size_t token_line(char out[BPE_LINE_MAX], const vocab *v, uint32_t i, bool counts)
{
    size_t n = 0;
    if (v->kind == VOCAB_BPE) {
        n = bpe_show(out, vocab_word(v, i));
        n += (size_t)(i == v->eos ? snprintf(out + n, 24, "\t-")
                                  : snprintf(out + n, 24, "\t%" PRIu32, v->rank[i]));
    }
    if (counts)
        n += (size_t)snprintf(out + n, 24, "\t%" PRIu64, v->count[i]);
    out[n++] = '\n';
    return n;
}

static size_t head_line(char out[BPE_LINE_MAX], const vocab *v)
{
    return (size_t)snprintf(out, BPE_LINE_MAX, "%s%d %" PRIu32 "\n", bpe_mark, BPE_VERSION, v->n);
}

sefl_status vocab_write(const vocab *v, const char *path, bool counts)
{
    sefl_status st = SEFL_OK;
    outfile o = { 0 };
    char line[BPE_LINE_MAX];
    SEFL_TRY(outfile_open(&o, path, 0644));
    if (v->kind == VOCAB_BPE)
        SEFL_TRY(outfile_put(&o, line, head_line(line, v)));
    for (uint32_t i = 0; i < v->n; i++) {
        sefl_span w = vocab_word(v, i);
        size_t n = token_line(line, v, i, counts);
        if (v->kind == VOCAB_WORDS)
            SEFL_TRY(outfile_put(&o, w.p, w.n));
        SEFL_TRY(outfile_put(&o, line, n));
    }
    SEFL_TRY(outfile_commit(&o));
done:
    outfile_abort(&o);
    return st;
}

uint32_t vocab_size(const vocab *v)
{
    return v->n;
}

vocab_kind vocab_kind_of(const vocab *v)
{
    return v->kind;
}

uint32_t vocab_rank(const vocab *v, uint32_t id)
{
    assert(id < v->n);
    return v->rank[id];
}

uint32_t vocab_unk(const vocab *v)
{
    return v->unk;
}

uint32_t vocab_eos(const vocab *v)
{
    return v->eos;
}

uint32_t vocab_id(const vocab *v, sefl_span word)
{
    uint32_t id = v->unk;
    vocab_find(v, word, &id);
    return id;
}

uint64_t vocab_count_of(const vocab *v, uint32_t id)
{
    assert(id < v->n);
    return v->count[id];
}

vocab_order vocab_order_of(const vocab *v)
{
    return v->order;
}

void vocab_hash(const vocab *v, uint8_t out[SHA256_BYTES])
{
    if (v->kind == VOCAB_WORDS) {
        sha256_of(out, buf_span(&v->text));
        return;
    }
    sha256 h;
    char line[BPE_LINE_MAX];
    sha256_init(&h);
    sha256_add(&h, span_of(line, head_line(line, v)));
    for (uint32_t i = 0; i < v->n; i++)
        sha256_add(&h, span_of(line, token_line(line, v, i, false)));
    sha256_end(&h, out);
}

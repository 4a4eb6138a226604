#include "model/corpus/vocab.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/outfile.h"
#include "base/utf8.h"
#include "model/corpus/lines.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Invariants
 * 1. text holds word 0, LF, word 1, LF, ...; word i is text[at[i] .. at[i+1]-1).
 * 2. slot[] is an open-addressed table of id + 1 (0: free), a power of two, at most half full. */
struct vocab {
    sefl_buf text;
    size_t *at;      /* n + 1 */
    uint64_t *count; /* n */
    uint32_t *slot;
    size_t slots;
    uint32_t n, cap;
    uint32_t unk, eos;
    vocab_order order;
    bool finished;
};

static const char *const order_names[] = { "interleaved", "appearance", "frequency" };
static const char unk_text[] = "<unk>", eos_text[] = "<eos>";

sefl_status vocab_order_parse(vocab_order *out, const char *name)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(name, order_names[i]) == 0) {
            *out = (vocab_order)i;
            return SEFL_OK;
        }
    return sefl_fail(SEFL_EINVAL,
                     "vocabulary order \"%.64s\" must be interleaved, appearance or frequency",
                     name);
}

const char *vocab_order_name(vocab_order order)
{
    return order_names[order];
}

/* FNV-1a in eight-byte steps with a final mix: short keys, our own text. */
static uint64_t hash_of(sefl_span w)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ w.n;
    size_t i = 0;
    for (; i + 8 <= w.n; i += 8)
        h = (h ^ load_u64(w.p + i)) * 0xff51afd7ed558ccdu, h ^= h >> 32;
    for (; i < w.n; i++)
        h = (h ^ w.p[i]) * 0x100000001b3u;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

sefl_span vocab_word(const vocab *v, uint32_t id)
{
    assert(id < v->n);
    return span_of(v->text.p + v->at[id], v->at[id + 1] - v->at[id] - 1);
}

static size_t slot_of(const vocab *v, sefl_span word)
{
    size_t i = (size_t)hash_of(word) & (v->slots - 1);
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
    *id = v->n++;
    v->slot[slot] = *id + 1;
    return SEFL_OK;
}

sefl_status vocab_new(vocab **out)
{
    return sefl_new(out, 1, sizeof **out);
}

void vocab_free(vocab *v)
{
    if (!v)
        return;
    buf_clear(&v->text);
    sefl_free(v->at);
    sefl_free(v->count);
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

sefl_status vocab_finish(vocab *v, const vocab_settings *s)
{
    sefl_status st = SEFL_OK;
    ranked *r = NULL;
    uint32_t *from = NULL; /* new number -> old number */
    vocab *fresh = NULL;
    uint32_t n = 0, id, block = s->block ? s->block : 1;
    assert(!v->finished);
    if (!vocab_find(v, span_of_str(eos_text), &v->eos))
        SEFL_TRY(append(v, span_of_str(eos_text), 0, &v->eos));
    if (!vocab_find(v, span_of_str(unk_text), &v->unk))
        SEFL_TRY(append(v, span_of_str(unk_text), 0, &v->unk));
    SEFL_TRY(sefl_new(&r, v->n, sizeof *r));
    SEFL_TRY(sefl_new(&from, v->n, sizeof *from));
    SEFL_TRY(vocab_new(&fresh));
    for (uint32_t i = 0; i < v->n; i++)
        r[i] = (ranked){ v->count[i], i };
    choose(v, r, &n, s);
    SEFL_CHECK(n > 2, SEFL_EINVAL,
               "a vocabulary of %" PRIu32 " words has no words except %s and %s", n, unk_text,
               eos_text);
    if (s->order == VOCAB_APPEARANCE)
        qsort(r, n, sizeof *r, earlier_first);
    for (uint32_t i = 0; i < n; i++)
        from[s->order == VOCAB_INTERLEAVED ? vocab_interleave(i, n, block) : i] = r[i].id;
    for (uint32_t i = 0; i < n; i++)
        SEFL_TRY(append(fresh, vocab_word(v, from[i]), v->count[from[i]], &id));
    fresh->order = s->order;
    fresh->finished = vocab_find(fresh, span_of_str(unk_text), &fresh->unk) &&
                      vocab_find(fresh, span_of_str(eos_text), &fresh->eos);
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

static sefl_status read_list(vocab *v, line_reader *in)
{
    for (;;) {
        sefl_span text, word, number, extra;
        uint64_t count = 0;
        uint32_t id;
        bool more;
        SEFL_PASS(lines_next(in, &text, &more));
        if (!more)
            break;
        unsigned long long line = (unsigned long long)in->line;
        SEFL_NEED(utf8_word(&text, &word), SEFL_EPROTO, "%s:%llu: the line has no word", in->path,
                  line);
        bool has_count = utf8_word(&text, &number), fits = true, digits = true;
        for (size_t i = 0; has_count && i < number.n; i++) {
            digits = digits && number.p[i] >= '0' && number.p[i] <= '9';
            fits = fits && !__builtin_mul_overflow(count, 10, &count) &&
                   !__builtin_add_overflow(count, number.p[i] - '0', &count);
        }
        SEFL_NEED(digits && !utf8_word(&text, &extra), SEFL_EPROTO,
                  "%s:%llu: not a vocabulary: a line has one word and at most a count after it "
                  "('sefl data vocab TEXT --out FILE' builds one from text)",
                  in->path, line);
        SEFL_NEED(fits, SEFL_EPROTO, "%s:%llu: the count is too large", in->path, line);
        SEFL_NEED(!vocab_find(v, word, &id), SEFL_EPROTO, "%s:%llu: the word is already on line %u",
                  in->path, line, id + 1);
        SEFL_PASS(append(v, word, count, &id));
    }
    SEFL_NEED(v->n > 0, SEFL_EPROTO, "%s: is empty: a vocabulary has one word per line", in->path);
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
    SEFL_TRY(vocab_new(&fresh));
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
    SEFL_TRY(vocab_new(&v));
    SEFL_TRY(read_list(v, in));
    SEFL_TRY(with_specials(&v));
    SEFL_TRY(vocab_finish(v, s));
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

sefl_status vocab_write(const vocab *v, const char *path, bool counts)
{
    sefl_status st = SEFL_OK;
    outfile o = { 0 };
    SEFL_TRY(outfile_open(&o, path, 0644));
    for (uint32_t i = 0; i < v->n; i++) {
        sefl_span w = vocab_word(v, i);
        char tail[32];
        int n = counts ? snprintf(tail, sizeof tail, "\t%" PRIu64 "\n", v->count[i])
                       : snprintf(tail, sizeof tail, "\n");
        SEFL_TRY(outfile_put(&o, w.p, w.n));
        SEFL_TRY(outfile_put(&o, tail, (size_t)n));
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
    sha256_of(out, buf_span(&v->text));
}

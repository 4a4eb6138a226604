#include "base/alloc.h"
#include "model/corpus/bpe.h"

#include <assert.h>
#include <string.h>

/* Every piece is kept once, as tokens, with its count. Invariants between merges:
 * 1. pair.count is the number of times that the pair occurs in the text;
 * 2. the places of a pair name every piece that contains it (and maybe some that no longer do);
 * 3. a pair with count > 0 has an entry in the heap whose count is not below its own. So when the
 *    entry at the top agrees with its pair, no pair is more frequent. */

typedef struct pair {
    uint64_t key; /* left token << 32 | right token, plus one; 0: free */
    uint64_t count;
    uint32_t place; /* first place + 1; 0: none */
    uint32_t merge; /* the latest merge that raised the count */
} pair;

typedef struct place {
    uint32_t piece, next;
} place;

typedef struct entry {
    uint64_t count, key;
} entry;

typedef struct merger {
    uint32_t *token; /* piece i: token[at[i] .. at[i] + length[i]) */
    size_t *at;
    uint32_t *length;
    uint64_t *count;
    pair *pairs; /* open-addressed, a power of two, at most half full */
    size_t slots, used;
    place *places;
    size_t places_n, places_cap;
    entry *heap;
    size_t heap_n, heap_cap;
    uint64_t *raised; /* keys of the pairs that the current merge has raised */
    size_t raised_n, raised_cap;
    uint32_t merge;
} merger;

static void clear(merger *t)
{
    sefl_free(t->token);
    sefl_free(t->at);
    sefl_free(t->length);
    sefl_free(t->count);
    sefl_free(t->pairs);
    sefl_free(t->places);
    sefl_free(t->heap);
    sefl_free(t->raised);
}

static uint64_t key_of(uint32_t left, uint32_t right)
{
    return ((uint64_t)left << 32 | right) + 1;
}

static pair *bpe_train_find(const merger *t, uint64_t key)
{
    uint64_t h = key * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h ^ h >> 32) & (t->slots - 1);
    while (t->pairs[i].key && t->pairs[i].key != key)
        i = (i + 1) & (t->slots - 1);
    return &t->pairs[i];
}

static sefl_status make_room(merger *t)
{
    pair *old = t->pairs;
    const size_t n = t->slots;
    if (2 * (t->used + 1) <= n)
        return SEFL_OK;
    t->slots = n ? 2 * n : 1 << 10;
    if (sefl_new(&t->pairs, t->slots, sizeof *t->pairs) != SEFL_OK) {
        t->pairs = old, t->slots = n;
        return SEFL_ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        if (old[i].key)
            *bpe_train_find(t, old[i].key) = old[i];
    sefl_free(old);
    return SEFL_OK;
}

/* ---- the heap: most frequent first; of equally frequent pairs, the one with older tokens ----- */

static bool before(const entry *a, const entry *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static sefl_status push(merger *t, entry e)
{
    SEFL_PASS(sefl_room(&t->heap, &t->heap_cap, t->heap_n + 1, sizeof *t->heap));
    size_t i = t->heap_n++;
    for (; i > 0 && before(&e, &t->heap[(i - 1) / 2]); i = (i - 1) / 2)
        t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = e;
    return SEFL_OK;
}

static entry pop(merger *t)
{
    entry top = t->heap[0], e = t->heap[--t->heap_n];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < t->heap_n; i = k) {
        k += k + 1 < t->heap_n && before(&t->heap[k + 1], &t->heap[k]);
        if (!before(&t->heap[k], &e))
            break;
        t->heap[i] = t->heap[k];
    }
    t->heap[i] = e;
    return top;
}

/* ---- counting ------------------------------------------------------------------------------ */

/* The pair occurs once more in the piece. */
static sefl_status raise_pair(merger *t, uint32_t left, uint32_t right, uint32_t piece)
{
    const uint64_t key = key_of(left, right);
    SEFL_PASS(make_room(t));
    pair *p = bpe_train_find(t, key);
    t->used += p->key == 0;
    p->key = key;
    p->count += t->count[piece];
    if (!p->place || t->places[p->place - 1].piece != piece) {
        SEFL_PASS(sefl_room(&t->places, &t->places_cap, t->places_n + 1, sizeof *t->places));
        SEFL_NEED(t->places_n < UINT32_MAX, SEFL_ERANGE,
                  "the text is too large to train tokens on: use a part of it");
        t->places[t->places_n++] = (place){ piece, p->place };
        p->place = (uint32_t)t->places_n;
    }
    if (p->merge != t->merge) {
        SEFL_PASS(sefl_room(&t->raised, &t->raised_cap, t->raised_n + 1, sizeof *t->raised));
        p->merge = t->merge;
        t->raised[t->raised_n++] = key;
    }
    return SEFL_OK;
}

static void lower_pair(merger *t, uint32_t left, uint32_t right, uint32_t piece)
{
    pair *p = bpe_train_find(t, key_of(left, right));
    assert(p->key && p->count >= t->count[piece]);
    p->count -= t->count[piece];
}

/* Puts the raised pairs on the heap. */
static sefl_status end_merge(merger *t)
{
    for (size_t i = 0; i < t->raised_n; i++) {
        const pair *p = bpe_train_find(t, t->raised[i]);
        if (p->count > 0)
            SEFL_PASS(push(t, (entry){ p->count, p->key }));
    }
    t->raised_n = 0;
    return SEFL_OK;
}

static sefl_status load(merger *t, const vocab *pieces)
{
    const uint32_t n = vocab_size(pieces);
    size_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += vocab_word(pieces, i).n;
    SEFL_PASS(sefl_new(&t->token, bytes, sizeof *t->token));
    SEFL_PASS(sefl_new(&t->at, n, sizeof *t->at));
    SEFL_PASS(sefl_new(&t->length, n, sizeof *t->length));
    SEFL_PASS(sefl_new(&t->count, n, sizeof *t->count));
    t->merge = 1;
    bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        sefl_span w = vocab_word(pieces, i);
        t->at[i] = bytes;
        t->length[i] = i == vocab_eos(pieces) ? 0 : (uint32_t)w.n;
        t->count[i] = vocab_count_of(pieces, i);
        for (size_t k = 0; k < t->length[i]; k++) {
            t->token[bytes + k] = w.p[k];
            if (k > 0)
                SEFL_PASS(raise_pair(t, w.p[k - 1], w.p[k], i));
        }
        bytes += w.n;
    }
    return end_merge(t);
}

/* ---- merging ------------------------------------------------------------------------------- */

/* Replaces left right by `fresh` throughout a piece. At each replacement the counts change as the
 * sequence does: its tokens before the place are out[0 .. n), those after it are still unread. */
static sefl_status merge_piece(merger *t, uint32_t i, uint32_t left, uint32_t right, uint32_t fresh)
{
    uint32_t *out = t->token + t->at[i], n = 0;
    const uint32_t *in = out, length = t->length[i];
    for (uint32_t k = 0; k < length; k++) {
        if (k + 1 == length || in[k] != left || in[k + 1] != right) {
            out[n++] = in[k];
            continue;
        }
        k++;
        lower_pair(t, left, right, i);
        if (n > 0) {
            lower_pair(t, out[n - 1], left, i);
            SEFL_PASS(raise_pair(t, out[n - 1], fresh, i));
        }
        if (k + 1 < length) {
            lower_pair(t, right, in[k + 1], i);
            SEFL_PASS(raise_pair(t, fresh, in[k + 1], i));
        }
        out[n++] = fresh;
    }
    t->length[i] = n;
    return SEFL_OK;
}

static sefl_status merge(merger *t, uint64_t key, uint32_t fresh)
{
    const uint32_t left = (uint32_t)((key - 1) >> 32), right = (uint32_t)(key - 1);
    uint32_t at = bpe_train_find(t, key)->place;
    t->merge++;
    for (; at; at = t->places[at - 1].next)
        SEFL_PASS(merge_piece(t, t->places[at - 1].piece, left, right, fresh));
    return end_merge(t);
}

/* The token that the pair becomes: a new one, unless another pair has the same bytes. */
static sefl_status token_of(uint32_t *id, vocab *tokens, uint64_t key)
{
    uint8_t bytes[2 * BPE_PIECE_MAX];
    sefl_span a = vocab_word(tokens, (uint32_t)((key - 1) >> 32)),
              b = vocab_word(tokens, (uint32_t)(key - 1));
    sefl_span both = span_of(bytes, a.n + b.n);
    memcpy(bytes, a.p, a.n);
    memcpy(bytes + a.n, b.p, b.n);
    if (vocab_find(tokens, both, id))
        return SEFL_OK;
    *id = vocab_size(tokens);
    return vocab_count(tokens, both);
}

sefl_status bpe_train(vocab *tokens, const vocab *pieces, uint32_t size)
{
    sefl_status st = SEFL_OK;
    merger t = { 0 };
    uint32_t id;
    for (unsigned c = 0; c < 256; c++) {
        const uint8_t byte = (uint8_t)c;
        SEFL_TRY(vocab_count(tokens, span_of(&byte, 1)));
    }
    SEFL_TRY(load(&t, pieces));
    while (t.heap_n > 0 && vocab_size(tokens) + 1 < size) {
        const entry top = pop(&t);
        const uint64_t now = bpe_train_find(&t, top.key)->count;
        if (now != top.count && now > 0)
            SEFL_TRY(push(&t, (entry){ now, top.key }));
        if (now != top.count)
            continue;
        if (now < 2)
            break;
        SEFL_TRY(token_of(&id, tokens, top.key));
        SEFL_TRY(merge(&t, top.key, id));
    }
done:
    clear(&t);
    return st;
}

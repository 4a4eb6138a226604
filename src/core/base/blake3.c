/* Design. A chunk's chaining value is a node of level 0; two neighbours have a parent on the next
 * level.
 *  1. The last chunk, even a full one, stays in chunk[] until another byte arrives, so every node
 *     that blake3_add hashes has a right neighbour and is not the root.
 *  2. Level l < BLAKE3_LOW collects nodes in low[l], starting at an even position, until it has
 *     32; one batch then computes their 16 parents. Above, high[] is a stack of nodes, largest
 *     subtree first, with one merge for each trailing zero bit of the node count.
 *  3. blake3_end pairs the nodes of every level; an odd last node moves up unchanged. This is the
 *     specification's tree, whose left side has the largest power of two of chunks. */
#include "base/blake3.h"

#include "base/blake3_inside.h"
#include "base/cpu.h"
#include "base/ct.h"

#include <assert.h>
#include <string.h>

enum { BATCH = 2 * BLAKE3_LANES_MAX };

/* The initial values of SHA-256. */
const uint32_t blake3_iv[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

static uint32_t ror(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* ---- one block ------------------------------------------------------------------------------- */

static void compress(uint32_t cv[8], const uint8_t block[BLAKE3_BLOCK], uint64_t counter,
                     uint32_t bytes, uint32_t flags)
{
    uint32_t m[16], v[16];
    for (int i = 0; i < 16; i++)
        m[i] = load_u32(block + 4 * i);
    for (int i = 0; i < 8; i++)
        v[i] = cv[i];
    for (int i = 0; i < 4; i++)
        v[8 + i] = blake3_iv[i];
    v[12] = (uint32_t)counter, v[13] = (uint32_t)(counter >> 32);
    v[14] = bytes, v[15] = flags;
#define G(a, b, c, d, x, y)           \
    a += b + (x), d = ror(d ^ a, 16); \
    c += d, b = ror(b ^ c, 12);       \
    a += b + (y), d = ror(d ^ a, 8);  \
    c += d, b = ror(b ^ c, 7);
#define ROUND(...) BLAKE3_ROUND(G, __VA_ARGS__)
    BLAKE3_ROUNDS(ROUND)
#undef ROUND
#undef G
    for (int i = 0; i < 8; i++)
        cv[i] = v[i] ^ v[8 + i];
    sefl_wipe(m, sizeof m);
    sefl_wipe(v, sizeof v);
}

static void store_cv(uint8_t out[BLAKE3_BYTES], const uint32_t cv[8])
{
    for (int i = 0; i < 8; i++)
        store_u32(out + 4 * i, cv[i]);
}

/* Hashes a chunk of 0 to 1024 bytes. root: BLAKE3_ROOT if it is the whole input, else 0. */
static void hash_chunk(uint8_t out[BLAKE3_BYTES], const uint8_t *p, size_t n, uint64_t counter,
                       uint32_t root)
{
    uint32_t cv[8], flags = BLAKE3_CHUNK_START;
    memcpy(cv, blake3_iv, sizeof cv);
    for (; n > BLAKE3_BLOCK; p += BLAKE3_BLOCK, n -= BLAKE3_BLOCK, flags = 0)
        compress(cv, p, counter, BLAKE3_BLOCK, flags);
    uint8_t block[BLAKE3_BLOCK] = { 0 };
    if (n > 0)
        memcpy(block, p, n);
    compress(cv, block, counter, (uint32_t)n, flags | BLAKE3_CHUNK_END | root);
    store_cv(out, cv);
    sefl_wipe(block, sizeof block);
    sefl_wipe(cv, sizeof cv);
}

/* Hashes two adjacent nodes to their parent. out may be one of them. */
static void hash_pair(uint8_t out[BLAKE3_BYTES], const uint8_t pair[2][BLAKE3_BYTES], uint32_t root)
{
    uint32_t cv[8];
    memcpy(cv, blake3_iv, sizeof cv);
    compress(cv, pair[0], 0, BLAKE3_BLOCK, BLAKE3_PARENT | root);
    store_cv(out, cv);
    sefl_wipe(cv, sizeof cv);
}

/* ---- the reference --------------------------------------------------------------------------- */

/* Hashes the subtree over these bytes, which begin at chunk number `counter`. */
static void subtree_ref(uint8_t out[BLAKE3_BYTES], sefl_span in, uint64_t counter, uint32_t root)
{
    if (in.n <= BLAKE3_CHUNK) {
        hash_chunk(out, in.p, in.n, counter, root);
        return;
    }
    uint8_t pair[2][BLAKE3_BYTES];
    size_t left = BLAKE3_CHUNK; /* largest power of two that leaves a byte on the right */
    while (left < in.n - left)
        left *= 2;
    subtree_ref(pair[0], span_of(in.p, left), counter, 0);
    subtree_ref(pair[1], span_of(in.p + left, in.n - left), counter + left / BLAKE3_CHUNK, 0);
    hash_pair(out, pair, root);
    sefl_wipe(pair, sizeof pair);
}

void blake3_of_ref(uint8_t out[BLAKE3_BYTES], sefl_span in)
{
    subtree_ref(out, in, 0, BLAKE3_ROOT);
}

/* ---- implementations ------------------------------------------------------------------------- */

static void run_portable(uint8_t (*out)[BLAKE3_BYTES], const blake3_work *w)
{
    for (size_t i = 0; i < w->n; i++) {
        uint32_t cv[8];
        memcpy(cv, blake3_iv, sizeof cv);
        for (size_t k = 0; k < w->blocks; k++)
            compress(cv, w->in[i] + BLAKE3_BLOCK * k, w->counter + i * w->step, BLAKE3_BLOCK,
                     w->flags | (k == 0 ? w->first : 0) | (k + 1 == w->blocks ? w->last : 0));
        store_cv(out[i], cv);
        sefl_wipe(cv, sizeof cv);
    }
}

/* A single lane is faster in general registers than in a vector. */
#if defined(__x86_64__)
static void run_avx2(uint8_t (*out)[BLAKE3_BYTES], const blake3_work *w)
{
    if (w->n == 1)
        run_portable(out, w);
    else
        blake3_run_avx2(out, w);
}

static void run_avx512(uint8_t (*out)[BLAKE3_BYTES], const blake3_work *w)
{
    if (w->n > 8)
        blake3_run_avx512(out, w);
    else
        run_avx2(out, w);
}
#endif

static const blake3_path paths[] = {
    { "portable", BLAKE3_LANES_MAX, run_portable },
#if defined(__x86_64__)
    { "avx2", 8, run_avx2 },
    { "avx512", 16, run_avx512 },
#endif
};

/* Returns the number of paths that this processor has. */
static unsigned paths_n(void)
{
#if defined(__x86_64__)
    const cpu_features *f = cpu_get();
    return !f->avx2 ? 1 : !f->avx512 ? 2 : 3;
#else
    return 1;
#endif
}

const char *blake3_path_name(unsigned i)
{
    return i < paths_n() ? paths[i].name : NULL;
}

void blake3_init_path(blake3 *h, unsigned i)
{
    assert(i < paths_n());
    h->path = &paths[i];
    h->chunks = h->tops = 0;
    memset(h->waits, 0, sizeof h->waits);
    h->highs = 0;
    h->have = 0;
}

void blake3_init(blake3 *h)
{
    blake3_init_path(h, paths_n() - 1);
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* Computes the parents of `pairs` pairs of nodes. out may be `nodes`: each run reads all its inputs
 * before it writes an output, and its outputs never reach the inputs of a later run. */
static void merge(const blake3 *h, uint8_t (*out)[BLAKE3_BYTES],
                  const uint8_t (*nodes)[BLAKE3_BYTES], size_t pairs)
{
    for (size_t i = 0; i < pairs;) {
        blake3_work w = { .blocks = 1, .flags = BLAKE3_PARENT };
        for (; w.n < h->path->lanes && i + w.n < pairs; w.n++)
            w.in[w.n] = nodes[2 * (i + w.n)];
        h->path->run(out + i, &w);
        i += w.n;
    }
}

static void push_high(blake3 *h, const uint8_t node[BLAKE3_BYTES])
{
    memcpy(h->high[h->highs++], node, BLAKE3_BYTES);
    h->tops++;
    for (uint64_t n = h->tops; (n & 1) == 0; n >>= 1) {
        h->highs--;
        hash_pair(h->high[h->highs - 1], h->high + h->highs - 1, 0);
    }
}

/* Merges full batches upwards after level 0 got new nodes. */
static void settle(blake3 *h)
{
    uint8_t made[BLAKE3_LANES_MAX][BLAKE3_BYTES];
    for (int l = 0; l < BLAKE3_LOW && h->waits[l] >= BATCH; l++) {
        merge(h, made, h->low[l], BLAKE3_LANES_MAX);
        h->waits[l] = (uint8_t)(h->waits[l] - BATCH);
        memmove(h->low[l], h->low[l] + BATCH, h->waits[l] * sizeof h->low[l][0]);
        if (l + 1 < BLAKE3_LOW) {
            memcpy(h->low[l + 1] + h->waits[l + 1], made, sizeof made);
            h->waits[l + 1] = (uint8_t)(h->waits[l + 1] + BLAKE3_LANES_MAX);
        } else {
            for (int i = 0; i < BLAKE3_LANES_MAX; i++)
                push_high(h, made[i]);
        }
    }
    sefl_wipe(made, sizeof made);
}

void blake3_add(blake3 *h, sefl_span in)
{
    while (in.n > BLAKE3_CHUNK - h->have) { /* a chunk with bytes after it is not the last */
        blake3_work w = { .blocks = BLAKE3_CHUNK / BLAKE3_BLOCK,
                          .counter = h->chunks,
                          .step = 1,
                          .first = BLAKE3_CHUNK_START,
                          .last = BLAKE3_CHUNK_END };
        if (h->have > 0) {
            size_t n = BLAKE3_CHUNK - h->have;
            if (n > 0)
                memcpy(h->chunk + h->have, in.p, n);
            in = span_of(in.p + n, in.n - n);
            h->have = 0;
            w.in[w.n++] = h->chunk;
        }
        for (; w.n < h->path->lanes && in.n > BLAKE3_CHUNK; w.n++) {
            w.in[w.n] = in.p;
            in = span_of(in.p + BLAKE3_CHUNK, in.n - BLAKE3_CHUNK);
        }
        h->path->run(h->low[0] + h->waits[0], &w);
        h->waits[0] = (uint8_t)(h->waits[0] + w.n);
        h->chunks += w.n;
        settle(h);
    }
    if (in.n > 0)
        memcpy(h->chunk + h->have, in.p, in.n);
    h->have += in.n;
}

void blake3_end(blake3 *h, uint8_t out[BLAKE3_BYTES])
{
    /* one level at the end: at most 31 waiting nodes, 31 from the level below and an odd one */
    uint8_t nodes[2 * BATCH][BLAKE3_BYTES], pair[2][BLAKE3_BYTES];
    uint8_t odd[BLAKE3_BYTES];
    if (h->chunks == 0) {
        hash_chunk(out, h->chunk, h->have, 0, BLAKE3_ROOT);
        goto done;
    }
    hash_chunk(odd, h->chunk, h->have, h->chunks, 0); /* the last node of level 0 */
    bool has_odd = true;
    size_t n = 0, above = h->highs; /* nodes from the level below; nodes on higher levels */
    for (int l = 0; l < BLAKE3_LOW; l++)
        above += h->waits[l];
    for (int l = 0; l < BLAKE3_LOW; l++) {
        above -= h->waits[l];
        memmove(nodes + h->waits[l], nodes, n * sizeof nodes[0]);
        memcpy(nodes, h->low[l], h->waits[l] * sizeof nodes[0]);
        n += h->waits[l];
        if (has_odd)
            memcpy(nodes[n++], odd, sizeof odd);
        if (n == 2 && above == 0) {
            hash_pair(out, nodes, BLAKE3_ROOT);
            goto done;
        }
        has_odd = n % 2 == 1;
        if (has_odd)
            memcpy(odd, nodes[n - 1], sizeof odd);
        merge(h, nodes, nodes, n / 2);
        n /= 2;
    }
    if (!has_odd)
        memcpy(odd, nodes[--n], sizeof odd); /* the last node of all is not pushed */
    for (size_t i = 0; i < n; i++)
        push_high(h, nodes[i]);
    /* merges the stack from the smallest subtree on, each with the result to its right */
    while (h->highs > 0) {
        memcpy(pair[0], h->high[--h->highs], sizeof pair[0]);
        memcpy(pair[1], odd, sizeof odd);
        hash_pair(h->highs > 0 ? odd : out, pair, h->highs > 0 ? 0 : BLAKE3_ROOT);
    }
done:
    sefl_wipe(nodes, sizeof nodes);
    sefl_wipe(pair, sizeof pair);
    sefl_wipe(odd, sizeof odd);
    sefl_wipe(h, sizeof *h);
}

void blake3_of(uint8_t out[BLAKE3_BYTES], sefl_span in)
{
    blake3 h;
    blake3_init(&h);
    blake3_add(&h, in);
    blake3_end(&h, out);
}

#include "model/corpus/partition.h"

#include "base/alloc.h"
#include "model/corpus/dirichlet.h"
#include "seeded/seeded.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static size_t doc_tokens(const corpus *c, size_t d)
{
    return c->line[c->doc[d + 1]] - c->line[c->doc[d]];
}

static void give_doc(partition *p, const corpus *c, size_t d, uint32_t client)
{
    for (size_t k = c->doc[d]; k < c->doc[d + 1]; k++)
        p->owner[k] = client;
}

/* Documents in a random order. */
static sefl_status shuffled(size_t **out, size_t n, uint64_t seed)
{
    seeded g;
    SEFL_PASS(sefl_new(out, n, sizeof **out));
    seeded_init(&g, seed, "partition order");
    for (size_t i = 0; i < n; i++)
        (*out)[i] = i;
    for (size_t i = n; i > 1; i--) {
        size_t o = (size_t)seeded_below(&g, i), tmp = (*out)[i - 1];
        (*out)[i - 1] = (*out)[o];
        (*out)[o] = tmp;
    }
    return SEFL_OK;
}

/* ---- by article: a heap of clients, the one with the fewest tokens on top ------------------- */

typedef struct load {
    uint64_t tokens;
    uint32_t client;
} load;

static bool lighter(load a, load b)
{
    return a.tokens != b.tokens ? a.tokens < b.tokens : a.client < b.client;
}

static void sink(load *heap, size_t n)
{
    for (size_t i = 0;;) {
        size_t least = i, kid = 2 * i + 1;
        if (kid < n && lighter(heap[kid], heap[least]))
            least = kid;
        if (kid + 1 < n && lighter(heap[kid + 1], heap[least]))
            least = kid + 1;
        if (least == i)
            return;
        load tmp = heap[i];
        heap[i] = heap[least];
        heap[least] = tmp;
        i = least;
    }
}

static sefl_status by_article(partition *p, const corpus *c, const partition_settings *s)
{
    sefl_status st = SEFL_OK;
    size_t *order = NULL;
    load *heap = NULL;
    SEFL_TRY(shuffled(&order, c->docs, s->seed));
    SEFL_TRY(sefl_new(&heap, s->clients, sizeof *heap));
    for (uint32_t i = 0; i < s->clients; i++)
        heap[i].client = i;
    for (size_t i = 0; i < c->docs; i++) {
        give_doc(p, c, order[i], heap[0].client);
        heap[0].tokens += doc_tokens(c, order[i]);
        sink(heap, s->clients);
    }
done:
    sefl_free(heap);
    sefl_free(order);
    return st;
}

/* ---- Dirichlet ----------------------------------------------------------------------------- */

/* cumulative[i] = p_0 + ... + p_i, the last is 1. */
static void draw_shares(double *cumulative, uint32_t n, double alpha, uint64_t seed)
{
    seeded g;
    seeded_init(&g, seed, "partition shares");
    dirichlet_draw(cumulative, n, alpha, &g);
    for (uint32_t i = 1; i < n; i++)
        cumulative[i] += cumulative[i - 1];
    cumulative[n - 1] = 1;
}

static uint32_t draw(seeded *g, const double *cumulative, uint32_t n)
{
    double u = seeded_unit(g);
    uint32_t low = 0, high = n - 1;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (u < cumulative[mid])
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static sefl_status by_dirichlet(partition *p, const corpus *c, const partition_settings *s)
{
    sefl_status st = SEFL_OK;
    size_t *order = NULL;
    double *cumulative = NULL;
    seeded g;
    SEFL_TRY(shuffled(&order, c->docs, s->seed));
    SEFL_TRY(sefl_new(&cumulative, s->clients, sizeof *cumulative));
    draw_shares(cumulative, s->clients, s->alpha, s->seed);
    seeded_init(&g, s->seed, "partition deal");
    for (size_t i = 0; i < c->docs; i++)
        give_doc(p, c, order[i], i < s->clients ? (uint32_t)i : draw(&g, cumulative, s->clients));
done:
    sefl_free(cumulative);
    sefl_free(order);
    return st;
}

/* -------------------------------------------------------------------------------------------- */

/* Sorts the lines by owner, so that taking every client's part reads the text once. */
static sefl_status put_in_order(partition *p)
{
    SEFL_PASS(sefl_new(&p->order, p->lines, sizeof *p->order));
    SEFL_PASS(sefl_new(&p->first, (size_t)p->clients + 1, sizeof *p->first));
    for (size_t k = 0; k < p->lines; k++)
        p->first[p->owner[k] + 1]++;
    for (uint32_t i = 0; i < p->clients; i++)
        p->first[i + 1] += p->first[i];
    for (size_t k = 0; k < p->lines; k++)
        p->order[p->first[p->owner[k]]++] = k;
    for (uint32_t i = p->clients; i > 0; i--) /* each was moved to where the next one begins */
        p->first[i] = p->first[i - 1];
    p->first[0] = 0;
    return SEFL_OK;
}

sefl_status partition_make(partition *out, const corpus *c, const partition_settings *s)
{
    sefl_status st = SEFL_OK;
    partition p = { .clients = s->clients, .lines = c->lines };
    bool whole = s->kind == PARTITION_ARTICLE || s->kind == PARTITION_DIRICHLET;
    size_t pieces = whole ? c->docs : c->lines;
    SEFL_CHECK(s->clients >= 1 && s->clients <= PARTITION_CLIENTS_MAX, SEFL_EINVAL,
               "%" PRIu32 " clients: must be 1 to %d", s->clients, PARTITION_CLIENTS_MAX);
    SEFL_CHECK(s->clients <= pieces, SEFL_EINVAL,
               "%zu %s are too few for %" PRIu32 " clients, which get at least one each: use "
               "fewer clients or more text%s",
               pieces, whole ? "documents" : "lines", s->clients,
               whole ? ", or a partition by lines (contiguous, round-robin)" : "");
    SEFL_CHECK(s->kind != PARTITION_DIRICHLET || (s->alpha >= 0.001 && s->alpha <= 1000),
               SEFL_EINVAL, "alpha is %g: must be 0.001 to 1000", s->alpha);
    SEFL_TRY(sefl_new(&p.owner, c->lines, sizeof *p.owner));
    switch (s->kind) {
    case PARTITION_CONTIGUOUS:
        for (size_t k = 0; k < c->lines; k++) /* below 2^64 for up to 2^44 tokens, 64 TiB */
            p.owner[k] = (uint32_t)((uint64_t)c->line[k] * s->clients / c->tokens);
        break;
    case PARTITION_ROUND_ROBIN:
        for (size_t k = 0; k < c->lines; k++)
            p.owner[k] = (uint32_t)(k % s->clients);
        break;
    case PARTITION_ARTICLE:
        SEFL_TRY(by_article(&p, c, s));
        break;
    case PARTITION_DIRICHLET:
        SEFL_TRY(by_dirichlet(&p, c, s));
        break;
    }
    SEFL_TRY(put_in_order(&p));
    *out = p;
    p = (partition){ 0 };
done:
    partition_clear(&p);
    return st;
}

void partition_clear(partition *p)
{
    sefl_free(p->owner);
    sefl_free(p->order);
    sefl_free(p->first);
    *p = (partition){ 0 };
}

/* Returns the document that contains line k. */
static size_t document_of(const corpus *c, size_t k)
{
    size_t low = 0, high = c->docs - 1;
    while (low < high) {
        size_t mid = high - (high - low) / 2;
        if (c->doc[mid] <= k)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

sefl_status partition_take(corpus *out, const corpus *c, const partition *p, uint32_t client)
{
    sefl_status st = SEFL_OK;
    corpus part = { .marked = c->marked };
    const size_t *line = p->order + p->first[client];
    const size_t kept = p->first[client + 1] - p->first[client];
    size_t tokens = 0, docs = 0, end = 0; /* end: where the current document ends */
    for (size_t i = 0; i < kept; i++) {
        tokens += c->line[line[i] + 1] - c->line[line[i]];
        if (line[i] >= end)
            docs++, end = c->doc[document_of(c, line[i]) + 1];
    }
    SEFL_TRY(sefl_new(&part.token, tokens, sizeof *part.token));
    SEFL_TRY(sefl_new(&part.line, kept + 1, sizeof *part.line));
    SEFL_TRY(sefl_new(&part.doc, docs + 1, sizeof *part.doc));
    end = 0;
    for (size_t i = 0; i < kept; i++) {
        const size_t k = line[i], n = c->line[k + 1] - c->line[k];
        if (k >= end)
            part.doc[part.docs++] = part.lines, end = c->doc[document_of(c, k) + 1];
        memcpy(part.token + part.tokens, c->token + c->line[k], n * sizeof *part.token);
        part.line[part.lines++] = part.tokens;
        part.tokens += n;
    }
    part.line[part.lines] = part.tokens;
    part.doc[part.docs] = part.lines;
    *out = part;
    part = (corpus){ 0 };
done:
    corpus_clear(&part);
    return st;
}

sefl_status partition_divergence(double *bits, const corpus *client, const corpus *whole,
                                 const vocab *v)
{
    sefl_status st = SEFL_OK;
    uint64_t *a = NULL, *b = NULL;
    double sum = 0;
    SEFL_TRY(sefl_new(&a, vocab_size(v), sizeof *a));
    SEFL_TRY(sefl_new(&b, vocab_size(v), sizeof *b));
    for (size_t i = 0; i < client->tokens; i++)
        a[client->token[i]]++;
    for (size_t i = 0; i < whole->tokens; i++)
        b[whole->token[i]]++;
    for (uint32_t i = 0; i < vocab_size(v); i++) {
        double p = client->tokens ? (double)a[i] / (double)client->tokens : 0;
        double q = whole->tokens ? (double)b[i] / (double)whole->tokens : 0, m = (p + q) / 2;
        sum += p > 0 ? 0.5 * p * log2(p / m) : 0;
        sum += q > 0 ? 0.5 * q * log2(q / m) : 0;
    }
    *bits = sum > 0 ? sum : 0;
done:
    sefl_free(a);
    sefl_free(b);
    return st;
}

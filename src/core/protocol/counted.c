/* Design: one walk over the places from left to right makes every node of the tree, each as soon as
 * both its children exist; a stack with one hash per level keeps the nodes that wait for their
 * right sibling. The last node is the root; only a stored tree keeps the others. */
#include "protocol/counted.h"

#include "base/alloc.h"
#include "crypto/prg/prg.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

unsigned counted_depth(uint32_t clients_max)
{
    unsigned depth = 0;
    while (depth < COUNTED_DEPTH_MAX && (uint32_t)1 << depth < clients_max)
        depth++;
    return depth;
}

size_t counted_path_bytes(unsigned depth)
{
    return (size_t)depth * SHA256_BYTES + 4;
}

static void leaf_hash(uint8_t out[SHA256_BYTES], const uint8_t task[32], uint64_t round,
                      const round_entry *leaf)
{
    static const char mark[12] = "\0sefl leaf 1";
    uint8_t number[8];
    store_u64(number, round);
    sha256_join(out, span_of(mark, sizeof mark), span_of(task, 32), span_of(number, sizeof number),
                span_of(leaf->client, 32), span_of(leaf->body, 32));
}

static void node_hash(uint8_t out[SHA256_BYTES], const uint8_t left[SHA256_BYTES],
                      const uint8_t right[SHA256_BYTES])
{
    sha256_join(out, span_of("\1", 1), span_of(left, SHA256_BYTES), span_of(right, SHA256_BYTES));
}

/* ---- places ---------------------------------------------------------------------------------- */

/* The shuffle, as far as the leaves reach. */
typedef struct places {
    uint32_t *of; /* of[i]: the place of leaf i (i < n) */
    uint32_t *at; /* at[k]: 1 + the leaf at place k; 0: a filler */
} places;

static void places_clear(places *p)
{
    sefl_free(p->of);
    sefl_free(p->at);
    *p = (places){ 0 };
}

static sefl_status facts_check(const counted_facts *f)
{
    SEFL_NEED(f->clients_max >= 1 && f->clients_max <= (uint32_t)1 << COUNTED_DEPTH_MAX,
              SEFL_EINVAL, "counted: %u clients do not fit: a tree has 1 to 2^%d", f->clients_max,
              COUNTED_DEPTH_MAX);
    SEFL_NEED(f->n <= f->clients_max, SEFL_EINVAL, "counted: %u clients of at most %u", f->n,
              f->clients_max);
    for (uint32_t i = 1; i < f->n; i++)
        SEFL_NEED(memcmp(f->leaves[i - 1].client, f->leaves[i].client, 32) < 0, SEFL_EINVAL,
                  "counted: client %u is out of order or listed twice", i);
    return SEFL_OK;
}

static sefl_status places_new(places *p, const counted_facts *f)
{
    sefl_status st = SEFL_OK;
    uint32_t all = (uint32_t)1 << counted_depth(f->clients_max);
    prg g;
    prg_init(&g, f->tree_seed, "counted places");
    *p = (places){ 0 };
    SEFL_TRY(sefl_new(&p->of, all, sizeof *p->of));
    SEFL_TRY(sefl_new(&p->at, all, sizeof *p->at));
    for (uint32_t k = 0; k < all; k++)
        p->of[k] = k;
    for (uint32_t i = 0; i < f->n; i++) {
        uint8_t coin[8];
        prg_fill(&g, coin, sizeof coin);
        uint32_t j = i + (uint32_t)((unsigned __int128)load_u64(coin) * (all - i) >> 64);
        uint32_t k = p->of[j];
        p->of[j] = p->of[i];
        p->of[i] = k;
        p->at[k] = 1 + i;
    }
done:
    prg_clear(&g);
    if (st != SEFL_OK)
        places_clear(p);
    return st;
}

/* ---- the walk -------------------------------------------------------------------------------- */

typedef uint8_t node[SHA256_BYTES];

/* tree (may be NULL) gets every node, in heap order: 1 is the root, 2 i and 2 i + 1 the children
 * of i. */
static void walk(node root, node *tree, const counted_facts *f, const places *p)
{
    unsigned depth = counted_depth(f->clients_max);
    uint32_t all = (uint32_t)1 << depth;
    node waits[COUNTED_DEPTH_MAX + 1], hash;
    prg fill;
    prg_init(&fill, f->tree_seed, "counted fillers");
    for (uint32_t k = 0; k < all; k++) {
        if (p->at[k] > 0)
            leaf_hash(hash, f->task, f->round, &f->leaves[p->at[k] - 1]);
        else
            prg_read(&fill, hash, sizeof hash, 0, (uint64_t)k * SHA256_BYTES);
        unsigned level = 0;
        for (uint32_t index = k;; index >>= 1, level++) {
            if (tree)
                memcpy(tree[(all >> level) + index], hash, sizeof hash);
            if (!(index & 1))
                break;
            node_hash(hash, waits[level], hash);
        }
        memcpy(waits[level], hash, sizeof hash);
    }
    memcpy(root, waits[depth], SHA256_BYTES);
    prg_clear(&fill);
}

/* ---- the root -------------------------------------------------------------------------------- */

sefl_status counted_root(uint8_t root[SHA256_BYTES], const counted_facts *f)
{
    sefl_status st = SEFL_OK;
    places p = { 0 };
    memset(root, 0, SHA256_BYTES);
    SEFL_TRY(facts_check(f));
    SEFL_TRY(places_new(&p, f));
    walk(root, NULL, f, &p);
done:
    places_clear(&p);
    return st;
}

/* ---- the tree kept --------------------------------------------------------------------------- */

typedef struct seat {
    uint8_t client[32];
    uint32_t place;
} seat;

struct counted_tree {
    unsigned depth;
    uint32_t n;
    seat *seats; /* n, sorted by client */
    node *nodes; /* as walk writes them */
};

sefl_status counted_tree_new(counted_tree **out, const counted_facts *f)
{
    sefl_status st = SEFL_OK;
    places p = { 0 };
    counted_tree *t = NULL;
    *out = NULL;
    SEFL_TRY(facts_check(f));
    SEFL_TRY(places_new(&p, f));
    SEFL_TRY(sefl_new(&t, 1, sizeof *t));
    t->depth = counted_depth(f->clients_max);
    t->n = f->n;
    SEFL_TRY(sefl_new(&t->seats, f->n, sizeof *t->seats));
    SEFL_TRY(sefl_new(&t->nodes, (size_t)2 << t->depth, SHA256_BYTES));
    for (uint32_t i = 0; i < f->n; i++) {
        memcpy(t->seats[i].client, f->leaves[i].client, 32);
        t->seats[i].place = p.of[i];
    }
    assert(t->nodes); /* sefl_new gives no NULL */
    walk(t->nodes[1], t->nodes, f, &p);
    *out = t, t = NULL;
done:
    counted_tree_free(t);
    places_clear(&p);
    return st;
}

void counted_tree_free(counted_tree *t)
{
    if (t == NULL)
        return;
    sefl_free(t->seats);
    sefl_free(t->nodes);
    sefl_free(t);
}

const uint8_t *counted_tree_root(const counted_tree *t)
{
    return t->nodes[1];
}

static int seat_order(const void *client, const void *s)
{
    return memcmp(client, ((const seat *)s)->client, 32);
}

sefl_status counted_tree_path(sefl_buf *out, const counted_tree *t, const uint8_t client[32])
{
    uint8_t *path = NULL;
    const seat *s = bsearch(client, t->seats, t->n, sizeof *t->seats, seat_order);
    SEFL_NEED(s != NULL, SEFL_ENOTFOUND, "counted: this client is not in the release");
    SEFL_PASS(buf_extend(out, &path, counted_path_bytes(t->depth)));
    uint32_t at = ((uint32_t)1 << t->depth) + s->place;
    for (; at > 1; at >>= 1, path += SHA256_BYTES)
        memcpy(path, t->nodes[at ^ 1], SHA256_BYTES);
    store_u32(path, s->place);
    return SEFL_OK;
}

/* ---- the client's side ----------------------------------------------------------------------- */

sefl_status counted_check(const uint8_t root[SHA256_BYTES], const uint8_t task[32], uint64_t round,
                          unsigned depth, const round_entry *leaf, sefl_span path)
{
    uint8_t hash[SHA256_BYTES];
    assert(depth <= COUNTED_DEPTH_MAX);
    SEFL_NEED(path.n == counted_path_bytes(depth), SEFL_EPROTO,
              "counted: the path has %zu bytes instead of %zu", path.n, counted_path_bytes(depth));
    uint32_t place = load_u32(path.p + path.n - 4);
    SEFL_NEED(place >> depth == 0, SEFL_EPROTO, "counted: place %u of %u", place,
              (uint32_t)1 << depth);
    leaf_hash(hash, task, round, leaf);
    for (unsigned level = 0; level < depth; level++) {
        const uint8_t *other = path.p + (size_t)level * SHA256_BYTES;
        if (place >> level & 1)
            node_hash(hash, other, hash);
        else
            node_hash(hash, hash, other);
    }
    SEFL_NEED(memcmp(hash, root, sizeof hash) == 0, SEFL_EAUTH,
              "counted: the path does not lead to the root that CSP signed");
    return SEFL_OK;
}

void counted_statement_write(uint8_t out[COUNTED_STATEMENT_BYTES], const counted_statement *s)
{
    memcpy(out, s->task, 32);
    store_u64(out + 32, s->round);
    memcpy(out + 40, s->root, 32);
    memcpy(out + 72, s->id, 32);
}

sefl_status counted_statement_read(counted_statement *out, sefl_span in)
{
    counted_statement s = { 0 };
    rd r = rd_over(in);
    *out = s;
    SEFL_PASS(rd_raw(&r, s.task, sizeof s.task));
    SEFL_PASS(rd_u64(&r, &s.round));
    SEFL_PASS(rd_raw(&r, s.root, sizeof s.root));
    SEFL_PASS(rd_raw(&r, s.id, sizeof s.id));
    SEFL_PASS(rd_end(&r));
    SEFL_NEED(s.round > 0, SEFL_EPROTO, "counted: round 0");
    *out = s;
    return SEFL_OK;
}

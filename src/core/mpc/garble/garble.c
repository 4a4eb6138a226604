#include "mpc/garble/garble.h"

#include "mpc/garble/kernel.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/span.h"

#include <assert.h>
#include <string.h>

typedef struct gc_path {
    gc_garble_fn *garble;
    gc_evaluate_fn *evaluate;
    gc_hash_fn *hash;
    gc_floor_fn *floor;
} gc_path;

static const gc_path paths[AES_PATHS] = {
    [AES_SOFT] = { gc_garble_ref, gc_evaluate_ref, gc_hash_groups_ref, gc_floor_ref },
#if defined(__x86_64__)
    [AES_NI] = { gc_garble_128, gc_evaluate_128, gc_hash_128, gc_floor_128 },
    [AES_VAES256] = { gc_garble_256, gc_evaluate_256, gc_hash_256, gc_floor_256 },
    [AES_VAES512] = { gc_garble_512, gc_evaluate_512, gc_hash_512, gc_floor_512 },
#endif
};

struct gc {
    const circuit *c;
    gc_program program;
    gc_config cfg;
    const gc_path *path;
    const uint8_t **slot; /* (slots): addresses of the wires of one block */
    uint8_t *scratch;     /* (slots - inputs - 1, 256) */
    gc_label constant[GC_LANES];
    gc_label lane[GC_LANES];
    bool garbles;
    gc_label delta;                /* garbler; the evaluator's is zero */
    uint64_t next_block, next_row; /* garbler: blocks */
};

sefl_status gc_delta_draw(gc_label *delta, const sefl_rng *rng)
{
    sefl_status st = rng_fill(rng, delta, sizeof *delta);
    delta->w[0] |= 1;
    if (st != SEFL_OK)
        sefl_wipe(delta, sizeof *delta);
    return st;
}

sefl_status gc_tweaks(uint64_t *tweaks, const circuit *c, uint64_t blocks)
{
    uint64_t n;
    *tweaks = 0;
    SEFL_NEED(!__builtin_mul_overflow(2 * (uint64_t)c->ands, blocks, &n), SEFL_ERANGE,
              "garble: %llu blocks need too many tweaks", (unsigned long long)blocks);
    *tweaks = n;
    return SEFL_OK;
}

sefl_status gc_table_bytes(size_t *bytes, const circuit *c, size_t blocks)
{
    size_t n;
    *bytes = 0;
    SEFL_NEED(!__builtin_mul_overflow((size_t)GC_AND_BYTES * GC_LANES * c->ands, blocks, &n),
              SEFL_ERANGE, "garble: tables of %zu blocks do not fit", blocks);
    *bytes = n;
    return SEFL_OK;
}

/* ---- both sides --------------------------------------------------------------------------- */

static size_t scratch_bytes(const circuit *c)
{
    return (size_t)(c->slots - c->inputs - 1) * GC_WIRE;
}

void gc_free(gc *g)
{
    if (!g)
        return;
    if (g->scratch)
        sefl_free_secret(g->scratch, scratch_bytes(g->c));
    sefl_free(g->slot);
    gc_program_clear(&g->program);
    sefl_free_secret(g, sizeof *g);
}

/* The label of slot 0, the constant 1, is delta for the garbler and 0 for the evaluator. */
static sefl_status init(gc *g, const circuit *c, const gc_config *cfg, const gc_label *delta)
{
    SEFL_NEED(cfg->tweak_base % 2 == 0, SEFL_EINVAL, "garble: tweak base %llu is odd",
              (unsigned long long)cfg->tweak_base);
    SEFL_PASS(circuit_validate(c));
    g->c = c;
    g->cfg = *cfg;
    g->path = &paths[aes_path_best()];
    g->garbles = delta != NULL;
    if (delta)
        g->delta = *delta;
    memcpy(g->lane, gc_lane_number, sizeof g->lane);
    SEFL_PASS(gc_program_init(&g->program, c));
    SEFL_PASS(sefl_new(&g->slot, c->slots, sizeof *g->slot));
    SEFL_PASS(sefl_new(&g->scratch, scratch_bytes(c), 1));
    for (int l = 0; l < GC_LANES; l++)
        g->constant[l] = g->delta;
    g->slot[0] = (const uint8_t *)g->constant;
    for (uint32_t i = c->inputs + 1; i < c->slots; i++)
        g->slot[i] = g->scratch + (size_t)GC_WIRE * (i - c->inputs - 1);
    return SEFL_OK;
}

sefl_status gc_new(gc **out, const circuit *c, const gc_config *cfg, const gc_label *delta)
{
    SEFL_MAKE(gc, g, out);
    uint64_t colour = delta ? delta->w[0] & 1 : 1;
    CT_PUBLIC(&colour, sizeof colour); /* it is 1 in every run that goes on */
    SEFL_CHECK(colour == 1, SEFL_EINVAL, "garble: the colour of delta is 0");
    SEFL_TRY(init(g, c, cfg, delta));
    SEFL_HAND_OVER(out, g, gc_free);
}

/* First tweak of the call; SEFL_ERANGE if the last one would not be below 2^64. */
static sefl_status first_tweak(const gc *g, uint64_t *tweak, uint64_t first, size_t blocks)
{
    uint64_t end, skip, last;
    SEFL_NEED(!__builtin_add_overflow(first, (uint64_t)blocks, &end), SEFL_ERANGE,
              "garble: block number beyond 2^64");
    SEFL_PASS(gc_tweaks(&last, g->c, end));
    SEFL_PASS(gc_tweaks(&skip, g->c, first));
    SEFL_NEED(!__builtin_add_overflow(g->cfg.tweak_base, last, &last), SEFL_ERANGE,
              "garble: tweaks of block %llu pass 2^64", (unsigned long long)end);
    *tweak = g->cfg.tweak_base + skip;
    return SEFL_OK;
}

/* Walks the blocks: the garbler writes `made`, the evaluator reads `came`. */
static void walk(gc *g, uint8_t *made, const uint8_t *came, gc_label *out, const gc_label *in,
                 uint64_t tweak, size_t blocks)
{
    const circuit *c = g->c;
    const size_t step = (size_t)GC_LANES * GC_AND_BYTES * c->ands;
    const gc_job job = { c,
                         &g->program,
                         g->slot,
                         g->scratch,
                         &g->cfg.hash_key,
                         g->lane,
                         g->garbles ? &g->delta : NULL };
    for (size_t b = 0; b < blocks; b++) {
        for (uint32_t i = 0; i < c->inputs; i++, in += GC_LANES)
            g->slot[i + 1] = (const uint8_t *)in;
        if (g->garbles)
            g->path->garble(&job, made + b * step, tweak);
        else
            g->path->evaluate(&job, came + b * step, tweak);
        for (uint32_t i = 0; i < c->outputs; i++, out += GC_LANES)
            memcpy(out, g->slot[c->out[i]], GC_WIRE);
        tweak += 2 * (uint64_t)c->ands;
    }
}

sefl_status gc_garble(gc *g, uint8_t *tables, size_t table_bytes, gc_label *out_zero,
                      const gc_label *in_zero, uint64_t first_block, size_t blocks)
{
    size_t need;
    uint64_t tweak;
    assert(g->garbles);
    SEFL_PASS(gc_table_bytes(&need, g->c, blocks));
    SEFL_NEED(table_bytes == need, SEFL_EINVAL, "garble: %zu bytes for tables instead of %zu",
              table_bytes, need);
    SEFL_PASS(first_tweak(g, &tweak, first_block, blocks));
    SEFL_NEED(first_block >= g->next_block, SEFL_ESTATE,
              "garble: block %llu again, %llu is next: a table is never made twice",
              (unsigned long long)first_block, (unsigned long long)g->next_block);
    g->next_block = first_block + blocks;
    walk(g, tables, NULL, out_zero, in_zero, tweak, blocks);
    return SEFL_OK;
}

sefl_status gc_evaluate(gc *g, gc_label *out_active, const uint8_t *tables, size_t table_bytes,
                        const gc_label *in_active, uint64_t first_block, size_t blocks)
{
    size_t need;
    uint64_t tweak;
    assert(!g->garbles);
    SEFL_PASS(gc_table_bytes(&need, g->c, blocks));
    SEFL_NEED(table_bytes == need, SEFL_EPROTO, "garble: %zu bytes of tables instead of %zu",
              table_bytes, need);
    SEFL_PASS(first_tweak(g, &tweak, first_block, blocks));
    walk(g, NULL, tables, out_active, in_active, tweak, blocks);
    return SEFL_OK;
}

/* ---- lane keys and rows ------------------------------------------------------------------- */

void gc_set_lanes(gc *g, const gc_label kappa[GC_LANES])
{
    memcpy(g->lane, kappa, sizeof g->lane);
}

size_t gc_row_bytes(const circuit *c, size_t blocks, unsigned bits)
{
    return blocks * c->outputs * GC_LANES * (bits / 8);
}

enum { ROW_OUTPUTS = 64 }; /* most outputs of a circuit with rows */

static uint64_t row_mask(unsigned bits)
{
    assert(bits >= 8 && bits <= 64 && bits % 8 == 0);
    return ~(uint64_t)0 >> (64 - bits);
}

static inline void row_put(uint8_t *p, uint64_t v, unsigned bits)
{
    if (bits == 32)
        store_u32(p, (uint32_t)v);
    else
        for (unsigned i = 0; i < bits / 8; i++)
            p[i] = (uint8_t)(v >> (8 * i));
}

static inline uint64_t row_get(const uint8_t *p, unsigned bits)
{
    uint64_t v = 0;
    if (bits == 32)
        return load_u32(p);
    for (unsigned i = 0; i < bits / 8; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

sefl_status gc_rows_garble(gc *g, uint8_t *rows, uint64_t *share, const gc_label *zero,
                           unsigned bits, uint64_t first_tweak, uint64_t first_block, size_t blocks)
{
    sefl_status st = SEFL_OK;
    const unsigned wires = g->c->outputs;
    const uint64_t mask = row_mask(bits);
    gc_label h0[ROW_OUTPUTS * GC_LANES], h1[ROW_OUTPUTS * GC_LANES];
    SEFL_CHECK(wires <= ROW_OUTPUTS, SEFL_EINVAL, "garble: rows for %u outputs, at most %d", wires,
               ROW_OUTPUTS);
    SEFL_CHECK(first_block >= g->next_row, SEFL_ESTATE,
               "garble: rows of block %llu again, %llu is next", (unsigned long long)first_block,
               (unsigned long long)g->next_row);
    g->next_row = first_block + blocks;
    const gc_job job = { g->c, &g->program, NULL, NULL, &g->cfg.hash_key, g->lane, &g->delta };
    for (size_t b = 0; b < blocks; b++, zero += (size_t)wires * GC_LANES, share += GC_LANES) {
        g->path->hash(&job, h0, h1, zero, first_tweak + (first_block + b) * wires, wires);
        memset(share, 0, GC_LANES * sizeof *share);
        for (unsigned i = 0; i < wires; i++)
            for (unsigned l = 0; l < GC_LANES; l++, rows += bits / 8) {
                const size_t at = (size_t)i * GC_LANES + l;
                /* zero has colour d: its hash is G_d */
                uint64_t d = ct_mask_u64(zero[at].w[0] & 1);
                uint64_t g0 = ct_select_u64(d, h1[at].w[0], h0[at].w[0]);
                uint64_t g1 = ct_select_u64(d, h0[at].w[0], h1[at].w[0]);
                uint64_t weight = (uint64_t)1 << i;
                row_put(rows, g0 - g1 + (weight ^ d) - d, bits); /* -2^e if d */
                share[l] += (weight & d) - g0;
            }
        for (unsigned l = 0; l < GC_LANES; l++)
            share[l] &= mask;
    }
done:
    sefl_wipe(h0, sizeof h0);
    sefl_wipe(h1, sizeof h1);
    return st;
}

void gc_rows_evaluate(gc *g, uint64_t *share, const uint8_t *rows, const gc_label *active,
                      unsigned bits, uint64_t first_tweak, uint64_t first_block, size_t blocks)
{
    const unsigned wires = g->c->outputs;
    const uint64_t mask = row_mask(bits);
    gc_label h[ROW_OUTPUTS * GC_LANES];
    assert(wires <= ROW_OUTPUTS);
    const gc_job job = { g->c, &g->program, NULL, NULL, &g->cfg.hash_key, g->lane, NULL };
    for (size_t b = 0; b < blocks; b++, active += (size_t)wires * GC_LANES, share += GC_LANES) {
        g->path->hash(&job, h, NULL, active, first_tweak + (first_block + b) * wires, wires);
        memset(share, 0, GC_LANES * sizeof *share);
        for (unsigned i = 0; i < wires; i++)
            for (unsigned l = 0; l < GC_LANES; l++, rows += bits / 8) {
                const size_t at = (size_t)i * GC_LANES + l;
                uint64_t c = ct_mask_u64(active[at].w[0] & 1);
                share[l] += h[at].w[0] + (row_get(rows, bits) & c);
            }
        for (unsigned l = 0; l < GC_LANES; l++)
            share[l] &= mask;
    }
    sefl_wipe(h, sizeof h);
}

/* ---- labels ------------------------------------------------------------------------------- */

void gc_encode(gc_label *out, const gc_label *zero, const uint8_t *bits, size_t n,
               const gc_label *delta)
{
    const gc_label d = *delta;
    size_t i = 0;
#if defined(__x86_64__)
    if (aes_path_best() == AES_VAES512) {
        i = n / 64 * 64;
        gc_encode_512(out, zero, bits, i, delta);
    }
#endif
    for (; i < n; i++) {
        uint64_t m = ct_mask_u64(bits[i / 8] >> (i % 8) & 1);
        out[i].w[0] = zero[i].w[0] ^ (d.w[0] & m);
        out[i].w[1] = zero[i].w[1] ^ (d.w[1] & m);
    }
}

/* ---- paths -------------------------------------------------------------------------------- */

void gc_set_path(gc *g, aes_path path)
{
    assert(aes_path_has(path));
    g->path = &paths[path];
}

void gc_hash_floor(aes_path path, gc_label *x, const gc_label *hash_key, uint64_t tweak,
                   size_t groups, unsigned per_key)
{
    assert(aes_path_has(path) && groups % 32 == 0 && (per_key == 1 || per_key == 2));
    paths[path].floor(x, hash_key, tweak, groups, per_key);
}

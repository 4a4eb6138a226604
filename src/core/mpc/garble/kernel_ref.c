/* The definition in garble.h in plain C: the portable path and the reference of the others. */
#include "mpc/garble/kernel.h"

#include "base/ct.h"
#include "base/span.h"

static gc_label xor2(gc_label a, gc_label b)
{
    return (gc_label){ { a.w[0] ^ b.w[0], a.w[1] ^ b.w[1] } };
}

/* bit ? a : 0, bit = colour of c */
static gc_label if_colour(gc_label c, gc_label a)
{
    uint64_t m = ct_mask_u64(c.w[0] & 1);
    return (gc_label){ { a.w[0] & m, a.w[1] & m } };
}

static void load(gc_label x[GC_LANES], const uint8_t *p)
{
    for (int l = 0; l < GC_LANES; l++)
        x[l] = (gc_label){ { load_u64(p + 16 * l), load_u64(p + 16 * l + 8) } };
}

static void store(uint8_t *p, const gc_label x[GC_LANES])
{
    for (int l = 0; l < GC_LANES; l++) {
        store_u64(p + 16 * l, x[l].w[0]);
        store_u64(p + 16 * l + 8, x[l].w[1]);
    }
}

static void expand(aes128 *k, const gc_label *s, uint64_t tweak)
{
    uint8_t key[AES_KEY];
    store_u64(key, s->w[0] ^ tweak);
    store_u64(key + 8, s->w[1]);
    aes128_init_on(AES_SOFT, k, key);
    sefl_wipe(key, sizeof key);
}

const gc_label gc_lane_number[GC_LANES] = {
    { { 0 } }, { { 1 } }, { { 2 } },  { { 3 } },  { { 4 } },  { { 5 } },  { { 6 } },  { { 7 } },
    { { 8 } }, { { 9 } }, { { 10 } }, { { 11 } }, { { 12 } }, { { 13 } }, { { 14 } }, { { 15 } },
};

static void hash(gc_label out[GC_LANES], const gc_label in[GC_LANES], const aes128 *k,
                 const gc_label lane[GC_LANES])
{
    gc_label y[GC_LANES];
    uint8_t bytes[GC_WIRE];
    for (unsigned l = 0; l < GC_LANES; l++)
        y[l] = xor2((gc_label){ { in[l].w[1], in[l].w[1] ^ in[l].w[0] } }, lane[l]);
    store(bytes, y);
    aes128_ecb_soft(k, bytes, bytes, GC_LANES);
    load(out, bytes);
    for (unsigned l = 0; l < GC_LANES; l++)
        out[l] = xor2(out[l], y[l]);
}

void gc_hash_ref(gc_label out[GC_LANES], const gc_label in[GC_LANES], const gc_label *hash_key,
                 uint64_t tweak)
{
    aes128 k;
    expand(&k, hash_key, tweak);
    hash(out, in, &k, gc_lane_number);
}

/* h0 = H(in), h1 = H(in ^ delta) under one key. */
static void hash_both(gc_label h0[GC_LANES], gc_label h1[GC_LANES], const gc_label in[GC_LANES],
                      const gc_job *j, const aes128 *k)
{
    gc_label x[GC_LANES];
    hash(h0, in, k, j->lane);
    for (int l = 0; l < GC_LANES; l++)
        x[l] = xor2(in[l], *j->delta);
    hash(h1, x, k, j->lane);
    sefl_wipe(x, sizeof x);
}

void gc_hash_groups_ref(const gc_job *j, gc_label *h0, gc_label *h1, const gc_label *in,
                        uint64_t tweak, size_t groups)
{
    aes128 k;
    for (size_t g = 0; g < groups; g++, in += GC_LANES, h0 += GC_LANES) {
        expand(&k, j->key, tweak + g);
        if (h1) {
            hash_both(h0, h1, in, j, &k);
            h1 += GC_LANES;
        } else {
            hash(h0, in, &k, j->lane);
        }
    }
    sefl_wipe(&k, sizeof k);
}

static uint8_t *dst_of(const gc_job *j, const circ_gate *g)
{
    return j->scratch + (size_t)GC_WIRE * (g->dst - j->c->inputs - 1);
}

static void xor_gate(const gc_job *j, const circ_gate *g)
{
    uint8_t *dst = dst_of(j, g);
    const uint8_t *a = j->slot[g->a], *b = j->slot[g->b];
    for (int i = 0; i < GC_WIRE; i++)
        dst[i] = a[i] ^ b[i];
}

void gc_garble_ref(const gc_job *j, uint8_t *tables, uint64_t tweak)
{
    const gc_label d = *j->delta;
    gc_label a[GC_LANES], b[GC_LANES], h0[GC_LANES], h1[GC_LANES];
    gc_label tg[GC_LANES], te[GC_LANES], w[GC_LANES];
    aes128 k;
    for (uint32_t i = 0; i < j->c->gates; i++) {
        const circ_gate *g = &j->c->gate[i];
        if (g->op == CIRC_XOR) {
            xor_gate(j, g);
            continue;
        }
        load(a, j->slot[g->a]);
        load(b, j->slot[g->b]);
        expand(&k, j->key, tweak++);
        hash_both(h0, h1, a, j, &k);
        for (int l = 0; l < GC_LANES; l++) {
            tg[l] = xor2(xor2(h0[l], h1[l]), if_colour(b[l], d));
            w[l] = xor2(h0[l], if_colour(a[l], tg[l]));
        }
        expand(&k, j->key, tweak++);
        hash_both(h0, h1, b, j, &k);
        for (int l = 0; l < GC_LANES; l++) {
            te[l] = xor2(xor2(h0[l], h1[l]), a[l]);
            w[l] = xor2(w[l], xor2(h0[l], if_colour(b[l], xor2(te[l], a[l]))));
        }
        store(tables, tg);
        store(tables + GC_WIRE, te);
        store(dst_of(j, g), w);
        tables += 2 * GC_WIRE;
    }
    sefl_wipe(&k, sizeof k);
    sefl_wipe(a, sizeof a);
    sefl_wipe(b, sizeof b);
    sefl_wipe(h0, sizeof h0);
    sefl_wipe(h1, sizeof h1);
    sefl_wipe(w, sizeof w);
}

void gc_evaluate_ref(const gc_job *j, const uint8_t *tables, uint64_t tweak)
{
    gc_label a[GC_LANES], b[GC_LANES], ha[GC_LANES], hb[GC_LANES];
    gc_label tg[GC_LANES], te[GC_LANES], w[GC_LANES];
    aes128 k;
    for (uint32_t i = 0; i < j->c->gates; i++) {
        const circ_gate *g = &j->c->gate[i];
        if (g->op == CIRC_XOR) {
            xor_gate(j, g);
            continue;
        }
        load(a, j->slot[g->a]);
        load(b, j->slot[g->b]);
        load(tg, tables);
        load(te, tables + GC_WIRE);
        tables += 2 * GC_WIRE;
        expand(&k, j->key, tweak++);
        hash(ha, a, &k, j->lane);
        expand(&k, j->key, tweak++);
        hash(hb, b, &k, j->lane);
        for (int l = 0; l < GC_LANES; l++) {
            w[l] = xor2(ha[l], if_colour(a[l], tg[l]));
            w[l] = xor2(w[l], xor2(hb[l], if_colour(b[l], xor2(te[l], a[l]))));
        }
        store(dst_of(j, g), w);
    }
    sefl_wipe(a, sizeof a);
    sefl_wipe(b, sizeof b);
    sefl_wipe(ha, sizeof ha);
    sefl_wipe(hb, sizeof hb);
    sefl_wipe(w, sizeof w);
}

void gc_floor_ref(gc_label *x, const gc_label *key, uint64_t tweak, size_t groups, unsigned per_key)
{
    for (size_t g = 0; g < groups; g += per_key) {
        aes128 k;
        expand(&k, key, tweak++);
        for (unsigned i = 0; i < per_key; i++)
            hash(x + GC_LANES * i, x + GC_LANES * i, &k, gc_lane_number);
    }
}

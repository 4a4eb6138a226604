/* Design.
 *  1. A batch's columns are n + 64 bits, padded to 512 bytes: the work is done in whole strides of
 *     the widest AES path; only the first n + 64 bits are ever sent or hashed.
 *  2. Work goes piece by piece (PIECE bytes of a column, all leaves of a tree), so that the sums
 *     stay in the first-level cache.
 *  3. Leaves are merged like a binary counter: with y's bits 0..j-1 all set, the sum of the last
 *     2^j leaves is folded into its left neighbour, and into column j on the way. Two XORs per leaf
 *     instead of 1 + k/2.
 *  4. Streams are AES-CTR keyed by the leaf, nonce = batch number, so any part can be computed
 *  again. */
#include "mpc/ot/ext.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/sha256.h"
#include "base/span.h"
#include "crypto/prg/aes.h"
#include "mpc/ot/ot_kernels.h"

#include <assert.h>
#include <string.h>

enum { PIECE = 2048, PIECE_MAX = PIECE + PIECE / 2 };

typedef struct leaves {
    aes128 *key; /* trees << k */
    unsigned k;
    bool hole; /* the sender: leaf 0 of each tree is not known and its stream is zero */
    uint8_t session[OT_SESSION];
    const ot_kernels *kern;
} leaves;

struct ot_sender {
    leaves l;
    uint8_t delta[OT_LABEL];
    bool broken; /* a check has failed: a second try would be a second guess at Delta */
};

struct ot_receiver {
    leaves l;
};

/* 32 AES blocks, what the widest path does at a time. */
static size_t pad(size_t bytes)
{
    return (bytes + 511) / 512 * 512;
}

/* Bytes of a column that are sent and hashed. */
static size_t column_bytes(size_t n)
{
    return (n + OT_MASK) / 8;
}

size_t ot_correction_bytes(unsigned k, size_t n)
{
    return (ot_trees(k) - 1) * column_bytes(n);
}

sefl_status ot_block_init(ot_block *b, size_t n)
{
    sefl_status st = SEFL_OK;
    ot_block tmp = { .cap = n };
    /* one line more than a multiple of 64 lines' worth: 128 columns do not share cache sets */
    tmp.stride = pad(column_bytes(n)) + 64;
    *b = (ot_block){ 0 };
    SEFL_TRY(sefl_new(&tmp.columns, OT_BITS, tmp.stride));
    SEFL_TRY(sefl_new(&tmp.u, tmp.stride, 1));
    *b = tmp, tmp = (ot_block){ 0 };
done:
    ot_block_clear(&tmp);
    return st;
}

void ot_block_clear(ot_block *b)
{
    sefl_free_secret(b->columns, OT_BITS * b->stride);
    sefl_free_secret(b->u, b->stride);
    *b = (ot_block){ 0 };
}

/* Room for the sums of a piece. */
typedef struct sums {
    _Alignas(64) uint8_t piece[OT_K_MAX + 1][PIECE_MAX];
    uint8_t u[PIECE_MAX], c[PIECE_MAX];
} sums;

/* Sums of a tree's streams over n bytes (a multiple of 512) from byte `at` on: all of them to u,
 * those with bit j of the leaf's number set to column j. */
static void tree_sums(const leaves *l, sums *w, unsigned tree, uint8_t *u, uint8_t *columns,
                      size_t stride, uint64_t number, size_t at, size_t n)
{
    uint8_t *sum[OT_K_MAX + 1], *cur; /* sum[h]: of the last 2^h leaves waiting for a neighbour */
    const aes128 *key = l->key + ((size_t)tree << l->k);
    if (l->k == 4 && l->kern->tree16) {
        l->kern->tree16(u, columns, stride, key, l->hole, number, at / AES_BLOCK, n);
        return;
    }
    for (unsigned j = 0; j <= l->k; j++)
        sum[j] = w->piece[j];
    for (size_t y = 0; y < (size_t)1 << l->k; y++) {
        unsigned height = 0; /* at which this leaf's run of merges ends */
        while (y >> height & 1)
            height++;
        cur = height == 0 ? sum[0] : sum[l->k];
        if (y == 0 && l->hole)
            memset(cur, 0, n);
        else
            aes128_ctr(&key[y], cur, n, number, at / AES_BLOCK);
        for (unsigned j = 0; j < height; j++) {
            bool first = y >> (j + 1) == 0; /* the lowest leaves: column j is not begun yet */
            (first ? l->kern->fold_first : l->kern->fold)(columns + j * stride, sum[j], cur, n);
            cur = sum[j];
        }
        if (height > 0 && height < l->k) { /* to its place: two buffers change names */
            sum[height - 1] = sum[height];
            sum[height] = cur;
        }
    }
    memcpy(u, cur, n);
}

static void block_set(ot_block *b, uint64_t number, size_t n)
{
    assert(n > 0 && n % OT_GRAIN == 0 && n <= b->cap);
    b->number = number, b->n = n;
}

/* Corrections go out at the receiver, come in at the sender. */
static void expand(const leaves *l, ot_block *b, uint8_t *out_c, const uint8_t *in_c,
                   const uint8_t *delta)
{
    sums w;
    uint8_t *u = w.u, *c = w.c;
    size_t bytes = column_bytes(b->n);
    for (size_t at = 0, real; at < bytes; at += real) {
        real = bytes - at <= PIECE_MAX ? bytes - at : PIECE; /* no short piece at the end */
        size_t n = pad(real);
        for (unsigned i = 0; i < ot_trees(l->k); i++) {
            uint8_t *columns = b->columns + i * l->k * b->stride + at;
            tree_sums(l, &w, i, i == 0 && !delta ? b->u + at : u, columns, b->stride, b->number, at,
                      n);
            if (i == 0)
                continue;
            size_t pos = (i - 1) * bytes + at;
            if (out_c) {
                l->kern->add_masked(u, b->u + at, ~(uint64_t)0, n);
                memcpy(out_c + pos, u, real);
            }
            if (in_c) {
                memcpy(c, in_c + pos, real);
                memset(c + real, 0, n - real);
                for (unsigned j = 0; j < l->k; j++) {
                    unsigned bit = i * l->k + j;
                    l->kern->add_masked(columns + j * b->stride, c,
                                        ct_mask_u64(delta[bit / 8] >> (bit % 8) & 1), n);
                }
            }
        }
    }
    sefl_wipe(&w, sizeof w);
}

void ot_receiver_extend(const ot_receiver *r, ot_block *b, uint64_t number, size_t n, uint8_t *c)
{
    block_set(b, number, n);
    expand(&r->l, b, c, NULL, NULL);
}

static sefl_status sound(const ot_sender *s)
{
    SEFL_NEED(!s->broken, SEFL_ESTATE, "OT extension: a check has failed, the session is over");
    return SEFL_OK;
}

sefl_status ot_sender_extend(const ot_sender *s, ot_block *b, uint64_t number, size_t n,
                             const uint8_t *c)
{
    SEFL_PASS(sound(s));
    block_set(b, number, n);
    expand(&s->l, b, NULL, c, s->delta);
    return SEFL_OK;
}

/* ---- the check ---- */

/* R of every column and, at the receiver, of u. */
static void hash_columns(const leaves *l, uint64_t out[OT_BITS + 1], const ot_block *b,
                         const uint8_t seed[OT_KEY])
{
    uint64_t wide[OT_BITS + 1][2] = { { 0 } }, chi[PIECE / 8];
    size_t bytes = b->n / 8;
    aes128 key;
    aes128_init(&key, seed);
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        aes128_ctr(&key, (uint8_t *)chi, n, b->number, at / AES_BLOCK);
        for (size_t i = 0; i < n / 8; i++)
            chi[i] = load_u64(&chi[i]);
        for (unsigned c = 0; c < OT_BITS; c++)
            l->kern->dot(wide[c], b->columns + c * b->stride + at, chi, n);
        if (!l->hole)
            l->kern->dot(wide[OT_BITS], b->u + at, chi, n);
    }
    for (unsigned c = 0; c <= OT_BITS; c++) {
        const uint8_t *column = c < OT_BITS ? b->columns + c * b->stride : b->u;
        out[c] = ot_gf64_reduce(wide[c]) ^ load_u64(column + bytes);
    }
    sefl_wipe(wide, sizeof wide);
}

static void digest_columns(const leaves *l, uint8_t out[SHA256_BYTES], uint64_t number, uint64_t ru,
                           const uint64_t rv[OT_BITS])
{
    uint8_t bytes[8 * (OT_BITS + 2)];
    store_u64(bytes, number);
    store_u64(bytes + 8, ru);
    for (unsigned c = 0; c < OT_BITS; c++)
        store_u64(bytes + 16 + 8 * c, rv[c]);
    sha256_join(out, span_of_str("sefl ot check"), span_of(l->session, OT_SESSION),
                span_of(bytes, sizeof bytes));
    sefl_wipe(bytes, sizeof bytes);
}

void ot_receiver_answer(const ot_receiver *r, uint8_t out[OT_CHECK_BYTES], const ot_block *b,
                        const uint8_t seed[OT_KEY])
{
    uint64_t hash[OT_BITS + 1];
    hash_columns(&r->l, hash, b, seed);
    CT_PUBLIC(&hash[OT_BITS], sizeof hash[OT_BITS]); /* sent; the mask makes it uniform */
    store_u64(out, hash[OT_BITS]);
    digest_columns(&r->l, out + 8, b->number, hash[OT_BITS], hash);
    CT_PUBLIC(out, OT_CHECK_BYTES); /* sent */
    sefl_wipe(hash, sizeof hash);
}

bool ot_sender_verify(const ot_sender *s, const ot_block *b, const uint8_t seed[OT_KEY],
                      const uint8_t answer[OT_CHECK_BYTES])
{
    uint64_t hash[OT_BITS + 1], ru = load_u64(answer), good;
    uint8_t digest[SHA256_BYTES];
    hash_columns(&s->l, hash, b, seed);
    for (unsigned c = 0; c < OT_BITS; c++)
        hash[c] ^= ru & ct_mask_u64(s->delta[c / 8] >> (c % 8) & 1);
    digest_columns(&s->l, digest, b->number, ru, hash);
    good = ct_eq_bytes(digest, answer + 8, SHA256_BYTES);
    CT_PUBLIC(&good, sizeof good); /* the receiver sees whether we go on */
    sefl_wipe(hash, sizeof hash);
    sefl_wipe(digest, sizeof digest);
    return good;
}

sefl_status ot_sender_check(ot_sender *s, const ot_block *b, const uint8_t seed[OT_KEY],
                            const uint8_t answer[OT_CHECK_BYTES])
{
    SEFL_PASS(sound(s));
    if (ot_sender_verify(s, b, seed, answer))
        return SEFL_OK;
    s->broken = true;
    sefl_wipe(s->delta, sizeof s->delta);
    sefl_wipe(s->l.key, ((size_t)ot_trees(s->l.k) << s->l.k) * sizeof *s->l.key);
    return sefl_fail(SEFL_ECRYPTO, "OT extension: batch %llu fails its check",
                     (unsigned long long)b->number);
}

void ot_block_rows(const ot_block *b, uint8_t *rows, size_t first, size_t n)
{
    assert(first <= b->n && n <= b->n - first && first % 128 == 0 && n % 128 == 0);
    ot_kernels_best()->transpose(rows, b->columns + first / 8, b->stride, n / 8);
}

/* ---- making and ending ---- */

static void leaves_clear(leaves *l)
{
    sefl_free_secret(l->key, l->key ? ((size_t)ot_trees(l->k) << l->k) * sizeof *l->key : 0);
    sefl_wipe(l, sizeof *l);
}

/* Trees with the peer, then keys of the leaves. delta: the sender's, else NULL. */
static sefl_status leaves_make(leaves *l, channel *ch, unsigned k, const uint8_t *delta,
                               const uint8_t session[OT_SESSION], const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t(*leaf)[OT_KEY] = NULL;
    size_t n = 0;
    SEFL_CHECK(k == 1 || k == 2 || k == 4 || k == 8, SEFL_EINVAL,
               "OT extension: k = %u, must be 1, 2, 4 or 8", k);
    n = (size_t)ot_trees(k) << k;
    l->k = k, l->hole = delta != NULL;
    l->kern = ot_kernels_best();
    memcpy(l->session, session, OT_SESSION);
    SEFL_TRY(sefl_new(&l->key, n, sizeof *l->key));
    SEFL_TRY(sefl_new(&leaf, n, OT_KEY));
    SEFL_TRY(delta ? ot_trees_receive(ch, leaf, delta, k, session, rng)
                   : ot_trees_send(ch, leaf, k, session, rng));
    for (size_t i = 0; i < n; i++)
        aes128_init(&l->key[i], leaf[i]);
done:
    sefl_free_secret(leaf, n * OT_KEY);
    return st;
}

sefl_status ot_sender_new(ot_sender **out, channel *ch, unsigned k, const uint8_t delta[OT_LABEL],
                          const uint8_t session[OT_SESSION], const sefl_rng *rng)
{
    SEFL_MAKE(ot_sender, s, out);
    assert(delta[0] & 1);
    memcpy(s->delta, delta, OT_LABEL);
    SEFL_TRY(leaves_make(&s->l, ch, k, delta, session, rng));
    SEFL_HAND_OVER(out, s, ot_sender_free);
}

sefl_status ot_receiver_new(ot_receiver **out, channel *ch, unsigned k,
                            const uint8_t session[OT_SESSION], const sefl_rng *rng)
{
    SEFL_MAKE(ot_receiver, r, out);
    SEFL_TRY(leaves_make(&r->l, ch, k, NULL, session, rng));
    SEFL_HAND_OVER(out, r, ot_receiver_free);
}

void ot_sender_free(ot_sender *s)
{
    if (!s)
        return;
    leaves_clear(&s->l);
    sefl_free_secret(s, sizeof *s);
}

void ot_receiver_free(ot_receiver *r)
{
    if (!r)
        return;
    leaves_clear(&r->l);
    sefl_free_secret(r, sizeof *r);
}

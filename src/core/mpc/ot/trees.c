#include "mpc/ot/trees.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/sha256.h"
#include "base/span.h"

#include <assert.h>
#include <string.h>

enum { LEAVES_MAX = 1 << OT_K_MAX, TREES_MAX = OT_BITS };

typedef struct proof {
    uint8_t sum[SHA256_BYTES], digest[SHA256_BYTES];
} proof;

typedef struct tree_msg {
    uint8_t sum[OT_BITS][2][OT_KEY];
    proof proof[TREES_MAX]; /* the first 128/k are sent */
} tree_msg;

static size_t msg_bytes(unsigned k)
{
    return sizeof((tree_msg *)0)->sum + ot_trees(k) * sizeof(proof);
}

/* Where in a session a node sits: names every hash. */
typedef struct place {
    const uint8_t *session;
    uint32_t tree, level, number;
} place;

static void hash_node(uint8_t out[SHA256_BYTES], const char *domain, place at,
                      const uint8_t node[OT_KEY])
{
    uint8_t pos[12];
    store_u32(pos, at.tree);
    store_u32(pos + 4, at.level);
    store_u32(pos + 8, at.number);
    sha256_join(out, span_of_str(domain), span_of(at.session, OT_SESSION), span_of(pos, sizeof pos),
                span_of(node, OT_KEY));
}

static void xor_bytes(uint8_t *out, const uint8_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] ^= in[i];
}

/* out ^= in unless skip is 1. */
static void xor_unless(uint64_t skip, uint8_t *out, const uint8_t *in, size_t n)
{
    uint8_t keep = (uint8_t)~ct_mask_u64(skip);
    for (size_t i = 0; i < n; i++)
        out[i] ^= in[i] & keep;
}

/* Expands level `level` (count nodes in place at the front of `node`) to the next one. */
static void expand(uint8_t (*node)[OT_KEY], uint32_t count, place at)
{
    uint8_t both[SHA256_BYTES];
    for (uint32_t i = count; i-- > 0;) {
        at.number = i;
        hash_node(both, "sefl ot node", at, node[i]);
        memcpy(node[2 * i], both, 2 * OT_KEY); /* node[2i] and node[2i + 1] */
    }
    sefl_wipe(both, sizeof both);
}

static void leaf_key(uint8_t leaf[OT_KEY], place at, const uint8_t node[OT_KEY])
{
    uint8_t wide[SHA256_BYTES];
    hash_node(wide, "sefl ot leaf", at, node);
    memcpy(leaf, wide, OT_KEY);
    sefl_wipe(wide, sizeof wide);
}

static void digest_tags(uint8_t out[SHA256_BYTES], const uint8_t (*tag)[SHA256_BYTES], size_t n)
{
    sha256_of(out, span_of(tag, n * SHA256_BYTES));
}

sefl_status ot_trees_send(channel *ch, uint8_t (*leaf)[OT_KEY], unsigned k,
                          const uint8_t session[OT_SESSION], const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t keys[OT_BITS][2][OT_KEY], node[LEAVES_MAX][OT_KEY], tag[LEAVES_MAX][SHA256_BYTES];
    tree_msg *msg = NULL;
    uint32_t leaves = 1u << k;
    assert(k >= 1 && k <= OT_K_MAX && OT_BITS % k == 0);
    SEFL_TRY(sefl_new(&msg, 1, sizeof *msg));
    SEFL_TRY(ot_base_send(ch, keys, OT_BITS, session, rng));
    for (uint32_t i = 0; i < ot_trees(k); i++) {
        SEFL_TRY(rng_fill(rng, node[0], OT_KEY));
        for (uint32_t level = 1; level <= k; level++) {
            uint32_t base = i * k + (k - level);
            expand(node, 1u << (level - 1), (place){ session, i, level, 0 });
            memcpy(msg->sum[base], keys[base], 2 * OT_KEY);
            for (uint32_t y = 0; y < 1u << level; y++)
                xor_bytes(msg->sum[base][y & 1], node[y], OT_KEY);
        }
        for (uint32_t y = 0; y < leaves; y++) {
            place at = { session, i, k, y };
            leaf_key(leaf[(size_t)i << k | y], at, node[y]);
            hash_node(tag[y], "sefl ot tag", at, node[y]);
            xor_bytes(msg->proof[i].sum, tag[y], SHA256_BYTES);
        }
        digest_tags(msg->proof[i].digest, tag, leaves);
    }
    SEFL_TRY(msg_send(ch, OT_MSG_TREES, 0, msg, msg_bytes(k)));
    SEFL_TRY(channel_flush(ch));
done:
    if (st != SEFL_OK)
        sefl_wipe(leaf, ((size_t)ot_trees(k) << k) * OT_KEY);
    sefl_wipe(keys, sizeof keys);
    sefl_wipe(node, sizeof node);
    sefl_wipe(tag, sizeof tag);
    sefl_free(msg);
    return st;
}

sefl_status ot_first_tree(uint8_t (*leaf)[OT_KEY], unsigned k, const uint8_t session[OT_SESSION],
                          const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t node[LEAVES_MAX][OT_KEY];
    SEFL_TRY(ot_base_send_coins(OT_BITS, rng));
    SEFL_TRY(rng_fill(rng, node[0], OT_KEY));
    for (uint32_t level = 1; level <= k; level++)
        expand(node, 1u << (level - 1), (place){ session, 0, level, 0 });
    for (uint32_t y = 0; y < 1u << k; y++)
        leaf_key(leaf[y], (place){ session, 0, k, y }, node[y]);
done:
    sefl_wipe(node, sizeof node);
    return st;
}

/* From all nodes of a level but number `hole` to all of the next one but 2*hole + bit. */
static void descend(uint8_t (*node)[OT_KEY], uint32_t count, uint64_t hole, uint64_t bit,
                    const uint8_t sum[OT_KEY], place at)
{
    uint8_t missing[OT_KEY], zero[OT_KEY] = { 0 };
    memcpy(missing, sum, OT_KEY);
    expand(node, count, at);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t here = ct_eq_u64(i, hole);
        uint8_t off[OT_KEY]; /* the child on the side off the path */
        memcpy(off, node[2 * i + 1], OT_KEY);
        ct_copy_if(bit, off, node[2 * i], OT_KEY);
        xor_unless(here, missing, off, OT_KEY);
    }
    for (uint32_t y = 0; y < 2 * count; y++) {
        uint64_t parent = ct_eq_u64(y >> 1, hole);
        uint64_t on_path = ct_eq_u64(y & 1, bit);
        ct_copy_if(parent & on_path, node[y], zero, OT_KEY);
        ct_copy_if(parent & (1 ^ on_path), node[y], missing, OT_KEY);
    }
    sefl_wipe(missing, sizeof missing);
}

sefl_status ot_trees_receive(channel *ch, uint8_t (*leaf)[OT_KEY], const uint8_t delta[OT_BITS / 8],
                             unsigned k, const uint8_t session[OT_SESSION], const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t keys[OT_BITS][OT_KEY], off[OT_BITS], node[LEAVES_MAX][OT_KEY];
    uint8_t tag[LEAVES_MAX][SHA256_BYTES], missing[SHA256_BYTES], sum[OT_KEY], got[SHA256_BYTES];
    static const uint8_t zero[OT_KEY] = { 0 };
    tree_msg *msg = NULL;
    uint32_t leaves = 1u << k;
    uint64_t good = 1;
    assert(k >= 1 && k <= OT_K_MAX && OT_BITS % k == 0);
    SEFL_TRY(sefl_new(&msg, 1, sizeof *msg));
    for (uint32_t c = 0; c < OT_BITS; c++)
        off[c] = 1 ^ (delta[c / 8] >> (c % 8) & 1);
    SEFL_TRY(ot_base_receive(ch, keys, off, OT_BITS, session, rng));
    SEFL_TRY(msg_recv(ch, OT_MSG_TREES, 0, msg, msg_bytes(k), "OT trees"));
    for (uint32_t i = 0; i < ot_trees(k); i++) {
        uint8_t(*out)[OT_KEY] = leaf + ((size_t)i << k);
        uint64_t hole = 0;
        memset(node[0], 0, OT_KEY);
        for (uint32_t level = 1; level <= k; level++) {
            uint32_t base = i * k + (k - level);
            memcpy(sum, msg->sum[base][0], OT_KEY);
            ct_copy_if(off[base], sum, msg->sum[base][1], OT_KEY);
            xor_bytes(sum, keys[base], OT_KEY);
            descend(node, 1u << (level - 1), hole, 1 ^ off[base], sum,
                    (place){ session, i, level, 0 });
            hole = hole << 1 | (1u ^ off[base]);
        }
        memcpy(missing, msg->proof[i].sum, SHA256_BYTES);
        for (uint32_t y = 0; y < leaves; y++) {
            place at = { session, i, k, y };
            leaf_key(out[y], at, node[y]);
            hash_node(tag[y], "sefl ot tag", at, node[y]);
            xor_unless(ct_eq_u64(y, hole), missing, tag[y], SHA256_BYTES);
        }
        for (uint32_t y = 0; y < leaves; y++) {
            ct_copy_if(ct_eq_u64(y, hole), tag[y], missing, SHA256_BYTES);
            ct_copy_if(ct_eq_u64(y, hole), out[y], zero, OT_KEY);
        }
        digest_tags(got, tag, leaves);
        good &= ct_eq_bytes(got, msg->proof[i].digest, SHA256_BYTES);
        for (uint32_t j = 0; j < k; j++) /* leaf y to place y xor delta */
            for (uint32_t y = 0; y < leaves; y++)
                if (!(y >> j & 1))
                    ct_swap_if(1 ^ off[i * k + j], out[y], out[y | 1u << j], OT_KEY);
    }
    CT_PUBLIC(&good, sizeof good); /* the peer sees whether we continue; one answer for all trees */
    SEFL_CHECK(good, SEFL_ECRYPTO, "OT trees: inconsistent (another session, or a cheating peer)");
done:
    if (st != SEFL_OK)
        sefl_wipe(leaf, ((size_t)ot_trees(k) << k) * OT_KEY);
    sefl_wipe(keys, sizeof keys);
    sefl_wipe(off, sizeof off);
    sefl_wipe(node, sizeof node);
    sefl_wipe(tag, sizeof tag);
    sefl_wipe(missing, sizeof missing);
    sefl_wipe(sum, sizeof sum);
    sefl_free(msg);
    return st;
}

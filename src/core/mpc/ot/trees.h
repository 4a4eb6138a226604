/* ot/trees: all-but-one OT with GGM trees. The peer learns every leaf of a tree except one.
 *
 * The holder has trees of depth k with 2^k leaves each; the peer has a secret leaf number delta per
 * tree and learns all leaves but that one. There are 128/k trees, so k * 128/k = 128 base OTs for
 * every k. For each level, the holder sends the XOR of all left and the XOR of all right children,
 * each hidden by one key of a base OT; the peer chooses the side that its path does not take.
 *
 *     node     children = SHA-256("sefl ot node", session, tree, level, number, node), 16 + 16
 *     leaf     key      = SHA-256("sefl ot leaf", session, tree, number, node)[0..15]
 *     proof    tag      = SHA-256("sefl ot tag",  session, tree, number, node), 32 bytes
 *
 * A holder that sends inconsistent sums could learn bits of delta from whether the peer continues.
 * So for each tree it sends T, the XOR of all tags, and the SHA-256 of all tags in order. The peer
 * fills in the missing tag from T and compares the hash: SEFL_ECRYPTO unless all trees match (Roy
 * 2022, section 6). A cheating holder still has one guess per tree, which is right with probability
 * 2^-k (in tree 0, where bit 0 of Delta is 1 and public, 2^-(k-1)).
 *
 * Message, holder -> peer, kind OT_MSG_TREES:
 *     128 x (left sum 16, right sum 16), base OT number = tree*k + (k - level)
 *     128/k x (T 32, digest 32)
 *
 * The peer numbers leaves by z = y xor delta, so that z = 0 is the one it lacks and nothing later
 * depends on delta.
 *
 * Secret: delta, nodes. Public: k, session.   Constant time. */
#ifndef MPC_OT_TREES_H
#define MPC_OT_TREES_H

#include "mpc/ot/base.h"

enum { OT_BITS = 128, OT_K_MAX = 8 };

static inline unsigned ot_trees(unsigned k)
{
    return OT_BITS / k;
}

/* Runs the holder's side, including base OTs; leaf y of a tree is leaf[tree << k | y]. */
sefl_status ot_trees_send(channel *ch, uint8_t (*leaf)[OT_KEY], unsigned k,
                          const uint8_t session[OT_SESSION], const sefl_rng *rng) SEFL_MUST_CHECK;

/* Computes, without a peer, the 2^k leaves of the first tree that ot_trees_send would build. */
sefl_status ot_first_tree(uint8_t (*leaf)[OT_KEY], unsigned k, const uint8_t session[OT_SESSION],
                          const sefl_rng *rng) SEFL_MUST_CHECK;

/* Runs the peer's side: leaf[tree << k | z], z = y xor the tree's delta; leaf z = 0 is all zero.
 * Bit tree*k + j of delta (bit 0 of byte 0 first) is bit j of the tree's leaf number. */
sefl_status ot_trees_receive(channel *ch, uint8_t (*leaf)[OT_KEY], const uint8_t delta[OT_BITS / 8],
                             unsigned k, const uint8_t session[OT_SESSION],
                             const sefl_rng *rng) SEFL_MUST_CHECK;

#endif

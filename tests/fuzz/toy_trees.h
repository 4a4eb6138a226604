/* toy_trees: OT trees in one cheap message, for harnesses of code that runs after them.
 *
 * Real trees take 128 base OTs and 1,500 hashes per session: most of the time of an attempt at
 * joint noise. In a harness that includes this header, these functions replace ot_trees_send and
 * ot_trees_receive (mpc/ot/trees.h): the sender sends a seed and its hash with the session, and the
 * receiver, which then knows all leaves, erases the one that it must not have. Another session, or
 * a bit changed in transit, fails as with real trees. mpc.ot tests the real ones. */
#ifndef TESTS_FUZZ_TOY_TREES_H
#define TESTS_FUZZ_TOY_TREES_H

#include "base/sha256.h"
#include "crypto/prg/prg.h"
#include "mpc/ot/trees.h"

#include <string.h>

typedef struct toy_trees {
    uint8_t seed[PRG_SEED], hash[SHA256_BYTES];
} toy_trees;

static inline void toy_trees_hash(uint8_t out[SHA256_BYTES], const uint8_t session[OT_SESSION],
                                  const uint8_t seed[PRG_SEED])
{
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, span_of(session, OT_SESSION));
    sha256_add(&h, span_of(seed, PRG_SEED));
    sha256_end(&h, out);
}

static inline void toy_trees_leaves(uint8_t (*leaf)[OT_KEY], unsigned k,
                                    const uint8_t seed[PRG_SEED])
{
    prg p;
    prg_init(&p, seed, "toy trees");
    prg_fill(&p, leaf, ((size_t)ot_trees(k) << k) * OT_KEY);
    prg_clear(&p);
}

sefl_status ot_trees_send(channel *ch, uint8_t (*leaf)[OT_KEY], unsigned k,
                          const uint8_t session[OT_SESSION], const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    toy_trees m;
    SEFL_TRY(rng_fill(rng, m.seed, sizeof m.seed));
    toy_trees_hash(m.hash, session, m.seed);
    toy_trees_leaves(leaf, k, m.seed);
    SEFL_TRY(msg_send(ch, OT_MSG_TREES, 0, &m, sizeof m));
    SEFL_TRY(channel_flush(ch));
done:
    return st;
}

/* Leaf y of tree i is at index y xor delta_i; the one at 0 is missing. */
sefl_status ot_trees_receive(channel *ch, uint8_t (*leaf)[OT_KEY], const uint8_t delta[OT_BITS / 8],
                             unsigned k, const uint8_t session[OT_SESSION], const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    toy_trees m;
    uint8_t hash[SHA256_BYTES], row[1 << OT_K_MAX][OT_KEY];
    (void)rng;
    SEFL_TRY(msg_recv(ch, OT_MSG_TREES, 0, &m, sizeof m, "OT trees"));
    toy_trees_hash(hash, session, m.seed);
    SEFL_CHECK(memcmp(hash, m.hash, sizeof hash) == 0, SEFL_ECRYPTO, "toy trees: inconsistent");
    toy_trees_leaves(leaf, k, m.seed);
    for (unsigned i = 0; i < ot_trees(k); i++) {
        uint8_t(*tree)[OT_KEY] = leaf + ((size_t)i << k);
        unsigned digit = 0;
        for (unsigned j = 0; j < k; j++)
            digit |= (delta[(i * k + j) / 8] >> (i * k + j) % 8 & 1u) << j;
        memcpy(row, tree, sizeof *row << k);
        for (unsigned y = 0; y < 1u << k; y++)
            memcpy(tree[y ^ digit], row[y], OT_KEY);
        memset(tree[0], 0, OT_KEY);
    }
done:
    return st;
}

#endif

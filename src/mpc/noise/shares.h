/* noise/shares: the joint noise as shares, made before the round and before any data is there.
 *
 * CSP (garbler) gets x^C, AS (evaluator) x^A, each uniform modulo 2^K by itself, with x^C + x^A = X
 * modulo 2^K: X is one draw of the noise sampler (circuits/sampler.h) from the XOR of both servers'
 * coins, which neither knows.
 *
 *     CSP  SEFL_TRY(shares_garble(id, x, ch, &p, rng));
 *     AS   SEFL_TRY(shares_evaluate(id, x, ch, &p, rng));
 *     shares_params p = { .pair = { ... }, .count = 1 << 20 };       // the same on both sides
 *
 * One call is one session: new base OTs, new Delta, new labels, an id that binds the parameters and a
 * nonce of each side. Whatever fails ends it, with zeros in x; nothing of it is used again. Sessions
 * are independent, so several may run side by side, each with its own channel and thread.
 *
 * Who may cheat. AS, who will see the noisy sum, may do anything: its coins are XORed with CSP's, OT
 * checks fix its labels before CSP draws the lane keys of a chunk (garble.h), and it sends nothing that
 * depends on the tables. So it cannot move the noise, only spoil it. A failed check is SEFL_ECRYPTO: the
 * caller counts it, three end a task. CSP must follow the protocol: it could garble a circuit without
 * noise. docs/PROTOCOL.md has the bound.
 *
 * Chunk c, 1024 values: AS sends OT corrections of its 34 coins a value; CSP a check seed; AS its
 * answer; CSP, if it is right, 16 lane keys, the tables of 29 ANDs and the 7 rows a value. Two chunks
 * are under way at a time. A value costs 956 bytes from CSP and 133 from AS (K = 32, OT k = 4).
 * Memory: about 6 MB a side, beside x.
 *
 * Secret: x, coins, labels, Delta. Public: params, id, lane keys, all sizes.
 * Threads: pure functions, one channel each. Cost: sefl bench 2pc. */
#ifndef MPC_NOISE_SHARES_H
#define MPC_NOISE_SHARES_H

#include "base/random.h"
#include "mpc/channel.h"
#include "mpc/circuits/sampler.h"

enum { SHARES_ID = 32, SHARES_COUNT_MAX = 1 << 24 };

typedef struct shares_params {
    uint8_t pair[32];               /* names the two servers; the same on both sides */
    uint64_t count;                 /* values, 1 to SHARES_COUNT_MAX */
    unsigned bits;                  /* K: 32 or 40; 0: 32 */
    const sampler_profile *profile; /* NULL: sampler_g44 */
    unsigned ot_k;                  /* 1, 2, 4 or 8; 0: 4 */
    unsigned chunk;                 /* values a chunk, a multiple of 128 up to 8192; 0: 1024 */
} shares_params;

/* x: count numbers below 2^K. */
sefl_status shares_garble(uint8_t id[SHARES_ID], uint64_t *x, channel *ch, const shares_params *p,
                          const sefl_rng *rng) SEFL_MUST_CHECK;
sefl_status shares_evaluate(uint8_t id[SHARES_ID], uint64_t *x, channel *ch, const shares_params *p,
                            const sefl_rng *rng) SEFL_MUST_CHECK;

#endif

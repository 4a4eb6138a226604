/* noise/shares: generates shares of the joint noise before the round, without any data.
 *
 * CSP (garbler) gets x^C and AS (evaluator) gets x^A, with x^C + x^A = X modulo 2^K. Each share on
 * its own is uniform modulo 2^K. X is one draw of the noise sampler (circuits/sampler.h) from the
 * XOR of both servers' coins, which neither server knows.
 *
 *     shares_params p = { .pair = { ... }, .count = 1 << 20, ... };
 *     shares_result r;
 *     CSP  SEFL_TRY(shares_garble(&r, x, ch, &p, rng));          // p.sign
 *     AS   SEFL_TRY(shares_evaluate(&r, x, ch, &p, rng));        // p.csp, p.audit
 *     if (r.outcome == SHARES_KEPT)                              // CSP first destroys the seed
 *         SEFL_TRY(shares_pool_add(pool, r.id, x, p.count, bits));
 *
 * One call is one session: new base OTs, new Delta, new labels, and an id that binds the parameters
 * and a nonce from each side. Any failure ends the session and zeroes x; nothing from it is used
 * again. Sessions are independent: several may run in parallel, each on its own channel and thread.
 *
 * Security. AS, which will see the noisy sum, may deviate arbitrarily: its coins are XORed with
 * CSP's, OT checks fix its labels before CSP draws the lane keys of a chunk (garble.h), and it
 * sends nothing that depends on the tables. So AS can ruin the noise but not choose it. A failed
 * check is SEFL_ECRYPTO; the caller counts failures, and the third ends the task. CSP must follow
 * the protocol: it could garble a circuit without noise. docs/PROTOCOL.md has the bound.
 *
 * Audit (noise/noise_audit.h). After CSP has signed the whole session, AS decides at random whether
 * to audit it, with probability 1/p.audit. With that probability it detects missing noise in a
 * session. The caller at AS handles the outcome:
 *     SHARES_KEPT         x may be used
 *     SHARES_AUDITED      CSP was honest; x is all zero on both sides; save r.record, start again
 *     SHARES_UNANSWERED   failure: CSP did not reveal its seed. Ask again (p.owe has what it
 *                         takes), then shares_judge; until then use no session
 *     SHARES_CAUGHT       failure: CSP garbled something else, or revealed another seed than it
 *                         committed to. Save r.record; the task ends. The record convinces others
 *                         only if r.found is AUDIT_CHEATED: AS could have put in a wrong seed
 *     SHARES_FAILED       any other failure
 *
 * For each chunk of 512 values AS sends the OT corrections of its 34 coins per value. CSP sends a
 * check seed, and AS answers. If the answer is right, CSP sends 16 lane keys and, per value, the
 * tables of 29 ANDs and 7 rows. Four chunks are in flight at a time. A value costs 956 bytes from
 * CSP and 133 from AS (K = 32, OT k = 4). Memory: about 6 MB per side, plus x. An audit costs AS a
 * second thread and as much time as the session.
 *
 * Secret: x, coins, labels, Delta, seeds. Public: params, id, lane keys, all sizes.
 * Threads: pure functions, one channel each. Cost: see `sefl bench 2pc`. */
#ifndef MPC_NOISE_SHARES_H
#define MPC_NOISE_SHARES_H

#include "base/channel.h"
#include "base/random.h"
#include "mpc/circuits/sampler.h"
#include "mpc/noise/noise_audit.h"

enum {
    SHARES_ID = AUDIT_ID,
    SHARES_COUNT_MAX = 1 << 24,
    SHARES_ALIGN = 128, /* a session is padded to a multiple of this many values */
};

typedef struct shares_params {
    /* the same on both sides */
    uint8_t pair[32];               /* identifies the two servers */
    uint64_t count;                 /* values, 1 to SHARES_COUNT_MAX */
    unsigned bits;                  /* K: 32 or 40; 0: 32 */
    const sampler_profile *profile; /* NULL: sampler_g44 */
    unsigned ot_k;                  /* 1, 2, 4 or 8; 0: 4 */
    unsigned chunk;                 /* values per chunk, a multiple of 128 up to 8192; 0: 512 */

    /* Per side. Without keys, both sides run in one process and there is no audit. */
    const sign_key *sign; /* own key: CSP signs the session, AS its verdict */
    const uint8_t *csp;   /* AS: CSP's public signing key, 32 bytes. Requires sign */
    const uint8_t *as;    /* CSP: AS's public signing key. Requires sign, and sign requires it */
    uint64_t audit;       /* AS: audits one session in this many; 0: none. Requires csp */

    /* What must be durable before the peer gets the next bytes; each may be NULL. */
    void *ctx;
    /* CSP, before the commitment: draws the seed. Otherwise rng does. */
    sefl_status (*draw)(void *ctx, const uint8_t id[SHARES_ID], uint8_t seed[AUDIT_SEED]);
    /* CSP, before it reveals the seed: the session never enters a pool. */
    sefl_status (*drop)(void *ctx, const uint8_t id[SHARES_ID]);
    /* AS, before it sends AUDIT: CSP owes the seed of r, and this is AS's signature for it. */
    sefl_status (*owe)(void *ctx, const audit_record *r, const uint8_t signature[SIGN_BYTES]);
} shares_params;

typedef enum shares_outcome {
    SHARES_FAILED = 0,
    SHARES_KEPT,
    SHARES_AUDITED,
    SHARES_UNANSWERED, /* AS only */
    SHARES_CAUGHT,     /* AS only */
} shares_outcome;

typedef struct shares_result {
    uint8_t id[SHARES_ID];
    shares_outcome outcome;
    audit_record record; /* AS, after SHARES_AUDITED and SHARES_CAUGHT; otherwise all zero */
    audit_finding found; /* AS, with the record: what it shows to others */
} shares_result;

/* Run one side of a session. x gets `count` numbers below 2^K, all zero unless the outcome is
 * SHARES_KEPT. */
sefl_status shares_garble(shares_result *out, uint64_t *x, channel *ch, const shares_params *p,
                          const sefl_rng *rng) SEFL_MUST_CHECK;
sefl_status shares_evaluate(shares_result *out, uint64_t *x, channel *ch, const shares_params *p,
                            const sefl_rng *rng) SEFL_MUST_CHECK;

/* AS: judges an audited session from its record, now with CSP's seed: sets id, outcome, record and
 * found. SEFL_ECRYPTO if CSP is caught. */
sefl_status shares_judge(shares_result *out, const audit_record *r) SEFL_MUST_CHECK;

/* Replays both sides of a recorded session in this process and reports what the record proves. This
 * takes 20 MB and as long as the session. Fails only if the replay cannot run. */
sefl_status shares_replay(audit_finding *out, const audit_record *r) SEFL_MUST_CHECK;

/* Reads the parameters from CSP's hello in a record: bits, ot_k, chunk, count, pair. SEFL_EPROTO
 * for another version. */
sefl_status shares_recorded(shares_params *p, const audit_record *r) SEFL_MUST_CHECK;

/* For noise/shares_plain.h: computes the id of a session without keys from its nonces, and fills in
 * the defaults of p. The macros below name the streams that expand a session's seeds. */
sefl_status shares_named(uint8_t id[SHARES_ID], shares_params *filled, const shares_params *p,
                         const uint8_t csp_nonce[32], const uint8_t as_nonce[32]) SEFL_MUST_CHECK;

#define SHARES_CSP_COINS "shares CSP coins" /* all coins of CSP */
#define SHARES_CSP_BITS  "shares CSP bits"  /* CSP's halves of the noise coins */
#define SHARES_AS_COINS  "shares AS coins"  /* all coins of AS */

#endif

/* noise/shares_plain: computes the noise that two servers with given coins would share, without the
 * protocol. Simulations, which know both servers' coins, use it; tests use it as an oracle.
 *
 *     SEFL_TRY(shares_plain(x, &p, pool, as_rng, csp_rng));          // x^A + x^C of a session
 *     SEFL_TRY(shares_fill_plain(x, 2, 0, n, pool, as_rng, csp_rng));   // as shares_fill_pair
 *
 * The generators advance exactly as in a session without keys, so sessions can follow each other.
 * Secret: x.   Threads: works on the pool (NULL: this thread); x does not depend on its size.
 * Cost: about 30 ns of CPU time per value. */
#ifndef MPC_NOISE_SHARES_PLAIN_H
#define MPC_NOISE_SHARES_PLAIN_H

#include "base/pool.h"
#include "mpc/noise/shares.h"

/* p has no keys; x has p->count numbers. */
sefl_status shares_plain(uint64_t *x, const shares_params *p, pool *threads, const sefl_rng *as_rng,
                         const sefl_rng *csp_rng) SEFL_MUST_CHECK;

/* Writes the low `bytes` bytes (1 to 8) of each value, little-endian; bits: as in shares_params. */
sefl_status shares_fill_plain(uint8_t *x, unsigned bytes, unsigned bits, uint64_t count,
                              pool *threads, const sefl_rng *as_rng,
                              const sefl_rng *csp_rng) SEFL_MUST_CHECK;

#endif

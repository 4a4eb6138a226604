/* noise/own: the mode without a circuit: each server adds its own full noise, so the variance is
 * twice that of the joint mode, and no garbling, no OT and no offline part is needed.
 *
 *     CSP  SEFL_TRY(noise_own_make(reply, &params, &masked, &noise, rng));  // once a round
 *          ...                                      // store reply, mark the round open: durably
 *          SEFL_TRY(noise_own_send(ch, &params, reply));      // again: the same bytes
 *     AS   SEFL_TRY(noise_own_receive(ch, &params, reply));
 *          SEFL_TRY(noise_own_finish(w, &params, reply, &mask, &noise, rng)); // once; store w
 *
 * The rule of one opening holds here too and is the caller's: noise is drawn once on each side, a
 * retry re-sends what was stored.
 *
 * Values are on the fine grid. U, U' uniform on g bits, fresh, secret, each server's own:
 *
 *     CSP   reply_i = ((digit_i(n) + U) >> g) + e_i                       mod 2^(k+t)
 *     AS    w_i = reply_i - ((digit_i(v) + U') >> g), signed in k + t bits, + e'_i
 *
 * The guard bits of a digit are the top bits of the slot below. They must not leave the server: no
 * noise of slot i reaches them, and AS, who knows v, would read the top bits of the sum in slot
 * i - 1 from them. Rounding them off with secret coins makes what they do (a carry between packed
 * slots moves a digit by less than one fine step) part of the value that e_i covers; AS rounds v
 * the same way, so that w tells CSP no more either. The error is that of the two roundings: below
 * one fine step each way, unbiased. g = 0 (lwe): nothing is rounded, w is exact.
 *
 * Noise comes from the caller (privacy/ has the exact discrete Gaussian).
 * Secret: digits, noise, w. Public: params, sizes.   Constant time.   Threads: pure functions. */
#ifndef MPC_NOISE_OWN_H
#define MPC_NOISE_OWN_H

#include "mpc/noise/noise.h"

/* Bytes of a reply: count times (k + t) bits rounded up to bytes. SEFL_EINVAL for bad params
 * (task, round, attempt, count, k, t, g are used; the rest is not). Every function below checks
 * them before anything else; one that fails leaves zeros in reply or w (if the params are good). */
sefl_status noise_own_bytes(size_t *bytes, const noise_params *p) SEFL_MUST_CHECK;

sefl_status noise_own_make(uint8_t *reply, const noise_params *p, const noise_digits *masked,
                           const noise_source *noise, const sefl_rng *rng) SEFL_MUST_CHECK;

/* One message: task 32, round u64, attempt u64, count u64, widths k t g and a zero, a byte each,
 * then the reply. A reply for something else is SEFL_EPROTO. */
sefl_status noise_own_send(channel *ch, const noise_params *p,
                           const uint8_t *reply) SEFL_MUST_CHECK;
sefl_status noise_own_receive(channel *ch, const noise_params *p, uint8_t *reply) SEFL_MUST_CHECK;

sefl_status noise_own_finish(int64_t *w, const noise_params *p, const uint8_t *reply,
                             const noise_digits *mask, const noise_source *noise,
                             const sefl_rng *rng) SEFL_MUST_CHECK;

#endif

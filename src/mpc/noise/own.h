/* noise/own: the mode without a circuit: each server adds its own full noise, so the variance is
 * twice that of the joint mode, and no garbling, no OT and no offline part is needed.
 *
 *     CSP  SEFL_TRY(noise_own_make(reply, &params, &masked, &noise));   // once a round
 *          ...                                      // store reply, mark the round open: durably
 *          SEFL_TRY(noise_own_send(ch, &params, reply));                 // again: the same bytes
 *     AS   SEFL_TRY(noise_own_receive(ch, &params, reply));
 *          SEFL_TRY(noise_own_finish(w, &params, reply, &mask, &noise)); // once; then store w
 *
 * The rule of one opening holds here too and is the caller's: noise is drawn once on each side, a
 * retry re-sends what was stored.
 *
 * Values are on the fine grid. CSP: reply_i = (digit_i(n) + e_i 2^g) mod 2^(k+t+g). AS:
 * w_i = round((reply_i - digit_i(v)) / 2^g) signed, + e'_i. The g guard bits take up the carries
 * between packed slots, which move a digit by less than one fine step.
 *
 * Noise comes from the caller (privacy/ has the exact discrete Gaussian).
 * Secret: digits, noise, w. Public: params, sizes.   Constant time.   Threads: pure functions. */
#ifndef MPC_NOISE_OWN_H
#define MPC_NOISE_OWN_H

#include "mpc/noise/noise.h"

/* Gives n values from coordinate `first` on, in order, each once. */
typedef struct noise_source {
    sefl_status (*get)(void *ctx, int64_t *e, size_t first, size_t n);
    void *ctx;
} noise_source;

/* Bytes of a reply: count times (k + t + g) bits rounded up to bytes. SEFL_EINVAL for bad params
 * (task, round, attempt, count, k, t, g are used; the rest is not). */
sefl_status noise_own_bytes(size_t *bytes, const noise_params *p) SEFL_MUST_CHECK;

sefl_status noise_own_make(uint8_t *reply, const noise_params *p, const noise_digits *masked,
                           const noise_source *noise) SEFL_MUST_CHECK;

/* One message: task 32, round u64, attempt u64, count u64, widths k t g and a zero, a byte each,
 * then the reply. A reply for something else is SEFL_EPROTO. */
sefl_status noise_own_send(channel *ch, const noise_params *p,
                           const uint8_t *reply) SEFL_MUST_CHECK;
sefl_status noise_own_receive(channel *ch, const noise_params *p, uint8_t *reply) SEFL_MUST_CHECK;

sefl_status noise_own_finish(int64_t *w, const noise_params *p, const uint8_t *reply,
                             const noise_digits *mask, const noise_source *noise) SEFL_MUST_CHECK;

#endif

/* noise: the joint noise of a round: AS (garbler) and CSP (evaluator) add noise that neither knows
 * to a number that neither has whole, and AS alone learns the result.
 *
 * AS holds digits of its mask v, CSP digits of n = aggregate + v (docs/PROTOCOL.md). Both round
 * theirs to the coarse lattice with secret coins and add a rare jump of their own (noise/round.h):
 * n', v'. The circuit gives z = n' + X mod 2^k, X sampled from the XOR of both servers' coins
 * (circuits/sampler.h), to AS, which has w = (z - v' - 62) mod 2^k, read as signed: the noisy
 * aggregate in units of the lattice step, less 1/2 (the mean of X is 61.5).
 *
 * An attempt is one object on each side and lives in four steps:
 *
 *     AS                                         CSP
 *     noise_garbler_new(&g, ch, &p, rng)         noise_evaluator_new(&e, ch, &p, rng)
 *     noise_garbler_offline(g, ch)               noise_evaluator_offline(e, ch)
 *     noise_garbler_online(g, ch, &d, &hooks)    noise_evaluator_online(e, ch, &d, &hooks)
 *     noise_garbler_output(g, ch, w)             noise_evaluator_output(e, ch)
 *     noise_garbler_free(g)                      noise_evaluator_free(e)
 *
 *     noise_params p = { .task = { ... }, .round = 12, .attempt = 1, .count = n,
 *                        .k = 16, .t = 12, .g = 16 };                 // the same on both sides
 *     noise_digits d = noise_digits_of(mask_digits);                  // or a function of yours
 *     noise_garbler_hooks hooks = { .ctx = journal, .keep = journal_part, .seal = journal_sync };
 *     noise_evaluator_hooks hooks = { .ctx = journal, .open = journal_open };
 *
 * new and offline need no data: run them before the round. They leave a batch, under an id that
 * both sides hold (noise_garbler_id), on each side in a noise_store: 112 bytes a coordinate at CSP
 * (active labels of X), 174 at AS (zero labels of X and the OT corrections of the k input bits;
 * k = 16, OT k = 4). Labels of input bits are expanded again from the OT's leaves on both sides.
 * During online AS replaces its records by 22 bytes a coordinate, which output consumes.
 *
 * THE RULE OF ONE OPENING. A batch serves one attempt. Whatever fails, at whichever step, makes the
 * object useless (SEFL_ESTATE ever after) and its secrets are wiped. So are, at the end of online,
 * those that output does not need, and all at its end. Nothing here writes Delta, labels or the
 * store's keys to a disk, so that a crash leaves nothing of an attempt, but for what the system
 * writes by itself: a core file, or the swap (docs/THREATS.md). A new attempt begins with
 * noise_*_new: new base OTs, new Delta, new labels; both sides' nonces are part of the session id,
 * so two attempts never share one, even if a caller repeats an attempt number. What must be
 * durable, and when:
 *  - AS, hook `keep` for each part and `seal` once, before the last table leaves: decode bits
 *    and v'.
 *  - CSP, hook `open` once, when every coordinate is evaluated and before the first output byte
 *    leaves: all colour bits and their digest, and the mark that this round is open. After that the
 *    round is never noised again; noise_output_send repeats the stored bytes.
 * Every hook gets the attempt's id, to be stored with the rest: the output message carries it too,
 * and bits of one attempt are never decoded with those of another. If the connection fails after
 * `seal` and `open`, AS calls noise_garbler_output again on a new channel; after a crash of AS it
 * decodes the stored bits with noise_output_decode.
 *
 * Output check: the digest covers the session id (so: task, round, attempt, batch), count, all
 * colour bits, all correction bits and, per coordinate, the k active output labels L_c folded into
 * one: sum of L_c * x^c, each 64-bit half in GF(2^64). AS knows the fold of the zero labels, F0,
 * and that of an output V is F0 + V*Delta, so to pass with another V one must know Delta. It finds
 * faults and changed outputs, not a CSP that shifts its own input; SEFL_ECRYPTO ends the attempt
 * and the round.
 *
 * Streaming: chunks of 1024 coordinates; each side works on one chunk while the other works on the
 * next. Memory beside the store and the caller's arrays: about 8 MB a side, and 2 bytes a
 * coordinate (28 MB for 14 million) for the colour bits.
 *
 * Secret: digits, coins, labels, Delta, v', w. Public: params, all sizes, times.
 * Threads: one owner an object. Cost: see sefl bench 2pc. */
#ifndef MPC_NOISE_NOISE_H
#define MPC_NOISE_NOISE_H

#include "base/random.h"
#include "base/sha256.h"
#include "mpc/channel.h"
#include "mpc/circuits/sampler.h"
#include "mpc/noise/online.h"

/* The OT corrections and the tables of a chunk must each fit half of CHANNEL_INBOX, or two peers
 * that both send could wait for each other: at k = 16 and OT k = 4 a chunk has at most 18,048
 * coordinates. More is SEFL_EINVAL. */

typedef struct noise_garbler noise_garbler;
typedef struct noise_evaluator noise_evaluator;

/* All functions must be there: NULL is SEFL_EINVAL, and the attempt is untouched. A failing hook
 * ends the attempt. */
typedef struct noise_garbler_hooks {
    void *ctx;
    /* Decode bits (packed as on the wire: docs/PROTOCOL.md) and v' of n coordinates from `first`
     * on, in order. id: of the attempt, the same in every call. */
    sefl_status (*keep)(void *ctx, const uint8_t id[NOISE_ID], size_t first, size_t n,
                        sefl_span decode, const uint32_t *v);
    /* Everything kept must be durable when this returns; the last table leaves after it. */
    sefl_status (*seal)(void *ctx, const uint8_t id[NOISE_ID]);
} noise_garbler_hooks;

typedef struct noise_evaluator_hooks {
    void *ctx;
    /* Id, colours, digest and the mark must be durable when this returns. */
    sefl_status (*open)(void *ctx, const uint8_t id[NOISE_ID], sefl_span colours,
                        const uint8_t digest[SHA256_BYTES]);
} noise_evaluator_hooks;

/* Hooks that do nothing. For tests, benchmarks and the demo: nothing is durable, a crash between
 * the last table and the result loses the round. */
extern const noise_garbler_hooks noise_garbler_hooks_none;
extern const noise_evaluator_hooks noise_evaluator_hooks_none;

/* ---- AS ------------------------------------------------------------------------------- */

sefl_status noise_garbler_new(noise_garbler **out, channel *ch, const noise_params *p,
                              const sefl_rng *rng) SEFL_MUST_CHECK;
void noise_garbler_free(noise_garbler *g);
const uint8_t *noise_garbler_id(const noise_garbler *g); /* NOISE_ID bytes */

sefl_status noise_garbler_offline(noise_garbler *g, channel *ch) SEFL_MUST_CHECK;

sefl_status noise_garbler_online(noise_garbler *g, channel *ch, const noise_digits *mask,
                                 const noise_garbler_hooks *hooks) SEFL_MUST_CHECK;

/* w: count results, all zero on every failure. A failed channel, or an output of another attempt
 * (SEFL_EPROTO), lets one try again; any other failure ends the attempt. */
sefl_status noise_garbler_output(noise_garbler *g, channel *ch, int32_t *w) SEFL_MUST_CHECK;

/* ---- CSP ------------------------------------------------------------------------------ */

sefl_status noise_evaluator_new(noise_evaluator **out, channel *ch, const noise_params *p,
                                const sefl_rng *rng) SEFL_MUST_CHECK;
void noise_evaluator_free(noise_evaluator *e);
const uint8_t *noise_evaluator_id(const noise_evaluator *e);

sefl_status noise_evaluator_offline(noise_evaluator *e, channel *ch) SEFL_MUST_CHECK;

sefl_status noise_evaluator_online(noise_evaluator *e, channel *ch, const noise_digits *masked,
                                   const noise_evaluator_hooks *hooks) SEFL_MUST_CHECK;

/* May be called again on another channel: the same bytes. */
sefl_status noise_evaluator_output(noise_evaluator *e, channel *ch) SEFL_MUST_CHECK;

/* ---- what was made durable -------------------------------------------------------------- */

/* Bytes of all colour bits (and of all decode bits). SEFL_EINVAL for params out of range. */
sefl_status noise_output_bytes(size_t *bytes, const noise_params *p) SEFL_MUST_CHECK;

/* The message of noise_evaluator_output, from stored bytes. */
sefl_status noise_output_send(channel *ch, const uint8_t id[NOISE_ID], sefl_span colours,
                              const uint8_t digest[SHA256_BYTES]) SEFL_MUST_CHECK;

/* Receives it, of whichever attempt. colours: noise_output_bytes. */
sefl_status noise_output_receive(channel *ch, uint8_t id[NOISE_ID], uint8_t *colours, size_t n,
                                 uint8_t digest[SHA256_BYTES]) SEFL_MUST_CHECK;

/* w from the output (id `got`, colours) and what `keep` saw (id `kept`, decode bits, v'), for an AS
 * that lost the attempt in a crash. The digest cannot be checked any more: Delta is gone.
 * SEFL_ESTATE if the two ids differ: another attempt's colours would decode to noise. SEFL_EINVAL
 * if the sizes do not fit the params. w is zeroed on failure if the params are good. */
sefl_status noise_output_decode(int32_t *w, const noise_params *p, const uint8_t got[NOISE_ID],
                                sefl_span colours, const uint8_t kept[NOISE_ID], sefl_span decode,
                                const uint32_t *v) SEFL_MUST_CHECK;

#endif

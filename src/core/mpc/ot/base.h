/* ot/base: a few oblivious transfers from public-key cryptography, which ot/ext extends to many.
 *
 * This is the endemic OT of Masny and Rindal [MR19] over ristretto255 with Diffie-Hellman keys. For
 * each transfer i the receiver, with choice b, draws a scalar t and a group element r[1-b], and
 * sets r[b] = t*G - H(i, 1-b, r[1-b]). The sender draws a, sends A = a*G, and has the two keys
 *     key[j] = KDF(i, j, A, r[0], r[1], a*(r[j] + H(i, 1-j, r[1-j])));
 * the receiver knows key[b] = KDF(..., t*A) but not the other key, by the CDH assumption with H and
 * KDF as random oracles; (r[0], r[1]) is a uniform pair for either b. Both hashes include the
 * session id, which binds both servers, the parameters and nonces (noise/shares.h), so messages
 * from one session are useless in another. "Endemic" means that a cheating party can choose its own
 * keys, which is harmless for plain keys.
 *
 * Against a quantum computer. The receiver's choice stays hidden from any sender, because (r[0],
 * r[1]) is uniform for either choice. The sender's second key does not stay hidden: a receiver that
 * computes discrete logarithms learns both. In noise/shares the receiver is CSP, and its choices
 * are the bits of Delta, so this never helps AS. A CSP that stores the messages could one day
 * compute AS's coins and the noise of old rounds. An OT from ML-KEM [MR19] would prevent that, at
 * 0.6 MB and an estimated 30 ms per session. It is not implemented, because it needs internals of
 * ML-KEM (uniform elements of R_q^k from a hash, sums of public keys, keys from a given seed) that
 * FIPS 203 does not specify and no test vectors cover. It would protect only against CSP, whose
 * honesty the privacy claim assumes anyway (an outsider must break TLS first).
 *
 * Messages (frames of base/channel.h):
 *     receiver -> sender   kind OT_MSG_BASE_R, n x (r[0] 32 bytes, r[1] 32 bytes)
 *     sender -> receiver   kind OT_MSG_BASE_A, n x (A 32 bytes)
 *
 * Secret: choices, scalars, keys. Public: n, session.   Constant time.
 * Cost: about 0.2 ms per transfer on each side. */
#ifndef MPC_OT_BASE_H
#define MPC_OT_BASE_H

#include "base/channel.h"
#include "base/random.h"

enum {
    OT_SESSION = 32, /* bytes of a session id */
    OT_KEY = 16,     /* bytes of a key, a label, a seed */
    OT_BASE_MAX = 128,

    OT_MSG_BASE_R = 0x4f540001,
    OT_MSG_BASE_A = 0x4f540002,
    OT_MSG_TREES = 0x4f540003,
};

/* Sends n <= OT_BASE_MAX transfers; keys[i][j] is key j of transfer i. */
sefl_status ot_base_send(channel *ch, uint8_t (*keys)[2][OT_KEY], size_t n,
                         const uint8_t session[OT_SESSION], const sefl_rng *rng) SEFL_MUST_CHECK;

/* Advances rng exactly as ot_base_send does, for the replay of a session. */
sefl_status ot_base_send_coins(size_t n, const sefl_rng *rng) SEFL_MUST_CHECK;

/* Receives n transfers. Each byte of choice is one bit, 0 or 1. */
sefl_status ot_base_receive(channel *ch, uint8_t (*keys)[OT_KEY], const uint8_t *choice, size_t n,
                            const uint8_t session[OT_SESSION], const sefl_rng *rng) SEFL_MUST_CHECK;

#endif

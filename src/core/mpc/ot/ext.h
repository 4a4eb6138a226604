/* ot/ext: turns 128 base OTs into any number of transfers (correlated OT extension).
 *
 * The sender has Delta, 128 bits, the same for all transfers. Transfer j gives the sender q_j, and
 * the receiver a bit b_j and t_j = q_j xor b_j*Delta. If Delta is the free-XOR offset, t_j is an
 * active wire label and q_j (or q_j xor Delta) the zero label, without hashing or further messages.
 * This is SoftSpoken [Roy22] with the repetition code; k trades bytes for AES work:
 *
 *     k = 1   15.9 bytes per transfer (IKNP)     2 AES blocks at the receiver
 *     k = 2    7.9                              2
 *     k = 4    3.9                              4
 *     k = 8    1.9                             32
 *
 * Construction. In each of the 128/k trees of ot/trees the receiver knows all 2^k leaves, and the
 * sender all but leaf delta_i; Delta is the concatenation of all delta_i. Each leaf y is the key of
 * a stream r_y. The receiver forms u_i = sum of all r_y and, for each bit j < k, v_ij = sum of the
 * r_y with bit j of y set. The sender can form w_ij = sum of the r_y with bit j of y xor delta_i
 * set = v_ij + delta_ij * u_i. The receiver takes b = u_0 as its random choices and sends c_i = u_i
 * + u_0 for the other trees; the sender adds delta_ij * c_i. Now w_ij = v_ij + delta_ij * b for all
 * 128 columns; rows of w are q, rows of v are t.
 *
 * The check detects a receiver that sends wrong c_i to learn about Delta. A batch has n transfers
 * and 64 more that are discarded. When it has all c_i, the sender sends a random seed, which
 * expands to chi_1 .. chi_m in GF(2^64), m = n/64. For a column x of m + 1 words let
 *     R(x) = sum_{l <= m} chi_l x_l + x_{m+1}.
 * The receiver answers with R(u_0) and the SHA-256 of all R(v_ij); the sender checks
 * R(v_ij) = R(w_ij) + delta_ij R(u_0), in all 128 columns.
 * R is linear, Pr[R(x) = 0] <= 2^-64 for every fixed x != 0, and the last word masks the sum.
 * Soundness. For any c_i that the receiver sends, the sender's columns are v_ij + delta_ij u'_i
 * with u'_i = u_i + c_i; for an honest receiver, all u'_i = u_0. R keeps distinct u'_i distinct,
 * except with probability (128/k choose 2) * 2^-64 (k = 4: 2^-55 per batch). If the receiver sends
 * U for R(u_0) and V_ij for R(v_ij), the check is V_ij - R(v_ij) = delta_ij (R(u'_i) - U) for all
 * i, j. It is trivial for the trees with R(u'_i) = U, which then all have the same u'_i. For any
 * other tree it holds for only one value of delta_i, which a guess hits with probability 2^-k. So a
 * receiver that passes was honest with some u, except in trees whose delta_i it guessed: no better
 * than guessing Delta in pieces. A failed check ends the session permanently. (The tables of a
 * batch are sent only after its check. Bit 0 of Delta is 1 and public: 127 bits are secret.)
 *
 * Streaming: transfers come in numbered batches. A batch is expanded in columns (ot_block),
 * checked, and transposed to rows. The batch number is the nonce of the streams. Memory: 16 bytes
 * per transfer of the batch.
 *
 *     SEFL_TRY(ot_sender_new(&s, ch, 4, delta, session, rng));
 *     SEFL_TRY(ot_receiver_new(&r, ch, 4, session, rng));      // the other side
 *     ot_receiver_extend(r, &b, number, n, c);                 // sends c
 *     SEFL_TRY(ot_sender_extend(s, &b, number, n, c));         // sends a seed
 *     ot_receiver_answer(r, answer, &b, seed);                 // sends the answer
 *     SEFL_TRY(ot_sender_check(s, &b, seed, answer));
 *     ot_block_rows(&b, rows, 0, n);                           // sender: q; receiver: t and b.u
 *
 * Secret: Delta, rows, columns, choices. Public: k, n, numbers, chi.   Constant time.
 * Threads: one owner; an expanded block may be read by many. */
#ifndef MPC_OT_EXT_H
#define MPC_OT_EXT_H

#include "mpc/ot/trees.h"

#include <stdbool.h>

enum {
    OT_LABEL = 16,       /* bytes of a row */
    OT_MASK = 64,        /* extra transfers per batch, used only by the check */
    OT_GRAIN = 512,      /* batch sizes are multiples of this */
    OT_CHECK_BYTES = 40, /* R(u_0) 8, digest 32 */
    OT_DEFAULT_K = 4,
};

typedef struct ot_sender ot_sender;
typedef struct ot_receiver ot_receiver;

/* The columns of a batch. */
typedef struct ot_block {
    uint8_t *columns; /* 128 of `stride` bytes */
    uint8_t *u;       /* receiver: choice bits of the transfers, then of the mask */
    size_t stride, cap;
    size_t n; /* transfers, before the mask */
    uint64_t number;
} ot_block;

/* Allocates a block for batches of up to n transfers. */
sefl_status ot_block_init(ot_block *b, size_t n) SEFL_MUST_CHECK;
void ot_block_clear(ot_block *b);

/* Run the base OTs and trees with the peer. k is 1, 2, 4 or 8; bit 0 of delta must be 1. */
sefl_status ot_sender_new(ot_sender **out, channel *ch, unsigned k, const uint8_t delta[OT_LABEL],
                          const uint8_t session[OT_SESSION], const sefl_rng *rng) SEFL_MUST_CHECK;
sefl_status ot_receiver_new(ot_receiver **out, channel *ch, unsigned k,
                            const uint8_t session[OT_SESSION], const sefl_rng *rng) SEFL_MUST_CHECK;
void ot_sender_free(ot_sender *s);
void ot_receiver_free(ot_receiver *r);

/* Returns the size of the corrections c_i for n transfers: 128/k - 1 columns, mask included. */
size_t ot_correction_bytes(unsigned k, size_t n);

/* ---- a batch, step by step; no channel here ------------------------------------------- */

/* Receiver: expands batch `number` with n transfers (a multiple of OT_GRAIN) and writes the
 * corrections. Use each number once. */
void ot_receiver_extend(const ot_receiver *r, ot_block *b, uint64_t number, size_t n, uint8_t *c);

/* Receiver: computes its answer to the sender's seed. */
void ot_receiver_answer(const ot_receiver *r, uint8_t out[OT_CHECK_BYTES], const ot_block *b,
                        const uint8_t seed[OT_KEY]);

/* Sender: expands the batch with the receiver's corrections. SEFL_ESTATE after a failed check, here
 * and in every later call that returns a status. */
sefl_status ot_sender_extend(const ot_sender *s, ot_block *b, uint64_t number, size_t n,
                             const uint8_t *c) SEFL_MUST_CHECK;

/* Sender: SEFL_ECRYPTO if the answer is wrong; this ends the session and wipes its secrets. */
sefl_status ot_sender_check(ot_sender *s, const ot_block *b, const uint8_t seed[OT_KEY],
                            const uint8_t answer[OT_CHECK_BYTES]) SEFL_MUST_CHECK;

/* For tests: returns true if the answer is right. The session continues in either case. */
bool ot_sender_verify(const ot_sender *s, const ot_block *b, const uint8_t seed[OT_KEY],
                      const uint8_t answer[OT_CHECK_BYTES]);

/* Writes rows [first, first + n), both multiples of 128: q at the sender, t at the receiver. */
void ot_block_rows(const ot_block *b, uint8_t *rows, size_t first, size_t n);

#endif

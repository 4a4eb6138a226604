/* ot/choices: computes an OT receiver's choices from its coins alone, for simulations.
 *
 *     ot_choices_init(&c, 4, session, rng);             // draws the coins of ot_receiver_new
 *     ot_choices_of(&c, bits, scratch, number, n);      // the choices of ot_receiver_extend
 *
 * Secret: everything.   Threads: pure functions. */
#ifndef MPC_OT_CHOICES_H
#define MPC_OT_CHOICES_H

#include "crypto/prg/aes.h"
#include "mpc/ot/trees.h"

typedef struct ot_choices {
    aes128 leaf[1 << OT_K_MAX]; /* keys from the leaves of the first tree */
    unsigned k;
} ot_choices;

sefl_status ot_choices_init(ot_choices *c, unsigned k, const uint8_t session[OT_SESSION],
                            const sefl_rng *rng) SEFL_MUST_CHECK;

/* Writes the choices of n transfers, a multiple of OT_GRAIN (ext.h), as n/8 bytes. scratch: n/8
 * bytes. */
void ot_choices_of(const ot_choices *c, uint8_t *bits, uint8_t *scratch, uint64_t number, size_t n);

#endif

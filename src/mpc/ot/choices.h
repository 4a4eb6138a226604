/* ot/choices: the choices of an OT receiver, from its coins alone: for simulations, which know
 * them.
 *
 *     ot_choices_init(&c, 4, session, rng);             // draws as ot_receiver_new
 *     ot_choices_of(&c, bits, scratch, number, n);      // the choices of ot_receiver_extend
 *
 * Secret: all of it.   Threads: pure functions. */
#ifndef MPC_OT_CHOICES_H
#define MPC_OT_CHOICES_H

#include "crypto/prg/aes.h"
#include "mpc/ot/trees.h"

typedef struct ot_choices {
    aes128 leaf[1 << OT_K_MAX]; /* of the first tree */
    unsigned k;
} ot_choices;

sefl_status ot_choices_init(ot_choices *c, unsigned k, const uint8_t session[OT_SESSION],
                            const sefl_rng *rng) SEFL_MUST_CHECK;

/* n transfers, a multiple of OT_GRAIN (ext.h), packed: n/8 bytes, as many of scratch. */
void ot_choices_of(const ot_choices *c, uint8_t *bits, uint8_t *scratch, uint64_t number, size_t n);

#endif

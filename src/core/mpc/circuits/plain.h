/* plain: runs a circuit on plain bits, 256 independent copies at a time, one bit position per copy.
 * The garbling tests compare with it, and simulations use it.
 *
 *     SEFL_TRY(plain_new(&p, circuit));
 *     plain_run(p, out, in);   // in (inputs, 4), out (outputs, 4); copy c: bit c%64 of word c/64
 *
 * The circuit must outlive p.   Threads: one owner.
 * Secret: possibly the bits; no branch or index depends on them.
 * Cost: about 1 ns per gate for 256 copies. */
#ifndef MPC_CIRCUITS_PLAIN_H
#define MPC_CIRCUITS_PLAIN_H

#include "mpc/circuits/circuit.h"

enum { PLAIN_WORDS = 4, PLAIN_COPIES = 64 * PLAIN_WORDS };

typedef struct plain plain;

/* SEFL_EINVAL if the circuit is not valid. */
sefl_status plain_new(plain **out, const circuit *c) SEFL_MUST_CHECK;
void plain_free(plain *p);

void plain_run(plain *p, uint64_t (*out)[PLAIN_WORDS], const uint64_t (*in)[PLAIN_WORDS]);

#endif

/* pack: how the numbers of a task become slots: widths, bounds, and the proof that sums fit.
 *
 * Derived once, at task time, from (clients, clip, noise, dimension, scheme); every party derives
 * the same and refuses a task whose sum could overflow. Letters as in docs/PARAMETERS.md:
 *   k  ring width of the coarse lattice, the circuit's input      (16 usually)
 *   t  fraction bits below it                                      (12; 14 from z = 4 on)
 *   w  slot width, k + t                                           (28)
 *   g  guard bits of the lower slot taken into a digit             (16 for paillier, 0 for lwe)
 *   s  mask headroom on top of a packed integer                    (80 for paillier)
 *   kappa, d   lwe only: log2 of the modulus; bits cut off an uploaded coefficient */
#ifndef CRYPTO_AHE_PACK_H
#define CRYPTO_AHE_PACK_H

#include "base/status.h"

#include <stdint.h>

typedef struct pack {
    unsigned k, t, w, g, s;
    unsigned kappa, d;
    uint32_t clients;  /* most clients in one sum */
    int64_t value_max; /* a client's |value| is at most this; clients * value_max < 2^(w-1) */
} pack;

#endif

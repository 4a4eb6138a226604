/* mont_ifma: the AVX-512 IFMA kernel of mont.h. It works on eight numbers at once, one per vector
 * lane, in 52-bit digits. Call it only where cpu_get()->avx512 and ->avx512ifma are set. */
#ifndef CRYPTO_BN_MONT_IFMA_H
#define CRYPTO_BN_MONT_IFMA_H

#include "crypto/bn/mont.h"

extern const mont_kernel mont_kernel_ifma;

#endif

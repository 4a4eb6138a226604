/* lwe: the hybrid scheme behind ahe_lwe: ring-LWE bodies, Paillier heads; its parameters.
 *
 *     head   s_j, a fresh ternary secret, one signed coefficient per 16-bit slot, under Paillier
 *     unit   c = floor((a_i*s_j + e + Delta*m mod 2^kappa) / 2^d)     2048 values, kappa - d bits
 * each sum    2^d * (sum of c) + floor(K*(2^d - 1)/2) + Delta*v        2048 values, kappa bits each
 *
 * in Z[x]/(x^2048 + 1) modulo 2^kappa, Delta = 2^(kappa-w); a_i is public, expanded from the
 * context and i, the same for all clients. docs/PARAMETERS.md proves what is claimed here:
 * security, the failure bound, the restoring term, what each server sees.
 *
 * Callers use ahe.h; this header is for pack (lwe_choose), tests and benchmarks. */
#ifndef CRYPTO_AHE_LWE_H
#define CRYPTO_AHE_LWE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    LWE_N = 2048,            /* degree of the ring, values in a unit */
    LWE_KAPPA_MAX = 54,      /* 128-bit security at n = 2048, ternary secret [HES18] */
    LWE_COINS = 42,          /* e is the sum of 42 coins less 21: variance 10.5, sigma 3.24 */
    LWE_CLIENTS_MAX = 32767, /* a sum of secrets must fit a signed 16-bit slot */
    LWE_SLOT_BITS = 16,
};

/* The cheapest (kappa, d) for slots of w bits and sums of up to `clients` updates: the smallest
 * kappa - d, which is the upload's bits a value, then the smallest kappa. With it a sum of up to
 * 2^32 values is wrong anywhere with probability below 2^-64. SEFL_ERANGE if kappa would pass
 * LWE_KAPPA_MAX or there are too many clients; then the outputs are 0. Integer arithmetic only: all
 * parties derive the same. */
sefl_status lwe_choose(unsigned w, uint32_t clients, unsigned *kappa, unsigned *d) SEFL_MUST_CHECK;

/* Does (kappa, d) meet that bound for (w, clients)? SEFL_EINVAL with the reason if not. */
sefl_status lwe_check(unsigned w, uint32_t clients, unsigned kappa, unsigned d) SEFL_MUST_CHECK;

/* Vector units that the arithmetic is written for; every path gives the same bytes. */
typedef enum lwe_path { LWE_PORTABLE, LWE_AVX2, LWE_AVX512, LWE_PATHS } lwe_path;

bool lwe_path_has(lwe_path path);
lwe_path lwe_path_best(void);
const char *lwe_path_name(lwe_path path);

#endif

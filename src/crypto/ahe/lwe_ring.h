/* lwe_ring: exact products in Z[x]/(x^2048 + 1) modulo 2^kappa, kappa <= 56.
 *
 *     lwe_ring r;
 *     lwe_ring_init(&r, lwe_path_best());                   // twiddles, 10 KiB, about 0.2 ms
 *     lwe_ring_spectrum(&r, &f, s, true);                   // once per secret
 *     lwe_ring_mul_add(&r, c, a, kappa, &f, scratch);       // c += a*s, once per unit
 *     lwe_ring_mul_add_ref(c, a, s);                        // schoolbook, any modulus
 *
 * One factor is small (|s_k| <= 2^15), the other is any residue. The large one is cut into balanced
 * digits, each product digit*s is computed by a Fourier transform in double precision, rounded to
 * integers, and the digits are put together modulo 2^64. The digits are chosen so that the rounding
 * error is *proven* to stay below 1/2 whatever the inputs (docs/PARAMETERS.md): 2 digits for
 * ternary s, digits of 14 bits for general s. The result is therefore exact, and the same on every
 * machine, with or without fused multiplication; each call sets rounding to nearest and puts the
 * thread's own mode back. Doubles have vector units everywhere; a transform
 * modulo a 60-bit prime would need 128-bit products, which have none.
 *
 * A power-of-two modulus cannot take a_i directly in the transform domain: a_i is transformed each
 * time.
 *
 * Secret: s, its spectrum, c. Public: a, kappa. Constant time: adds, multiplications and fixed
 * addresses only. Threads: an initialised ring and a spectrum may be shared; scratch has one owner.
 */
#ifndef CRYPTO_AHE_LWE_RING_H
#define CRYPTO_AHE_LWE_RING_H

#include "crypto/ahe/lwe.h"

#include <stdbool.h>
#include <stddef.h>

enum { LWE_POINTS = LWE_N / 2 }; /* complex points of a transform */

/* A complex number array as two real ones. */
#define LWE_TWIDDLES(name, n) double name##_re[n], name##_im[n]

typedef struct lwe_ring {
    /* Roots of unity by pass; see the picture in lwe_ring.c. Four per radix-8 node. */
    _Alignas(64) LWE_TWIDDLES(c1, 128);
    LWE_TWIDDLES(c2, 128);
    LWE_TWIDDLES(c3, 128);
    LWE_TWIDDLES(c4, 128);
    LWE_TWIDDLES(b, 64);
    LWE_TWIDDLES(p, 36); /* 4 for the first pass, 32 for the second */
    lwe_path path;
} lwe_ring;

/* The transform of a small polynomial, in the order of the path that made it. */
typedef struct lwe_spectrum {
    _Alignas(64) double re[LWE_POINTS], im[LWE_POINTS];
    unsigned digit_bits; /* 0: two digits of ceil(kappa/2) bits, the factor was ternary */
} lwe_spectrum;

typedef struct lwe_scratch {
    _Alignas(64) double re[LWE_POINTS], im[LWE_POINTS];
} lwe_scratch;

void lwe_ring_init(lwe_ring *r, lwe_path path);

/* |s_k| <= 1 for `ternary`, otherwise |s_k| <= 2^15. */
void lwe_ring_spectrum(const lwe_ring *r, lwe_spectrum *out, const int32_t s[LWE_N], bool ternary);

/* c += a*s modulo 2^kappa (the bits above kappa are left in disorder). a is below 2^kappa. */
void lwe_ring_mul_add(const lwe_ring *r, uint64_t c[LWE_N], const uint64_t a[LWE_N], unsigned kappa,
                      const lwe_spectrum *s, lwe_scratch *scratch);

/* The definition: c += a*s modulo 2^64, 4 million products. */
void lwe_ring_mul_add_ref(uint64_t c[LWE_N], const uint64_t a[LWE_N], const int32_t s[LWE_N]);

#endif

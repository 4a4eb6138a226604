/* fft: the discrete Fourier transform of a power-of-two number of complex values, in place.
 *
 *     fft_plan plan = { 0 };
 *     SEFL_TRY(fft_init(&plan, 18));                    // 2^18 points
 *     fft_forward(&plan, x);                            // X[k] = sum x[j] e^{-2 pi i jk/n}
 *     fft_inverse(&plan, x);                            // the inverse, divided by n
 *     fft_clear(&plan);
 *
 * It uses radix 2 and a table of roots, each computed directly. The relative RMS error is about
 * log2(n) * 1e-16. Threads: a plan may be shared. Secrets: none. */
#ifndef PRIVACY_ACCOUNTANT_FFT_H
#define PRIVACY_ACCOUNTANT_FFT_H

#include "base/status.h"

#include <stddef.h>

/* C's complex type is slow (products check for infinities), and clang 14 with glibc lacks CMPLX. */
typedef struct cplx {
    double re, im;
} cplx;

static inline cplx cplx_mul(cplx a, cplx b)
{
    return (cplx){ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}

typedef struct fft_plan {
    unsigned bits;
    size_t n;
    cplx *root; /* e^{-2 pi i k/n}, k < n/2 */
} fft_plan;

/* 1 <= bits <= 24. */
sefl_status fft_init(fft_plan *p, unsigned bits) SEFL_MUST_CHECK;
void fft_clear(fft_plan *p);

void fft_forward(const fft_plan *p, cplx *x);
void fft_inverse(const fft_plan *p, cplx *x);

#endif

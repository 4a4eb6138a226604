#include "privacy/accountant/fft.h"

#include "base/alloc.h"

#include <assert.h>
#include <math.h>

sefl_status fft_init(fft_plan *p, unsigned bits)
{
    assert(bits >= 1 && bits <= 24);
    *p = (fft_plan){ .bits = bits, .n = (size_t)1 << bits };
    sefl_status st = sefl_new(&p->root, p->n / 2, sizeof *p->root);
    if (st != SEFL_OK) {
        *p = (fft_plan){ 0 };
        return st;
    }
    for (size_t k = 0; k < p->n / 2; k++) {
        double a = -2 * M_PI * (double)k / (double)p->n;
        p->root[k] = (cplx){ cos(a), sin(a) };
    }
    return SEFL_OK;
}

void fft_clear(fft_plan *p)
{
    sefl_free(p->root);
    *p = (fft_plan){ 0 };
}

static void bit_reverse(const fft_plan *p, cplx *x)
{
    for (size_t i = 0, j = 0; i < p->n; i++) {
        if (i < j) {
            cplx t = x[i];
            x[i] = x[j], x[j] = t;
        }
        size_t m = p->n >> 1;
        for (; m && (j & m); m >>= 1)
            j ^= m;
        j |= m;
    }
}

void fft_forward(const fft_plan *p, cplx *x)
{
    bit_reverse(p, x);
    for (size_t half = 1; half < p->n; half *= 2) {
        size_t stride = p->n / (2 * half);
        for (size_t at = 0; at < p->n; at += 2 * half)
            for (size_t k = 0; k < half; k++) {
                cplx a = x[at + k], b = cplx_mul(x[at + k + half], p->root[k * stride]);
                x[at + k] = (cplx){ a.re + b.re, a.im + b.im };
                x[at + k + half] = (cplx){ a.re - b.re, a.im - b.im };
            }
    }
}

void fft_inverse(const fft_plan *p, cplx *x)
{
    for (size_t i = 0; i < p->n; i++)
        x[i].im = -x[i].im;
    fft_forward(p, x);
    for (size_t i = 0; i < p->n; i++)
        x[i] = (cplx){ x[i].re / (double)p->n, -x[i].im / (double)p->n };
}

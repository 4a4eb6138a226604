/* The transform for one vector width: included by lwe_ring.c once per path, with W (lanes: 2, 4 or
 * 8), TARGET (attributes) and NAME(x) defined. The picture is in lwe_ring.c.
 *
 * Only adds, multiplications, shifts and shuffles with constant patterns: constant time. Whether
 * the compiler fuses a*b + c or not changes the last bit of a double and never the rounded result.
 */

typedef double NAME(vd) __attribute__((vector_size(8 * W), aligned(8)));
typedef uint64_t NAME(vu) __attribute__((vector_size(8 * W), aligned(8)));
typedef struct NAME(cx) {
    NAME(vd) re, im;
} NAME(cx);
#define VD NAME(vd)
#define VU NAME(vu)
#define CX NAME(cx)
/* x[8] lives in registers only if every loop over it is gone */
#define UNROLL _Pragma("GCC unroll 8")
#define FN     static inline __attribute__((always_inline)) TARGET

FN CX NAME(load)(const double *re, const double *im, size_t i)
{
    return (CX){ *(const VD *)(re + i), *(const VD *)(im + i) };
}

FN void NAME(store)(double *re, double *im, size_t i, CX x)
{
    *(VD *)(re + i) = x.re;
    *(VD *)(im + i) = x.im;
}

/* All lanes the same. */
FN CX NAME(all)(const double *re, const double *im, size_t i)
{
    VD zero = { 0 };
    return (CX){ zero + re[i], zero + im[i] };
}

/* (x, y) <- (x + w*y, x - w*y) */
FN void NAME(fwd)(CX *x, CX *y, CX w)
{
    VD re = x->re + w.re * y->re - w.im * y->im;
    VD im = x->im + w.re * y->im + w.im * y->re;
    y->re = 2.0 * x->re - re;
    y->im = 2.0 * x->im - im;
    x->re = re, x->im = im;
}

/* (x, y) <- (x + i*w*y, x - i*w*y) */
FN void NAME(fwd_i)(CX *x, CX *y, CX w)
{
    VD re = x->re - w.im * y->re - w.re * y->im;
    VD im = x->im + w.re * y->re - w.im * y->im;
    y->re = 2.0 * x->re - re;
    y->im = 2.0 * x->im - im;
    x->re = re, x->im = im;
}

/* The inverses of the two, times 2: (x, y) <- (x + y, (x - y)/w), |w| = 1. */
FN void NAME(inv)(CX *x, CX *y, CX w)
{
    VD dre = x->re - y->re, dim = x->im - y->im;
    x->re += y->re, x->im += y->im;
    y->re = w.re * dre + w.im * dim;
    y->im = w.re * dim - w.im * dre;
}

FN void NAME(inv_i)(CX *x, CX *y, CX w)
{
    VD dre = x->re - y->re, dim = x->im - y->im;
    x->re += y->re, x->im += y->im;
    y->re = w.re * dim - w.im * dre;
    y->im = -(w.re * dre) - w.im * dim;
}

/* Three levels of the tree on x[0..7]; w holds the roots of node b, 2b, 4b and 4b+2. */
FN void NAME(fwd8)(CX x[8], CX w1, CX w2, CX w3, CX w4)
{
    NAME(fwd)(&x[0], &x[4], w1);
    NAME(fwd)(&x[1], &x[5], w1);
    NAME(fwd)(&x[2], &x[6], w1);
    NAME(fwd)(&x[3], &x[7], w1);
    NAME(fwd)(&x[0], &x[2], w2);
    NAME(fwd)(&x[1], &x[3], w2);
    NAME(fwd_i)(&x[4], &x[6], w2);
    NAME(fwd_i)(&x[5], &x[7], w2);
    NAME(fwd)(&x[0], &x[1], w3);
    NAME(fwd_i)(&x[2], &x[3], w3);
    NAME(fwd)(&x[4], &x[5], w4);
    NAME(fwd_i)(&x[6], &x[7], w4);
}

FN void NAME(inv8)(CX x[8], CX w1, CX w2, CX w3, CX w4)
{
    NAME(inv)(&x[0], &x[1], w3);
    NAME(inv_i)(&x[2], &x[3], w3);
    NAME(inv)(&x[4], &x[5], w4);
    NAME(inv_i)(&x[6], &x[7], w4);
    NAME(inv)(&x[0], &x[2], w2);
    NAME(inv)(&x[1], &x[3], w2);
    NAME(inv_i)(&x[4], &x[6], w2);
    NAME(inv_i)(&x[5], &x[7], w2);
    NAME(inv)(&x[0], &x[4], w1);
    NAME(inv)(&x[1], &x[5], w1);
    NAME(inv)(&x[2], &x[6], w1);
    NAME(inv)(&x[3], &x[7], w1);
}

/* 8*W doubles, 8 vectors: from rows of W in memory to lane q of vector k = number 8*q + k, and back
 * (a transposition, its own inverse). */
#define SHUF __builtin_shufflevector
FN void NAME(turn)(VD v[8])
{
#if W == 8
    VD t[8], u[8];
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = SHUF(v[i], v[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        t[i + 1] = SHUF(v[i], v[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    UNROLL
    for (int i = 0; i < 2; i++) { /* even and odd columns, pairs of rows as 128-bit units */
        u[i] = SHUF(t[i], t[i + 2], 0, 1, 4, 5, 8, 9, 12, 13);
        u[i + 2] = SHUF(t[i], t[i + 2], 2, 3, 6, 7, 10, 11, 14, 15);
        u[i + 4] = SHUF(t[i + 4], t[i + 6], 0, 1, 4, 5, 8, 9, 12, 13);
        u[i + 6] = SHUF(t[i + 4], t[i + 6], 2, 3, 6, 7, 10, 11, 14, 15);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = SHUF(u[i], u[i + 4], 0, 1, 4, 5, 8, 9, 12, 13);
        v[i + 4] = SHUF(u[i], u[i + 4], 2, 3, 6, 7, 10, 11, 14, 15);
    }
#elif W == 4
    VD r[8];
    UNROLL
    for (int i = 0; i < 2; i++) {
        VD a = SHUF(v[i], v[i + 2], 0, 4, 2, 6), b = SHUF(v[i], v[i + 2], 1, 5, 3, 7);
        VD c = SHUF(v[i + 4], v[i + 6], 0, 4, 2, 6), d = SHUF(v[i + 4], v[i + 6], 1, 5, 3, 7);
        r[4 * i] = SHUF(a, c, 0, 1, 4, 5);
        r[4 * i + 1] = SHUF(b, d, 0, 1, 4, 5);
        r[4 * i + 2] = SHUF(a, c, 2, 3, 6, 7);
        r[4 * i + 3] = SHUF(b, d, 2, 3, 6, 7);
    }
    UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = r[i];
#else
    VD r[8];
    UNROLL
    for (int i = 0; i < 4; i++) {
        r[2 * i] = SHUF(v[i], v[i + 4], 0, 2);
        r[2 * i + 1] = SHUF(v[i], v[i + 4], 1, 3);
    }
    UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = r[i];
#endif
}

FN void NAME(turn_back)(VD v[8])
{
#if W == 8
    NAME(turn)(v);
#elif W == 4
    VD r[8];
    UNROLL
    for (int i = 0; i < 2; i++) {
        const VD *x = v + 4 * i;
        VD a = SHUF(x[0], x[1], 0, 4, 2, 6), b = SHUF(x[0], x[1], 1, 5, 3, 7);
        VD c = SHUF(x[2], x[3], 0, 4, 2, 6), d = SHUF(x[2], x[3], 1, 5, 3, 7);
        r[i] = SHUF(a, c, 0, 1, 4, 5);
        r[i + 2] = SHUF(b, d, 0, 1, 4, 5);
        r[i + 4] = SHUF(a, c, 2, 3, 6, 7);
        r[i + 6] = SHUF(b, d, 2, 3, 6, 7);
    }
    UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = r[i];
#else
    VD r[8];
    UNROLL
    for (int i = 0; i < 4; i++) {
        r[i] = SHUF(v[2 * i], v[2 * i + 1], 0, 2);
        r[i + 4] = SHUF(v[2 * i], v[2 * i + 1], 1, 3);
    }
    UNROLL
    for (int i = 0; i < 8; i++)
        v[i] = r[i];
#endif
}
#undef SHUF

FN void NAME(turn_cx)(CX x[8], bool back)
{
    VD re[8], im[8];
    UNROLL
    for (int k = 0; k < 8; k++)
        re[k] = x[k].re, im[k] = x[k].im;
    if (back)
        NAME(turn_back)(re), NAME(turn_back)(im);
    else
        NAME(turn)(re), NAME(turn)(im);
    UNROLL
    for (int k = 0; k < 8; k++)
        x[k] = (CX){ re[k], im[k] };
}

/* Level 6, halves of 8 numbers: 8*W numbers hold W/2 nodes. */
FN void NAME(level6)(const lwe_ring *r, CX x[8], size_t group, bool inverse)
{
    enum { HALF = 8 / W, NODES = W / 2 };
    UNROLL
    for (size_t node = 0; node < NODES; node++) {
        CX w = NAME(all)(r->b_re, r->b_im, NODES * group + node);
        UNROLL
        for (size_t k = 2 * HALF * node; k < 2 * HALF * node + HALF; k++)
            if (inverse)
                NAME(inv)(&x[k], &x[k + HALF], w);
            else
                NAME(fwd)(&x[k], &x[k + HALF], w);
    }
}

/* Digit `index` of width h of a, balanced, as a double: bias is 2^(h-1) at every digit. */
FN VD NAME(digit)(const uint64_t *a, uint64_t bias, unsigned h, unsigned index)
{
    VU x = *(const VU *)a + bias;
    x = (x >> (uint64_t)(h * index)) & (((uint64_t)1 << h) - 1);
    x |= (uint64_t)0x4330000000000000; /* 2^52 + x */
    return (VD)x - (4503599627370496.0 + (double)((uint64_t)1 << (h - 1)));
}

/* Levels 0 to 2, from integers. */
FN void NAME(first_pass)(const lwe_ring *r, double *re, double *im, const uint64_t *a,
                         uint64_t bias, unsigned h, unsigned index)
{
    CX w1 = NAME(all)(r->p_re, r->p_im, 0), w2 = NAME(all)(r->p_re, r->p_im, 1);
    CX w3 = NAME(all)(r->p_re, r->p_im, 2), w4 = NAME(all)(r->p_re, r->p_im, 3);
    for (size_t j = 0; j < 128; j += W) {
        CX x[8];
        UNROLL
        for (size_t k = 0; k < 8; k++) {
            x[k].re = NAME(digit)(a + j + 128 * k, bias, h, index);
            x[k].im = NAME(digit)(a + j + 128 * k + LWE_POINTS, bias, h, index);
        }
        NAME(fwd8)(x, w1, w2, w3, w4);
        UNROLL
        for (size_t k = 0; k < 8; k++)
            NAME(store)(re, im, j + 128 * k, x[k]);
    }
}

/* Levels 3 to 5: eight nodes of 128 numbers. */
FN void NAME(middle_pass)(const lwe_ring *r, double *re, double *im, bool inverse)
{
    for (size_t node = 0; node < 8; node++) {
        size_t t = 4 + 4 * node;
        CX w1 = NAME(all)(r->p_re, r->p_im, t), w2 = NAME(all)(r->p_re, r->p_im, t + 1);
        CX w3 = NAME(all)(r->p_re, r->p_im, t + 2), w4 = NAME(all)(r->p_re, r->p_im, t + 3);
        for (size_t j = 128 * node; j < 128 * node + 16; j += W) {
            CX x[8];
            UNROLL
            for (size_t k = 0; k < 8; k++)
                x[k] = NAME(load)(re, im, j + 16 * k);
            if (inverse)
                NAME(inv8)(x, w1, w2, w3, w4);
            else
                NAME(fwd8)(x, w1, w2, w3, w4);
            UNROLL
            for (size_t k = 0; k < 8; k++)
                NAME(store)(re, im, j + 16 * k, x[k]);
        }
    }
}

/* Levels 6 to 9; with a spectrum to multiply by also back again, otherwise scaled by 1/1024 for use
 * as one. Lane q of vector k of group g is number k of node W*g + q of level 7. */
FN void NAME(last_pass)(const lwe_ring *r, double *re, double *im, const lwe_spectrum *s)
{
    for (size_t g = 0; g < LWE_POINTS / (8 * W); g++) {
        CX x[8];
        CX w1 = NAME(load)(r->c1_re, r->c1_im, W * g), w2 = NAME(load)(r->c2_re, r->c2_im, W * g);
        CX w3 = NAME(load)(r->c3_re, r->c3_im, W * g), w4 = NAME(load)(r->c4_re, r->c4_im, W * g);
        UNROLL
        for (size_t k = 0; k < 8; k++)
            x[k] = NAME(load)(re, im, 8 * W * g + W * k);
        NAME(level6)(r, x, g, false);
        NAME(turn_cx)(x, false);
        NAME(fwd8)(x, w1, w2, w3, w4);
        if (!s) {
            UNROLL
            for (size_t k = 0; k < 8; k++) {
                x[k].re *= 1.0 / LWE_POINTS, x[k].im *= 1.0 / LWE_POINTS;
                NAME(store)(re, im, 8 * W * g + W * k, x[k]);
            }
            continue;
        }
        UNROLL
        for (size_t k = 0; k < 8; k++) {
            CX y = NAME(load)(s->re, s->im, 8 * W * g + W * k);
            VD pre = x[k].re * y.re - x[k].im * y.im;
            x[k].im = x[k].re * y.im + x[k].im * y.re;
            x[k].re = pre;
        }
        NAME(inv8)(x, w1, w2, w3, w4);
        NAME(turn_cx)(x, true);
        NAME(level6)(r, x, g, true);
        UNROLL
        for (size_t k = 0; k < 8; k++)
            NAME(store)(re, im, 8 * W * g + W * k, x[k]);
    }
}

/* c += round(x) << shift; |x| < 2^51: adding 1.5*2^52 leaves the integer in the low bits. */
FN void NAME(round_add)(uint64_t *c, VD x, unsigned shift)
{
    VU n = (VU)(x + 6755399441055744.0) - (uint64_t)0x4338000000000000;
    *(VU *)c += n << (uint64_t)shift;
}

/* Levels 2 to 0 backwards, to integers. */
FN void NAME(final_pass)(const lwe_ring *r, const double *re, const double *im, uint64_t *c,
                         unsigned shift)
{
    CX w1 = NAME(all)(r->p_re, r->p_im, 0), w2 = NAME(all)(r->p_re, r->p_im, 1);
    CX w3 = NAME(all)(r->p_re, r->p_im, 2), w4 = NAME(all)(r->p_re, r->p_im, 3);
    for (size_t j = 0; j < 128; j += W) {
        CX x[8];
        UNROLL
        for (size_t k = 0; k < 8; k++)
            x[k] = NAME(load)(re, im, j + 128 * k);
        NAME(inv8)(x, w1, w2, w3, w4);
        UNROLL
        for (size_t k = 0; k < 8; k++) {
            NAME(round_add)(c + j + 128 * k, x[k].re, shift);
            NAME(round_add)(c + j + 128 * k + LWE_POINTS, x[k].im, shift);
        }
    }
}

TARGET static void NAME(spectrum)(const lwe_ring *r, lwe_spectrum *out, const uint64_t *s,
                                  uint64_t bias, unsigned h)
{
    NAME(first_pass)(r, out->re, out->im, s, bias, h, 0);
    NAME(middle_pass)(r, out->re, out->im, false);
    NAME(last_pass)(r, out->re, out->im, NULL);
}

TARGET static void NAME(mul_add)(const lwe_ring *r, uint64_t *c, const uint64_t *a, uint64_t bias,
                                 unsigned h, unsigned digits, const lwe_spectrum *s, lwe_scratch *t)
{
    for (unsigned i = 0; i < digits; i++) {
        NAME(first_pass)(r, t->re, t->im, a, bias, h, i);
        NAME(middle_pass)(r, t->re, t->im, false);
        NAME(last_pass)(r, t->re, t->im, s);
        NAME(middle_pass)(r, t->re, t->im, true);
        NAME(final_pass)(r, t->re, t->im, c, h * i);
    }
}

#undef VD
#undef VU
#undef CX
#undef FN
#undef UNROLL
#undef W
#undef TARGET
#undef NAME

/* Products by a Fourier transform over the roots of x^1024 = i.
 *
 * x^2048 + 1 = (x^1024 - i)(x^1024 + i), and for a real polynomial the values at the roots of the
 * second factor are conjugates of those at the first. So p mod x^1024 - i, a polynomial with 1024
 * complex coefficients p_j + i*p_(j+1024), says everything, and no coefficient is moved to get it.
 * It is taken apart by a tree: with r^2 = z,
 *     x^(2m) - z = (x^m - r)(x^m + r)        (u + x^m*v) -> u + r*v, u - r*v
 * Node (level, b) has z = exp(2*pi*i * u/4096) with u(0,0) = 1024, u(l+1, 2b) = u(l, b)/2 and
 * u(l+1, 2b+1) = u(l, b)/2 + 2048; r is the root of node 2b. The four nodes two levels down have
 * r, i*r, e*r, i*e*r with e = exp(i*pi/4), so three levels at a time ("radix 8") need the roots of
 * nodes b, 2b, 4b and 4b+2 only. Levels:
 *
 *     0 1 2    one node of 1024 numbers         first pass, reads integers
 *     3 4 5    8 nodes of 128                   middle pass
 *     6        64 nodes of 16                   last pass: 8*W numbers at a time, which are then
 *     7 8 9    128 nodes of 8                   transposed, so that lanes are nodes
 *
 * and the same backwards with conjugate roots. All roots of a level are used as they stand in
 * memory; nothing is bit-reversed or transposed back, since products are taken point by point.
 *
 * Considered and not built: digits of 21 bits under a 47-bit prime with AVX-512 IFMA. By count 6
 * instructions a butterfly of two numbers, where a butterfly here is 6 for two complex ones, and
 * AVX2 has no such multiplication. */
#include "crypto/ahe/lwe_ring.h"

#include "base/ct.h"

#include <assert.h>
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <string.h>

_Static_assert(
    FLT_EVAL_METHOD == 0 && DBL_MANT_DIG == 53,
    "the proof of the rounding error is about IEEE 754 doubles without excess precision");

enum { DIGIT_GENERAL = 14, SMALL_BITS = 17 };

/* ---- paths ----------------------------------------------------------------------------------- */

#define W 2
#define TARGET
#define NAME(x) portable_##x
#include "crypto/ahe/lwe_ring_impl.h"

#if defined(__x86_64__)
#define W       4
#define TARGET  __attribute__((target("avx2,fma")))
#define NAME(x) avx2_##x
#include "crypto/ahe/lwe_ring_impl.h"

#define W       8
#define TARGET  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma")))
#define NAME(x) avx512_##x
#include "crypto/ahe/lwe_ring_impl.h"
#endif

/* ---- roots ----------------------------------------------------------------------------------- */

/* u of node b at a level: the bits of b, lowest level last, each worth half a turn when it enters
 */
static unsigned node_u(unsigned level, unsigned b)
{
    unsigned u = 1024;
    for (unsigned l = level; l-- > 0;)
        u = u / 2 + (b >> l & 1 ? 2048 : 0);
    return u;
}

static void root(double *re, double *im, unsigned level, unsigned b)
{
    /* r = exp(2*pi*i * u/8192), u <= 4096: computed in the first octant, so that both parts are
     * within one unit in the last place */
    const long double pi = 3.14159265358979323846264338327950288L;
    unsigned u = node_u(level, b), quarter = u / 2048, rest = u % 2048;
    bool swap = rest > 1024;
    long double angle = 2 * pi * (swap ? 2048 - rest : rest) / 8192;
    double c = (double)cosl(angle), s = (double)sinl(angle), t;
    if (swap)
        t = c, c = s, s = t;
    for (; quarter > 0; quarter--)
        t = c, c = -s, s = t;
    *re = c, *im = s;
}

static void fill_roots(lwe_ring *r)
{
    static const unsigned up[4] = { 0, 1, 2, 2 }, mul[4] = { 1, 2, 4, 4 }, add[4] = { 0, 0, 0, 2 };
    for (unsigned i = 0; i < 4; i++)
        root(&r->p_re[i], &r->p_im[i], up[i], add[i]);
    for (unsigned b = 0; b < 8; b++)
        for (unsigned i = 0; i < 4; i++)
            root(&r->p_re[4 + 4 * b + i], &r->p_im[4 + 4 * b + i], 3 + up[i], mul[i] * b + add[i]);
    for (unsigned b = 0; b < 64; b++)
        root(&r->b_re[b], &r->b_im[b], 6, b);
    for (unsigned b = 0; b < 128; b++) {
        root(&r->c1_re[b], &r->c1_im[b], 7, b);
        root(&r->c2_re[b], &r->c2_im[b], 8, 2 * b);
        root(&r->c3_re[b], &r->c3_im[b], 9, 4 * b);
        root(&r->c4_re[b], &r->c4_im[b], 9, 4 * b + 2);
    }
}

/* Rounding is to nearest while we compute, whatever the caller's thread has set. */
static int nearest_begin(void)
{
    int mode = fegetround();
    if (mode != FE_TONEAREST)
        fesetround(FE_TONEAREST);
    return mode;
}

static void nearest_end(int mode)
{
    if (mode != FE_TONEAREST)
        fesetround(mode);
}

void lwe_ring_init(lwe_ring *r, lwe_path path)
{
    assert(lwe_path_has(path));
    int mode = nearest_begin();
    fill_roots(r);
    nearest_end(mode);
    r->path = path;
}

/* ---- products -------------------------------------------------------------------------------- */

/* 2^(h-1) at each of `digits` digits: added to a number it makes its balanced digits unsigned */
static uint64_t digit_bias(unsigned h, unsigned digits)
{
    uint64_t bias = 0;
    for (unsigned i = 0; i < digits; i++)
        bias |= (uint64_t)1 << (h * i + h - 1);
    return bias;
}

void lwe_ring_spectrum(const lwe_ring *r, lwe_spectrum *out, const int32_t s[LWE_N], bool ternary)
{
    uint64_t bias = digit_bias(SMALL_BITS, 1);
    uint64_t small[LWE_N];
    for (size_t i = 0; i < LWE_N; i++)
        small[i] = (uint64_t)(int64_t)s[i] & (((uint64_t)1 << SMALL_BITS) - 1);
    out->digit_bits = ternary ? 0 : DIGIT_GENERAL;
    int mode = nearest_begin();
#if defined(__x86_64__)
    if (r->path == LWE_AVX512)
        avx512_spectrum(r, out, small, bias, SMALL_BITS);
    else if (r->path == LWE_AVX2)
        avx2_spectrum(r, out, small, bias, SMALL_BITS);
    else
#endif
        portable_spectrum(r, out, small, bias, SMALL_BITS);
    nearest_end(mode);
    sefl_wipe(small, sizeof small);
}

void lwe_ring_mul_add(const lwe_ring *r, uint64_t c[LWE_N], const uint64_t a[LWE_N], unsigned kappa,
                      const lwe_spectrum *s, lwe_scratch *scratch)
{
    assert(kappa >= 2 && kappa <= 4 * DIGIT_GENERAL);
    unsigned h = s->digit_bits ? s->digit_bits : (kappa + 1) / 2;
    unsigned digits = (kappa + h - 1) / h;
    uint64_t bias = digit_bias(h, digits);
    int mode = nearest_begin();
#if defined(__x86_64__)
    if (r->path == LWE_AVX512)
        avx512_mul_add(r, c, a, bias, h, digits, s, scratch);
    else if (r->path == LWE_AVX2)
        avx2_mul_add(r, c, a, bias, h, digits, s, scratch);
    else
#endif
        portable_mul_add(r, c, a, bias, h, digits, s, scratch);
    nearest_end(mode);
}

void lwe_ring_mul_add_ref(uint64_t c[LWE_N], const uint64_t a[LWE_N], const int32_t s[LWE_N])
{
    for (size_t k = 0; k < LWE_N; k++) {
        uint64_t f = (uint64_t)(int64_t)s[k];
        for (size_t i = 0; i < LWE_N - k; i++)
            c[i + k] += a[i] * f;
        for (size_t i = LWE_N - k; i < LWE_N; i++) /* x^2048 = -1 */
            c[i + k - LWE_N] -= a[i] * f;
    }
}

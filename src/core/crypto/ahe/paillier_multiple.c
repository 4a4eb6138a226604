/* Tests whether a ciphertext is a multiple of N. Every arriving ciphertext is tested, so the test
 * must cost less than the multiplication after it. Time may depend on ciphertexts: they are public.
 *
 * If c = kN with k < N, then k can be computed from either end (exact division): its low words are
 * those of c * (1/N mod 2^64...), its high words those of c * floor(2^(128 n) / N). One word in the
 * middle, w, must agree. One word of a product follows from its column and the two below it; the
 * carry from lower columns is less than (n + 2) * 2^64 in units of the lowest one, so it changes w
 * by at most 1. With n limbs, t = n/2, columns of about n/2 products:
 *
 *     x = word t of c * inverse, columns t-2 to t                          x in { w, w-1 }
 *     y = word t of k' = floor(c * reciprocal / 2^(128 n)), which is k or k-1, three columns again:
 *                                                                          y in { w, w-1, w-2 }
 *
 * So a multiple always has x - y in -1..2 modulo 2^64; any other number does with probability
 * 2^-62. A number that looks like a multiple is then divided exactly. Six columns are 3n products,
 * against 8n^2 for one multiplication modulo N^2. (paillier_sum.c has the exact test, which stays
 * the reference.) */
#include "crypto/ahe/paillier_internal.h"

#include <assert.h>

__extension__ typedef unsigned __int128 u128;

enum { LIMBS_MIN = 8 }; /* toy keys always use the exact division */

/* sum = x[from] y[m - from] + ... + x[to] y[m - to], 192 bits */
static inline void column(uint64_t sum[3], const mp_limb_t *x, const mp_limb_t *y, size_t from,
                          size_t to, size_t m)
{
    u128 acc = 0;
    uint64_t top = 0;
    for (size_t i = from; i <= to; i++) {
        u128 p = (u128)x[i] * y[m - i];
        acc += p;
        top += acc < p;
    }
    sum[0] = (uint64_t)acc;
    sum[1] = (uint64_t)(acc >> 64);
    sum[2] = top;
}

/* Word m of x * y from columns m-2, m-1 and m; too small by at most 1 modulo 2^64. y has `ny`
 * words, x enough. */
static uint64_t word(const mp_limb_t *x, size_t nx, const mp_limb_t *y, size_t ny, size_t m)
{
    uint64_t s[3][3];
    for (size_t k = 0; k < 3; k++) {
        size_t at = m - 2 + k, from = at + 1 > ny ? at + 1 - ny : 0, to = at < nx ? at : nx - 1;
        column(s[k], x, y, from, to, at);
    }
    uint64_t mid = s[0][1] + s[1][0], carry = mid < s[0][1];
    return s[0][2] + s[1][1] + s[2][0] + carry;
}

void paillier_multiple_init(paillier_pub *pub)
{
    mpz_t n, x;
    pub->can_filter = pub->bits % 64 == 0 && pub->limbs >= LIMBS_MIN;
    if (!pub->can_filter)
        return;
    size_t t = pub->limbs / 2;
    mpz_inits(n, x, NULL);
    mpz_import(n, pub->limbs, -1, sizeof(mp_limb_t), 0, 0, pub->n);
    mpz_setbit(x, 64 * (t + 1));
    int ok = mpz_invert(x, n, x);
    assert(ok); /* N is odd */
    (void)ok;
    mpz_export(pub->inverse, NULL, -1, sizeof(mp_limb_t), 0, 0, x);
    mpz_set_ui(x, 0);
    mpz_setbit(x, 128 * (mp_bitcnt_t)pub->limbs);
    mpz_fdiv_q(x, x, n);
    mpz_export(pub->reciprocal, NULL, -1, sizeof(mp_limb_t), 0, 0, x);
    mpz_clears(n, x, NULL);
}

bool paillier_maybe_multiple_vartime(const paillier_pub *pub, const mp_limb_t *c)
{
    size_t n = pub->limbs, t = n / 2;
    if (!pub->can_filter)
        return true;
    uint64_t x = word(c, 2 * n, pub->inverse, t + 1, t);
    uint64_t y = word(c, 2 * n, pub->reciprocal, n + 1, 2 * n + t);
    return x - y + 4 <= 8;
}

/* Key generation: variable-time, once, on the owner's machine (docs/THREATS.md). GMP keeps its
 * numbers on its own heap; what we hold is wiped, what mpz functions leave in freed scratch is not.
 */
#include "crypto/ahe/paillier_internal.h"

#include "base/ct.h"

#include <string.h>

enum { PRIME_TESTS = 40 }; /* Baillie-PSW and 16 Miller-Rabin rounds: GMP's mpz_probab_prime_p */

/* All limbs that x has room for: a number that shrank leaves its old ones above. */
static void wipe(mpz_t x)
{
    size_t room = (size_t)x->_mp_alloc;
    mpz_set_ui(x, 0);
    if (room > 0)
        sefl_wipe(mpz_limbs_write(x, (mp_size_t)room), room * sizeof(mp_limb_t));
    mpz_limbs_finish(x, 0);
}

static sefl_status draw(mpz_t x, unsigned bits, const sefl_rng *rng)
{
    uint8_t bytes[N_BYTES + 16];
    sefl_status st = SEFL_OK;
    SEFL_TRY(rng_fill(rng, bytes, (bits + 7) / 8));
    mpz_import(x, (bits + 7) / 8, -1, 1, 0, 0, bytes);
    mpz_fdiv_r_2exp(x, x, bits);
done:
    sefl_wipe(bytes, sizeof bytes);
    return st;
}

/* A prime of exactly `bits` bits, the two top bits set (so that the product of two has 2*bits
 * bits), 3 mod 4. Every candidate is drawn afresh: uniform over the primes of that form. */
static sefl_status draw_prime(mpz_t p, unsigned bits, const sefl_rng *rng,
                              const sefl_progress *progress, uint64_t *steps)
{
    for (;;) {
        SEFL_PASS(draw(p, bits, rng));
        mpz_setbit(p, bits - 1);
        mpz_setbit(p, bits - 2);
        mpz_setbit(p, 1);
        mpz_setbit(p, 0);
        if (mpz_probab_prime_p(p, PRIME_TESTS) > 0)
            break;
        if (++*steps % 64 == 0)
            SEFL_NEED(progress_report(progress, *steps, 0), SEFL_ECANCELLED,
                      "key generation: stopped");
    }
    return SEFL_OK;
}

/* The conditions of paillier.h on a pair with p > q. */
static bool pair_ok(const mpz_t p, const mpz_t q, unsigned bits)
{
    bool ok;
    mpz_t a, b, n;
    mpz_inits(a, b, n, NULL);
    mpz_sub(a, p, q);
    ok = mpz_sgn(a) > 0 && mpz_sizeinbase(a, 2) > bits / 2 - 100;
    mpz_sub_ui(a, p, 1);
    mpz_sub_ui(b, q, 1);
    mpz_gcd(n, a, b);
    ok = ok && mpz_cmp_ui(n, 2) == 0;
    mpz_mul(a, a, b);
    mpz_mul(n, p, q);
    ok = ok && mpz_sizeinbase(n, 2) == bits;
    mpz_gcd(b, a, n);
    ok = ok && mpz_cmp_ui(b, 1) == 0;
    wipe(a), wipe(b), wipe(n);
    mpz_clears(a, b, n, NULL);
    return ok;
}

sefl_status paillier_find_hs_vartime(uint8_t *hs, unsigned bits, const mpz_t n, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    mpz_t x, g, n2;
    mpz_inits(x, g, n2, NULL);
    do { /* 64 extra bits: within 2^-64 of uniform modulo N */
        SEFL_TRY(draw(x, bits + 64, rng));
        mpz_mod(x, x, n);
        mpz_gcd(g, x, n);
    } while (mpz_cmp_ui(g, 1) != 0);
    mpz_mul(x, x, x);
    mpz_neg(x, x);
    mpz_mod(x, x, n);
    mpz_mul(n2, n, n);
    mpz_powm(x, x, n, n2);
    memset(hs, 0, bits / 4);
    mpz_export(hs, NULL, -1, 1, 0, 0, x);
done:
    wipe(x), wipe(g);
    mpz_clears(x, g, n2, NULL);
    return st;
}

sefl_status paillier_keygen_vartime(paillier_sec **out, unsigned bits, const sefl_rng *rng,
                                    const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    uint8_t pb[N_BYTES / 2] = { 0 }, qb[N_BYTES / 2] = { 0 }, hs[C_BYTES];
    uint64_t steps = 0;
    mpz_t p, q, n;
    *out = NULL;
    mpz_inits(p, q, n, NULL);
    SEFL_CHECK(paillier_bits_ok(bits), SEFL_EINVAL,
               "paillier key: %u bits; 2048, 3072 or 4096 are allowed", bits);
    do {
        SEFL_TRY(draw_prime(p, bits / 2, rng, progress, &steps));
        SEFL_TRY(draw_prime(q, bits / 2, rng, progress, &steps));
        if (mpz_cmp(p, q) < 0)
            mpz_swap(p, q);
    } while (!pair_ok(p, q, bits));
    mpz_mul(n, p, q);
    SEFL_TRY(paillier_find_hs_vartime(hs, bits, n, rng));
    mpz_export(pb, NULL, -1, 1, 0, 0, p);
    mpz_export(qb, NULL, -1, 1, 0, 0, q);
    SEFL_TRY(paillier_sec_make(out, bits, pb, qb, hs));
done:
    wipe(p), wipe(q);
    mpz_clears(p, q, n, NULL);
    sefl_wipe(pb, sizeof pb);
    sefl_wipe(qb, sizeof qb);
    return st;
}

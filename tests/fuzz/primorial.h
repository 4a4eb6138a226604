/* primorial: GMP's product of all primes up to n, computed once. Validating a Paillier key needs
 * it, and it takes 0.6 ms, more than everything else. In a harness that includes this header, this
 * function replaces GMP's. */
#ifndef TESTS_FUZZ_PRIMORIAL_H
#define TESTS_FUZZ_PRIMORIAL_H

#include <gmp.h>
#include <stdlib.h>

/* What gmp.h calls mpz_primorial_ui. */
void __gmpz_primorial_ui(mpz_ptr r, unsigned long n)
{
    static struct {
        unsigned long n;
        mpz_t product;
    } known[8];
    size_t i = 0;
    while (known[i].n != 0 && known[i].n != n)
        i++;
    if (known[i].n == 0) {
        if (i + 1 == sizeof known / sizeof *known)
            abort();
        mpz_init_set_ui(known[i].product, 1);
        for (unsigned long p = 2, d; p <= n; p++) {
            for (d = 2; d * d <= p && p % d != 0; d++)
                ;
            if (d * d > p)
                mpz_mul_ui(known[i].product, known[i].product, p);
        }
        known[i].n = n;
    }
    mpz_set(r, known[i].product);
}

#endif

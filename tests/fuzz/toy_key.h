/* toy_key: a Paillier key of 256 bits, for harnesses of the code around encryption: a ciphertext
 * takes 64 bytes and is decrypted in 20 us instead of 2 ms. No key reader accepts such a short
 * key. */
#ifndef TESTS_FUZZ_TOY_KEY_H
#define TESTS_FUZZ_TOY_KEY_H

#include "crypto/ahe/paillier_internal.h"
#include "seeded/seeded.h"

#include <stdlib.h>

enum { TOY_KEY_BITS = 256 };

/* The same every time. */
static inline paillier_sec *toy_key(void)
{
    static const uint8_t p[16] = { 0xeb, 0x1c, 0xfd, 0xa9, 0x6d, 0x19, 0xc9, 0x08,
                                   0x32, 0xaf, 0x77, 0xc2, 0x92, 0x4b, 0x42, 0xce };
    static const uint8_t q[16] = { 0x47, 0x95, 0x06, 0xc4, 0xf1, 0x29, 0xb2, 0x63,
                                   0x5e, 0xd2, 0xdb, 0x28, 0x76, 0x8b, 0x0d, 0xc3 };
    static paillier_sec *sec; /* never freed */
    uint8_t hs[TOY_KEY_BITS / 4];
    mpz_t n, f;
    seeded gen;
    if (sec)
        return sec;
    seeded_init(&gen, 7, "toy key");
    sefl_rng rng = seeded_rng(&gen);
    mpz_inits(n, f, NULL);
    mpz_import(n, sizeof p, -1, 1, 0, 0, p);
    mpz_import(f, sizeof q, -1, 1, 0, 0, q);
    mpz_mul(n, n, f);
    if (paillier_find_hs_vartime(hs, TOY_KEY_BITS, n, &rng) != SEFL_OK ||
        paillier_sec_make(&sec, TOY_KEY_BITS, p, q, hs) != SEFL_OK)
        abort();
    mpz_clears(n, f, NULL);
    return sec;
}

#endif

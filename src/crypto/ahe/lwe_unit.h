/* lwe_unit: the ring-LWE half of the scheme, one unit of 2048 values at a time. No keys, no heads:
 * secrets come and go as polynomials.
 *
 *     lwe_plan *plan;                                            // all tables for (w, kappa, d)
 *     lwe_plan_init(plan, w, kappa, d, lwe_path_best());
 *     lwe_secret_sample(s, seed);                                // client, once per upload
 *     lwe_ring_spectrum(&plan->ring, &f, s, true);
 *     lwe_unit_encrypt(plan, out, values, 2048, i, &pub, &err, &f, work);
 *     lwe_unit_add(plan, sum, bytes);                            // AS, per client
 *     lwe_unit_close(plan, out, sum, clients, mask, work);       // AS, once
 *     lwe_unit_decrypt(plan, plain, bytes, i, &pub, &minus_S, work);   // CSP
 *
 * pub expands the context into the public a_i, stream i; err the upload's own seed into errors,
 * stream i: a unit of an upload is encrypted once, ever.
 *
 * Secret: s, S, values, err, mask, plain, work. Public: pub, units, sums, sizes. Constant time.
 * Threads: plan, prgs and spectra may be shared; work has one owner, who wipes it. */
#ifndef CRYPTO_AHE_LWE_UNIT_H
#define CRYPTO_AHE_LWE_UNIT_H

#include "crypto/ahe/lwe_bits.h"
#include "crypto/ahe/lwe_ring.h"
#include "crypto/prg/prg.h"

typedef struct lwe_plan {
    lwe_ring ring;
    lwe_bits public_row; /* kappa bits: a_i, and the masked sum */
    lwe_bits coin_row;   /* 42 bits: coins of an error */
    lwe_bits upload_row; /* kappa - d bits */
    lwe_bits plain_row;  /* w bits: masks and plain units */
    unsigned w, kappa, d;
    lwe_path path;
} lwe_plan;

typedef struct lwe_work {
    _Alignas(64) uint64_t a[LWE_N], c[LWE_N];
    lwe_scratch scratch;
    uint8_t bytes[LWE_N / 8 * LWE_BITS_MAX];
} lwe_work;

/* (w, kappa, d) as lwe_check accepts them. */
void lwe_plan_init(lwe_plan *plan, unsigned w, unsigned kappa, unsigned d, lwe_path path);

/* Names of the streams: prg_init(&g, context, LWE_PUBLIC), prg_init(&g, seed, LWE_ERROR), ... */
#define LWE_PUBLIC "lwe public"
#define LWE_ERROR  "lwe error"
#define LWE_SECRET "lwe secret"
#define LWE_MASK   "lwe mask"

/* Coefficients uniform in {-1, 0, 1}, within 2^-115 in all. */
void lwe_secret_sample(int32_t s[LWE_N], const uint8_t seed[PRG_SEED]);

/* n <= 2048 values, as int64 modulo 2^w; the rest of the unit is zero. */
void lwe_unit_encrypt(const lwe_plan *plan, uint8_t *out, const int64_t *values, size_t n,
                      uint64_t unit, const prg *pub, const prg *err, const lwe_spectrum *s,
                      lwe_work *work);

/* sum += unit; sums start at 0. */
void lwe_unit_add(const lwe_plan *plan, uint64_t sum[LWE_N], const uint8_t *in);

/* The sum of `clients` units restored and masked: mask is a row of w bits. */
void lwe_unit_close(const lwe_plan *plan, uint8_t *out, const uint64_t sum[LWE_N], uint32_t clients,
                    const uint8_t *mask, lwe_work *work);

/* A row of w bits, sum plus mask; minus_s is the spectrum of -S. */
void lwe_unit_decrypt(const lwe_plan *plan, uint8_t *plain, const uint8_t *in, uint64_t unit,
                      const prg *pub, const lwe_spectrum *minus_s, lwe_work *work);

#endif

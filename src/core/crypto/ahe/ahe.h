/* ahe: additively homomorphic encryption of long integer vectors, by one of two schemes.
 *
 * A client encrypts its vector once. AS adds the uploads that arrived, and its own mask. CSP
 * decrypts the masked sum and nothing else. A scheme is a const table of functions, `ahe_pad` or
 * `ahe_paillier`; callers use either through an ahe_params. In `paillier`, CSP has a secret key; in
 * `pad`, each upload has a seed, which its client seals to CSP (protocol/head.h).
 *
 * A vector is sent as *units*. A unit is one ciphertext (paillier) or one row of numbers (pad) and
 * holds `unit_values` numbers; zeros fill the last unit. Functions process a few units at a time,
 * so memory does not grow with the vector.
 *
 *     client   ahe_upload_new(&u, enc, context, &rng)        fresh coins; a context is one
 *                                                             (task, round[, client])
 *              ahe_upload_units(u, out, values, units, pool, progress)      in order, each once
 *     AS       ahe_sum_check_*(bytes as they arrive)          then, for a complete body, once:
 *              ahe_sum_begin / ahe_sum_add_units              ...
 *              ahe_sum_close(s)                               no update enters after this
 *              ahe_sum_write_units(s, out, mask_seed)         the masked sum, for CSP
 *              ahe_sum_write_partial, ahe_units_add,          a sum that several processes make
 *              ahe_sum_add_partial                            together
 *     CSP      ahe_dec_add (pad), ahe_dec_units               masked plain units
 *     either   ahe_plain_digits                               digits for the noise circuit
 *              ahe_mask_units                                 AS: its own mask as plain units
 *              ahe_plain_unmask                               AS, DP off: the exact sum
 *
 * Secret: values, random numbers, secret key, mask and its seed, plain units. Public: public key,
 * ciphertexts, contexts, all lengths. docs/THREATS.md lists what is not constant-time.
 * Threads: an ahe_enc and an ahe_params may be shared once made. Uploads, sums and decryptors have
 * one owner; they split their work over the pool in a way that does not depend on its size. */
#ifndef CRYPTO_AHE_AHE_H
#define CRYPTO_AHE_AHE_H

#include "base/pool.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/span.h"
#include "crypto/ahe/params.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* pad: everything that CSP needs to decrypt one upload. Secret. */
typedef struct ahe_seed {
    uint8_t seed[AHE_SEED_BYTES];
    uint64_t stream; /* ahe_seed_stream of the upload's context */
} ahe_seed;

/* The structs of a scheme begin with the following ones, whose members only ahe.c writes. */
typedef struct ahe_enc { /* a public key with its precomputed tables */
    const ahe_params *p;
} ahe_enc;

typedef struct ahe_upload { /* the encryption of one vector, with its random numbers */
    const ahe_params *p;
    size_t next; /* first unit not encrypted yet */
    bool spent;
} ahe_upload;

typedef struct ahe_sum { /* a running sum of updates */
    const ahe_params *p;
    uint64_t *have; /* bit u: unit u of the body being added is in the sum */
    size_t have_units;
    size_t taken; /* units of the body being removed that are already subtracted; 0: none */
    uint32_t clients;
    bool closed, broken;
} ahe_sum;

typedef struct ahe_dec { /* the decryption of one masked sum */
    const ahe_params *p;
    uint32_t clients; /* pad: number of seeds added */
    bool started;
} ahe_dec;

struct ahe_scheme {
    const char *name; /* "pad", "paillier" */

    sefl_status (*params)(ahe_params *p, const ahe_pub *pub);

    /* Each init function gets this much memory (enc_init gets enc_bytes, and so on), zeroed except
     * for the common struct at its start, whose p is set. Each clear function undoes its init, even
     * if the init failed or was never called, but does not free that memory. A scheme may leave a
     * clear function NULL, except sum_clear. */
    size_t enc_bytes, upload_bytes, sum_bytes, dec_bytes;

    sefl_status (*enc_init)(ahe_enc *e, const ahe_pub *pub, pool *pool,
                            const sefl_progress *progress);
    void (*enc_clear)(ahe_enc *e);

    sefl_status (*upload_init)(ahe_upload *u, const ahe_enc *e,
                               const uint8_t context[AHE_CONTEXT_BYTES], const sefl_rng *rng);
    void (*upload_seed)(const ahe_upload *u, ahe_seed *out); /* pad; NULL in paillier */
    sefl_status (*upload_units)(ahe_upload *u, uint8_t *out, const int64_t *values, size_t units,
                                pool *pool, const sefl_progress *progress);
    void (*upload_clear)(ahe_upload *u);

    sefl_status (*sum_init)(ahe_sum *s, const ahe_pub *pub);
    sefl_status (*sum_check_units)(const ahe_sum *s, const uint8_t *bytes,
                                   size_t units); /* NULL: any bytes are valid */
    sefl_status (*sum_add_units)(ahe_sum *s, size_t first, const uint8_t *bytes, size_t units,
                                 pool *pool);
    /* Subtracts units that sum_add_units added. pad; NULL in paillier. */
    sefl_status (*sum_take_units)(ahe_sum *s, size_t first, const uint8_t *bytes, size_t units,
                                  pool *pool);
    sefl_status (*sum_close)(ahe_sum *s); /* NULL: nothing to do */
    sefl_status (*sum_write_units)(ahe_sum *s, uint8_t *out, size_t first, size_t units,
                                   const uint8_t mask_seed[AHE_SEED_BYTES], pool *pool);
    /* Writes a closed sum without a mask, as units. */
    sefl_status (*sum_write_plain)(const ahe_sum *s, uint8_t *out, pool *pool);
    void (*sum_clear)(ahe_sum *s);
    void (*units_add)(const ahe_params *p, const ahe_pub *pub, uint8_t *sum, const uint8_t *bytes,
                      size_t units);

    sefl_status (*dec_init)(ahe_dec *d, const ahe_sec *sec,
                            const uint8_t context[AHE_CONTEXT_BYTES]);
    sefl_status (*dec_add)(ahe_dec *d, const ahe_seed *seeds, size_t n, pool *pool);  /* pad only */
    sefl_status (*dec_take)(ahe_dec *d, const ahe_seed *seeds, size_t n, pool *pool); /* pad only */
    sefl_status (*dec_units)(ahe_dec *d, uint8_t *plain, size_t first, const uint8_t *bytes,
                             size_t units, pool *pool, const sefl_progress *progress);
    void (*dec_clear)(ahe_dec *d);

    sefl_status (*mask_units)(const ahe_params *p, uint8_t *plain, size_t first, size_t units,
                              const uint8_t mask_seed[AHE_SEED_BYTES]);
    void (*plain_digits)(const ahe_params *p, uint64_t *digits, const uint8_t *plain, size_t units);
    void (*plain_unmask)(const ahe_params *p, int64_t *values, const uint8_t *masked,
                         const uint8_t *mask, size_t units);
    void (*plain_add)(const ahe_params *p, uint8_t *plain, const int64_t *values, size_t units);
};

/* Initialises a scheme's table from the functions and types with these names in the same file. */
#define AHE_SCHEME_FUNCTIONS                                                            \
    .params = params, .enc_bytes = sizeof(enc), .upload_bytes = sizeof(upload),         \
    .sum_bytes = sizeof(sum), .dec_bytes = sizeof(dec), .enc_init = enc_init,           \
    .upload_init = upload_init, .upload_units = upload_units, .sum_init = sum_init,     \
    .sum_add_units = sum_add_units, .sum_write_units = sum_write_units,                 \
    .sum_write_plain = sum_write_plain, .sum_clear = sum_clear, .units_add = units_add, \
    .dec_init = dec_init, .dec_units = dec_units

extern const ahe_scheme ahe_pad, ahe_paillier;

/* Finds a scheme by name, "pad" or "paillier"; SEFL_EINVAL, listing both, for any other name. */
sefl_status ahe_scheme_find(const ahe_scheme **out, const char *name) SEFL_MUST_CHECK;

/* Fills params for vectors of `values` numbers, at most 2^32, packed according to `pack`.
 * SEFL_EINVAL if the pack is for another scheme, or has too few mask or guard bits. */
sefl_status ahe_params_init(ahe_params *p, const ahe_scheme *scheme, const pack *pack,
                            const ahe_pub *pub, size_t values) SEFL_MUST_CHECK;

/* Returns the size in bytes of a whole update, or of a masked sum. */
size_t ahe_body_bytes(const ahe_params *p);

/* ---- client ---------------------------------------------------------------------------------- */

/* Prepares encryption under this key (Paillier: builds fixed-base tables, about a second). pub and
 * p must outlive the result. */
sefl_status ahe_enc_new(ahe_enc **out, const ahe_pub *pub, const ahe_params *p, pool *pool,
                        const sefl_progress *progress) SEFL_MUST_CHECK;
void ahe_enc_free(const ahe_params *p, ahe_enc *e);

/* Starts the upload of one vector for one (task, round) and draws all its random numbers from rng.
 * An upload object encrypts only one vector, so no random number is used twice. */
sefl_status ahe_upload_new(ahe_upload **out, const ahe_params *p, const ahe_enc *e,
                           const uint8_t context[AHE_CONTEXT_BYTES],
                           const sefl_rng *rng) SEFL_MUST_CHECK;
/* pad: copies the seed, which the caller seals to CSP and then wipes. The upload's context must be
 * unique to (task, round, client). */
void ahe_upload_seed(const ahe_params *p, const ahe_upload *u, ahe_seed *out);
/* Returns the first stream number of an upload: the first 8 bytes of its context. */
uint64_t ahe_seed_stream(const uint8_t context[AHE_CONTEXT_BYTES]);
/* Encrypts the next `units` units: values has units * unit_values numbers (the last unit may be
 * short: nothing beyond p->values is read). If a value exceeds the client's bound, encrypts nothing
 * and returns SEFL_ERANGE with the index. SEFL_ESTATE beyond the last unit. */
sefl_status ahe_upload_units(const ahe_params *p, ahe_upload *u, uint8_t *out,
                             const int64_t *values, size_t units, pool *pool,
                             const sefl_progress *progress) SEFL_MUST_CHECK;
void ahe_upload_free(const ahe_params *p, ahe_upload *u);

/* ---- aggregation server ---------------------------------------------------------------------- */

sefl_status ahe_sum_new(ahe_sum **out, const ahe_params *p, const ahe_pub *pub) SEFL_MUST_CHECK;
/* Checks the form of ciphertexts: SEFL_EPROTO, with the reason, if one is malformed. The sum does
 * not change, so any number of bodies may be checked while they arrive. */
sefl_status ahe_sum_check_units(const ahe_params *p, const ahe_sum *s, const uint8_t *bytes,
                                size_t units) SEFL_MUST_CHECK;
/* Adds a checked update: ahe_sum_begin counts it, then all its units follow in any order, each
 * once. SEFL_ERANGE if there would be more clients than the packing allows. */
sefl_status ahe_sum_begin(const ahe_params *p, ahe_sum *s) SEFL_MUST_CHECK;
sefl_status ahe_sum_add_units(const ahe_params *p, ahe_sum *s, size_t first, const uint8_t *bytes,
                              size_t units, pool *pool) SEFL_MUST_CHECK;
/* Adds n whole updates at once, each of ahe_body_bytes. The result equals that of n single
 * additions, but a thread reads the sum once, not n times. (A pad sum exceeds the caches.) */
sefl_status ahe_sum_add_bodies(const ahe_params *p, ahe_sum *s, const uint8_t *const *bodies,
                               size_t n, pool *pool) SEFL_MUST_CHECK;
/* Subtracts a whole body from an open or closed sum, before the sum is written. The body's units
 * come in order, from unit 0 to the last, in any number of calls. SEFL_EUNSUPPORTED if the scheme
 * cannot subtract (paillier). The caller guarantees that the body is in the sum. */
sefl_status ahe_sum_take(const ahe_params *p, ahe_sum *s, size_t first, const uint8_t *bytes,
                         size_t units, pool *pool) SEFL_MUST_CHECK;
/* Closes the set of updates and checks the finished sum (paillier: its gcd with N is 1). */
sefl_status ahe_sum_close(const ahe_params *p, ahe_sum *s) SEFL_MUST_CHECK;
/* Writes the masked sum. Use a seed for one closed set only: with the same seed for another set,
 * CSP could compute the difference between the two sums. */
sefl_status ahe_sum_write_units(const ahe_params *p, ahe_sum *s, uint8_t *out, size_t first,
                                size_t units, const uint8_t mask_seed[AHE_SEED_BYTES],
                                pool *pool) SEFL_MUST_CHECK;
void ahe_sum_free(const ahe_params *p, ahe_sum *s);

/* A sum that several processes of AS make together: each adds its own updates and writes its
 * partial sum as ahe_body_bytes without a mask. ahe_units_add adds such bytes; ahe_sum_add_partial
 * adds them to a sum as the `clients` updates that they contain. The result equals the sum that one
 * process makes. Closes s, which may be empty. */
sefl_status ahe_sum_write_partial(const ahe_params *p, ahe_sum *s, uint8_t *out,
                                  pool *pool) SEFL_MUST_CHECK;
/* sum += bytes, unit by unit. The bytes are those of checked updates or of partial sums. */
void ahe_units_add(const ahe_params *p, const ahe_pub *pub, uint8_t *sum, const uint8_t *bytes,
                   size_t units);
sefl_status ahe_sum_add_partial(const ahe_params *p, ahe_sum *s, const uint8_t *bytes,
                                uint32_t clients, pool *pool) SEFL_MUST_CHECK;

/* ---- cryptography service provider ----------------------------------------------------------- */

sefl_status ahe_dec_new(ahe_dec **out, const ahe_params *p, const ahe_sec *sec,
                        const uint8_t context[AHE_CONTEXT_BYTES]) SEFL_MUST_CHECK;
/* pad: adds the seeds of n clients that are in the sum, each once, in any number of calls before
 * the first ahe_dec_units. SEFL_ERANGE if there would be more clients than the packing allows. */
sefl_status ahe_dec_add(const ahe_params *p, ahe_dec *d, const ahe_seed *seeds, size_t n,
                        pool *pool) SEFL_MUST_CHECK;
/* Subtracts seeds that were added. Call it before the first ahe_dec_units. */
sefl_status ahe_dec_take(const ahe_params *p, ahe_dec *d, const ahe_seed *seeds, size_t n,
                         pool *pool) SEFL_MUST_CHECK;
sefl_status ahe_dec_units(const ahe_params *p, ahe_dec *d, uint8_t *plain, size_t first,
                          const uint8_t *bytes, size_t units, pool *pool,
                          const sefl_progress *progress) SEFL_MUST_CHECK;
void ahe_dec_free(const ahe_params *p, ahe_dec *d);

/* ---- plain units, at either server ----------------------------------------------------------- */

/* Writes the mask that ahe_sum_write_units adds to these units (without any constant offset). */
sefl_status ahe_mask_units(const ahe_params *p, uint8_t *plain, size_t first, size_t units,
                           const uint8_t mask_seed[AHE_SEED_BYTES]) SEFL_MUST_CHECK;
/* Writes units * unit_values digits: digit_i = floor(n * 2^g / 2^(w*i)) mod 2^(w+g). */
void ahe_plain_digits(const ahe_params *p, uint64_t *digits, const uint8_t *plain, size_t units);
/* Removes the mask and writes the exact signed sums (DP off). */
void ahe_plain_unmask(const ahe_params *p, int64_t *values, const uint8_t *masked,
                      const uint8_t *mask, size_t units);
/* Adds signed values, slot by slot, to plain units (`own` mode: a server's own noise). */
void ahe_plain_add(const ahe_params *p, uint8_t *plain, const int64_t *values, size_t units);

#endif

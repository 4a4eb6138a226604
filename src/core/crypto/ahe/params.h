/* params: the parameters of the encrypted vectors of a task; crypto/ahe/ahe.h is the manual.
 *
 * Threads: read-only after ahe_params_init.   Secrets: none. */
#ifndef CRYPTO_AHE_PARAMS_H
#define CRYPTO_AHE_PARAMS_H

#include "crypto/ahe/pack.h"

enum { AHE_CONTEXT_BYTES = 32, AHE_SEED_BYTES = 32 };

#define AHE_SCHEMES "pad paillier"

/* Paillier keys; NULL in scheme pad. */
typedef struct paillier_pub ahe_pub;
typedef struct paillier_sec ahe_sec;

typedef struct ahe_scheme ahe_scheme;

/* The parameters that all parties of a task share. */
typedef struct ahe_params {
    const ahe_scheme *scheme;
    pack pack;     /* slot width, digits and bounds: see pack.h */
    size_t values; /* numbers in one update */

    /* derived */
    size_t unit_values; /* numbers in one unit */
    size_t units;       /* ceil(values / unit_values) */
    size_t unit_bytes;  /* size of a unit of an update, or of the masked sum that AS sends to CSP */
    size_t plain_bytes; /* size of a plain unit (masked values, or a mask), little-endian */
} ahe_params;

#endif

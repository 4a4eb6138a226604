/* random: the source of randomness. Code that needs randomness takes a `const sefl_rng *` as its
 * last argument and never asks the system itself. Real roles pass the system's generator; tests and
 * the simulator pass a seeded one (src/core/seeded, which cryptographic layers cannot link).
 *
 *     sefl_rng rng = rng_system();
 *     SEFL_TRY(rng_fill(&rng, key, sizeof key));
 *
 * The system generator is getrandom(2), which blocks until the kernel's generator is seeded; there
 * is no fallback. Each call is a system call, so code that needs millions of values requests only a
 * key and expands it (crypto/prg).
 * Threads: the system generator may be shared; a seeded one has one owner. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sefl_rng {
    sefl_status (*fill)(void *self, void *out, size_t n);
    void *self;
} sefl_rng;

sefl_rng rng_system(void);

/* Fills out with n random bytes; on failure (SEFL_ERANDOM), fills it with zeros. */
sefl_status rng_fill(const sefl_rng *rng, void *out, size_t n) SEFL_MUST_CHECK;

/* Draws an exactly uniform number in [0, bound), bound > 0, by rejection sampling. The number of
 * draws is independent of the result. */
sefl_status rng_below(const sefl_rng *rng, uint64_t *out, uint64_t bound) SEFL_MUST_CHECK;

#endif

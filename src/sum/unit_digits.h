/* unit_digits: the digits that the noise protocol takes, one after the other, from plain units.
 *
 *     unit_digits d = { 0 };
 *     SEFL_TRY(unit_digits_init(&d, &params, plain, NULL));         // CSP: units that it decrypted
 *     SEFL_TRY(unit_digits_init(&d, &params, NULL, seed));          // AS: units of its mask
 *     noise_digits from = unit_digits_of(&d);
 * done:
 *     unit_digits_clear(&d);
 *
 * Some thousand digits are in memory at a time. Secret: everything but sizes; wiped by clear.
 * Threads: one owner; params, plain and seed must outlive it. */
#ifndef PROTOCOL_UNIT_DIGITS_H
#define PROTOCOL_UNIT_DIGITS_H

#include "crypto/ahe/ahe.h"
#include "mpc/noise/online.h"

typedef struct unit_digits {
    const ahe_params *p;
    const uint8_t *plain, *seed; /* one of them */
    uint64_t *digit;             /* of units [unit, unit + have) */
    uint8_t *mask;
    size_t batch, unit, have;
} unit_digits;

sefl_status unit_digits_init(unit_digits *d, const ahe_params *p, const uint8_t *plain,
                             const uint8_t seed[AHE_SEED_BYTES]) SEFL_MUST_CHECK;
void unit_digits_clear(unit_digits *d);
noise_digits unit_digits_of(unit_digits *d);

#endif

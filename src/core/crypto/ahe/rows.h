/* rows: implements the last three functions of an ahe_scheme for slots that are numbers modulo 2^w,
 * packed without gaps (pad). Secret: plain units and values. */
#ifndef CRYPTO_AHE_ROWS_H
#define CRYPTO_AHE_ROWS_H

#include "crypto/ahe/ahe.h"

void rows_digits(const ahe_params *p, uint64_t *digits, const uint8_t *plain, size_t units);
void rows_unmask(const ahe_params *p, int64_t *values, const uint8_t *masked, const uint8_t *mask,
                 size_t units);
void rows_add(const ahe_params *p, uint8_t *plain, const int64_t *values, size_t units);

#endif

#include "crypto/ahe/rows.h"

#include "base/ct.h"
#include "crypto/ahe/rowbits.h"

void rows_digits(const ahe_params *p, uint64_t *digits, const uint8_t *plain, size_t units)
{
    rowbits row;
    rowbits_init(&row, p->pack.w, rowbits_path_best());
    rowbits_unpack(&row, digits, plain, units * p->unit_values);
}

enum { BATCH = 256 }; /* divides the values of a unit */

void rows_unmask(const ahe_params *p, int64_t *values, const uint8_t *masked, const uint8_t *mask,
                 size_t units)
{
    const unsigned up = 64 - p->pack.w;
    uint64_t a[BATCH], b[BATCH];
    rowbits row;
    rowbits_init(&row, p->pack.w, rowbits_path_best());
    const size_t step = rowbits_bytes(&row, BATCH);
    for (size_t i = 0; i < units * p->unit_values; i += BATCH, masked += step, mask += step) {
        rowbits_unpack(&row, a, masked, BATCH);
        rowbits_unpack(&row, b, mask, BATCH);
        for (size_t k = 0; k < BATCH; k++) /* modulo 2^w, as a signed number */
            values[i + k] = (int64_t)((a[k] - b[k]) << up) >> up;
    }
    sefl_wipe(a, sizeof a);
    sefl_wipe(b, sizeof b);
}

void rows_add(const ahe_params *p, uint8_t *plain, const int64_t *values, size_t units)
{
    uint64_t a[BATCH];
    rowbits row;
    rowbits_init(&row, p->pack.w, rowbits_path_best());
    const size_t step = rowbits_bytes(&row, BATCH);
    for (size_t i = 0; i < units * p->unit_values; i += BATCH, plain += step) {
        rowbits_unpack(&row, a, plain, BATCH);
        for (size_t k = 0; k < BATCH; k++)
            a[k] += (uint64_t)values[i + k];
        rowbits_pack(&row, plain, a, BATCH);
    }
    sefl_wipe(a, sizeof a);
}

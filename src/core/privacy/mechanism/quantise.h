/* quantise: converts a client's float vector to integers with an exact bound on their norm.
 *
 *     dp_quantise_info info;
 *     SEFL_TRY(dp_quantise(X, &info, &grid, v, n, NULL, &rng));        // no weight slot
 *
 * dp_quantise refuses a coordinate that is not finite, scales the vector to L2 norm at most C,
 * limits each coordinate to value_max steps and rounds it up or down at random, without bias (to
 * 2^-64, from 64 random bits per coordinate). Then it compares the sum of squares, in 128 bits,
 * with S2. If the sum is too large (probability below 2^-20), it rounds again with new coins; if
 * that fails too, it scales by 0.999 and repeats. The result always satisfies sum X_i^2 <= S2 and
 * |X_i| <= value_max: privacy depends on these integers alone and not on floating-point results.
 *
 * The weight slot. A weighted vector has an extra slot after the update. The update is clipped to
 * sqrt(0.99) C and scaled by w in [0, 1], and the slot carries w * C/10; together their norm is at
 * most C. The sum of these slots, divided by C/10, is the (noisy) total weight.
 *
 * Records. With `unit: record`, the client clips and quantises each record's step (-lr times the
 * gradient of the whole record) separately and adds the integers with dp_add_record. The bound
 * applies to each record, for any number of records.
 *
 * Secret: v, X, and the number of attempts. Not constant-time: it runs on the client's own machine.
 * Threads: any, each with its own output.   Cost: about 7 ns and 8 random bytes per coordinate. */
#ifndef PRIVACY_MECHANISM_QUANTISE_H
#define PRIVACY_MECHANISM_QUANTISE_H

#include "base/random.h"
#include "privacy/dp_grid.h"

#include <stddef.h>

typedef struct dp_weight {
    uint64_t items;     /* n_j, the client's number of items */
    uint64_t items_cap; /* n_cap > 0; w = min(n_j, n_cap) / n_cap */
    double scale; /* > 0: the slot is a norm bit instead, and v is multiplied by scale first */
} dp_weight;

typedef struct dp_quantise_info {
    double norm;       /* norm of v before clipping */
    double scale;      /* total factor applied to v */
    unsigned attempts; /* number of attempts to round; almost always 1 */
    uint64_t clipped;  /* coordinates limited to value_max */
} dp_quantise_info;

/* The grid of a task without noise; the packing alone determines the step and the bound. */
typedef struct dp_plain_grid {
    double clip, q;
    int64_t value_max;
} dp_plain_grid;

/* The share of C that the slot has. */
#define DP_WEIGHT_SLOT_SHARE 0.1

/* The norm bit, for a clip that is found privately: the slot carries +0.1 C if the norm of scale *
 * v is at most sqrt(1 - 0.1^2) C, the largest norm that is not clipped, otherwise -0.1 C. Vector
 * and bit together have norm C at most, so the sensitivity, the grid and S2 do not change. */

/* Computes the L2 norm in double: sums blocks of 1,024 squares in order, then the block sums. The
 * relative error is below 1e-12 for 2^32 coordinates. SEFL_EINVAL if a coordinate is not finite. */
sefl_status dp_norm(double *out, const float *v, size_t n) SEFL_MUST_CHECK;

/* Writes grid->dim integers to X: n, or n + 1 with a weight. info may be NULL. */
sefl_status dp_quantise(int64_t *X, dp_quantise_info *info, const dp_grid *grid, const float *v,
                        size_t n, const dp_weight *weight, const sefl_rng *rng) SEFL_MUST_CHECK;

/* Like dp_quantise, for a task without noise. There is no S2, so it clips to norm C, limits each
 * coordinate to value_max steps of q and rounds once. The weight slot works as in dp_quantise. */
sefl_status dp_quantise_plain(int64_t *X, const dp_plain_grid *grid, const float *v, size_t n,
                              const dp_weight *weight, const sefl_rng *rng) SEFL_MUST_CHECK;

/* Adds the n integers of a quantised record to sum and wipes them. SEFL_ERANGE, with sum unchanged,
 * if a coordinate would exceed sum_max, the range that the slot width allows. */
sefl_status dp_add_record(int64_t *sum, int64_t *record, size_t n, int64_t sum_max) SEFL_MUST_CHECK;

/* Returns the divisor for capped weights: the total weight from the noisy sum of the weight slots
 * (in real units), or `least` if that is larger. Callers pass 1, one client's maximum weight. */
double dp_weight_total(double slot_sum, double clip, double least);

/* Returns the share of n clients whose norm bit is set, from the noisy sum of the slots (in real
 * units, for the grid's clip), limited to [0, 1]. n > 0. */
double dp_norm_share(double slot_sum, double clip, double n);

#endif

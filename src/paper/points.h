/* points: combines results that differ only in their seeds to one point of a figure.
 *
 *     const point x = point_of(&all, (paper_run){ .dropout = 25, .rounds = 40 });
 *     if (x.last) ...                                   // x.test.mean
 *
 * Threads: any.   Secrets: none. */
#ifndef PAPER_POINTS_H
#define PAPER_POINTS_H

#include "paper/record.h"

/* Mean, standard deviation (of the sample; 0 for one value) and range. */
typedef struct spread {
    size_t n;
    double mean, sd, low, high; /* NAN if n is 0 */
} spread;

typedef struct point {
    paper_run run; /* its seed is meaningless */
    spread test, valid;
    const run_record *last; /* of the highest seed, for what the seed does not change; or NULL */
} point;

spread spread_of(const double *x, size_t n); /* ignores NAN */

/* Combines the results of a run with any seed. Zeros in the run mean SEFL with the model's block
 * size, z "0" and 10 clients. */
point point_of(const records *all, paper_run run);

#endif

/* points: combines results that differ only in their seeds to one point of a figure.
 *
 *     SEFL_TRY(points_of(&p, &all, quick, PAPER_DROPOUT));
 *     const point *x = points_find(&p, (paper_run){ .body = PAPER_LSTM, .dropout = 25 });
 *
 * Threads: one owner.   Secrets: none. */
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
    const run_record *last; /* of the highest seed, for numbers that the seed does not change */
} point;

typedef struct points {
    point *at; /* in the order of the table; only points that have a result */
    size_t n;
} points;

spread spread_of(const double *x, size_t n); /* ignores NAN */

/* True if the record has the settings of the run, with any seed. */
bool points_is_of(const run_record *r, const paper_run *run);
/* The points of these figures; `all` must outlive them. */
sefl_status points_of(points *out, const records *all, bool quick,
                      unsigned figures) SEFL_MUST_CHECK;
void points_clear(points *p);
/* Returns the point with these settings, for any seed and figures; NULL if it has no result. Zeros
 * mean SEFL with the model's block size, z "0", 10 clients, and any number of rounds. */
const point *points_find(const points *p, paper_run run);

#endif

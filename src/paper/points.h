/* points: combines results that differ only in their seeds to one point of a figure.
 *
 *     SEFL_TRY(points_of(&p, &o, PAPER_DROPOUT));
 *     const point *x = points_find(&p, &(paper_run){ .body = PAPER_LSTM, ... });
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
    double untrained; /* validation perplexity of the initial model; NAN: unknown */
    double values, classic_epsilon, epsilon_server, epsilon_others, noise_ratio; /* NAN: unknown */
} point;

typedef struct points {
    point *at; /* in the order of the table; only points that have a result */
    size_t n;
} points;

spread spread_of(const double *x, size_t n); /* ignores NAN */

/* True if the record has the settings of the run, with any seed. */
bool points_is_of(const run_record *r, const paper_run *run);
sefl_status points_of(points *out, const paper_options *o, unsigned figures) SEFL_MUST_CHECK;
void points_clear(points *p);
/* Returns the point with these settings, for any seed and figures, and for any number of rounds if
 * run->rounds is 0; NULL if it has no result. */
const point *points_find(const points *p, const paper_run *run);

#endif

/* limit: the largest noise multiplier z at which a figure of the paper's dropout table still holds.
 *
 *     limit l = limit_of(&all, &run);              // from the finished runs; run.z does not matter
 *     l.holds, l.fails                             // the records on both sides of the limit
 *     if (limit_is_known(&all, &run)) ...          // no need to make this run
 *     SEFL_TRY(limit_add(&noise, &all));           // rows of noise.csv and of tables.md
 *
 * A figure holds if the test perplexity is at most the paper's value for this model and dropout
 * rate. We assume that more noise is never better. The table (table.c) lists the noise multipliers
 * in the order of a bisection, and limit_is_known skips those that finished runs decide, so three
 * runs find the limit among the seven values up to 0.03. A larger one follows only if 0.03 holds.
 *
 * limit_add extrapolates to the number of clients at which the same noise ratio (simulate/plan.h)
 * has a total epsilon of 8. The ratio is z sqrt(values) / clients, so this number is
 * clients * z8 / z, where z8 is the z of that total.
 *
 * Threads: one owner.   Secrets: none. */
#ifndef PAPER_LIMIT_H
#define PAPER_LIMIT_H

#include "paper/record.h"

typedef struct limit {
    const sheet_cell *holds; /* largest z below every failure; NULL: none */
    const sheet_cell *fails; /* smallest z of a failure; NULL: none */
} limit;

/* Returns the test perplexity in the paper's dropout table; NAN for a rate that is not there. The
 * paper's figures are images without numbers; only its table and sentences can be quoted. */
double limit_paper(unsigned body, unsigned percent);

/* Uses the records of seed 1 that differ from the run only in z. */
limit limit_of(const sheet *all, const paper_run *run);
/* True if the run has noise and limit_of says whether it holds: its z is not between the two. */
bool limit_is_known(const sheet *all, const paper_run *run);

/* Adds a row for each figure that has runs with noise, to a sheet of these columns. */
extern const char limit_columns[];
sefl_status limit_add(sheet *out, const sheet *all) SEFL_MUST_CHECK;

#endif

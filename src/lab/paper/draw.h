/* draw: what the figures of perplexity have in common while paper_draw writes them.
 *
 *     draw_put(&d->md, "| %s |", name);                    // tables.md
 *     draw_number(&d->csv, 1.5);                           // ",1.5" of the figure's CSV
 *
 * Threads: one owner.   Secrets: none. */
#ifndef PAPER_DRAW_H
#define PAPER_DRAW_H

#include "paper/record.h"

/* The results that differ only in their seeds. */
typedef struct point {
    paper_run run; /* its seed is meaningless */
    spread test, valid;
    const sheet_cell *last; /* of the highest seed, for what the seed does not change; or NULL */
} point;

/* Zeros in the run mean SEFL with the model's block size, z "0" and 10 clients. */
point point_of(const sheet *all, paper_run run);

/* Text that grows; after a failure, which st keeps, it stays as it is. */
typedef struct draw_text {
    sefl_buf b;
    sefl_status st;
} draw_text;

typedef struct drawing {
    const paper_options *o;
    sheet all; /* the records */
    point *at; /* those of the current figure that have a result, in the order of the table */
    size_t n;
    draw_text md, csv;
} drawing;

void draw_put(draw_text *t, const char *fmt, ...) SEFL_PRINTF(2, 3);
/* Appends ",number", or "," if it is unknown. */
void draw_number(draw_text *t, double v);
/* Appends a cell with that many digits, or with `none` if the number is unknown. */
void draw_cell(draw_text *t, double v, int digits, const char *none);

#endif

/* sheet: a table of measurements or results, as CSV in the results folder.
 *
 *     SEFL_TRY(sheet_open(&s, o, "model seconds " SHEET_ORIGIN, "cost/%s-%u", model, block));
 *     SEFL_TRY(sheet_add(&s, (const char *[]){ "lstm" }, (double[]){ 0.25 }));
 *     SEFL_TRY(sheet_csv(&s));                                      // NAME.csv, atomically
 * done:
 *     sheet_clear(&s);
 *
 * The columns named in SHEET_TEXTS are texts; all others are numbers, of which 10 digits are
 * written. The columns of SHEET_ORIGIN say which program added a row; sheet_add fills them. The
 * results of runs are rows too, each from a file of its own (record.h). A number that is not finite
 * is empty. Threads: one owner.   Secrets: none. */
#ifndef PAPER_SHEET_H
#define PAPER_SHEET_H

#include "paper/paper.h"

#define SHEET_ORIGIN "scale version commit"
#define SHEET_TEXTS                                                                               \
    "model scheme size format method name scale body protection z variant version commit device " \
    "text why epsilon_why model_sha256 clear_sha256 full_sha256 equal claim z_that_fails"
enum {
    SHEET_COLUMNS_MAX = 48,
    SHEET_TEXT_MAX = 159,
    SHEET_NAME_MAX = 63,
    SHEET_BYTES_MAX = 8 << 20
};

typedef struct sheet_cell {
    double number;
    char text[SHEET_TEXT_MAX + 1]; /* not empty: the cell is this string */
} sheet_cell;

typedef struct sheet {
    const paper_options *o;
    char name[SHEET_NAME_MAX + 1];
    const char *columns; /* separated by spaces */
    unsigned width;
    bool quoted;      /* CSV: texts are in quotes */
    sheet_cell *cell; /* rows * width */
    size_t rows, room;
} sheet;

/* Mean, standard deviation (of the sample; 0 for one value) and range. */
typedef struct spread {
    size_t n;
    double mean, sd, low, high; /* NAN if n is 0 */
} spread;

spread spread_of(const double *x, size_t n); /* ignores NAN */

/* Makes an empty sheet. */
void sheet_new(sheet *s, const paper_options *o, const char *columns, const char *name);
/* Replaces s with the rows of results/NAME.csv if it exists; otherwise the sheet is empty. The
 * columns end with SHEET_ORIGIN. SEFL_EPROTO, with the path, if the file is not a sheet with these
 * columns and this scale. */
sefl_status sheet_open(sheet *s, const paper_options *o, const char *columns, const char *name, ...)
    SEFL_PRINTF(4, 5) SEFL_MUST_CHECK;
void sheet_clear(sheet *s);

/* Appends a row: as many texts and numbers as there are such columns, in their order, but for those
 * of SHEET_ORIGIN. */
sefl_status sheet_add(sheet *s, const char *const *texts, const double *numbers) SEFL_MUST_CHECK;
/* Appends a row of `width` cells. */
sefl_status sheet_add_cells(sheet *s, const sheet_cell *row) SEFL_MUST_CHECK;
/* Appends the rows of another sheet with the same columns. */
sefl_status sheet_append(sheet *s, const sheet *from) SEFL_MUST_CHECK;
/* Returns the number in the column of this name, which must exist (assert). */
double sheet_get(const sheet *s, size_t row, const char *column);
const char *sheet_get_text(const sheet *s, size_t row, const char *column);

/* Sets y[i] to the number in `column` of the last row that has these texts, in the order of such
 * columns, and x[i] in the column `by`; NAN if there is none. */
void sheet_line(double *y, const sheet *s, const char *const *texts, const char *by,
                const unsigned *x, size_t n, const char *column);

/* Writes NAME.csv; nothing if there is no row. */
sefl_status sheet_csv(const sheet *s) SEFL_MUST_CHECK;
/* Appends a Markdown table of these columns, below a title; nothing if there is no row. */
sefl_status sheet_table(sefl_buf *out, const sheet *s, const char *title,
                        const char *columns) SEFL_MUST_CHECK;

#endif

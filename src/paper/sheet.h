/* sheet: a table of measurements in the results folder, as a JSON file that records the origin of
 * its numbers, and as CSV for spreadsheets.
 *
 *     static const char *const columns[] = { "model", "block", "seconds", NULL };
 *     sheet s;
 *     SEFL_TRY(sheet_open(&s, o, "cost/lstm-8-pad", columns));      // the file's rows, if any
 *     SEFL_TRY(sheet_add(&s, (sheet_cell[]){ sheet_text("lstm"), sheet_number(8), ... }));
 *     SEFL_TRY(sheet_save(&s, o));                                  // NAME.json, atomically
 *     SEFL_TRY(sheet_csv(&s, o));                                   // NAME.csv
 * done:
 *     sheet_clear(&s);
 *
 *     {"sheet":"cost/lstm-8-pad","scale":"full","version":"0.1.0","commit":"a1b2c3d",
 *      "columns":["model","block","seconds"],
 *      "rows":[["lstm",8,0.25]]}
 *
 * `commit` lists the commit of every program that added rows. A number that is not finite is null
 * in JSON and empty in CSV. Threads: one owner.   Secrets: none. */
#ifndef PAPER_SHEET_H
#define PAPER_SHEET_H

#include "paper/paper.h"

enum {
    SHEET_COLUMNS_MAX = 32,
    SHEET_TEXT_MAX = 31,
    SHEET_NAME_MAX = 63,
    SHEET_BYTES_MAX = 8 << 20
};

typedef struct sheet_cell {
    double number;
    char text[SHEET_TEXT_MAX + 1]; /* not empty: the cell is this string */
} sheet_cell;

typedef struct sheet {
    char name[SHEET_NAME_MAX + 1];
    char commits[256];
    const char *const *columns; /* up to NULL */
    size_t width;
    sheet_cell *cell; /* rows * width */
    size_t rows, room;
} sheet;

sheet_cell sheet_number(double v);
sheet_cell sheet_text(const char *text);

/* Makes an empty sheet. */
void sheet_new(sheet *s, const char *name, const char *const *columns);
/* Reads results/NAME.json if it exists; otherwise the sheet is empty. SEFL_EPROTO, with the path,
 * if the file is not a sheet with these columns and this scale. */
sefl_status sheet_open(sheet *s, const paper_options *o, const char *name,
                       const char *const *columns) SEFL_MUST_CHECK;
void sheet_clear(sheet *s);

/* Appends a row of `width` cells. */
sefl_status sheet_add(sheet *s, const sheet_cell *row) SEFL_MUST_CHECK;
/* Appends the rows of another sheet with the same columns. */
sefl_status sheet_append(sheet *s, const sheet *from) SEFL_MUST_CHECK;
/* Returns the number in the column of this name, which must exist (assert). */
double sheet_get(const sheet *s, size_t row, const char *column);
const char *sheet_get_text(const sheet *s, size_t row, const char *column);

sefl_status sheet_save(sheet *s, const paper_options *o) SEFL_MUST_CHECK;
sefl_status sheet_csv(const sheet *s, const paper_options *o) SEFL_MUST_CHECK;

#endif

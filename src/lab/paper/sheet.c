#include "paper/sheet.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json_read.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const sheet_cell *sheet_row(const sheet *s, size_t row)
{
    assert(row < s->rows);
    return s->cell + row * s->width;
}

sefl_status sheet_add_cells(sheet *s, const sheet_cell *row)
{
    SEFL_PASS(sefl_room(&s->cell, &s->room, (s->rows + 1) * s->width, sizeof *s->cell));
    memcpy(s->cell + s->rows++ * s->width, row, s->width * sizeof *row);
    return SEFL_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static sefl_status write_head(sefl_buf *b, const sheet *s)
{
    for (const char *p = s->columns; *p; p++)
        SEFL_PASS(wr_u8(b, *p == ' ' ? ',' : (uint8_t)*p));
    return wr_u8(b, '\n');
}

static bool is_text(const sheet *s, unsigned column)
{
    char name[SETTING_WORD_BYTES];
    return setting_word(SHEET_TEXTS, setting_word_at(name, s->columns, column)) >= 0;
}

/* Returns the place of the column in SHEET_ORIGIN; -1: it is not there. */
static int origin_of(const sheet *s, unsigned column)
{
    char name[SETTING_WORD_BYTES];
    return setting_word(SHEET_ORIGIN, setting_word_at(name, s->columns, column));
}

/* Reads the cell at *text, which it moves to the next one. */
static sefl_status read_cell(sheet_cell *out, sefl_span *text, bool is_string)
{
    const uint8_t *comma = memchr(text->p, ',', text->n);
    const sefl_span cell = span_of(text->p, comma ? (size_t)(comma - text->p) : text->n);
    *out = (sheet_cell){ .number = NAN };
    *text = span_of(text->p + cell.n + (comma != NULL), text->n - cell.n - (comma != NULL));
    if (is_string) {
        SEFL_NEED(cell.n > 0 && cell.n <= SHEET_TEXT_MAX, SEFL_EPROTO, "a text of %zu bytes",
                  cell.n);
        memcpy(out->text, cell.p, cell.n);
    } else if (cell.n > 0) {
        jread j = jread_over(cell);
        SEFL_PASS(jread_real(&j, &out->number));
        SEFL_PASS(jread_end(&j));
    }
    return SEFL_OK;
}

static sefl_status read_row(sheet *s, sefl_span line)
{
    sheet_cell row[SHEET_COLUMNS_MAX];
    unsigned commas = 0;
    for (size_t i = 0; i < line.n; i++)
        commas += line.p[i] == ',';
    SEFL_NEED(commas + 1 == s->width, SEFL_EPROTO, "a row does not have %u cells", s->width);
    for (unsigned i = 0; i < s->width; i++)
        SEFL_PASS(read_cell(&row[i], &line, is_text(s, i)));
    SEFL_PASS(sheet_add_cells(s, row));
    SEFL_NEED(strcmp(sheet_get_text(s, s->rows - 1, "scale"), paper_scale(s->o)) == 0, SEFL_EPROTO,
              "a row is not of scale %s", paper_scale(s->o));
    return SEFL_OK;
}

/* The first line has the names of the columns, and every line ends with a line feed. */
static sefl_status read_sheet(sheet *s, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    sefl_buf head = { 0 };
    SEFL_TRY(write_head(&head, s));
    SEFL_CHECK(bytes.n >= head.n && memcmp(bytes.p, head.p, head.n) == 0, SEFL_EPROTO,
               "not a sheet with these columns");
    for (size_t at = head.n; at < bytes.n;) {
        const uint8_t *from = bytes.p + at, *end = memchr(from, '\n', bytes.n - at);
        SEFL_CHECK(end, SEFL_EPROTO, "the last row is cut off");
        SEFL_TRY(read_row(s, span_of(from, (size_t)(end - from))));
        at += (size_t)(end - from) + 1;
    }
done:
    buf_clear(&head);
    return st;
}

/* ---- public ---------------------------------------------------------------------------------- */

spread spread_of(const double *x, size_t n)
{
    spread s = { .mean = NAN, .sd = NAN, .low = NAN, .high = NAN };
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(x[i])) {
            s.n++;
            sum += x[i];
            s.low = fmin(s.low, x[i]); /* ignores NAN */
            s.high = fmax(s.high, x[i]);
        }
    if (s.n == 0)
        return s;
    s.mean = sum / (double)s.n;
    for (size_t i = 0; i < n; i++)
        if (!isnan(x[i]))
            squares += (x[i] - s.mean) * (x[i] - s.mean);
    s.sd = s.n > 1 ? sqrt(squares / (double)(s.n - 1)) : 0;
    return s;
}

void sheet_new(sheet *s, const paper_options *o, const char *columns, const char *name)
{
    *s = (sheet){ .o = o, .columns = columns, .width = 1 };
    for (const char *p = columns; *p; p++)
        s->width += *p == ' ';
    assert(s->width <= SHEET_COLUMNS_MAX && strlen(name) <= SHEET_NAME_MAX);
    snprintf(s->name, sizeof s->name, "%s", name);
}

sefl_status sheet_open(sheet *s, const paper_options *o, const char *columns, const char *name, ...)
{
    sefl_status st = SEFL_OK;
    sefl_buf bytes = { 0 };
    char path[PATH_MAX], text[SHEET_NAME_MAX + 1];
    va_list ap;
    va_start(ap, name);
    vsnprintf(text, sizeof text, name, ap);
    va_end(ap);
    sheet_clear(s);
    sheet_new(s, o, columns, text);
    SEFL_TRY(paper_path(path, o, "%s.csv", text));
    if (!file_exists(path))
        goto done;
    SEFL_TRY(file_read(&bytes, path, SHEET_BYTES_MAX));
    SEFL_TRY(sefl_at(read_sheet(s, buf_span(&bytes)), "%s", path));
done:
    buf_clear(&bytes);
    if (st != SEFL_OK)
        sheet_clear(s);
    return st;
}

void sheet_clear(sheet *s)
{
    sefl_free(s->cell);
    s->cell = NULL;
    s->rows = s->room = 0;
}

sefl_status sheet_add(sheet *s, const char *const *texts, const double *numbers)
{
    sheet_cell row[SHEET_COLUMNS_MAX] = { 0 };
    const char *const origin[] = { paper_scale(s->o), s->o->version, s->o->commit };
    for (unsigned i = 0; i < s->width; i++) {
        const int own = origin_of(s, i);
        if (own >= 0)
            snprintf(row[i].text, sizeof row[i].text, "%s", origin[own] ? origin[own] : "?");
        else if (is_text(s, i))
            snprintf(row[i].text, sizeof row[i].text, "%s", *texts++);
        else
            row[i].number = *numbers++;
    }
    return sheet_add_cells(s, row);
}

sefl_status sheet_append(sheet *s, const sheet *from)
{
    for (size_t r = 0; r < from->rows; r++)
        SEFL_PASS(sheet_add_cells(s, sheet_row(from, r)));
    return SEFL_OK;
}

static const sheet_cell *cell_of(const sheet *s, size_t row, const char *column)
{
    const int i = setting_word(s->columns, column);
    assert(i >= 0);
    return sheet_row(s, row) + i;
}

double sheet_get(const sheet *s, size_t row, const char *column)
{
    return cell_of(s, row, column)->number;
}

const char *sheet_get_text(const sheet *s, size_t row, const char *column)
{
    return cell_of(s, row, column)->text;
}

/* True if the row has these texts. */
static bool has_texts(const sheet *s, size_t row, const char *const *texts)
{
    for (unsigned i = 0; i < s->width; i++)
        if (is_text(s, i) && origin_of(s, i) < 0 &&
            strcmp(sheet_row(s, row)[i].text, *texts++) != 0)
            return false;
    return true;
}

void sheet_line(double *y, const sheet *s, const char *const *texts, const char *by,
                const unsigned *x, size_t n, const char *column)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = NAN;
        for (size_t r = 0; r < s->rows; r++)
            if (has_texts(s, r, texts) && sheet_get(s, r, by) == x[i])
                y[i] = sheet_get(s, r, column);
    }
}

static sefl_status put_csv(sefl_buf *b, const sheet *s, unsigned column, const sheet_cell *c)
{
    const bool text = is_text(s, column);
    if (column > 0)
        SEFL_PASS(wr_u8(b, ','));
    if (text && s->quoted)
        return wr_fmt(b, "\"%.*s\"", (int)strcspn(c->text, "\""), c->text);
    return text || !isfinite(c->number) ? wr_fmt(b, "%s", c->text) : wr_fmt(b, "%.10g", c->number);
}

sefl_status sheet_csv(const sheet *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    if (s->rows == 0)
        return SEFL_OK;
    SEFL_TRY(write_head(&b, s));
    for (size_t r = 0; r < s->rows; r++) {
        for (unsigned i = 0; i < s->width; i++)
            SEFL_TRY(put_csv(&b, s, i, sheet_row(s, r) + i));
        SEFL_TRY(wr_u8(&b, '\n'));
    }
    SEFL_TRY(paper_write(s->o, buf_span(&b), "%s.csv", s->name));
done:
    buf_clear(&b);
    return st;
}

sefl_status sheet_table(sefl_buf *out, const sheet *s, const char *title, const char *columns)
{
    char name[SETTING_WORD_BYTES];
    unsigned width = 1;
    for (const char *p = columns; *p; p++)
        width += *p == ' ';
    if (s->rows == 0)
        return SEFL_OK;
    SEFL_PASS(wr_fmt(out, "\n## %s\n\n", title));
    for (unsigned i = 0; i < width; i++)
        SEFL_PASS(wr_fmt(out, "| %s ", setting_word_at(name, columns, i)));
    SEFL_PASS(wr_fmt(out, "|\n"));
    for (unsigned i = 0; i < width; i++)
        SEFL_PASS(wr_fmt(out, "|---"));
    SEFL_PASS(wr_fmt(out, "|\n"));
    for (size_t row = 0; row < s->rows; row++) {
        for (unsigned i = 0; i < width; i++) {
            const sheet_cell *c = cell_of(s, row, setting_word_at(name, columns, i));
            SEFL_PASS(c->text[0] || !isfinite(c->number) ? wr_fmt(out, "| %s ", c->text)
                                                         : wr_fmt(out, "| %.8g ", c->number));
        }
        SEFL_PASS(wr_fmt(out, "|\n"));
    }
    return SEFL_OK;
}

#include "paper/sheet.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

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

typedef struct reader {
    sheet *s;
    bool scaled, columns; /* that were found to fit */
    sefl_buf text;
} reader;

static sefl_status read_text(reader *r, jread *j)
{
    buf_reset(&r->text);
    return jread_str(j, &r->text);
}

static sefl_status read_columns(reader *r, jread *j)
{
    char want[SETTING_WORD_BYTES];
    bool more;
    SEFL_PASS(jread_open(j, '['));
    for (unsigned n = 0;; n++) {
        SEFL_PASS(jread_item(j, &more));
        SEFL_NEED(more == (n < r->s->width), SEFL_EPROTO, "not %u columns", r->s->width);
        r->columns = !more;
        if (!more)
            return SEFL_OK;
        SEFL_PASS(read_text(r, j));
        SEFL_NEED(jread_is(&r->text, setting_word_at(want, r->s->columns, n)), SEFL_EPROTO,
                  "column %u is not %s", n + 1, want);
    }
}

sefl_status sheet_read_cell(sheet_cell *out, jread *j)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { 0 };
    *out = (sheet_cell){ .number = NAN };
    if (jread_peek(j) == 'n')
        return jread_skip(j);
    if (jread_peek(j) != '"')
        return jread_real(j, &out->number);
    SEFL_TRY(jread_str(j, &text));
    SEFL_CHECK(text.n > 0 && text.n <= SHEET_TEXT_MAX, SEFL_EPROTO, "a string of %zu bytes",
               text.n);
    memcpy(out->text, text.p, text.n);
done:
    buf_clear(&text);
    return st;
}

static sefl_status read_row(reader *r, jread *j)
{
    sheet_cell row[SHEET_COLUMNS_MAX];
    const unsigned width = r->s->width;
    bool more;
    SEFL_PASS(jread_open(j, '['));
    for (unsigned n = 0;; n++) {
        SEFL_PASS(jread_item(j, &more));
        SEFL_NEED(more == (n < width), SEFL_EPROTO, "a row does not have %u cells", width);
        if (!more)
            return sheet_add_cells(r->s, row);
        SEFL_PASS(sheet_read_cell(&row[n], j));
    }
}

static sefl_status read_member(void *ctx, jread *j, const sefl_buf *key)
{
    reader *r = ctx;
    sheet *s = r->s;
    if (jread_is(key, "columns"))
        return read_columns(r, j);
    if (jread_is(key, "rows")) {
        SEFL_NEED(r->columns, SEFL_EPROTO, "\"rows\" before \"columns\"");
        SEFL_PASS(jread_open(j, '['));
        for (bool more;;) {
            SEFL_PASS(jread_item(j, &more));
            if (!more)
                return SEFL_OK;
            SEFL_PASS(read_row(r, j));
        }
    }
    if (!jread_is(key, "scale") && !jread_is(key, "commit"))
        return jread_skip(j);
    SEFL_PASS(read_text(r, j));
    if (jread_is(key, "scale"))
        r->scaled = jread_is(&r->text, paper_scale(s->o));
    else
        snprintf(s->commits, sizeof s->commits, "%.*s", (int)r->text.n, (const char *)r->text.p);
    return SEFL_OK;
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
    reader r = { .s = s };
    char path[PATH_MAX], text[SHEET_NAME_MAX + 1];
    va_list ap;
    va_start(ap, name);
    vsnprintf(text, sizeof text, name, ap);
    va_end(ap);
    sheet_clear(s);
    sheet_new(s, o, columns, text);
    SEFL_TRY(paper_path(path, o, "%s.json", text));
    if (!file_exists(path))
        goto done;
    SEFL_TRY(file_read(&bytes, path, SHEET_BYTES_MAX));
    SEFL_TRY(sefl_at(jread_document(buf_span(&bytes), read_member, &r), "%s", path));
    SEFL_CHECK(r.scaled && r.columns, SEFL_EPROTO, "%s: not a sheet of scale %s", path,
               paper_scale(o));
done:
    buf_clear(&bytes);
    buf_clear(&r.text);
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
    char column[SETTING_WORD_BYTES];
    for (unsigned i = 0; i < s->width; i++)
        if (setting_word(SHEET_TEXTS, setting_word_at(column, s->columns, i)) >= 0)
            snprintf(row[i].text, sizeof row[i].text, "%s", *texts++);
        else
            row[i].number = *numbers++;
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
    for (const sheet_cell *c = sheet_row(s, row), *end = c + s->width; c < end; c++)
        if (c->text[0] && strcmp(c->text, *texts++) != 0)
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

static void put_rows(json *j, const sheet *s)
{
    json_key(j, "rows"), json_open(j, '[');
    for (size_t r = 0; r < s->rows; r++) {
        json_open(j, '[');
        for (const sheet_cell *c = sheet_row(s, r), *end = c + s->width; c < end; c++)
            if (c->text[0])
                json_str(j, c->text);
            else
                json_real(j, c->number);
        json_close(j, ']');
    }
    json_close(j, ']');
}

sefl_status sheet_save(sheet *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    char column[SETTING_WORD_BYTES];
    const char *version = s->o->version, *commit = s->o->commit;
    const size_t n = strlen(s->commits);
    if (commit && !strstr(s->commits, commit))
        snprintf(s->commits + n, sizeof s->commits - n, "%s%s", n > 0 ? " " : "", commit);
    json_open(&j, '{');
    json_key(&j, "sheet"), json_str(&j, s->name);
    json_key(&j, "scale"), json_str(&j, paper_scale(s->o));
    json_key(&j, "version"), json_str(&j, version ? version : "");
    json_key(&j, "commit"), json_str(&j, s->commits);
    json_key(&j, "columns"), json_open(&j, '[');
    for (unsigned i = 0; i < s->width; i++)
        json_str(&j, setting_word_at(column, s->columns, i));
    json_close(&j, ']');
    put_rows(&j, s);
    json_close(&j, '}');
    SEFL_TRY(json_end(&j));
    SEFL_TRY(wr_fmt(&b, "\n"));
    SEFL_TRY(paper_write(s->o, buf_span(&b), "%s.json", s->name));
done:
    buf_clear(&b);
    return st;
}

static sefl_status put_csv(sefl_buf *b, const sheet *s, unsigned column, const sheet_cell *c)
{
    char name[SETTING_WORD_BYTES];
    const bool text = setting_word(SHEET_TEXTS, setting_word_at(name, s->columns, column)) >= 0;
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
    const bool scaled = setting_word(s->columns, "scale") >= 0;
    if (s->rows == 0)
        return SEFL_OK;
    for (const char *p = s->columns; *p; p++)
        SEFL_TRY(wr_u8(&b, *p == ' ' ? ',' : (uint8_t)*p));
    SEFL_TRY(wr_fmt(&b, "%s\n", scaled ? "" : ",scale"));
    for (size_t r = 0; r < s->rows; r++) {
        for (unsigned i = 0; i < s->width; i++)
            SEFL_TRY(put_csv(&b, s, i, sheet_row(s, r) + i));
        SEFL_TRY(scaled ? wr_fmt(&b, "\n") : wr_fmt(&b, ",%s\n", paper_scale(s->o)));
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

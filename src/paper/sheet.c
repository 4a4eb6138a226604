#include "paper/sheet.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_read.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

sheet_cell sheet_number(double v)
{
    return (sheet_cell){ .number = v };
}

sheet_cell sheet_text(const char *text)
{
    sheet_cell c = { .number = NAN };
    snprintf(c.text, sizeof c.text, "%s", text);
    return c;
}

/* ---- reading --------------------------------------------------------------------------------- */

static sefl_status read_columns(const sheet *s, jread *j)
{
    sefl_status st = SEFL_OK;
    sefl_buf name = { 0 };
    size_t n = 0;
    bool more;
    SEFL_TRY(jread_open(j, '['));
    for (;; n++) {
        SEFL_TRY(jread_item(j, &more));
        if (!more)
            break;
        buf_reset(&name);
        SEFL_TRY(jread_str(j, &name));
        SEFL_CHECK(n < s->width && jread_is(&name, s->columns[n]), SEFL_EPROTO,
                   "column %zu is not \"%s\"", n + 1, n < s->width ? s->columns[n] : "absent");
    }
    SEFL_CHECK(n == s->width, SEFL_EPROTO, "%zu columns instead of %zu", n, s->width);
done:
    buf_clear(&name);
    return st;
}

static sefl_status read_cell(sheet_cell *c, jread *j, sefl_buf *text)
{
    *c = sheet_number(NAN);
    if (jread_peek(j) == 'n')
        return jread_skip(j);
    if (jread_peek(j) != '"')
        return jread_real(j, &c->number);
    buf_reset(text);
    SEFL_PASS(jread_str(j, text));
    SEFL_NEED(text->n > 0 && text->n <= SHEET_TEXT_MAX, SEFL_EPROTO, "a string of %zu bytes",
              text->n);
    memcpy(c->text, text->p, text->n);
    return SEFL_OK;
}

static sefl_status read_rows(sheet *s, jread *j)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { 0 };
    sheet_cell row[SHEET_COLUMNS_MAX];
    bool more;
    SEFL_TRY(jread_open(j, '['));
    for (;;) {
        SEFL_TRY(jread_item(j, &more));
        if (!more)
            break;
        SEFL_TRY(jread_open(j, '['));
        size_t n = 0;
        for (;; n++) {
            SEFL_TRY(jread_item(j, &more));
            if (!more)
                break;
            SEFL_CHECK(n < s->width, SEFL_EPROTO, "row %zu has more than %zu cells", s->rows + 1,
                       s->width);
            SEFL_TRY(read_cell(&row[n], j, &text));
        }
        SEFL_CHECK(n == s->width, SEFL_EPROTO, "row %zu has %zu cells instead of %zu", s->rows + 1,
                   n, s->width);
        SEFL_TRY(sheet_add(s, row));
    }
done:
    buf_clear(&text);
    return st;
}

static sefl_status read_document(sheet *s, const char *scale, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    sefl_buf key = { 0 }, text = { 0 };
    bool more, columns = false, scaled = false;
    jread j = jread_over(bytes);
    SEFL_TRY(jread_open(&j, '{'));
    while ((st = jread_key(&j, &key, &more)) == SEFL_OK && more) {
        buf_reset(&text);
        if (jread_is(&key, "scale")) {
            SEFL_TRY(jread_str(&j, &text));
            scaled = jread_is(&text, scale);
        } else if (jread_is(&key, "commit")) {
            SEFL_TRY(jread_str(&j, &text));
            snprintf(s->commits, sizeof s->commits, "%.*s", (int)text.n, (const char *)text.p);
        } else if (jread_is(&key, "columns")) {
            SEFL_TRY(read_columns(s, &j));
            columns = true;
        } else if (jread_is(&key, "rows")) {
            SEFL_CHECK(columns, SEFL_EPROTO, "\"rows\" before \"columns\"");
            SEFL_TRY(read_rows(s, &j));
        } else {
            SEFL_TRY(jread_skip(&j));
        }
    }
    SEFL_TRY(st);
    SEFL_TRY(jread_end(&j));
    SEFL_CHECK(scaled && columns, SEFL_EPROTO, "not a sheet of scale %s", scale);
done:
    buf_clear(&key);
    buf_clear(&text);
    return st;
}

/* ---- public ---------------------------------------------------------------------------------- */

void sheet_new(sheet *s, const char *name, const char *const *columns)
{
    *s = (sheet){ .columns = columns };
    while (columns[s->width])
        s->width++;
    assert(s->width <= SHEET_COLUMNS_MAX && strlen(name) <= SHEET_NAME_MAX);
    snprintf(s->name, sizeof s->name, "%s", name);
}

sefl_status sheet_open(sheet *s, const paper_options *o, const char *name,
                       const char *const *columns)
{
    sefl_status st = SEFL_OK;
    sefl_buf bytes = { 0 };
    char path[PATH_MAX];
    sheet_new(s, name, columns);
    SEFL_TRY(paper_path(path, o, "%s.json", name));
    if (!file_exists(path))
        goto done;
    SEFL_TRY(file_read(&bytes, path, SHEET_BYTES_MAX));
    SEFL_TRY(sefl_at(read_document(s, paper_scale(o), buf_span(&bytes)), "%s", path));
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

sefl_status sheet_add(sheet *s, const sheet_cell *row)
{
    SEFL_PASS(sefl_room(&s->cell, &s->room, (s->rows + 1) * s->width, sizeof *s->cell));
    memcpy(s->cell + s->rows * s->width, row, s->width * sizeof *row);
    s->rows++;
    return SEFL_OK;
}

static const sheet_cell *sheet_row(const sheet *s, size_t row)
{
    assert(row < s->rows);
    return s->cell + row * s->width;
}

sefl_status sheet_append(sheet *s, const sheet *from)
{
    for (size_t r = 0; r < from->rows; r++)
        SEFL_PASS(sheet_add(s, sheet_row(from, r)));
    return SEFL_OK;
}

static const sheet_cell *cell_of(const sheet *s, size_t row, const char *column)
{
    size_t i = 0;
    while (i < s->width && strcmp(s->columns[i], column) != 0)
        i++;
    assert(i < s->width);
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

static void add_commit(sheet *s, const char *commit)
{
    const size_t n = strlen(s->commits);
    if (commit && !strstr(s->commits, commit))
        snprintf(s->commits + n, sizeof s->commits - n, "%s%s", n > 0 ? " " : "", commit);
}

sefl_status sheet_save(sheet *s, const paper_options *o)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char file[SHEET_NAME_MAX + 8];
    json j = json_into(&b);
    add_commit(s, o->commit);
    json_open(&j, '{');
    json_key(&j, "sheet"), json_str(&j, s->name);
    json_key(&j, "scale"), json_str(&j, paper_scale(o));
    json_key(&j, "version"), json_str(&j, o->version ? o->version : "");
    json_key(&j, "commit"), json_str(&j, s->commits);
    json_key(&j, "columns"), json_open(&j, '[');
    for (size_t i = 0; i < s->width; i++)
        json_str(&j, s->columns[i]);
    json_close(&j, ']');
    json_key(&j, "rows"), json_open(&j, '[');
    for (size_t r = 0; r < s->rows; r++) {
        json_open(&j, '[');
        for (size_t i = 0; i < s->width; i++) {
            const sheet_cell *c = sheet_row(s, r) + i;
            if (c->text[0])
                json_str(&j, c->text);
            else
                json_real(&j, c->number);
        }
        json_close(&j, ']');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    SEFL_TRY(json_end(&j));
    SEFL_TRY(wr_fmt(&b, "\n"));
    snprintf(file, sizeof file, "%s.json", s->name);
    SEFL_TRY(paper_write(o, file, buf_span(&b)));
done:
    buf_clear(&b);
    return st;
}

/* Text cells are words of the program, without commas or quotes. */
sefl_status sheet_csv(const sheet *s, const paper_options *o)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char file[SHEET_NAME_MAX + 8];
    for (size_t i = 0; i < s->width; i++)
        SEFL_TRY(wr_fmt(&b, "%s%s", i ? "," : "", s->columns[i]));
    SEFL_TRY(wr_fmt(&b, ",scale\n"));
    for (size_t r = 0; r < s->rows; r++) {
        for (size_t i = 0; i < s->width; i++) {
            const sheet_cell *c = sheet_row(s, r) + i;
            SEFL_TRY(wr_fmt(&b, "%s", i ? "," : ""));
            if (c->text[0])
                SEFL_TRY(wr_fmt(&b, "%s", c->text));
            else if (isfinite(c->number))
                SEFL_TRY(wr_fmt(&b, "%.10g", c->number));
        }
        SEFL_TRY(wr_fmt(&b, ",%s\n", paper_scale(o)));
    }
    snprintf(file, sizeof file, "%s.csv", s->name);
    SEFL_TRY(paper_write(o, file, buf_span(&b)));
done:
    buf_clear(&b);
    return st;
}

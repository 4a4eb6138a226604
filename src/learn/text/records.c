#include "model/corpus/records.h"

#include "base/json_read.h"

#include <string.h>

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

corpus_format corpus_format_of(const corpus_file *f)
{
    if (f->format != CORPUS_GUESS)
        return f->format;
    if (ends_with(f->path, ".jsonl") || ends_with(f->path, ".ndjson"))
        return CORPUS_JSONL;
    return ends_with(f->path, ".csv") ? CORPUS_CSV : CORPUS_TEXT;
}

static unsigned long long line_of(const record_reader *r)
{
    return (unsigned long long)r->in.line;
}

/* ---- CSV ----------------------------------------------------------------------------------- */

/* Reads a quoted field after its opening quote, and further lines as needed. keep may be NULL. */
static sefl_status csv_quoted(record_reader *r, sefl_span *row, size_t *at, sefl_buf *keep)
{
    unsigned long long opened = line_of(r);
    for (;;) {
        const uint8_t *begin = row->p + *at;
        const uint8_t *q = *at < row->n ? memchr(begin, '"', row->n - *at) : NULL;
        size_t run = q ? (size_t)(q - begin) : row->n - *at;
        if (keep)
            SEFL_PASS(wr_raw(keep, begin, run));
        if (q) {
            *at += run + 1;
            if (*at == row->n || row->p[*at] != '"')
                break; /* closed */
            if (keep)
                SEFL_PASS(wr_u8(keep, '"'));
            ++*at;
            continue;
        }
        bool more = r->in.had_end;
        if (more) {
            if (keep)
                SEFL_PASS(wr_u8(keep, '\n'));
            SEFL_PASS(lines_next(&r->in, row, &more));
            *at = 0;
        }
        SEFL_NEED(more, SEFL_EPROTO, "%s:%llu: the quote opened here is never closed", r->in.path,
                  opened);
    }
    SEFL_NEED(*at == row->n || row->p[*at] == ',', SEFL_EPROTO,
              "%s:%llu: text after a closing quote (double a quote inside quotes)", r->in.path,
              line_of(r));
    return SEFL_OK;
}

/* Reads one row. header: finds the column; otherwise its value goes to r->text. */
static sefl_status csv_row(record_reader *r, bool header, bool *more)
{
    sefl_span row;
    size_t at = 0, n = 0, found = 0;
    SEFL_PASS(lines_next(&r->in, &row, more));
    if (!*more)
        return SEFL_OK;
    r->line = r->in.line;
    buf_reset(&r->text);
    for (;; n++) {
        sefl_buf *keep = header ? &r->key : n == r->column ? &r->text : NULL;
        if (header)
            buf_reset(&r->key);
        if (at < row.n && row.p[at] == '"') {
            at++;
            SEFL_PASS(csv_quoted(r, &row, &at, keep));
        } else {
            size_t begin = at;
            while (at < row.n && row.p[at] != ',' && row.p[at] != '"')
                at++;
            SEFL_NEED(at == row.n || row.p[at] == ',', SEFL_EPROTO,
                      "%s:%llu: a quote inside a field that does not begin with one", r->in.path,
                      line_of(r));
            if (keep)
                SEFL_PASS(wr_raw(keep, row.p + begin, at - begin));
        }
        if (header && jread_is(&r->key, r->field)) {
            SEFL_NEED(found == 0, SEFL_EPROTO, "%s:%llu: two columns are named \"%.64s\"",
                      r->in.path, line_of(r), r->field);
            found = 1;
            r->column = n;
        }
        if (at == row.n)
            break;
        at++; /* the comma */
    }
    n++;
    if (header) {
        r->columns = n;
        SEFL_NEED(found, SEFL_EPROTO, "%s:%llu: no column is named \"%.64s\"", r->in.path,
                  (unsigned long long)r->line, r->field);
    }
    SEFL_NEED(n == r->columns, SEFL_EPROTO, "%s:%llu: %zu fields, the first row has %zu",
              r->in.path, (unsigned long long)r->line, n, r->columns);
    return SEFL_OK;
}

/* ---- JSONL --------------------------------------------------------------------------------- */

static sefl_status jsonl_parse(record_reader *r, sefl_span line)
{
    jread j = jread_over(line);
    bool more = false, found = false;
    buf_reset(&r->text);
    SEFL_PASS(jread_open(&j, '{'));
    for (;;) {
        SEFL_PASS(jread_key(&j, &r->key, &more));
        if (!more)
            break;
        if (!jread_is(&r->key, r->field)) {
            SEFL_PASS(jread_skip(&j));
            continue;
        }
        SEFL_NEED(!found, SEFL_EPROTO, "\"%.64s\" occurs twice", r->field);
        SEFL_NEED(jread_peek(&j) == '"', SEFL_EPROTO, "\"%.64s\" is not a string", r->field);
        SEFL_PASS(jread_str(&j, &r->text));
        found = true;
    }
    SEFL_PASS(jread_end(&j));
    SEFL_NEED(found, SEFL_EPROTO, "no member is named \"%.64s\"", r->field);
    return SEFL_OK;
}

static sefl_status jsonl_next(record_reader *r, bool *more)
{
    sefl_span line;
    sefl_status st = lines_next(&r->in, &line, more);
    if (st != SEFL_OK || !*more)
        return st;
    r->line = r->in.line;
    st = jsonl_parse(r, line);
    return sefl_at(st, "%s:%llu", r->in.path, line_of(r));
}

/* ---- all of them --------------------------------------------------------------------------- */

/* The lines are open. Closes them on failure. */
static sefl_status begin(record_reader *r, const corpus_file *f)
{
    sefl_status st = SEFL_OK;
    bool more = true;
    r->format = corpus_format_of(f);
    r->field = f->field ? f->field : "text";
    r->text.max = r->key.max = LINES_MAX;
    if (r->format == CORPUS_CSV)
        SEFL_TRY(csv_row(r, true, &more));
    SEFL_CHECK(more, SEFL_EPROTO, "%s: is empty: a CSV file begins with a row of column names",
               r->in.path);
done:
    if (st != SEFL_OK)
        records_close(r);
    return st;
}

sefl_status records_open(record_reader *r, const corpus_file *f)
{
    *r = (record_reader){ .in.fd = -1 };
    SEFL_PASS(lines_open(&r->in, f->path));
    return begin(r, f);
}

sefl_status records_over(record_reader *r, const corpus_file *f, sefl_span bytes)
{
    *r = (record_reader){ .in.fd = -1 };
    lines_over(&r->in, bytes, f->path);
    return begin(r, f);
}

sefl_status records_next(record_reader *r, sefl_span *text, bool *more)
{
    sefl_status st;
    *text = span_of("", 0);
    if (r->format == CORPUS_TEXT) {
        st = lines_next(&r->in, text, more);
        r->line = r->in.line;
        return st;
    }
    st = r->format == CORPUS_CSV ? csv_row(r, false, more) : jsonl_next(r, more);
    if (st == SEFL_OK && *more)
        *text = r->text.n ? buf_span(&r->text) : span_of("", 0);
    return st;
}

void records_close(record_reader *r)
{
    lines_close(&r->in);
    buf_clear(&r->text);
    buf_clear(&r->key);
    *r = (record_reader){ .in.fd = -1 };
}

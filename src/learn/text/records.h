/* records: reads documents from a text, JSONL or CSV file, one at a time, in bounded memory.
 *
 *     record_reader in = { 0 };
 *     SEFL_TRY(records_open(&in, &(corpus_file){ .path = p, .format = CORPUS_CSV }));
 *     for (bool more; (st = records_next(&in, &text, &more)) == SEFL_OK && more;)
 *         use(text, in.line);                   // in.line: first line of the record
 * done:
 *     records_close(&in);
 *
 *   text   one record per line
 *   JSONL  one object per line; the record is its string member `field`, which must occur once;
 *          other members are checked and skipped
 *   CSV    RFC 4180: the first row names the columns; the record is the column `field`; quoted
 *          fields may contain commas, doubled quotes and line ends (returned as LF); every row has
 *          as many fields as the first
 *
 * Both parsers are strict: they reject invalid syntax with SEFL_EPROTO and a message that begins
 * with "file:line: ". A record has at most LINES_MAX bytes.
 *
 * Threads: one owner. */
#ifndef MODEL_CORPUS_RECORDS_H
#define MODEL_CORPUS_RECORDS_H

#include "model/corpus/lines.h"
#include "model/lm_config.h"

typedef struct corpus_file {
    const char *path;
    corpus_format format; /* CORPUS_GUESS: by extension .jsonl, .ndjson, .csv; otherwise text */
    const char *field;    /* JSONL and CSV; NULL: "text" */
} corpus_file;

typedef struct record_reader {
    uint64_t line; /* first line of the latest record */
    line_reader in;
    corpus_format format;
    const char *field;
    size_t column, columns; /* CSV */
    sefl_buf text, key;
} record_reader;

corpus_format corpus_format_of(const corpus_file *f);

/* Opens a file. For CSV, also reads the first row, so that a missing column is reported at once. */
sefl_status records_open(record_reader *r, const corpus_file *f) SEFL_MUST_CHECK;

/* Like records_open, but reads bytes in memory, which must outlive r; messages show f->path. */
sefl_status records_over(record_reader *r, const corpus_file *f, sefl_span bytes) SEFL_MUST_CHECK;

/* Reads the next record; *text is valid until the next call. */
sefl_status records_next(record_reader *r, sefl_span *text, bool *more) SEFL_MUST_CHECK;

void records_close(record_reader *r);

#endif

/* lines: reads a text file one physical line at a time, in bounded memory.
 *
 *     line_reader in = { 0 };
 *     SEFL_TRY(lines_open(&in, path));
 *     for (bool more; (st = lines_next(&in, &text, &more)) == SEFL_OK && more;)
 *         use(text, in.line);                   // the view is valid until the next call
 * done:
 *     lines_close(&in);
 *
 * A line ends with LF or CR LF, which is not part of the line; the last line may lack it. The
 * reader skips a byte order mark at the start. Every line must be text: a NUL byte or invalid UTF-8
 * is SEFL_EPROTO with "file:line: ...". The input may be a file or a pipe, not a folder or device.
 * Memory: one buffer that grows to the longest line, at most LINES_MAX.
 *
 * Threads: one owner.   Cost: about 1 GB/s. */
#ifndef MODEL_CORPUS_LINES_H
#define MODEL_CORPUS_LINES_H

#include "base/buf.h"

#include <stdbool.h>

enum { LINES_MAX = 64 << 20 }; /* maximum bytes of a line */

typedef struct line_reader {
    const char *path; /* shown in messages; borrowed */
    uint64_t line;    /* number of the latest line, from 1 */
    uint64_t bytes;   /* bytes read from the file so far */
    uint64_t size;    /* size of the file; 0: unknown (a pipe) */
    bool had_end;     /* the latest line ended with LF */
    int fd;           /* -1: in memory */
    sefl_buf window;
    size_t at; /* first byte of the window not consumed yet */
    sefl_span memory;
    bool is_open, eof;
} line_reader;

/* SEFL_ENOTFOUND if the file does not exist. */
sefl_status lines_open(line_reader *in, const char *path) SEFL_MUST_CHECK;

/* Reads from memory, which must outlive the reader; messages show `name` instead of a path. */
void lines_over(line_reader *in, sefl_span bytes, const char *name);

sefl_status lines_next(line_reader *in, sefl_span *text, bool *more) SEFL_MUST_CHECK;

void lines_close(line_reader *in);

#endif

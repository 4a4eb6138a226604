/* json_read: a strict pull reader for JSON (RFC 8259).
 *
 *     jread j = jread_over(text);
 *     SEFL_TRY(jread_open(&j, '{'));
 *     for (bool more; (st = jread_key(&j, &key, &more)) == SEFL_OK && more;)
 *         if (jread_is(&key, "shape")) ...                  // read the value or jread_skip it
 *     SEFL_TRY(jread_end(&j));
 *
 * The reader unescapes strings and joins surrogate pairs. It rejects lone surrogates, NUL, control
 * characters, invalid UTF-8, comments, trailing commas, leading zeros and more than 32 levels of
 * nesting. Errors are SEFL_EPROTO and begin with "byte N: ". The reader allocates only in the
 * caller's buffers, which never exceed the size of the input.
 *
 * Threads: one owner. */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H

#include "base/buf.h"

#include <stdbool.h>

enum { JREAD_DEPTH = 32 };

typedef struct jread {
    const uint8_t *p;
    size_t n, at;
    unsigned depth;
    uint64_t has_item; /* bit d: level d already has an item */
} jread;

jread jread_over(sefl_span text);

/* Returns the kind of the next value: '{' '[' '"' 't' 'f' 'n', '0' for a number; 0 at the end. */
char jread_peek(jread *j);

sefl_status jread_open(jread *j, char bracket) SEFL_MUST_CHECK;

/* Reads the next key of the open object into key, which it empties first. At the end of the object
 * it closes the object and sets *more to false. */
sefl_status jread_key(jread *j, sefl_buf *key, bool *more) SEFL_MUST_CHECK;

/* Moves to the next item of the open array. At the end, closes the array and clears *more. */
sefl_status jread_item(jread *j, bool *more) SEFL_MUST_CHECK;

/* Appends the string to out; if out is NULL, only checks it. */
sefl_status jread_str(jread *j, sefl_buf *out) SEFL_MUST_CHECK;

/* Reads an integer from 0 to 2^64-1, written without sign, fraction or exponent. */
sefl_status jread_u64(jread *j, uint64_t *out) SEFL_MUST_CHECK;

/* Reads any number in any locale. The result is exact up to 15 digits, else within a few units in
 * the last place. */
sefl_status jread_real(jread *j, double *out) SEFL_MUST_CHECK;

sefl_status jread_bool(jread *j, bool *out) SEFL_MUST_CHECK;

/* Skips one value of any kind after checking its syntax. */
sefl_status jread_skip(jread *j) SEFL_MUST_CHECK;

/* SEFL_EPROTO unless only white space is left. */
sefl_status jread_end(jread *j) SEFL_MUST_CHECK;

/* Reads a text that is one object. Calls `member` after each key, to read or skip the value. */
typedef sefl_status jread_member(void *ctx, jread *j, const sefl_buf *key);
sefl_status jread_document(sefl_span text, jread_member *member, void *ctx) SEFL_MUST_CHECK;

/* True if the buffer contains exactly this string. */
bool jread_is(const sefl_buf *b, const char *s);

#endif

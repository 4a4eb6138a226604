/* hex: converts bytes to hexadecimal digits and back.
 *
 *     char text[HEX_CHARS(SHA256_BYTES)];
 *     printf("%s\n", hex_write(text, digest, sizeof digest));
 *     SEFL_CHECK(hex_read(digest, sizeof digest, text), SEFL_EPROTO, "not 64 hex digits");
 *
 * Output is lower case. hex_read accepts only lower case, for strings that this program wrote and
 * values that must have one spelling. hex_read_any accepts either case, for user input.
 *
 * Threads: any; these are plain values.   Secrets: none; time and branches depend on the digits. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include "base/buf.h"

#include <stdbool.h>

/* Number of characters for n bytes, including the terminator. */
#define HEX_CHARS(n) (2 * (n) + 1)

/* Writes 2n digits and a terminator; returns out. */
char *hex_write(char *out, const void *bytes, size_t n);

/* Appends 2n digits, without a terminator. */
sefl_status wr_hex(sefl_buf *b, const void *bytes, size_t n) SEFL_MUST_CHECK;

/* Returns the value of one digit in either case; -1 if c is not a digit. */
int hex_digit(char c);

/* Returns the number of lower-case digits that text begins with. */
size_t hex_length(const char *text);

/* Reads exactly 2n lower-case digits. If text is anything else, zeroes out and returns false. */
bool hex_read(void *out, size_t n, const char *text);

/* Like hex_read, but accepts either case; text needs no terminator. */
bool hex_read_any(void *out, size_t n, sefl_span text);

#endif

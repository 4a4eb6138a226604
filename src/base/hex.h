/* hex: bytes as hexadecimal digits, and back.
 *
 *     char text[HEX_CHARS(SHA256_BYTES)];
 *     printf("%s\n", hex_write(text, digest, sizeof digest));
 *     SEFL_CHECK(hex_read(digest, sizeof digest, text), SEFL_EPROTO, "not 64 hex digits");
 *
 * Digits are written in lower case. hex_read takes lower case only: for what this program wrote,
 * and where a value must have one spelling. hex_read_any takes either case: for what people may
 * type.
 *
 * Threads: values, share freely.   Secrets: none; time and branches depend on the digits. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include "base/buf.h"

#include <stdbool.h>

/* Characters for n bytes, with the terminator. */
#define HEX_CHARS(n) (2 * (n) + 1)

/* Writes 2n digits and a terminator; returns out. */
char *hex_write(char *out, const void *bytes, size_t n);

/* Appends 2n digits, without a terminator. */
sefl_status wr_hex(sefl_buf *b, const void *bytes, size_t n) SEFL_MUST_CHECK;

/* Value of one digit in either case, or -1. */
int hex_digit(char c);

/* How many lower-case digits text starts with. */
size_t hex_length(const char *text);

/* True if text is exactly 2n lower-case digits; otherwise out is zeroed. */
bool hex_read(void *out, size_t n, const char *text);

/* The same for text without a terminator, in either case. */
bool hex_read_any(void *out, size_t n, sefl_span text);

#endif

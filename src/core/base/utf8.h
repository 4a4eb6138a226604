/* utf8: validates UTF-8 and splits text into words.
 *
 * As in Python's str.split(), a word is a run of characters without white space. White space is
 * every Unicode space, including no-break and ideographic ones, and ASCII 1C to 1F.
 *
 * Threads: any. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/span.h"

#include <stdbool.h>

/* Decodes the sequence at p (n > 0 bytes left) and returns its length; 0 if it is invalid,
 * truncated or overlong, or encodes a surrogate or a value above U+10FFFF. */
size_t utf8_decode(const uint8_t *p, size_t n, uint32_t *code);

/* Writes a code point (at most U+10FFFF, no surrogate) and returns its length, 1 to 4 bytes. */
size_t utf8_encode(uint8_t out[4], uint32_t code);

/* Returns the number of bytes before the first NUL or invalid sequence; s.n if there is none. */
size_t utf8_good(sefl_span s);

/* Removes the next word from the front of *text, which is valid UTF-8; false if there is none. */
bool utf8_word(sefl_span *text, sefl_span *word);

#endif

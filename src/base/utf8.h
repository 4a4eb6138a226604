/* utf8: checks UTF-8, and splits text into words.
 *
 * Words are what Python's str.split() gives: runs without white space, where white space is that
 * of Unicode (no-break and ideographic spaces included) and the four ASCII separators 1C to 1F.
 *
 * Threads: any. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/span.h"

#include <stdbool.h>

/* Length of the sequence at p (n > 0 bytes left) and its code point; 0 if it is none: cut,
 * overlong, a surrogate, above U+10FFFF. */
size_t utf8_decode(const uint8_t *p, size_t n, uint32_t *code);

/* Writes the code point (at most U+10FFFF, no surrogate) as 1 to 4 bytes. */
size_t utf8_encode(uint8_t out[4], uint32_t code);

/* Bytes before the first that is not UTF-8, or is NUL; s.n if all is well. */
size_t utf8_good(sefl_span s);

/* Takes the next word off the front of *text (which is UTF-8); false when there is none. */
bool utf8_word(sefl_span *text, sefl_span *word);

#endif

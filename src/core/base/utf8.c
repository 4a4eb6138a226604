#include "base/utf8.h"

#include <string.h>

size_t utf8_decode(const uint8_t *p, size_t n, uint32_t *code)
{
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t len = p[0] < 0x80       ? 1
                 : p[0] >> 5 == 6  ? 2
                 : p[0] >> 4 == 14 ? 3
                 : p[0] >> 3 == 30 ? 4
                                   : 0;
    if (len == 0 || len > n)
        return 0;
    uint32_t c = len == 1 ? p[0] : p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (p[i] >> 6 != 2)
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *code = c;
    return len;
}

size_t utf8_encode(uint8_t out[4], uint32_t c)
{
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)(n == 1 ? c : (0xf00u >> n & 0xff) | c);
    return n;
}

size_t utf8_good(sefl_span s)
{
    const uint64_t high = 0x8080808080808080u, ones = 0x0101010101010101u;
    size_t i = 0;
    while (i < s.n) {
        if (s.n - i >= 8) { /* eight ASCII bytes, none of them NUL */
            uint64_t x;
            memcpy(&x, s.p + i, 8);
            if (!((x | (x - ones)) & high)) {
                i += 8;
                continue;
            }
        }
        uint32_t code;
        size_t len = utf8_decode(s.p + i, s.n - i, &code);
        if (len == 0 || code == 0)
            return i;
        i += len;
    }
    return s.n;
}

/* Returns the length of the white space character at p, 0 if it is another character. */
static size_t space_len(const uint8_t *p, size_t n)
{
    uint32_t c = 0;
    if (p[0] <= 0x20)
        return p[0] == 0x20 || (p[0] >= 0x09 && p[0] <= 0x0d) || (p[0] >= 0x1c && p[0] <= 0x1f);
    if (p[0] != 0xc2 && p[0] != 0xe1 && p[0] != 0xe2 && p[0] != 0xe3)
        return 0;
    size_t len = utf8_decode(p, n, &c);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
                   c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000
               ? len
               : 0;
}

bool utf8_word(sefl_span *text, sefl_span *word)
{
    const uint8_t *p = text->p, *end = p + text->n;
    size_t len;
    while (p < end && (len = space_len(p, (size_t)(end - p))) > 0)
        p += len;
    const uint8_t *begin = p;
    while (p < end && space_len(p, (size_t)(end - p)) == 0)
        p++;
    *word = span_of(begin, (size_t)(p - begin));
    *text = span_of(p, (size_t)(end - p));
    return p > begin;
}

#include "base/hex.h"

#include <string.h>

static const char digits[] = "0123456789abcdef";

char *hex_write(char *out, const void *bytes, size_t n)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[b[i] >> 4];
        out[2 * i + 1] = digits[b[i] & 15];
    }
    out[2 * n] = 0;
    return out;
}

sefl_status wr_hex(sefl_buf *b, const void *bytes, size_t n)
{
    SEFL_PASS(buf_reserve(b, 2 * n + 1));
    hex_write((char *)b->p + b->n, bytes, n);
    b->n += 2 * n;
    return SEFL_OK;
}

int hex_digit(char c)
{
    const char *d = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
    return d ? (int)(d - digits) : -1;
}

size_t hex_length(const char *text)
{
    return strspn(text, digits);
}

bool hex_read(void *out, size_t n, const char *text)
{
    memset(out, 0, n);
    return hex_length(text) == 2 * n && hex_read_any(out, n, span_of_str(text));
}

bool hex_read_any(void *out, size_t n, sefl_span text)
{
    uint8_t *b = out;
    memset(out, 0, n);
    bool ok = text.n == 2 * n;
    for (size_t i = 0; ok && i < n; i++) {
        int high = hex_digit((char)text.p[2 * i]), low = hex_digit((char)text.p[2 * i + 1]);
        ok = high >= 0 && low >= 0;
        b[i] = ok ? (uint8_t)((unsigned)high << 4 | (unsigned)low) : 0;
    }
    if (!ok)
        memset(out, 0, n);
    return ok;
}

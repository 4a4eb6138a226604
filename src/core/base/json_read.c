#include "base/json_read.h"

#include "base/hex.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>

jread jread_over(sefl_span text)
{
    return (jread){ .p = text.p, .n = text.n };
}

static sefl_status bad(const jread *j, const char *what)
{
    return sefl_fail(SEFL_EPROTO, "byte %zu: %s", j->at + 1, what);
}

/* Returns the next byte that is not white space, -1 at the end. */
static int json_read_look(jread *j)
{
    while (j->at < j->n && (j->p[j->at] == ' ' || j->p[j->at] == '\t' || j->p[j->at] == '\n' ||
                            j->p[j->at] == '\r'))
        j->at++;
    return j->at < j->n ? j->p[j->at] : -1;
}

char jread_peek(jread *j)
{
    int c = json_read_look(j);
    if (c == '-' || (c >= '0' && c <= '9'))
        return '0';
    return c == '{' || c == '[' || c == '"' || c == 't' || c == 'f' || c == 'n' ? (char)c : 0;
}

sefl_status jread_open(jread *j, char bracket)
{
    if (json_read_look(j) != bracket)
        return bad(j, bracket == '{' ? "expected an object" : "expected an array");
    if (j->depth >= JREAD_DEPTH)
        return bad(j, "nested too deeply");
    j->at++;
    j->depth++;
    j->has_item &= ~((uint64_t)1 << j->depth);
    return SEFL_OK;
}

/* Reads the comma before an item (except the first), or the end of the level. */
static sefl_status next(jread *j, char closing, bool *more)
{
    uint64_t bit = (uint64_t)1 << j->depth;
    int c = json_read_look(j);
    *more = false;
    if (c == closing) {
        j->at++;
        j->depth--;
        return SEFL_OK;
    }
    if (j->has_item & bit) {
        if (c != ',')
            return bad(j, c < 0            ? "the input ends too early"
                          : closing == '}' ? "expected ',' or '}'"
                                           : "expected ',' or ']'");
        j->at++;
        if (json_read_look(j) == closing)
            return bad(j, "comma before the closing bracket");
    }
    if (json_read_look(j) < 0)
        return bad(j, "the input ends too early");
    j->has_item |= bit;
    *more = true;
    return SEFL_OK;
}

sefl_status jread_key(jread *j, sefl_buf *key, bool *more)
{
    SEFL_PASS(next(j, '}', more));
    if (!*more)
        return SEFL_OK;
    if (key)
        buf_reset(key);
    if (json_read_look(j) != '"')
        return bad(j, "expected a key in quotes");
    SEFL_PASS(jread_str(j, key));
    if (json_read_look(j) != ':')
        return bad(j, "expected ':'");
    j->at++;
    return SEFL_OK;
}

sefl_status jread_item(jread *j, bool *more)
{
    return next(j, ']', more);
}

/* Reads four hex digits; returns -1 if the input has anything else. */
static int32_t hex4(jread *j)
{
    int32_t v = 0;
    if (j->n - j->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int d = hex_digit((char)j->p[j->at + (size_t)i]);
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    j->at += 4;
    return v;
}

/* Decodes the escape after a backslash. */
static sefl_status escape(jread *j, uint8_t out[4], size_t *n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (j->at == j->n)
        return bad(j, "the string does not end");
    uint8_t c = j->p[j->at];
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        j->at++;
        out[0] = (uint8_t)to[found - from];
        *n = 1;
        return SEFL_OK;
    }
    if (c != 'u')
        return bad(j, "unknown escape");
    j->at++;
    int32_t u = hex4(j);
    if (u < 0)
        return bad(j, "\\u needs four hex digits");
    if (u >= 0xdc00 && u < 0xe000)
        return bad(j, "low surrogate without a high one");
    if (u >= 0xd800 && u < 0xdc00) {
        if (j->n - j->at < 2 || j->p[j->at] != '\\' || j->p[j->at + 1] != 'u')
            return bad(j, "high surrogate without a low one");
        j->at += 2;
        int32_t low = hex4(j);
        if (low < 0xdc00 || low >= 0xe000)
            return bad(j, "high surrogate without a low one");
        u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
    }
    if (u == 0)
        return bad(j, "NUL in a string");
    *n = utf8_encode(out, (uint32_t)u);
    return SEFL_OK;
}

sefl_status jread_str(jread *j, sefl_buf *out)
{
    if (json_read_look(j) != '"')
        return bad(j, "expected a string");
    j->at++;
    for (;;) {
        size_t begin = j->at; /* copy a run without escapes at once */
        while (j->at < j->n && j->p[j->at] != '"' && j->p[j->at] != '\\' && j->p[j->at] >= 0x20)
            j->at++;
        sefl_span run = span_of(j->p + begin, j->at - begin);
        size_t good = utf8_good(run);
        if (good < run.n) {
            j->at = begin + good;
            return bad(j, "not UTF-8");
        }
        if (out)
            SEFL_PASS(wr_raw(out, run.p, run.n));
        if (j->at == j->n)
            return bad(j, "the string does not end");
        if (j->p[j->at] < 0x20)
            return bad(j, "control character in a string");
        if (j->p[j->at++] == '"')
            break;
        uint8_t bytes[4];
        size_t n = 0;
        SEFL_PASS(escape(j, bytes, &n));
        if (out)
            SEFL_PASS(wr_raw(out, bytes, n));
    }
    return SEFL_OK;
}

static bool digit_at(const jread *j)
{
    return j->at < j->n && j->p[j->at] >= '0' && j->p[j->at] <= '9';
}

static sefl_status digits(jread *j)
{
    if (!digit_at(j))
        return bad(j, "expected a digit");
    while (digit_at(j))
        j->at++;
    return SEFL_OK;
}

/* -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)? */
static sefl_status number(jread *j)
{
    j->at += j->p[j->at] == '-';
    size_t begin = j->at;
    SEFL_PASS(digits(j));
    if (j->p[begin] == '0' && j->at > begin + 1) {
        j->at = begin + 1;
        return bad(j, "number with a leading zero");
    }
    if (j->at < j->n && j->p[j->at] == '.') {
        j->at++;
        SEFL_PASS(digits(j));
    }
    if (j->at < j->n && (j->p[j->at] | 0x20) == 'e') {
        j->at++;
        j->at += j->at < j->n && (j->p[j->at] == '+' || j->p[j->at] == '-');
        SEFL_PASS(digits(j));
    }
    return SEFL_OK;
}

sefl_status jread_u64(jread *j, uint64_t *out)
{
    uint64_t v = 0;
    if (jread_peek(j) != '0')
        return bad(j, "expected a number");
    size_t begin = j->at;
    SEFL_PASS(number(j));
    for (size_t i = begin; i < j->at; i++) {
        uint8_t c = j->p[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(c - '0'), &v)) {
            j->at = begin;
            return bad(j, "expected a whole number below 2^64");
        }
    }
    *out = v;
    return SEFL_OK;
}

sefl_status jread_real(jread *j, double *out)
{
    double v = 0;
    int scale = 0, e = 0;
    bool point = false;
    if (jread_peek(j) != '0')
        return bad(j, "expected a number");
    size_t i = j->at, begin = i;
    SEFL_PASS(number(j));
    bool minus = j->p[i] == '-';
    for (i += minus; i < j->at && j->p[i] != 'e' && j->p[i] != 'E'; i++) {
        if (j->p[i] == '.') {
            point = true;
            continue;
        }
        v = 10 * v + (j->p[i] - '0');
        scale -= point;
    }
    if (i < j->at) { /* an exponent, capped far beyond the range of a double */
        bool down = j->p[++i] == '-';
        i += j->p[i] == '-' || j->p[i] == '+';
        for (; i < j->at; i++)
            e = e < 10000 ? 10 * e + (j->p[i] - '0') : e;
        e = down ? -e : e;
    }
    scale += e;
    /* dividing by a power of ten is correctly rounded for 15 digits and |scale| <= 22 */
    v = scale < 0 && scale >= -300 ? v / pow(10, -scale) : v * pow(10, scale);
    if (!isfinite(v)) {
        j->at = begin;
        return bad(j, "number too large for a double");
    }
    *out = minus ? -v : v;
    return SEFL_OK;
}

static sefl_status word(jread *j, const char *w)
{
    size_t n = strlen(w);
    if (j->n - j->at < n || memcmp(j->p + j->at, w, n) != 0)
        return bad(j, "expected a value");
    j->at += n;
    return SEFL_OK;
}

sefl_status jread_bool(jread *j, bool *out)
{
    *out = jread_peek(j) == 't';
    return word(j, *out ? "true" : "false");
}

/* JREAD_DEPTH bounds the recursion. */
sefl_status jread_skip(jread *j)
{
    const char kind = jread_peek(j);
    switch (kind) {
    case '{':
    case '[':
        SEFL_PASS(jread_open(j, kind));
        for (bool more = true; more;) {
            SEFL_PASS(kind == '{' ? jread_key(j, NULL, &more) : jread_item(j, &more));
            if (more)
                SEFL_PASS(jread_skip(j));
        }
        return SEFL_OK;
    case '"':
        return jread_str(j, NULL);
    case '0':
        return number(j);
    case 't':
        return word(j, "true");
    case 'f':
        return word(j, "false");
    case 'n':
        return word(j, "null");
    default:
        return bad(j, j->at == j->n ? "the input ends too early" : "expected a value");
    }
}

sefl_status jread_end(jread *j)
{
    return json_read_look(j) < 0 ? SEFL_OK : bad(j, "unexpected data after the value");
}

sefl_status jread_document(sefl_span text, jread_member *member, void *ctx)
{
    sefl_status st = SEFL_OK;
    sefl_buf key = { 0 };
    jread j = jread_over(text);
    SEFL_TRY(jread_open(&j, '{'));
    for (bool more;;) {
        SEFL_TRY(jread_key(&j, &key, &more));
        if (!more)
            break;
        SEFL_TRY(member(ctx, &j, &key));
    }
    SEFL_TRY(jread_end(&j));
done:
    buf_clear(&key);
    return st;
}

bool jread_is(const sefl_buf *b, const char *s)
{
    return b->n == strlen(s) && (b->n == 0 || memcmp(b->p, s, b->n) == 0);
}

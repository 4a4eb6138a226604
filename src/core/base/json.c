#include "base/json.h"

#include "base/utf8.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

json json_into(sefl_buf *out)
{
    return (json){ .out = out };
}

static void json_put(json *j, const char *s, size_t n)
{
    if (j->st == SEFL_OK)
        j->st = wr_raw(j->out, s, n);
}

static void begin_value(json *j)
{
    if (j->after_key) {
        j->after_key = false;
        return;
    }
    if (j->has_item >> j->depth & 1)
        json_put(j, ",", 1);
    j->has_item |= 1u << j->depth;
}

static void put_quoted(json *j, sefl_span s)
{
    json_put(j, "\"", 1);
    for (size_t i = 0; i < s.n;) {
        uint8_t c = s.p[i];
        uint32_t code;
        size_t len = utf8_decode(s.p + i, s.n - i, &code);
        char esc[8];
        if (len == 0) {
            json_put(j, "\xef\xbf\xbd", 3);
            len = 1;
        } else if (c == '"' || c == '\\') {
            json_put(j, (char[]){ '\\', (char)c }, 2);
        } else if (c < 0x20 || c == 0x7f) {
            json_put(j, esc, (size_t)snprintf(esc, sizeof esc, "\\u%04x", c));
        } else {
            json_put(j, (const char *)s.p + i, len);
        }
        i += len;
    }
    json_put(j, "\"", 1);
}

void json_open(json *j, char bracket)
{
    assert(j->depth < 31);
    begin_value(j);
    json_put(j, &bracket, 1);
    j->depth++;
    j->has_item &= ~(1u << j->depth);
}

void json_close(json *j, char bracket)
{
    assert(j->depth > 0);
    j->depth--;
    json_put(j, &bracket, 1);
}

void json_key(json *j, const char *key)
{
    begin_value(j);
    put_quoted(j, span_of_str(key));
    json_put(j, ":", 1);
    j->after_key = true;
}

void json_str(json *j, const char *s)
{
    json_span(j, span_of_str(s));
}

void json_span(json *j, sefl_span s)
{
    begin_value(j);
    put_quoted(j, s);
}

static void put_word(json *j, const char *s)
{
    begin_value(j);
    json_put(j, s, span_of_str(s).n);
}

void json_u64(json *j, uint64_t v)
{
    char t[24];
    snprintf(t, sizeof t, "%" PRIu64, v);
    put_word(j, t);
}

void json_i64(json *j, int64_t v)
{
    char t[24];
    snprintf(t, sizeof t, "%" PRId64, v);
    put_word(j, t);
}

void json_real(json *j, double v)
{
    char t[32];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(t, sizeof t, "%.*g", digits, v);
        if (strtod(t, NULL) == v)
            break;
    }
    put_word(j, isfinite(v) ? t : "null");
}

void json_bool(json *j, bool v)
{
    put_word(j, v ? "true" : "false");
}

sefl_status json_end(json *j)
{
    assert(j->st != SEFL_OK || (j->depth == 0 && !j->after_key));
    return j->st;
}

#include "net/https_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool https_number_read(uint64_t *out, sefl_span text)
{
    uint64_t v = 0;
    if (text.n == 0 || text.n > HTTPS_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(text.p[i] - '0');
    }
    *out = v;
    return true;
}

bool https_path_check(sefl_span path)
{
    uint8_t before = 0;
    if (path.n == 0 || path.n > HTTPS_PATH_MAX || path.p[0] != '/')
        return false;
    for (size_t i = 0; i < path.n; i++) {
        uint8_t c = path.p[i];
        if (c < 0x21 || c > 0x7e || c == '\\' || (c == before && (c == '.' || c == '/')))
            return false;
        before = c;
    }
    return true;
}

bool https_is_open(const char *method, const char *path, const char *open_path)
{
    return open_path && strcmp(method, "POST") == 0 && strcmp(path, open_path) == 0;
}

static bool SEFL_PRINTF(4, 5)
    no_to(https_refusal *no, https_event event, unsigned status, const char *fmt, ...)
{
    va_list ap;
    *no = (https_refusal){ .status = status, .event = event };
    va_start(ap, fmt);
    vsnprintf(no->why, sizeof no->why, fmt, ap);
    va_end(ap);
    return false;
}

bool https_said_check(https_refusal *no, uint64_t *body_bytes, const https_said *h, uint64_t most)
{
    uint64_t n = 0;
    if (h->bytes > HTTPS_HEAD_MAX)
        return no_to(no, HTTPS_EVENT_HEADERS, 431, "at most %d bytes of headers are accepted",
                     HTTPS_HEAD_MAX);
    if (!https_path_check(h->path))
        return no_to(no, HTTPS_EVENT_PATH, 400, "bad path");
    if (h->form)
        return no_to(no, HTTPS_EVENT_FORM, 400, "%s", h->form);
    if (h->coding.p)
        return no_to(no, HTTPS_EVENT_LENGTH, 411, "a body needs Content-Length");
    if (h->length.p && !https_number_read(&n, h->length))
        return no_to(no, HTTPS_EVENT_LENGTH, 400, "bad Content-Length");
    if (n > most)
        return no_to(no, HTTPS_EVENT_TOO_LARGE, 413, "%llu bytes, at most %llu are accepted",
                     (unsigned long long)n, (unsigned long long)most);
    *body_bytes = n;
    return true;
}

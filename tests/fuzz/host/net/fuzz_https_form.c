/* The fields and arguments of a request, as libmicrohttpd splits it: lines, of which the first
 * character selects a field ("f"), an argument ("a") or a text to decode ("d"), and the rest is
 * name, ':' and value. A plain reading that shares no line with the code collects what is wrong. */
#include "net/https_form.h"
#include "support/must.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool only(const char *p, size_t n, const char *set, bool within)
{
    for (size_t i = 0; i < n; i++)
        if ((p[i] != 0 && strchr(set, p[i]) != NULL) != within)
            return false;
    return true;
}

/* Control characters, but for 0 and tab. */
static const char controls[] = "\1\2\3\4\5\6\7\10\12\13\14\15\16\17\20\21\22\23\24\25\26\27\30\31"
                               "\32\33\34\35\36\37\177";

static bool plain(const char *p, size_t n, bool tab)
{
    return !memchr(p, 0, n) && only(p, n, controls, false) && (tab || !memchr(p, '\t', n));
}

static bool is_token(const char *p, size_t n)
{
    return n > 0 && only(p, n,
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                         "!#$%&'*+-.^_`|~",
                         true);
}

/* Decoding leaves no 0 but the end, and decodes once. */
static void decode(const char *p, size_t n)
{
    char text[256], want[256];
    size_t k = 0;
    if (n >= sizeof text)
        return;
    memcpy(text, p, n);
    text[n] = 0;
    n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        unsigned v = 0;
        char hex[3] = { text[i + 1], text[i + 1] ? text[i + 2] : (char)0, 0 };
        if (text[i] == '%' && strspn(hex, "0123456789abcdefABCDEF") == 2 &&
            sscanf(hex, "%2x", &v) == 1) {
            want[k++] = (char)(v ? v : 1);
            i += 2;
        } else {
            want[k++] = text[i];
        }
    }
    want[k] = 0;
    MUST(https_form_unescape(NULL, NULL, text) == k);
    MUST(memcmp(text, want, k + 1) == 0);
}

static char *copy_of(const uint8_t *p, size_t n) /* exact, so that a read past the end is seen */
{
    char *copy = malloc(n ? n : 1);
    MUST(copy);
    memcpy(copy, p, n);
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    https_form f = { 0 };
    unsigned hosts = 0, lengths = 0;
    bool bad = false;
    while (size > 0) {
        const uint8_t *end = memchr(data, '\n', size), *colon;
        const size_t line = end ? (size_t)(end - data) : size, step = line + (end != NULL);
        const char kind = (char)data[0];
        colon = line > 0 ? memchr(data + 1, ':', line - 1) : NULL;
        if (colon) {
            const size_t n = (size_t)(colon - data) - 1, vn = line - n - 2;
            char *name = copy_of(data + 1, n), *value = copy_of(colon + 1, vn);
            if (kind == 'f') {
                https_form_field(&f, span_of(name, n), span_of(value, vn));
                hosts += n == 4 && strncasecmp(name, "host", 4) == 0;
                lengths += n == 14 && strncasecmp(name, "content-length", 14) == 0;
                bad = bad || !is_token(name, n) || !plain(value, vn, true);
            } else if (kind == 'a') {
                https_form_argument(&f, span_of(name, n), span_of(value, vn));
                bad = bad || !plain(name, n, false) || !plain(value, vn, false);
            } else if (kind == 'd') {
                decode(value, vn);
            }
            free(name);
            free(value);
        }
        data += step, size -= step;
        MUST((f.why != NULL) == (bad || hosts > 1 || lengths > 1));
    }
    return 0;
}

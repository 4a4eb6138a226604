#include "protocol/http.h"

#include "base/hex.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *method, *path;
} calls[HTTP_CALLS_N] = {
#define CALL(name, method, path, answer) { method, path },
    HTTP_CALLS(CALL)
};

static const struct {
    const char *where, *name;
} fields[HTTP_FIELDS_N] = {
#define FIELD(name, where, field) { where, field },
    HTTP_FIELDS(FIELD)
};

const char *http_field_name(http_field f)
{
    return fields[f].name;
}

bool http_field_is_query(http_field f)
{
    return strcmp(fields[f].where, "query") == 0;
}

bool http_is_header(const char *name, size_t n)
{
    for (int i = 0; i < HTTP_FIELDS_N; i++)
        if (!http_field_is_query((http_field)i) && strlen(fields[i].name) == n &&
            memcmp(fields[i].name, name, n) == 0)
            return true;
    return false;
}

bool http_number_read(uint64_t *out, const char *text, size_t n)
{
    uint64_t v = 0;
    if (n == 0 || n > 19 || (n > 1 && text[0] == '0') || strspn(text, "0123456789") < n)
        return false;
    for (size_t i = 0; i < n; i++)
        v = 10 * v + (uint64_t)(text[i] - '0');
    *out = v;
    return true;
}

/* Compares part by part; `at` and `path` point behind a slash, or to the beginning. */
static bool path_is(http_target *out, const char *at, const char *path)
{
    for (;; at++, path++) {
        size_t n = strcspn(at, "/"), k = strcspn(path, "/");
        char hash[HEX_CHARS(sizeof out->hash)];
        if (n == 1 && *at == 'N') {
            if (!http_number_read(&out->round, path, k) || out->round == 0)
                return false;
        } else if (n == 4 && memcmp(at, "HASH", n) == 0) {
            snprintf(hash, sizeof hash, "%.*s", (int)(k < sizeof hash ? k : sizeof hash), path);
            if (k >= sizeof hash || !hex_read(out->hash, sizeof out->hash, hash))
                return false;
        } else if (n != k || memcmp(at, path, n) != 0) {
            return false;
        }
        at += n, path += k;
        if (*at != *path || *at == 0)
            return *at == *path;
    }
}

http_found http_find(http_target *out, const char *method, const char *path)
{
    http_found found = HTTP_NO_PATH;
    for (int i = 0; i < HTTP_CALLS_N; i++) {
        http_target t = { .call = (http_call)i };
        if (!path_is(&t, calls[i].path, path))
            continue;
        found = HTTP_NO_METHOD;
        if (strcmp(method, calls[i].method) == 0 ||
            (strcmp(method, "HEAD") == 0 && strcmp(calls[i].method, "GET") == 0)) {
            *out = t;
            return HTTP_FOUND;
        }
    }
    return found;
}

char *http_path(char out[HTTP_PATH_MAX], const http_target *t)
{
    char hash[HEX_CHARS(sizeof t->hash)];
    size_t n = 0;
    hex_write(hash, t->hash, sizeof t->hash);
    for (const char *at = calls[t->call].path; *at;) {
        size_t k = 1 + strcspn(at + 1, "/"); /* with the slash before it */
        if (k == 2 && at[1] == 'N')
            n += (size_t)snprintf(out + n, HTTP_PATH_MAX - n, "/%" PRIu64, t->round);
        else if (k == 5 && memcmp(at, "/HASH", k) == 0)
            n += (size_t)snprintf(out + n, HTTP_PATH_MAX - n, "/%s", hash);
        else
            n += (size_t)snprintf(out + n, HTTP_PATH_MAX - n, "%.*s", (int)k, at);
        at += k;
    }
    return out;
}

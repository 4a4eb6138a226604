#include "config/settings.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/suggest.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 64, VALUE_MAX = 4096, DECIMAL_MAX = 40, FILE_MAX = 1 << 20 };

void settings_init(settings *s, const setting_def *schema)
{
    *s = (settings){ .schema = schema };
    while (schema[s->count].key)
        s->count++;
    assert(s->count <= SETTINGS_MAX);
}

static size_t find(const settings *s, sefl_span key)
{
    for (size_t i = 0; i < s->count; i++)
        if (strlen(s->schema[i].key) == key.n && memcmp(s->schema[i].key, key.p, key.n) == 0)
            return i;
    return s->count;
}

static sefl_status unknown_key(const settings *s, sefl_span key, const char *origin)
{
    const char *names[SETTINGS_MAX + 1] = { 0 };
    char word[KEY_MAX + 1];
    snprintf(word, sizeof word, "%.*s", (int)(key.n < KEY_MAX ? key.n : KEY_MAX),
             (const char *)key.p);
    for (char *c = word; *c; c++)
        if (*c < 0x20 || *c == 0x7f)
            *c = '?';
    for (size_t i = 0; i < s->count; i++)
        names[i] = s->schema[i].key;
    const char *near = suggest_name(word, names);
    if (near)
        return sefl_fail(SEFL_EINVAL, "%s: unknown setting \"%s\"; did you mean \"%s\"?", origin,
                         word, near);
    return sefl_fail(SEFL_EINVAL, "%s: unknown setting \"%s\"", origin, word);
}

static bool parse_u64(const char *v, uint64_t *out)
{
    char *end;
    if (*v < '0' || *v > '9')
        return false;
    errno = 0;
    unsigned long long x = strtoull(v, &end, 10);
    *out = x;
    return errno == 0 && *end == 0;
}

static bool is_decimal(const char *v)
{
    size_t digits = 0;
    if (strlen(v) > DECIMAL_MAX)
        return false;
    if (*v == '-')
        v++;
    for (; *v >= '0' && *v <= '9'; v++)
        digits++;
    if (digits == 0)
        return false;
    if (*v == '.') {
        digits = 0;
        for (v++; *v >= '0' && *v <= '9'; v++)
            digits++;
    }
    if (digits > 0 && (*v == 'e' || *v == 'E')) {
        digits = 0;
        v += v[1] == '-' || v[1] == '+' ? 2 : 1;
        for (; *v >= '0' && *v <= '9'; v++)
            digits++;
    }
    return digits > 0 && *v == 0;
}

static bool has_word(const char *words, const char *v)
{
    size_t n = strlen(v);
    if (strchr(v, ' '))
        return false;
    for (const char *p = words; n > 0 && (p = strstr(p, v)) != NULL; p += n)
        if ((p == words || p[-1] == ' ') && (p[n] == 0 || p[n] == ' '))
            return true;
    return false;
}

static sefl_status check_value(const setting_def *d, const char *v, const char *origin)
{
    uint64_t u;
    double x;
    for (const char *c = v; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || /* U+0080 to U+009f drive terminals too */
            ((unsigned char)c[0] == 0xc2 && (unsigned char)c[1] >= 0x80 &&
             (unsigned char)c[1] < 0xa0))
            return sefl_fail(SEFL_EINVAL, "%s: %s holds a control character", origin, d->key);
    switch (d->type) {
    case SETTING_TEXT:
    case SETTING_PATH:
        return SEFL_OK;
    case SETTING_WORD:
        if (has_word(d->words, v))
            return SEFL_OK;
        return sefl_fail(SEFL_EINVAL, "%s: %s wants one of: %s; not \"%.40s\"", origin, d->key,
                         d->words, v);
    case SETTING_BOOL:
        if (strcmp(v, "true") == 0 || strcmp(v, "false") == 0)
            return SEFL_OK;
        return sefl_fail(SEFL_EINVAL, "%s: %s wants true or false, not \"%.40s\"", origin, d->key,
                         v);
    case SETTING_U64:
        if (parse_u64(v, &u) && u >= d->min && (d->max == 0 || u <= d->max))
            return SEFL_OK;
        return sefl_fail(SEFL_EINVAL,
                         "%s: %s wants a whole number from %llu to %llu, not \"%.40s\"", origin,
                         d->key, (unsigned long long)d->min,
                         (unsigned long long)(d->max ? d->max : UINT64_MAX), v);
    case SETTING_DECIMAL:
        errno = 0; /* ERANGE: an exponent that a double cannot hold, large or small */
        x = is_decimal(v) ? strtod(v, NULL) : -1;
        if (is_decimal(v) && errno == 0 && x >= (double)d->min &&
            (d->max == 0 || x <= (double)d->max))
            return SEFL_OK;
        if (d->max == 0)
            return sefl_fail(SEFL_EINVAL,
                             "%s: %s wants a decimal number from %llu on, not \"%.40s\"", origin,
                             d->key, (unsigned long long)d->min, v);
        return sefl_fail(SEFL_EINVAL,
                         "%s: %s wants a decimal number from %llu to %llu, not \"%.40s\"", origin,
                         d->key, (unsigned long long)d->min, (unsigned long long)d->max, v);
    }
    return sefl_fail(SEFL_EINVAL, "%s: %s has no type", origin, d->key);
}

static sefl_span trim(sefl_span s)
{
    while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
        s.p++, s.n--;
    while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t' || s.p[s.n - 1] == '\r'))
        s.n--;
    return s;
}

sefl_status settings_set_pair(settings *s, sefl_span key, sefl_span value, const char *origin)
{
    sefl_status st = SEFL_OK;
    char *v = NULL, *o = NULL;
    size_t i = find(s, key);
    if (i == s->count)
        return unknown_key(s, key, origin);
    SEFL_CHECK(value.n <= VALUE_MAX, SEFL_EINVAL, "%s: %s has %zu bytes, at most %d", origin,
               s->schema[i].key, value.n, VALUE_MAX);
    SEFL_CHECK(value.n == 0 || !memchr(value.p, 0, value.n), SEFL_EINVAL,
               "%s: %s holds a control character", origin, s->schema[i].key);
    SEFL_TRY(sefl_new(&v, value.n + 1, 1));
    if (value.n > 0)
        memcpy(v, value.p, value.n);
    SEFL_TRY(check_value(&s->schema[i], v, origin));
    SEFL_TRY(sefl_strdup(&o, origin));
    sefl_free(s->value[i]);
    sefl_free(s->origin[i]);
    s->value[i] = v, s->origin[i] = o;
    v = o = NULL;
done:
    sefl_free(v);
    sefl_free(o);
    return st;
}

static sefl_status set_span(settings *s, sefl_span line, const char *origin)
{
    const uint8_t *eq = line.n ? memchr(line.p, '=', line.n) : NULL;
    if (!eq)
        return sefl_fail(SEFL_EINVAL, "%s: a setting is written key=value", origin);
    size_t n = (size_t)(eq - line.p);
    return settings_set_pair(s, trim(span_of(line.p, n)), trim(span_of(eq + 1, line.n - n - 1)),
                             origin);
}

sefl_status settings_set(settings *s, const char *assignment, const char *origin)
{
    return set_span(s, span_of_str(assignment), origin);
}

sefl_status settings_set_file(settings *s, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char origin[512];
    SEFL_TRY(file_read(&b, path, FILE_MAX));
    sefl_span rest = buf_span(&b);
    for (unsigned line = 1; rest.n > 0; line++) {
        const uint8_t *nl = memchr(rest.p, '\n', rest.n);
        size_t n = nl ? (size_t)(nl - rest.p) : rest.n;
        sefl_span text = trim(span_of(rest.p, n));
        snprintf(origin, sizeof origin, "%.400s:%u", path, line);
        if (text.n > 0 && text.p[0] != '#')
            SEFL_TRY(set_span(s, text, origin));
        rest = span_of(rest.p + n + (nl != NULL), rest.n - n - (nl != NULL));
    }
done:
    buf_clear(&b);
    return st;
}

sefl_status settings_complete(const settings *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf names = { 0 };
    for (size_t i = 0; i < s->count; i++)
        if (!s->value[i] && !s->schema[i].fallback)
            SEFL_TRY(wr_fmt(&names, "%s%s", names.n ? ", " : "", s->schema[i].key));
    SEFL_CHECK(names.n == 0, SEFL_EINVAL, "settings that must be given: %.*s", (int)names.n,
               (const char *)names.p);
done:
    buf_clear(&names);
    return st;
}

const char *settings_text(const settings *s, const char *key)
{
    size_t i = find(s, span_of_str(key));
    assert(i < s->count);
    const char *v = s->value[i] ? s->value[i] : s->schema[i].fallback;
    assert(v);
    return v;
}

uint64_t settings_u64(const settings *s, const char *key)
{
    uint64_t u = 0;
    bool ok = parse_u64(settings_text(s, key), &u);
    assert(ok && s->schema[find(s, span_of_str(key))].type == SETTING_U64);
    (void)ok;
    return u;
}

bool settings_bool(const settings *s, const char *key)
{
    assert(s->schema[find(s, span_of_str(key))].type == SETTING_BOOL);
    return strcmp(settings_text(s, key), "true") == 0;
}

bool settings_given(const settings *s, const char *key)
{
    size_t i = find(s, span_of_str(key));
    assert(i < s->count);
    return s->value[i] != NULL;
}

bool settings_may_lack(const settings *s, const char *key)
{
    return s->schema[find(s, span_of_str(key))].fallback != NULL;
}

void settings_clear(settings *s)
{
    for (size_t i = 0; i < s->count; i++) {
        sefl_free(s->value[i]);
        sefl_free(s->origin[i]);
        s->value[i] = s->origin[i] = NULL;
    }
}

#include "config/settings.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/suggest.h"
#include "config/address.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 64, VALUE_MAX = 4096, DECIMAL_MAX = 40, FILE_MAX = 1 << 20, WANTED_BYTES = 400 };

void settings_init(settings *s, const setting_def *schema)
{
    *s = (settings){ .schema = schema };
    while (schema[s->count].key)
        s->count++;
    assert(s->count <= SETTINGS_MAX);
}

static const setting_def *settings_find(const setting_def *schema, sefl_span key)
{
    for (; schema->key; schema++)
        if (strlen(schema->key) == key.n && memcmp(schema->key, key.p, key.n) == 0)
            return schema;
    return NULL;
}

const setting_def *setting_find(const setting_def *schema, const char *key)
{
    return settings_find(schema, span_of_str(key));
}

int setting_word(const char *words, const char *v)
{
    size_t n = strlen(v);
    for (int i = 0; words && *words && n > 0; i++) {
        size_t m = strcspn(words, " ");
        if (m == n && memcmp(words, v, n) == 0)
            return i;
        words += m + (words[m] == ' ');
    }
    return -1;
}

char *setting_word_at(char out[SETTING_WORD_BYTES], const char *words, unsigned i)
{
    while (i-- > 0)
        words += strcspn(words, " ") + 1;
    snprintf(out, SETTING_WORD_BYTES, "%.*s", (int)strcspn(words, " "), words);
    return out;
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
    for (size_t i = 0; i < s->count; i++) {
        names[i] = s->schema[i].key;
        if (setting_word(s->schema[i].was, word) >= 0)
            return sefl_fail(SEFL_EINVAL, "%s: %s is now called %s", origin, word, names[i]);
        if (setting_word(s->schema[i].gone, word) >= 0)
            return sefl_fail(SEFL_EINVAL, "%s: %s: %s", origin, word, s->schema[i].instead);
    }
    const char *near = suggest_name(word, names);
    if (near)
        return sefl_fail(SEFL_EINVAL, "%s: unknown setting \"%s\"; did you mean \"%s\"?", origin,
                         word, near);
    return sefl_fail(SEFL_EINVAL, "%s: unknown setting \"%s\"", origin, word);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Parses a text of digits; false if it has anything else or is too large. */
static bool number_u64(const char *text, uint64_t *out)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == 0;
}

/* Skips digits; false if there are none. */
static bool digits(const char **v)
{
    const size_t n = strspn(*v, "0123456789");
    *v += n;
    return n > 0;
}

static bool is_decimal(const char *v)
{
    bool ok = strlen(v) <= DECIMAL_MAX;
    v += *v == '-';
    ok = ok && digits(&v);
    if (ok && *v == '.')
        v++, ok = digits(&v);
    if (ok && (*v == 'e' || *v == 'E'))
        v += v[1] == '-' || v[1] == '+' ? 2 : 1, ok = digits(&v);
    return ok && *v == 0;
}

/* Parses a decimal number; false if it is not one, or does not fit a double. */
static bool number_real(const char *text, double *out)
{
    if (!is_decimal(text))
        return false;
    errno = 0;                 /* ERANGE: too large or too small for a double */
    *out = strtod(text, NULL); /* the locale is C */
    return errno == 0;
}

/* Returns the largest valid number: the smaller of the schema's limit and the field's. */
static uint64_t largest(const setting_def *d)
{
    uint64_t holds = d->type == SETTING_U64 && d->size > 0 && d->size < 8
                         ? (UINT64_C(1) << 8 * d->size) - 1
                         : UINT64_MAX;
    return d->max > 0 && d->max < holds ? d->max : holds;
}

static bool is_clean(const char *v, bool lines)
{
    for (const unsigned char *c = (const unsigned char *)v; *c; c++)
        if ((*c < 0x20 && !(lines && strchr("\t\r\n", *c))) || *c == 0x7f ||
            (c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)) /* U+0080 to U+009f control terminals */
            return false;
    return true;
}

/* Returns the middle part of "x must be ..., not v"; NULL if v is valid. */
static const char *wanted(const setting_def *d, const char *v, char out[WANTED_BYTES])
{
    uint64_t u = 0;
    double x = 0;
    const char *number = "a whole number";
    *out = 0;
    if (d->words) {
        snprintf(out, WANTED_BYTES, "one of: %s;", d->words);
        return setting_word(d->words, v) >= 0 ? NULL : out;
    }
    switch (d->type) {
    case SETTING_TEXT:
    case SETTING_PATH:
    case SETTING_LIST:
    case SETTING_ADDRESS: /* address_read writes its own message */
    case SETTING_WORD:    /* these two have words */
    case SETTING_CHOICE:
        return NULL;
    case SETTING_BOOL:
    case SETTING_FLAG:
        return strcmp(v, "true") == 0 || strcmp(v, "false") == 0 ? NULL : "true or false,";
    case SETTING_U64:
        if (number_u64(v, &u) && u >= d->min && u <= largest(d))
            return NULL;
        break;
    case SETTING_DECIMAL:
    case SETTING_REAL:
        number = "a decimal number";
        if (number_real(v, &x) && x >= (double)d->min && (d->max == 0 || x <= (double)d->max))
            return NULL;
        break;
    }
    if (d->max == 0 && d->type != SETTING_U64)
        snprintf(out, WANTED_BYTES, "%s of at least %" PRIu64 ",", number, d->min);
    else
        snprintf(out, WANTED_BYTES, "%s from %" PRIu64 " to %" PRIu64 ",", number, d->min,
                 largest(d));
    return out;
}

/* Writes "run.yml:3:5: tls.cert", or only "--tls-cert" if the option is named after the setting. */
static void name_of(char *out, size_t n, const setting_def *d, const char *origin)
{
    char option[SETTING_OPTION_BYTES];
    setting_option(option, d->key);
    if (strncmp(origin, "--", 2) == 0 && strcmp(origin + 2, option) == 0)
        snprintf(out, n, "%s", origin);
    else
        snprintf(out, n, "%s: %s", origin, d->key);
}

static sefl_status check(const setting_def *d, const char *v, const char *origin)
{
    char text[WANTED_BYTES], name[600];
    host_port a;
    name_of(name, sizeof name, d, origin);
    SEFL_NEED(is_clean(v, d->lines), SEFL_EINVAL, "%s contains a control character", name);
    SEFL_NEED(setting_word(d->gone, v) < 0, SEFL_EINVAL, "%s: %s", name, d->instead);
    SEFL_NEED(*v || d->type != SETTING_PATH || d->fallback, SEFL_EINVAL,
              "%s is empty: it must be a path", name);
    SEFL_NEED(*v || d->type != SETTING_LIST, SEFL_EINVAL, "%s is empty", name);
    const char *wants = wanted(d, v, text);
    SEFL_NEED(!wants, SEFL_EINVAL, "%s must be %s not \"%.40s\"", name, wants, v);
    if (d->type == SETTING_ADDRESS && (*v || !d->fallback))
        return sefl_at(address_read(&a, v, (unsigned)d->min), "%s", name);
    return SEFL_OK;
}

/* ---- setting values -------------------------------------------------------------------------- */

static sefl_span trim(sefl_span s)
{
    while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
        s.p++, s.n--;
    while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t' || s.p[s.n - 1] == '\r'))
        s.n--;
    return s;
}

/* Returns the size of a list: texts with their terminators, ended by an empty text. */
static size_t list_bytes(const char *list)
{
    size_t n = 0;
    while (list && list[n])
        n += strlen(list + n) + 1;
    return n;
}

sefl_status settings_set_pair(settings *s, sefl_span key, sefl_span value, const char *origin)
{
    sefl_status st = SEFL_OK;
    char *v = NULL, *o = NULL;
    const setting_def *d = settings_find(s->schema, key);
    if (!d)
        return unknown_key(s, key, origin);
    size_t i = (size_t)(d - s->schema);
    size_t before = d->type == SETTING_LIST && s->value[i] ? list_bytes(s->value[i]) : 0;
    const size_t most = d->map ? FILE_MAX : VALUE_MAX;
    SEFL_CHECK(value.n <= most, SEFL_EINVAL, "%s: %s has %zu bytes, at most %zu", origin, d->key,
               value.n, most);
    SEFL_CHECK(value.n == 0 || !memchr(value.p, 0, value.n), SEFL_EINVAL,
               "%s: %s contains a control character", origin, d->key);
    SEFL_TRY(sefl_new(&v, before + value.n + 2, 1));
    if (before > 0)
        memcpy(v, s->value[i], before);
    if (value.n > 0)
        memcpy(v + before, value.p, value.n);
    SEFL_TRY(check(d, v + before, origin));
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
    SEFL_NEED(eq, SEFL_EINVAL, "%s: a setting must have the form key=value", origin);
    size_t n = (size_t)(eq - line.p);
    return settings_set_pair(s, trim(span_of(line.p, n)), trim(span_of(eq + 1, line.n - n - 1)),
                             origin);
}

sefl_status settings_set(settings *s, const char *assignment, const char *origin)
{
    return set_span(s, span_of_str(assignment), origin);
}

sefl_status settings_setf(settings *s, const char *origin, const char *fmt, ...)
{
    char text[KEY_MAX + VALUE_MAX + 2];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    SEFL_NEED(n >= 0 && (size_t)n < sizeof text, SEFL_EINVAL, "%s: %.40s... is too long", origin,
              text);
    return settings_set(s, text, origin);
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

sefl_status settings_overlay(settings *s, const settings *over)
{
    for (size_t i = 0; i < over->count; i++) {
        const char *v = over->value[i], *key = over->schema[i].key;
        if (!v)
            continue;
        do /* a list: every text */
            SEFL_PASS(settings_set_pair(s, span_of_str(key), span_of_str(v), over->origin[i]));
        while (over->schema[i].type == SETTING_LIST && *(v += strlen(v) + 1));
    }
    return SEFL_OK;
}

sefl_status settings_resolve(settings *s, const char *folder)
{
    sefl_status st = SEFL_OK;
    sefl_buf full = { 0 };
    if (!folder || !*folder)
        return SEFL_OK;
    for (size_t i = 0; i < s->count; i++)
        if (s->schema[i].runs_in && s->value[i] && *s->value[i] &&
            !*settings_text(s, s->schema[i].runs_in))
            SEFL_TRY(settings_set_pair(s, span_of_str(s->schema[i].runs_in), span_of_str("."),
                                       s->origin[i]));
    for (size_t i = 0; i < s->count; i++) {
        char *v = s->value[i], *copy = NULL;
        if (!v || !*v || *v == '/' || s->schema[i].type != SETTING_PATH)
            continue;
        buf_reset(&full);
        SEFL_TRY(wr_fmt(&full, "%s/%s%c", folder, v, 0));
        SEFL_TRY(sefl_strdup(&copy, (const char *)full.p));
        sefl_free(v);
        s->value[i] = copy;
    }
done:
    buf_clear(&full);
    return st;
}

/* ---- reading values -------------------------------------------------------------------------- */

/* Returns the value that was set, else the default, which is false for a flag; NULL: not set but
 * required. */
static const char *value_of(const settings *s, size_t i)
{
    const setting_def *d = &s->schema[i];
    return s->value[i]               ? s->value[i]
           : d->fallback             ? d->fallback
           : d->type == SETTING_FLAG ? "false"
                                     : NULL;
}

sefl_status settings_complete(const settings *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf names = { 0 };
    for (size_t i = 0; i < s->count; i++)
        if (!value_of(s, i))
            SEFL_TRY(wr_fmt(&names, "%s%s", names.n ? ", " : "", s->schema[i].key));
    SEFL_CHECK(names.n == 0, SEFL_EINVAL, "required settings are missing: %.*s", (int)names.n,
               (const char *)names.p);
done:
    buf_clear(&names);
    return st;
}

/* Copies a value of `size` bytes to its field. */
static void put_value(void *field, const setting_def *d, const void *value, size_t size)
{
    assert(d->size == size);
    (void)d;
    memcpy(field, value, size);
}

static void put_number(void *field, const setting_def *d, uint64_t u)
{
    const uint8_t u8 = (uint8_t)u;
    const uint16_t u16 = (uint16_t)u;
    const uint32_t u32 = (uint32_t)u;
    const void *as[] = { [1] = &u8, [2] = &u16, [4] = &u32, [8] = &u };
    memcpy(field, as[d->size], d->size);
}

static void settings_put(void *field, const setting_def *d, const char *v)
{
    uint64_t u = 0;
    double x = 0;
    host_port a = { 0 };
    const char *text = *v ? v : NULL;
    bool yes = strcmp(v, "true") == 0;
    switch (d->type) { /* `check` has accepted the value */
    case SETTING_TEXT:
    case SETTING_PATH:
    case SETTING_WORD:
    case SETTING_DECIMAL:
    case SETTING_LIST:
        put_value(field, d, &text, sizeof text);
        break;
    case SETTING_CHOICE:
        put_number(field, d, (uint64_t)setting_word(d->words, v));
        break;
    case SETTING_BOOL:
    case SETTING_FLAG:
        put_value(field, d, &yes, sizeof yes);
        break;
    case SETTING_U64:
        (void)number_u64(v, &u);
        put_number(field, d, u);
        break;
    case SETTING_REAL:
        (void)number_real(v, &x);
        put_value(field, d, &x, sizeof x);
        break;
    case SETTING_ADDRESS:
        if (*v)
            (void)!address_read(&a, v, (unsigned)d->min);
        put_value(field, d, &a, sizeof a);
        break;
    }
}

sefl_status settings_fill(const settings *s, void *out)
{
    SEFL_PASS(settings_complete(s));
    for (size_t i = 0; i < s->count; i++)
        if (s->schema[i].size > 0)
            settings_put((char *)out + s->schema[i].at, &s->schema[i], value_of(s, i));
    return SEFL_OK;
}

static size_t at(const settings *s, const char *key)
{
    const setting_def *d = setting_find(s->schema, key);
    assert(d);
    return (size_t)(d - s->schema);
}

const char *settings_text(const settings *s, const char *key)
{
    const char *v = value_of(s, at(s, key));
    assert(v);
    return v;
}

uint64_t settings_u64(const settings *s, const char *key)
{
    uint64_t u = 0;
    bool ok = number_u64(settings_text(s, key), &u);
    assert(ok && s->schema[at(s, key)].type == SETTING_U64);
    (void)ok;
    return u;
}

bool settings_bool(const settings *s, const char *key)
{
    assert(s->schema[at(s, key)].type == SETTING_BOOL ||
           s->schema[at(s, key)].type == SETTING_FLAG);
    return strcmp(settings_text(s, key), "true") == 0;
}

unsigned settings_choice(const settings *s, const char *key)
{
    int i = setting_word(s->schema[at(s, key)].words, settings_text(s, key));
    assert(i >= 0);
    return (unsigned)i;
}

bool settings_given(const settings *s, const char *key)
{
    return s->value[at(s, key)] != NULL;
}

bool settings_is(const settings *s, const char *key, const char *word)
{
    return strcmp(settings_text(s, key), word) == 0;
}

const char *settings_origin(const settings *s, const char *key)
{
    const char *o = s->origin[at(s, key)];
    return o ? o : key;
}

void setting_option(char out[SETTING_OPTION_BYTES], const char *key)
{
    snprintf(out, SETTING_OPTION_BYTES, "%s", key);
    for (char *p = out; *p; p++)
        if (*p == '.' || *p == '_')
            *p = '-';
}

void settings_clear(settings *s)
{
    for (size_t i = 0; i < s->count; i++) {
        sefl_free(s->value[i]);
        sefl_free(s->origin[i]);
        s->value[i] = s->origin[i] = NULL;
    }
}

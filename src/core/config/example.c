#include "config/example.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void example_values(char out[EXAMPLE_VALUES], const setting_def *d)
{
    static const char *const by_type[] = {
        [SETTING_TEXT] = "text",          [SETTING_PATH] = "a path",
        [SETTING_BOOL] = "true or false", [SETTING_FLAG] = "true or false",
        [SETTING_ADDRESS] = "host:port",  [SETTING_LIST] = "texts",
        [SETTING_U64] = "a whole number", [SETTING_DECIMAL] = "a number",
        [SETTING_REAL] = "a number",
    };
    const char *name = d->words ? "one of:" : by_type[d->type];
    const bool number =
        d->type == SETTING_U64 || d->type == SETTING_DECIMAL || d->type == SETTING_REAL;
    if (d->words)
        snprintf(out, EXAMPLE_VALUES, "%s %s", name, d->words);
    else if (number && d->max > 0)
        snprintf(out, EXAMPLE_VALUES, "%s from %" PRIu64 " to %" PRIu64, name, d->min, d->max);
    else if (number)
        snprintf(out, EXAMPLE_VALUES, "%s from %" PRIu64, name, d->min);
    else
        snprintf(out, EXAMPLE_VALUES, "%s", name);
}

/* The entry of a key in such a list: none, "key", "key=value" or "-key=value". */
typedef struct wish {
    bool named, without; /* without: "-key" */
    sefl_span value;     /* n = 0: no value */
} wish;

static wish wish_of(const char *list, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, " "), minus = *p == '-';
        const char *name = p + minus;
        size_t left = len - minus;
        if (left >= n && memcmp(name, key, n) == 0 && (left == n || name[n] == '='))
            return (wish){ true, minus,
                           left > n ? span_of(name + n + 1, left - n - 1) : span_of(NULL, 0) };
        p += len + (p[len] == ' ');
    }
    return (wish){ 0 };
}

/* Returns the value to write, a valid one if possible. */
static sefl_span shown(const setting_def *d, const wish *w, char scratch[24])
{
    if (w->value.n > 0)
        return w->value;
    if (d->example && (!d->fallback || !*d->fallback))
        return span_of_str(d->example);
    if (d->fallback)
        return span_of_str(d->fallback);
    snprintf(scratch, 24, "%" PRIu64, d->min);
    return span_of_str(d->type == SETTING_U64 ? scratch : "CHANGE-ME");
}

/* True if both keys have the same text before the first dot. */
static bool same_group(const char *a, const char *b)
{
    size_t n = strcspn(a, ".");
    return n == strcspn(b, ".") && memcmp(a, b, n) == 0;
}

static bool needs_quotes(sefl_span v)
{
    for (size_t i = 0; i < v.n; i++) {
        if (strchr("#{}[]&*!|>'\"%@`,", v.p[i]))
            return true;
        if (v.p[i] == ':' && (i + 1 == v.n || v.p[i + 1] == ' '))
            return true;
    }
    return v.n == 0;
}

static sefl_status line(sefl_buf *out, const setting_def *d, sefl_span v)
{
    const char *quote = needs_quotes(v) ? "\"" : "";
    return wr_fmt(out, "%s: %s%.*s%s\n", d->key, quote, (int)v.n, (const char *)v.p, quote);
}

sefl_status example_brief(sefl_buf *out, const char *about, const setting_def *schema,
                          const char *set)
{
    char scratch[24];
    SEFL_PASS(wr_fmt(out, "# %s\n", about));
    for (const setting_def *d = schema; d->key; d++) {
        const wish w = wish_of(set, d->key);
        if (w.named ? !w.without : !d->fallback)
            SEFL_PASS(line(out, d, shown(d, &w, scratch)));
    }
    return SEFL_OK;
}

sefl_status example_write(sefl_buf *out, const char *file, const char *about,
                          const setting_def *schema, const char *active)
{
    char values[EXAMPLE_VALUES];
    const setting_def *before = NULL;
    SEFL_PASS(wr_fmt(
        out,
        "# %s: %s.\n"
        "# Every key is listed with its default value or an example. Remove the # to set it.\n"
        "# 'sefl config check' reports errors with line and column.\n",
        file, about));
    for (const setting_def *d = schema; d->key; d++) {
        const bool must = d->fallback == NULL;
        const wish w = wish_of(active, d->key);
        char scratch[24];
        const sefl_span v = shown(d, &w, scratch);
        if (d->unlisted)
            continue;
        if (!before || !same_group(before->key, d->key))
            SEFL_PASS(wr_fmt(out, "\n"));
        before = d;
        example_values(values, d);
        SEFL_PASS(wr_fmt(out, "# %s%s%s%s\n%s", d->help ? d->help : "",
                         d->help && *d->help ? "; " : "", values, must ? "; required" : "",
                         (w.named || must) && !w.without ? "" : "#"));
        SEFL_PASS(line(out, d, v));
    }
    return SEFL_OK;
}

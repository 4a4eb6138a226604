#include "config/example.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void example_values(char out[EXAMPLE_VALUES], const setting_def *d)
{
    switch (d->type) {
    case SETTING_WORD:
    case SETTING_CHOICE:
        snprintf(out, EXAMPLE_VALUES, "one of: %s", d->words);
        break;
    case SETTING_BOOL:
    case SETTING_FLAG:
        snprintf(out, EXAMPLE_VALUES, "true or false");
        break;
    case SETTING_U64:
    case SETTING_DECIMAL:
    case SETTING_REAL: {
        const char *what = d->type == SETTING_U64 ? "a whole number" : "a number";
        if (d->max > 0)
            snprintf(out, EXAMPLE_VALUES, "%s from %" PRIu64 " to %" PRIu64, what, d->min, d->max);
        else
            snprintf(out, EXAMPLE_VALUES, "%s from %" PRIu64, what, d->min);
        break;
    }
    case SETTING_ADDRESS:
        snprintf(out, EXAMPLE_VALUES, "host:port");
        break;
    case SETTING_LIST:
    case SETTING_TEXT:
        snprintf(out, EXAMPLE_VALUES, "text");
        break;
    case SETTING_PATH:
        snprintf(out, EXAMPLE_VALUES, "a path");
        break;
    }
}

/* Is the key active? *value: what stands behind its "="; unchanged if nothing does. */
static bool is_active(const char *list, const char *key, sefl_span *value)
{
    size_t n = strlen(key);
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, " ");
        if (len >= n && memcmp(p, key, n) == 0 && (len == n || p[n] == '=')) {
            if (len > n)
                *value = span_of(p + n + 1, len - n - 1);
            return true;
        }
        p += len + (p[len] == ' ');
    }
    return false;
}

/* Everything up to the first point: where it changes a group begins. */
static bool same_group(const char *a, const char *b)
{
    size_t n = strcspn(a, ".");
    return n == strcspn(b, ".") && memcmp(a, b, n) == 0;
}

static bool needs_quotes(sefl_span v)
{
    for (size_t i = 0; i < v.n; i++)
        if (strchr(":#{}[]&*!|>'\"%@`,", v.p[i]))
            return true;
    return v.n == 0;
}

sefl_status example_write(sefl_buf *out, const char *file, const char *about,
                          const setting_def *schema, const char *active)
{
    sefl_status st = SEFL_OK;
    char values[EXAMPLE_VALUES];
    const setting_def *before = NULL;
    SEFL_TRY(wr_fmt(out,
                    "# %s: %s.\n"
                    "# Every key is here, with its default behind a #: take the # away to set it.\n"
                    "# 'sefl config check' says what is wrong, with line and column.\n",
                    file, about));
    for (const setting_def *d = schema; d->key; d++) {
        bool must = d->fallback == NULL;
        sefl_span v = span_of_str(must ? "CHANGE-ME" : d->fallback);
        if (strncmp(d->key, "sweep.", 6) == 0)
            continue;
        if (!before || !same_group(before->key, d->key))
            SEFL_TRY(wr_fmt(out, "\n"));
        before = d;
        example_values(values, d);
        SEFL_TRY(wr_fmt(out, "# %s%s%s%s\n", d->help ? d->help : "",
                        d->help && *d->help ? "; " : "", values, must ? "; must be given" : ""));
        const char *mark = is_active(active, d->key, &v) || must ? "" : "#";
        const char *quote = needs_quotes(v) ? "\"" : "";
        SEFL_TRY(wr_fmt(out, "%s%s: %s%.*s%s\n", mark, d->key, quote, (int)v.n, (const char *)v.p,
                        quote));
    }
done:
    return st;
}

#include "report/run_log.h"

#include "base/alloc.h"
#include "base/file.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16, NUMBER_MAX = 40, KEY_MAX = 40 };

static const struct number {
    const char *key;
    size_t offset;
} numbers[] = {
#define ENTRY(name, key) { key, offsetof(run_line, name) },
    RUN_NUMBERS(ENTRY)
#undef ENTRY
};

/* ---- one line ------------------------------------------------------------------------------ */

typedef struct line {
    const char *p, *end;
} line;

static char peek(line *l)
{
    while (l->p < l->end && (*l->p == ' ' || *l->p == '\t' || *l->p == '\r' || *l->p == '\n'))
        l->p++;
    return l->p < l->end ? *l->p : '\0';
}

static bool eat(line *l, char c)
{
    if (peek(l) != c)
        return false;
    l->p++;
    return true;
}

/* A string; key gets it if it is plain and fits, else "". */
static bool eat_string(line *l, char key[KEY_MAX])
{
    size_t n = 0;
    bool fits = true;
    key[0] = '\0';
    if (!eat(l, '"'))
        return false;
    for (; l->p < l->end && *l->p != '"'; l->p++) {
        fits = fits && *l->p != '\\' && n + 1 < KEY_MAX;
        if (*l->p == '\\' && ++l->p == l->end)
            return false;
        if (fits)
            key[n++] = *l->p;
    }
    if (fits)
        key[n] = '\0';
    return eat(l, '"');
}

static bool eat_word(line *l, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(l->end - l->p) < n || memcmp(l->p, word, n) != 0)
        return false;
    l->p += n;
    return true;
}

/* A finite number. */
static bool eat_number(line *l, double *out)
{
    char text[NUMBER_MAX + 1], *end;
    size_t n = 0;
    while (l->p + n < l->end && n < NUMBER_MAX && l->p[n] && strchr("0123456789+-.eE", l->p[n]))
        n++;
    memcpy(text, l->p, n);
    text[n] = '\0';
    *out = strtod(text, &end);
    l->p += n;
    return n > 0 && n < NUMBER_MAX && *end == '\0' && isfinite(*out);
}

static bool skip_value(line *l)
{
    char ignored[KEY_MAX], close[DEPTH_MAX];
    unsigned depth = 0;
    double v;
    do {
        char c = peek(l);
        if (c == '{' || c == '[') {
            if (depth == DEPTH_MAX)
                return false;
            l->p++;
            close[depth++] = c == '{' ? '}' : ']';
        } else if (c == '"') {
            if (!eat_string(l, ignored))
                return false;
        } else if (depth > 0 && c == close[depth - 1]) {
            l->p++, depth--;
        } else if (depth > 0 && (c == ',' || c == ':')) {
            l->p++;
        } else if (!(eat_word(l, "true") || eat_word(l, "false") || eat_word(l, "null") ||
                     eat_number(l, &v))) {
            return false;
        }
    } while (depth > 0);
    return true;
}

/* NULL: fine, else what is wrong. */
static const char *read_member(line *l, run_line *r, bool *has_round)
{
    char key[KEY_MAX];
    double v;
    if (!eat_string(l, key) || !eat(l, ':'))
        return "a member's name is wanted";
    char c = peek(l);
    bool number = isdigit((unsigned char)c) || c == '-';
    if (strcmp(key, "round") == 0) {
        if (!number || !eat_number(l, &v) || v < 1 || v > 9007199254740992.0 || v != floor(v))
            return "\"round\" wants a whole number from 1";
        r->round = (uint64_t)v, *has_round = true;
        return NULL;
    }
    if (strcmp(key, "skipped") == 0) {
        r->skipped = c == 't';
        return eat_word(l, "true") || eat_word(l, "false") ? NULL : "\"skipped\" wants a bool";
    }
    if (strcmp(key, "blocked") == 0) {
        r->blocked = c == 't';
        return eat_word(l, "true") || eat_word(l, "false") ? NULL : "\"blocked\" wants a bool";
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (number && strcmp(key, numbers[i].key) == 0) {
            if (!eat_number(l, &v))
                return "a number is not well formed";
            if (v < 0)
                return "a number is negative";
            memcpy((char *)r + numbers[i].offset, &v, sizeof v);
            return NULL;
        }
    return skip_value(l) ? NULL : "a value is not well formed";
}

static const char *read_line(line l, run_line *r)
{
    bool has_round = false;
    const char *wrong;
    *r = (run_line){ 0 };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        memcpy((char *)r + numbers[i].offset, &(double){ NAN }, sizeof(double));
    if (!eat(&l, '{'))
        return "not a line of a metrics.jsonl, which is one JSON object a round: give a run's "
               "folder, "
               "or that file";
    if (!eat(&l, '}')) {
        do {
            if ((wrong = read_member(&l, r, &has_round)) != NULL)
                return wrong;
        } while (eat(&l, ','));
        if (!eat(&l, '}'))
            return "the object does not end";
    }
    if (peek(&l) != '\0' || l.p != l.end)
        return "something follows the object";
    return has_round ? NULL : "\"round\" is missing";
}

/* ---- all of them --------------------------------------------------------------------------- */

sefl_status run_log_read_over(run_log *out, sefl_span bytes, const char *name)
{
    sefl_status st = SEFL_OK;
    run_log l = { 0 };
    size_t lines = 0;
    const char *p = (const char *)bytes.p, *end = p + bytes.n;
    *out = (run_log){ 0 };
    for (size_t i = 0; i < bytes.n; i++)
        lines += bytes.p[i] == '\n';
    if (lines > 0)
        SEFL_TRY(sefl_new(&l.at, lines, sizeof *l.at));
    for (size_t i = 0; i < lines; i++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        const char *wrong = read_line((line){ p, stop }, &l.at[i]);
        SEFL_CHECK(!wrong, SEFL_EPROTO, "%s:%zu: %s", name, i + 1, wrong);
        SEFL_CHECK(i == 0 || l.at[i].round > l.at[i - 1].round, SEFL_EPROTO,
                   "%s:%zu: round %llu behind round %llu", name, i + 1,
                   (unsigned long long)l.at[i].round, (unsigned long long)l.at[i - 1].round);
        l.n = i + 1;
        p = stop + 1;
    }
    *out = l, l = (run_log){ 0 };
done:
    run_log_clear(&l);
    return st;
}

sefl_status run_log_read(run_log *out, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    *out = (run_log){ 0 };
    SEFL_TRY(file_read(&b, path, RUN_LOG_BYTES_MAX));
    SEFL_TRY(run_log_read_over(out, buf_span(&b), path));
done:
    buf_clear(&b);
    return st;
}

void run_log_clear(run_log *l)
{
    sefl_free(l->at);
    *l = (run_log){ 0 };
}

double run_number(sefl_span bytes, const char *key)
{
    line l = { (const char *)bytes.p, (const char *)bytes.p + bytes.n };
    char name[KEY_MAX];
    double v;
    if (!eat(&l, '{'))
        return NAN;
    do {
        if (!eat_string(&l, name) || !eat(&l, ':'))
            return NAN;
        char c = peek(&l);
        if (strcmp(name, key) == 0)
            return (isdigit((unsigned char)c) || c == '-') && eat_number(&l, &v) ? v : NAN;
        if (!skip_value(&l))
            return NAN;
    } while (eat(&l, ','));
    return NAN;
}

#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SENTENCE_MAX = 512 };

static _Thread_local char sentence[SENTENCE_MAX];

const char *sefl_status_name(sefl_status st)
{
    switch (st) {
#define CASE(name, value, text) \
    case SEFL_##name:           \
        return "SEFL_" #name;
        SEFL_STATUS_LIST(CASE)
#undef CASE
    }
    return "SEFL_?";
}

const char *sefl_status_text(sefl_status st)
{
    switch (st) {
#define CASE(name, value, text) \
    case SEFL_##name:           \
        return text;
        SEFL_STATUS_LIST(CASE)
#undef CASE
    }
    return "unknown status";
}

const char *sefl_last_error(void)
{
    return sentence;
}

void sefl_note(const char *fmt, ...)
{
    char tmp[SENTENCE_MAX]; /* the arguments may point into the old sentence */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(tmp, sizeof tmp, fmt, ap);
    va_end(ap);
    memcpy(sentence, tmp, sizeof sentence);
}

static void note_before(const char *fmt, va_list ap)
{
    char tmp[SENTENCE_MAX];
    vsnprintf(tmp, sizeof tmp, fmt, ap);
    size_t n = strlen(tmp);
    if (n + 2 < sizeof tmp) {
        memcpy(tmp + n, ": ", 2);
        size_t rest = strnlen(sentence, sizeof tmp - n - 3);
        memcpy(tmp + n + 2, sentence, rest);
        tmp[n + 2 + rest] = 0;
    }
    memcpy(sentence, tmp, sizeof sentence);
}

void sefl_note_before(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    note_before(fmt, ap);
    va_end(ap);
}

sefl_status sefl_at(sefl_status st, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (st != SEFL_OK)
        note_before(fmt, ap);
    va_end(ap);
    return st;
}

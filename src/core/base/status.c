#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_MAX = 512 };

static _Thread_local char message[MESSAGE_MAX];

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
    return message;
}

void sefl_note(const char *fmt, ...)
{
    char tmp[MESSAGE_MAX]; /* the arguments may point into the old message */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(tmp, sizeof tmp, fmt, ap);
    va_end(ap);
    memcpy(message, tmp, sizeof message);
}

static void note_before(const char *fmt, va_list ap)
{
    char tmp[MESSAGE_MAX];
    vsnprintf(tmp, sizeof tmp, fmt, ap);
    size_t n = strlen(tmp);
    if (n + 2 < sizeof tmp) {
        memcpy(tmp + n, ": ", 2);
        size_t rest = strnlen(message, sizeof tmp - n - 3);
        memcpy(tmp + n + 2, message, rest);
        tmp[n + 2 + rest] = 0;
    }
    memcpy(message, tmp, sizeof message);
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

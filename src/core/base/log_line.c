#define _GNU_SOURCE
#include "base/log_line.h"

#include "base/json_read.h"

#include <string.h>
#include <time.h>

enum { ID_LEAST = 4 };

static bool digits(sefl_span text, size_t at, size_t n, int *out)
{
    *out = 0;
    for (size_t i = at; i < at + n; i++) {
        if (i >= text.n || text.p[i] < '0' || text.p[i] > '9')
            return false;
        *out = *out * 10 + (text.p[i] - '0');
    }
    return true;
}

bool log_time_read(uint64_t *ms, sefl_span text)
{
    static const char form[] = "....-..-..T..:..:..";
    struct tm tm = { 0 };
    int milli = 0;
    *ms = 0;
    if (text.n != 20 && text.n != 24)
        return false;
    for (size_t i = 0; form[i]; i++)
        if (form[i] != '.' && text.p[i] != (uint8_t)form[i])
            return false;
    if (!digits(text, 0, 4, &tm.tm_year) || !digits(text, 5, 2, &tm.tm_mon) ||
        !digits(text, 8, 2, &tm.tm_mday) || !digits(text, 11, 2, &tm.tm_hour) ||
        !digits(text, 14, 2, &tm.tm_min) || !digits(text, 17, 2, &tm.tm_sec) ||
        text.p[text.n - 1] != 'Z' ||
        (text.n == 24 && (text.p[19] != '.' || !digits(text, 20, 3, &milli))))
        return false;
    tm.tm_year -= 1900, tm.tm_mon--;
    const time_t t = timegm(&tm);
    if (t < 0)
        return false;
    *ms = (uint64_t)t * 1000 + (uint64_t)milli;
    return true;
}

/* Appends any value: a string without quotes, and the JSON text of all others. */
static sefl_status value(jread *j, sefl_buf *out)
{
    if (jread_peek(j) == '"')
        return jread_str(j, out);
    const size_t from = j->at;
    SEFL_PASS(jread_skip(j));
    return wr_raw(out, j->p + from, j->at - from);
}

typedef struct reading {
    log_line *l;
    bool has_event, has_level;
} reading;

static sefl_status take_head(reading *r, const sefl_buf *key, const sefl_buf *v, bool *taken)
{
    log_line *l = r->l;
    *taken = true;
    if (jread_is(key, "time")) {
        (void)log_time_read(&l->time_ms, buf_span(v));
    } else if (jread_is(key, "level")) {
        for (int i = LOG_DEBUG; i < LOG_OFF; i++)
            if (jread_is(v, log_level_name((log_level)i)))
                l->level = (log_level)i, r->has_level = true;
    } else if (jread_is(key, "event")) {
        r->has_event = true;
        return log_wr_plain(&l->text, buf_span(v));
    } else {
        *taken = false;
    }
    return SEFL_OK;
}

static sefl_status read_member(void *ctx, jread *j, const sefl_buf *key)
{
    sefl_status st = SEFL_OK;
    reading *r = ctx;
    log_line *l = r->l;
    sefl_buf v = { 0 };
    bool taken;
    if (jread_is(key, "round") && jread_peek(j) == '0') {
        jread copy = *j;
        l->has_round = jread_u64(&copy, &l->round) == SEFL_OK;
    }
    SEFL_TRY(value(j, &v));
    SEFL_TRY(take_head(r, key, &v, &taken));
    if (taken)
        goto done;
    if (jread_is(key, "key") || jread_is(key, "client") || jread_is(key, "name")) {
        SEFL_TRY(log_wr_plain(&l->who, buf_span(&v)));
        SEFL_TRY(wr_u8(&l->who, '\n'));
    }
    SEFL_TRY(wr_fmt(&l->text, l->text.n > 0 ? "  " : ""));
    SEFL_TRY(log_wr_plain(&l->text, buf_span(key)));
    SEFL_TRY(wr_u8(&l->text, '='));
    SEFL_TRY(log_wr_plain(&l->text, buf_span(&v)));
done:
    buf_clear(&v);
    return st;
}

sefl_status log_line_read(log_line *out, sefl_span line)
{
    reading r = { .l = out };
    buf_reset(&out->text);
    buf_reset(&out->who);
    out->time_ms = out->round = 0;
    out->has_round = false;
    out->level = LOG_INFO;
    SEFL_NEED(line.n <= LOG_LINE_MAX, SEFL_EPROTO, "a line of a log has at most %d bytes",
              LOG_LINE_MAX);
    SEFL_PASS(jread_document(line, read_member, &r));
    SEFL_NEED(r.has_event && r.has_level, SEFL_EPROTO, "not a line of a log");
    return SEFL_OK;
}

void log_line_clear(log_line *l)
{
    buf_clear(&l->text);
    buf_clear(&l->who);
}

bool log_line_names(const log_line *l, const char *client)
{
    const size_t n = strlen(client);
    for (size_t at = 0; at < l->who.n;) {
        const char *p = (const char *)l->who.p + at;
        const size_t len = (size_t)((const char *)memchr(p, '\n', l->who.n - at) - p);
        const bool hex = len >= 16 && strspn(p, "0123456789abcdef") >= len;
        if ((len == n || (hex && n >= ID_LEAST && n < len)) && memcmp(p, client, n) == 0)
            return true;
        at += len + 1;
    }
    return false;
}

#include "base/log.h"

#include "base/buf.h"
#include "base/hex.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_name[] = { "debug", "info", "warn", "error", "off" };

const char *log_level_name(log_level level)
{
    return level_name[level];
}

sefl_log log_open(int fd, log_level level, const sefl_clock *wall)
{
    return (sefl_log){ .level = level, .fd = fd, .json = !isatty(fd), .clock = wall };
}

enum { HEX_MAX = 65 };

/* Returns the text of a string, hash or key. */
static const char *text_of(char hex[HEX_MAX], const log_field *f)
{
    static const uint8_t no_key[32];
    if (f->type == LF_STR)
        return f->v.s;
    size_t n = f->type == LF_HASH ? 8 : memcmp(f->v.h, no_key, sizeof no_key) == 0 ? 0 : 32;
    return hex_write(hex, f->v.h, n);
}

static void time_text(char *out, size_t n, const sefl_clock *clock, const char *fmt)
{
    time_t t = (time_t)(clock_ns(clock) / 1000000000u);
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(out, n, fmt, &tm);
}

static void json_field(json *j, const log_field *f)
{
    char hex[HEX_MAX];
    json_key(j, f->key);
    switch (f->type) {
    case LF_U64:
        json_u64(j, f->v.u);
        break;
    case LF_I64:
        json_i64(j, f->v.i);
        break;
    case LF_REAL:
        json_real(j, f->v.r);
        break;
    case LF_BOOL:
        json_bool(j, f->v.u != 0);
        break;
    default:
        json_str(j, text_of(hex, f));
    }
}

void log_fields_json(json *j, const log_field *f)
{
    for (; f->type != LF_END; f++)
        if (f->key)
            json_field(j, f);
}

static sefl_status write_json(sefl_buf *b, const sefl_log *lg, log_level level, const char *event,
                              const log_field *f)
{
    json j = json_into(b);
    json_open(&j, '{');
    if (lg->clock) {
        char t[32], whole[48];
        time_text(t, sizeof t, lg->clock, "%Y-%m-%dT%H:%M:%S");
        snprintf(whole, sizeof whole, "%s.%03uZ", t, (unsigned)(clock_ms(lg->clock) % 1000));
        json_key(&j, "time"), json_str(&j, whole);
    }
    json_key(&j, "level"), json_str(&j, level_name[level]);
    json_key(&j, "event"), json_str(&j, event);
    log_fields_json(&j, f);
    json_close(&j, '}');
    return json_end(&j);
}

sefl_status log_wr_plain(sefl_buf *b, sefl_span text)
{
    sefl_status st = SEFL_OK;
    for (size_t i = 0; i < text.n && st == SEFL_OK; i++)
        st = text.p[i] < 0x20 || text.p[i] >= 0x7f ? wr_fmt(b, "\\x%02x", text.p[i])
                                                   : wr_raw(b, text.p + i, 1);
    return st;
}

static sefl_status write_word(sefl_buf *b, const char *s)
{
    return log_wr_plain(b, span_of_str(s));
}

static sefl_status write_human(sefl_buf *b, const sefl_log *lg, log_level level, const char *event,
                               const log_field *f)
{
    char text[32], hex[HEX_MAX];
    if (lg->clock) {
        time_text(text, sizeof text, lg->clock, "%H:%M:%S ");
        SEFL_PASS(wr_fmt(b, "%s", text));
    }
    SEFL_PASS(wr_fmt(b, "%-5s ", level_name[level]));
    SEFL_PASS(write_word(b, event));
    SEFL_PASS(wr_raw(b, " ", f->type == LF_END ? 0 : 1));
    for (; f->type != LF_END; f++) {
        if (!f->key) /* lf_if */
            continue;
        SEFL_PASS(wr_fmt(b, " %s=", f->key));
        switch (f->type) {
        case LF_U64:
            SEFL_PASS(wr_fmt(b, "%" PRIu64, f->v.u));
            break;
        case LF_I64:
            SEFL_PASS(wr_fmt(b, "%" PRId64, f->v.i));
            break;
        case LF_REAL:
            SEFL_PASS(wr_fmt(b, "%.6g", f->v.r));
            break;
        case LF_BOOL:
            SEFL_PASS(wr_fmt(b, "%s", f->v.u ? "true" : "false"));
            break;
        default:
            SEFL_PASS(write_word(b, text_of(hex, f)));
        }
    }
    return SEFL_OK;
}

void log_event(sefl_log *lg, log_level level, const char *event, const log_field *fields)
{
    if (!lg || level < lg->level || level >= LOG_OFF)
        return;
    sefl_buf b = { .max = 16384 };
    sefl_status st = lg->json ? write_json(&b, lg, level, event, fields)
                              : write_human(&b, lg, level, event, fields);
    if (st == SEFL_OK)
        st = wr_u8(&b, lg->write ? 0 : '\n');
    if (st == SEFL_OK && lg->write)
        lg->write(lg->ctx, level, (const char *)b.p);
    else if (st != SEFL_OK || write(lg->fd, b.p, b.n) != (ssize_t)b.n)
        atomic_fetch_add(&lg->lost, 1);
    buf_clear(&b);
}

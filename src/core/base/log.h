/* log: writes structured events as text to a terminal, and as one JSON object per line elsewhere.
 *
 *     sefl_log lg = { .level = LOG_INFO, .fd = 2, .clock = &wall };
 *     log_info(&lg, "round closed", lf_u64("round", 12), lf_str("task", id), lf_real("loss", l));
 *
 *     12:01:07 info  round closed  round=12 task=4f2a loss=4.107                 (terminal)
 *     {"time":"2026-01-01T12:01:07.123Z","level":"info","event":"round closed","round":12,...}
 *
 * A log never contains a secret: no field type accepts raw bytes. A field is a number, a string, or
 * a public hash in hex (lf_hash: its first 8 bytes; lf_key: all 32). Control characters in strings
 * are escaped, so a peer's name cannot forge a log line. Each event is one write(2), so lines from
 * several processes do not mix. A failed write never stops the caller; `lost` counts such writes. A
 * NULL log drops every event. Threads: any number may share one log. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/clock.h"
#include "base/span.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF } log_level;

typedef struct sefl_log {
    _Atomic log_level level; /* minimum log level; zero is LOG_DEBUG */
    int fd;                  /* descriptor that receives the lines */
    bool json;               /* one object per line; see log_open */
    const sefl_clock *clock; /* wall clock; NULL: lines have no time */
    _Atomic uint64_t lost;   /* number of failed writes */
    /* Gets each line, without a newline, instead of fd; NULL: none. */
    void (*write)(void *ctx, log_level level, const char *line);
    void *ctx;
} sefl_log;

typedef struct log_field {
    const char *key;
    enum { LF_END, LF_U64, LF_I64, LF_REAL, LF_STR, LF_BOOL, LF_HASH, LF_KEY } type;
    union {
        uint64_t u;
        int64_t i;
        double r;
        const char *s;
        const uint8_t *h; /* 32 bytes; LF_HASH prints the first 8 */
    } v;
} log_field;

/* Returns a log that writes to this descriptor: text if it is a terminal, otherwise JSON lines. */
sefl_log log_open(int fd, log_level level, const sefl_clock *wall);

static inline log_field lf_u64(const char *key, uint64_t v)
{
    return (log_field){ .key = key, .type = LF_U64, .v.u = v };
}
static inline log_field lf_i64(const char *key, int64_t v)
{
    return (log_field){ .key = key, .type = LF_I64, .v.i = v };
}
static inline log_field lf_real(const char *key, double v)
{
    return (log_field){ .key = key, .type = LF_REAL, .v.r = v };
}
static inline log_field lf_str(const char *key, const char *v)
{
    return (log_field){ .key = key, .type = LF_STR, .v.s = v ? v : "" };
}
static inline log_field lf_bool(const char *key, bool v)
{
    return (log_field){ .key = key, .type = LF_BOOL, .v.u = v };
}
static inline log_field lf_hash(const char *key, const uint8_t digest[32])
{
    return (log_field){ .key = key, .type = LF_HASH, .v.h = digest };
}
/* A key fingerprint, as `sefl ca revoke --key` accepts it; 32 zero bytes (no key) become "". */
static inline log_field lf_key(const char *key, const uint8_t fingerprint[32])
{
    return (log_field){ .key = key, .type = LF_KEY, .v.h = fingerprint };
}

/* Returns f if `there` is true, else a field that the log omits. */
static inline log_field lf_if(bool there, log_field f)
{
    if (!there)
        f.key = NULL;
    return f;
}

/* Writes the fields into an open JSON object, except those without a key (lf_if). */
struct json;
void log_fields_json(struct json *j, const log_field *fields);
#define json_fields(j, ...) log_fields_json((j), LOG_FIELDS(__VA_ARGS__))

/* Appends text that may contain anything, and escapes as \xNN every byte that could move a
 * terminal's cursor: all but printable ASCII. */
struct sefl_buf;
sefl_status log_wr_plain(struct sefl_buf *b, sefl_span text) SEFL_MUST_CHECK;

const char *log_level_name(log_level level);

/* Logs one event; a field of type LF_END ends the list. Use the macros below. */
void log_event(sefl_log *lg, log_level level, const char *event, const log_field *fields);

/* The first entry is a placeholder that makes an empty list possible. */
#define LOG_FIELDS(...) \
    ((const log_field[]){ { .type = LF_END }, ##__VA_ARGS__, { .type = LF_END } } + 1)
#define log_debug(lg, ...)            LOG_AT(lg, LOG_DEBUG, __VA_ARGS__)
#define log_info(lg, ...)             LOG_AT(lg, LOG_INFO, __VA_ARGS__)
#define log_warn(lg, ...)             LOG_AT(lg, LOG_WARN, __VA_ARGS__)
#define log_error(lg, ...)            LOG_AT(lg, LOG_ERROR, __VA_ARGS__)
#define LOG_AT(lg, level, event, ...) log_event((lg), (level), (event), LOG_FIELDS(__VA_ARGS__))

#endif

#include "report/run_log.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json_read.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static const struct number {
    const char *key;
    size_t offset;
} numbers[] = {
#define ENTRY(name, key) { key, offsetof(run_line, name) },
    RUN_NUMBERS(ENTRY)
#undef ENTRY
};

/* ---- one line ------------------------------------------------------------------------------ */

static sefl_status read_member(jread *j, const sefl_buf *key, run_line *r)
{
    sefl_status st = SEFL_OK;
    double v;
    if (jread_is(key, "skipped"))
        return jread_bool(j, &r->skipped);
    if (jread_is(key, "blocked"))
        return jread_bool(j, &r->blocked);
    if (jread_is(key, "round")) {
        SEFL_TRY(jread_real(j, &v));
        SEFL_CHECK(v >= 1 && v <= 9007199254740992.0 && v == floor(v), SEFL_EPROTO,
                   "\"round\" is not a whole number from 1");
        r->round = (uint64_t)v;
        return SEFL_OK;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (jread_peek(j) == '0' && jread_is(key, numbers[i].key)) {
            SEFL_TRY(jread_real(j, &v));
            SEFL_CHECK(v >= 0, SEFL_EPROTO, "\"%s\" is negative", numbers[i].key);
            memcpy((char *)r + numbers[i].offset, &v, sizeof v);
            return SEFL_OK;
        }
    st = jread_skip(j);
done:
    return st;
}

static sefl_status read_line(run_line *r, sefl_span text)
{
    sefl_status st = SEFL_OK;
    sefl_buf key = { 0 };
    jread j = jread_over(text);
    bool more;
    *r = (run_line){ 0 };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        memcpy((char *)r + numbers[i].offset, &(double){ NAN }, sizeof(double));
    SEFL_CHECK(jread_peek(&j) == '{', SEFL_EPROTO,
               "not a line of a metrics.jsonl, which has one JSON object per round: give a run's "
               "folder, or that file");
    SEFL_TRY(jread_open(&j, '{'));
    for (;;) {
        SEFL_TRY(jread_key(&j, &key, &more));
        if (!more)
            break;
        SEFL_TRY(read_member(&j, &key, r));
    }
    SEFL_TRY(jread_end(&j));
    SEFL_CHECK(r->round > 0, SEFL_EPROTO, "\"round\" is missing");
done:
    buf_clear(&key);
    return st;
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
        SEFL_TRY(
            sefl_at(read_line(&l.at[i], span_of(p, (size_t)(stop - p))), "%s:%zu", name, i + 1));
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
    jread j = jread_over(bytes);
    sefl_buf name = { 0 };
    double v = NAN;
    bool more;
    sefl_status st = jread_open(&j, '{');
    while (st == SEFL_OK && (st = jread_key(&j, &name, &more)) == SEFL_OK && more) {
        if (jread_is(&name, key)) {
            if (jread_peek(&j) != '0' || jread_real(&j, &v) != SEFL_OK)
                v = NAN;
            break;
        }
        st = jread_skip(&j);
    }
    buf_clear(&name);
    return v;
}

#include "report/tensorboard.h"

#include "base/crc32c.h"
#include "base/file.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

static const struct {
    const char *key;
    size_t at;
} numbers[] = {
#define NUMBER(kind, name, key) { key, offsetof(run_line, name) },
    RUN_NUMBERS(NUMBER)
#undef NUMBER
};

void tensorboard_tag(char out[TENSORBOARD_TAG], const char *key)
{
    static const struct {
        const char *part, *group;
    } groups[] = { { "seconds", "seconds" }, { "bytes", "bytes" },      { "epsilon", "privacy" },
                   { "clip", "privacy" },    { "perplexity", "model" }, { "loss", "model" } };
    const char *group = "clients";
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strstr(key, groups[i].part)) {
            group = groups[i].group;
            break;
        }
    snprintf(out, TENSORBOARD_TAG, "%s/%s", group, key);
}

/* ---- protobuf -------------------------------------------------------------------------------- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types */

static sefl_status put_varint(sefl_buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        SEFL_PASS(wr_u8(b, (uint8_t)(v | 0x80)));
    return wr_u8(b, (uint8_t)v);
}

static sefl_status put_key(sefl_buf *b, unsigned field, unsigned type)
{
    return put_varint(b, field << 3 | type);
}

static sefl_status put_bytes(sefl_buf *b, unsigned field, sefl_span bytes)
{
    SEFL_PASS(put_key(b, field, BYTES));
    SEFL_PASS(put_varint(b, bytes.n));
    return wr_raw(b, bytes.p, bytes.n);
}

static sefl_status put_double(sefl_buf *b, unsigned field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    SEFL_PASS(put_key(b, field, FIXED64));
    return wr_u64(b, bits);
}

static sefl_status put_float(sefl_buf *b, unsigned field, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    SEFL_PASS(put_key(b, field, FIXED32));
    return wr_u32(b, bits);
}

/* ---- events ---------------------------------------------------------------------------------- */

enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2 };

static uint32_t masked(sefl_span bytes)
{
    uint32_t c = crc32c(bytes);
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

static sefl_status put_record(sefl_buf *out, sefl_span data)
{
    uint8_t n[8];
    store_u64(n, data.n);
    SEFL_PASS(wr_raw(out, n, sizeof n));
    SEFL_PASS(wr_u32(out, masked(span_of(n, sizeof n))));
    SEFL_PASS(wr_raw(out, data.p, data.n));
    return wr_u32(out, masked(data));
}

/* Appends one scalar to a Summary. */
static sefl_status put_scalar(sefl_buf *summary, const char *tag, double v)
{
    sefl_status st = SEFL_OK;
    sefl_buf value = { 0 };
    SEFL_TRY(put_bytes(&value, VALUE_TAG, span_of_str(tag)));
    SEFL_TRY(put_float(&value, VALUE_SIMPLE, (float)v));
    SEFL_TRY(put_bytes(summary, SUMMARY_VALUE, buf_span(&value)));
done:
    buf_clear(&value);
    return st;
}

static sefl_status put_scalars(sefl_buf *summary, const run_line *l)
{
    char tag[TENSORBOARD_TAG];
    SEFL_PASS(put_scalar(summary, "round/skipped", l->skipped));
    SEFL_PASS(put_scalar(summary, "round/blocked", l->blocked));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        double v = run_number_at(l, numbers[i].at);
        if (isnan(v) || numbers[i].at == offsetof(run_line, time))
            continue;
        tensorboard_tag(tag, numbers[i].key);
        SEFL_PASS(put_scalar(summary, tag, v));
    }
    return SEFL_OK;
}

/* Appends an event; l NULL: the first, with the version of the format. */
static sefl_status put_event(sefl_buf *out, double when, const run_line *l)
{
    sefl_status st = SEFL_OK;
    sefl_buf event = { 0 }, summary = { 0 };
    SEFL_TRY(put_double(&event, EVENT_TIME, when));
    if (l) {
        SEFL_TRY(put_key(&event, EVENT_STEP, VARINT));
        SEFL_TRY(put_varint(&event, l->round));
        SEFL_TRY(put_scalars(&summary, l));
        SEFL_TRY(put_bytes(&event, EVENT_SUMMARY, buf_span(&summary)));
    } else {
        SEFL_TRY(put_bytes(&event, EVENT_VERSION, span_of_str("brain.Event:2")));
    }
    SEFL_TRY(put_record(out, buf_span(&event)));
done:
    buf_clear(&event);
    buf_clear(&summary);
    return st;
}

static double when(const run_line *l)
{
    return isnan(l->time) ? (double)l->round : l->time;
}

sefl_status tensorboard_write(sefl_buf *out, const run_log *l)
{
    SEFL_PASS(put_event(out, l->n > 0 ? when(&l->at[0]) : 0, NULL));
    for (size_t i = 0; i < l->n; i++)
        SEFL_PASS(put_event(out, when(&l->at[i]), &l->at[i]));
    return SEFL_OK;
}

static void plain_name(char out[NAME_MAX + 1], const char *name)
{
    size_t n = 0;
    for (; n < NAME_MAX && name[n]; n++) {
        const unsigned char c = (unsigned char)name[n];
        out[n] = c < 128 && (isalnum(c) || strchr("-_.", c)) ? (char)c : '_';
    }
    out[n] = '\0';
    if (n == 0 || out[0] == '.') /* no hidden folder, and not the folder above */
        snprintf(out, NAME_MAX + 1, "run");
}

sefl_status tensorboard_save(char path[PATH_MAX], const char *folder, const char *name,
                             const run_log *l)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char plain[NAME_MAX + 1];
    plain_name(plain, name);
    SEFL_TRY(file_make_folder(folder, 0755));
    SEFL_TRY(file_path(path, "%s/%s", folder, plain));
    SEFL_TRY(file_make_folder(path, 0755));
    SEFL_TRY(file_path(path, "%s/%s/events.out.tfevents.%.0f.sefl", folder, plain,
                       l->n > 0 ? when(&l->at[0]) : 0));
    SEFL_TRY(tensorboard_write(&b, l));
    SEFL_TRY(file_write_atomic(path, buf_span(&b), 0644));
done:
    buf_clear(&b);
    return st;
}

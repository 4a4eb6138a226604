/* AS's answer to a poll about the current round, as JSON. */
#include "protocol/participant.h"

#include "base/json_read.h"
#include "protocol/task_fields.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

enum { ENVELOPE_MAX = 4096, JSON_MAX = 16384 };

static const char *const words[] = { [ROUND_WAITING] = "waiting",
                                     [ROUND_OPEN] = "open",
                                     [ROUND_CLOSED] = "closed",
                                     [ROUND_PAUSED] = "paused",
                                     [ROUND_OVER] = "over" };

#define NAME(name) #name,
static const char *const members[] = { ROUND_NEWS_FIELDS(NAME) };
enum { MEMBERS = sizeof members / sizeof members[0] };

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reading {
    round_news n;
    sefl_buf text, header;
    unsigned seen; /* bit i: members[i] */
} reading;

/* Replaces r->text with a string of at most `max` bytes, and a NUL. */
static sefl_status read_text(reading *r, jread *j, const char *name, size_t max)
{
    buf_reset(&r->text);
    SEFL_PASS(sefl_at(jread_str(j, &r->text), "%s", name));
    SEFL_NEED(r->text.n <= max, SEFL_EPROTO, "%s must be a string of at most %zu bytes", name, max);
    return wr_u8(&r->text, 0);
}

static sefl_status read_state(reading *r, jread *j)
{
    SEFL_PASS(read_text(r, j, "state", 16));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i], (const char *)r->text.p) == 0) {
            r->n.state = (round_word)i;
            return SEFL_OK;
        }
    return sefl_fail(SEFL_EPROTO, "no such state");
}

static sefl_status read_why(reading *r, jread *j)
{
    SEFL_PASS(read_text(r, j, "why", sizeof r->n.why - 1));
    for (const uint8_t *c = r->text.p; *c; c++)
        SEFL_NEED(*c >= 0x20 && *c < 0x7f, SEFL_EPROTO, "`why` is not printable ASCII");
    memcpy(r->n.why, r->text.p, r->text.n);
    return SEFL_OK;
}

static sefl_status read_header(reading *r, jread *j)
{
    uint8_t *raw;
    size_t got = 0;
    SEFL_PASS(read_text(r, j, "header", ENVELOPE_MAX * 4 / 3 + 4));
    SEFL_PASS(buf_extend(&r->header, &raw, ENVELOPE_MAX));
    SEFL_NEED(sodium_base642bin(raw, ENVELOPE_MAX, (const char *)r->text.p, r->text.n - 1, NULL,
                                &got, NULL, sodium_base64_VARIANT_ORIGINAL) == 0,
              SEFL_EPROTO, "the header is not base64");
    r->header.n = got;
    return SEFL_OK;
}

static sefl_status read_member(void *ctx, jread *j, const sefl_buf *key)
{
    reading *r = ctx;
    unsigned i = 0;
    while (i < MEMBERS && !jread_is(key, members[i]))
        i++;
    SEFL_NEED(i < MEMBERS, SEFL_EPROTO, "an unknown field");
    SEFL_NEED(!(r->seen >> i & 1), SEFL_EPROTO, "the field %s is there twice", members[i]);
    r->seen |= 1U << i;
    if (jread_is(key, "state"))
        return read_state(r, j);
    if (jread_is(key, "why"))
        return read_why(r, j);
    if (jread_is(key, "header"))
        return read_header(r, j);
    uint64_t *out = jread_is(key, "round") ? &r->n.round : &r->n.left_ms;
    SEFL_NEED(jread_u64(j, out) == SEFL_OK && *out <= TASK_COUNT_MAX, SEFL_EPROTO,
              "%s must be a whole number", members[i]);
    return SEFL_OK;
}

static sefl_status check_news(const reading *r)
{
    const round_news *n = &r->n;
    for (size_t i = 0; i < MEMBERS; i++)
        SEFL_NEED(r->seen >> i & 1, SEFL_EPROTO, "the field %s is missing", members[i]);
    SEFL_NEED((n->state == ROUND_OPEN || n->state == ROUND_OVER) == (r->header.n > 0), SEFL_EPROTO,
              "an open round and the end must have an envelope, and nothing else may");
    SEFL_NEED(n->state == ROUND_OPEN ? n->round >= 1 : n->left_ms == 0, SEFL_EPROTO,
              "round and left_ms do not match the state");
    return SEFL_OK;
}

sefl_status round_news_read(round_news *out, sefl_buf *scratch, sefl_span json)
{
    sefl_status st = SEFL_OK;
    reading r = { 0 };
    const size_t before = scratch->n;

    *out = r.n;
    SEFL_CHECK(json.n >= 1 && json.n <= JSON_MAX, SEFL_EPROTO, "round news: %zu bytes, at most %d",
               json.n, JSON_MAX);
    SEFL_TRY(sefl_at(jread_document(json, read_member, &r), "round news"));
    SEFL_TRY(sefl_at(check_news(&r), "round news"));
    SEFL_TRY(wr_raw(scratch, r.header.p, r.header.n));
    r.n.header = span_of(scratch->p + before, r.header.n);
    *out = r.n;
done:
    buf_clear(&r.text);
    buf_clear(&r.header);
    return st;
}

/* ---- writing --------------------------------------------------------------------------------- */

sefl_status round_news_write(sefl_buf *out, const round_news *n)
{
    sefl_status st = SEFL_OK;
    size_t before = out->n;
    char header[ENVELOPE_MAX * 4 / 3 + 8], why[2 * sizeof n->why];
    size_t k = 0;

    SEFL_CHECK(n->state <= ROUND_OVER && n->header.n <= ENVELOPE_MAX &&
                   n->round <= TASK_COUNT_MAX && n->left_ms <= TASK_COUNT_MAX,
               SEFL_ERANGE, "round news: out of range");
    sodium_bin2base64(header, sizeof header, n->header.p, n->header.n,
                      sodium_base64_VARIANT_ORIGINAL);
    for (const char *c = n->why; *c; c++) {
        if (*c == '"' || *c == '\\')
            why[k++] = '\\';
        why[k++] = *c >= 0x20 && *c < 0x7f ? *c : '?';
    }
    why[k] = 0;
    bool open = n->state == ROUND_OPEN, has = open || n->state == ROUND_OVER;
    SEFL_TRY(wr_fmt(out,
                    "{\"state\":\"%s\",\"round\":%llu,\"left_ms\":%llu,\"header\":\"%s\","
                    "\"why\":\"%s\"}\n",
                    words[n->state], (unsigned long long)n->round,
                    (unsigned long long)(open ? n->left_ms : 0), has ? header : "", why));
done:
    if (st != SEFL_OK)
        out->n = before;
    return st;
}

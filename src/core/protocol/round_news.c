/* AS's answer to a poll about the current round, as JSON. */
#include "protocol/participant.h"

#include "protocol/task_fields.h"

#include <jansson.h>
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

static sefl_status get_number(uint64_t *out, const json_t *root, const char *name)
{
    const json_t *v = json_object_get(root, name);
    if (!json_is_integer(v) || json_integer_value(v) < 0 ||
        (uint64_t)json_integer_value(v) > TASK_COUNT_MAX)
        return sefl_fail(SEFL_EPROTO, "round news: %s must be a whole number", name);
    *out = (uint64_t)json_integer_value(v);
    return SEFL_OK;
}

static sefl_status get_text(const char **out, const json_t *root, const char *name, size_t max)
{
    const json_t *v = json_object_get(root, name);
    if (!json_is_string(v) || json_string_length(v) > max)
        return sefl_fail(SEFL_EPROTO, "round news: %s must be a string of at most %zu bytes", name,
                         max);
    *out = json_string_value(v);
    return SEFL_OK;
}

static sefl_status check_members(json_t *root)
{
    const char *name;
    json_t *v;
    SEFL_NEED(json_is_object(root), SEFL_EPROTO, "round news: expected an object");
    json_object_foreach(root, name, v)
    {
        bool known = false;
        for (size_t i = 0; i < MEMBERS; i++)
            known = known || strcmp(members[i], name) == 0;
        SEFL_NEED(known, SEFL_EPROTO, "round news: an unknown field");
    }
    for (size_t i = 0; i < MEMBERS; i++)
        SEFL_NEED(json_object_get(root, members[i]), SEFL_EPROTO,
                  "round news: the field %s is missing", members[i]);
    return SEFL_OK;
}

sefl_status round_news_read(round_news *out, sefl_buf *scratch, sefl_span json)
{
    sefl_status st = SEFL_OK;
    round_news n = { 0 };
    json_error_t e;
    json_t *root = NULL;
    const char *state, *header, *why;
    uint8_t *raw;
    size_t got = 0, before = scratch->n;

    *out = n;
    SEFL_CHECK(json.n >= 1 && json.n <= JSON_MAX, SEFL_EPROTO, "round news: %zu bytes, at most %d",
               json.n, JSON_MAX);
    root = json_loadb((const char *)json.p, json.n, JSON_REJECT_DUPLICATES, &e);
    if (!root) {
        st = task_json_failed(&e, "round news");
        goto done;
    }
    SEFL_TRY(check_members(root));
    SEFL_TRY(get_text(&state, root, "state", 16));
    n.state = (round_word)(ROUND_OVER + 1);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i], state) == 0)
            n.state = (round_word)i;
    SEFL_CHECK(n.state <= ROUND_OVER, SEFL_EPROTO, "round news: no such state");
    SEFL_TRY(get_number(&n.round, root, "round"));
    SEFL_TRY(get_number(&n.left_ms, root, "left_ms"));
    SEFL_TRY(get_text(&why, root, "why", sizeof n.why - 1));
    for (const char *c = why; *c; c++)
        SEFL_CHECK(*c >= 0x20 && *c < 0x7f, SEFL_EPROTO,
                   "round news: `why` is not printable ASCII");
    memcpy(n.why, why, strlen(why) + 1);

    SEFL_TRY(get_text(&header, root, "header", ENVELOPE_MAX * 4 / 3 + 4));
    SEFL_CHECK((n.state == ROUND_OPEN || n.state == ROUND_OVER) == (*header != 0), SEFL_EPROTO,
               "round news: an open round and the end must have an envelope, and nothing else may");
    SEFL_CHECK(n.state == ROUND_OPEN ? n.round >= 1 : n.left_ms == 0, SEFL_EPROTO,
               "round news: round and left_ms do not match the state");
    SEFL_TRY(buf_extend(scratch, &raw, ENVELOPE_MAX));
    SEFL_CHECK(sodium_base642bin(raw, ENVELOPE_MAX, header, strlen(header), NULL, &got, NULL,
                                 sodium_base64_VARIANT_ORIGINAL) == 0,
               SEFL_EPROTO, "round news: the header is not base64");
    scratch->n = before + got;
    n.header = span_of(scratch->p + before, got);
    *out = n;
done:
    if (st != SEFL_OK)
        scratch->n = before;
    json_decref(root);
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

/* Reads a task document by the list of its members (task_fields.h).
 *
 * jansson parses: no duplicate members, no NUL in strings, nothing after the document. Then every
 * member of the tree must be in the list and every entry of the list in the tree. This file checks
 * each value alone; task.c checks how the values fit together. Numbers are integers: a real number
 * anywhere is an error, even where the list wants a string. */
#define _GNU_SOURCE /* strtod_l */
#include "protocol/task_fields.h"

#include "base/alloc.h"
#include "base/hex.h"
#include "base/suggest.h"
#include "crypto/ahe/paillier.h"

#include <errno.h>
#include <jansson.h>
#include <locale.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define ROW(s, path, kind, member, fallback, min, max, words, ...) \
    { path,                                                        \
      TASK_KIND_##kind,                                            \
      offsetof(task_draft, member),                                \
      sizeof(((task_draft *)0)->member),                           \
      min,                                                         \
      max,                                                         \
      words,                                                       \
      s },
#define ROW_S(...) ROW(true, __VA_ARGS__)
#define ROW_F(...) ROW(false, __VA_ARGS__)
#define ROW_O(...)
const task_field task_fields[] = { TASK_FIELDS(ROW_S, ROW_F, ROW_O) };
enum { FIELDS = sizeof task_fields / sizeof task_fields[0] };
const size_t task_field_count = FIELDS;

enum { KEY_RAW_MAX = 4096, TEXT_MAX = 8192 };

bool task_field_applies(const char *path, bool external)
{
    static const char *const words[] = { "model.", "vocab.", "valid.", "training.", NULL };
    bool shared = strcmp(path, "model.body") == 0 || strcmp(path, "training.only") == 0;
    if (strcmp(path, "model.tensors") == 0)
        return external;
    for (const char *const *w = words; external && !shared && *w; w++)
        if (strncmp(path, *w, strlen(*w)) == 0)
            return false;
    return true;
}

/* ---- one value ------------------------------------------------------------------------------- */

static void put(task_draft *d, const task_field *f, const void *value, size_t n)
{
    memcpy((uint8_t *)d + f->offset, value, n);
}

static sefl_status put_count(task_draft *d, const task_field *f, uint64_t v)
{
    uint32_t small = (uint32_t)v;
    SEFL_NEED(v >= f->min && (f->max == 0 || v <= f->max), SEFL_EPROTO,
              "task: %s is %llu: must be from %llu to %llu", f->path, (unsigned long long)v,
              (unsigned long long)f->min, (unsigned long long)f->max);
    if (f->size == sizeof small)
        put(d, f, &small, sizeof small);
    else
        put(d, f, &v, sizeof v);
    return SEFL_OK;
}

static sefl_status put_word(task_draft *d, const task_field *f, const char *text)
{
    unsigned i = 0;
    size_t n = strlen(text);
    for (const char *p = f->words; *p; i++) {
        size_t len = strcspn(p, " ");
        if (len == n && memcmp(p, text, n) == 0) {
            put(d, f, &i, sizeof i);
            return SEFL_OK;
        }
        p += len + (p[len] == ' ');
    }
    return sefl_fail(SEFL_EPROTO, "task: %s is \"%.32s\": must be one of: %s", f->path, text,
                     f->words);
}

static sefl_status put_nano(task_draft *d, const task_field *f, const char *text)
{
    pack_nano v;
    if (pack_decimal(&v, text) != SEFL_OK)
        return sefl_fail_at(SEFL_EPROTO, "task: %s", f->path);
    SEFL_NEED(f->max == 0 || v <= f->max * PACK_ONE, SEFL_EPROTO,
              "task: %s is %s: must be at most %llu", f->path, text, (unsigned long long)f->max);
    if (f->kind == TASK_KIND_DECIMAL) {
        SEFL_NEED(strlen(text) < f->size, SEFL_EPROTO, "task: %s has more than %zu characters",
                  f->path, f->size - 1);
        put(d, f, text, strlen(text) + 1);
    } else {
        put(d, f, &v, sizeof v);
    }
    return SEFL_OK;
}

/* digits[.digits][e[+-]digits] */
static bool is_real(const char *p)
{
    size_t n = strspn(p, "0123456789");
    if (n == 0 || strlen(p) > 24)
        return false;
    p += n;
    if (*p == '.') {
        n = strspn(++p, "0123456789");
        p += n;
    }
    if (n > 0 && *p == 'e') {
        p += p[1] == '-' || p[1] == '+' ? 2 : 1;
        n = strspn(p, "0123456789");
        p += n;
    }
    return n > 0 && *p == 0;
}

static sefl_status put_real(task_draft *d, const task_field *f, const char *text)
{
    sefl_status st = SEFL_OK;
    locale_t c = (locale_t)0;
    double v;
    SEFL_CHECK(is_real(text), SEFL_EPROTO,
               "task: %s is \"%.32s\": must be a decimal number such as 0.25 or 1e-6", f->path,
               text);
    c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    SEFL_CHECK(c, SEFL_ENOMEM, "out of memory for a locale");
    errno = 0;
    v = strtod_l(text, NULL, c);
    SEFL_CHECK(errno == 0 && (f->max == 0 || v <= (double)f->max), SEFL_EPROTO,
               "task: %s is %s: out of range", f->path, text);
    put(d, f, &v, sizeof v);
done:
    if (c)
        freelocale(c);
    return st;
}

static sefl_status put_hash(task_draft *d, const task_field *f, const char *text)
{
    uint8_t raw[SHA256_BYTES];
    SEFL_NEED(hex_read(raw, sizeof raw, text), SEFL_EPROTO,
              "task: %s is not 64 hex digits in lower case", f->path);
    put(d, f, raw, sizeof raw);
    return SEFL_OK;
}

static sefl_status put_key(task_draft *d, const task_field *f, const char *text)
{
    uint8_t raw[KEY_RAW_MAX];
    char again[KEY_RAW_MAX * 4 / 3 + 8];
    size_t n = 0;
    if (!*text)
        return SEFL_OK; /* whether it may be empty depends on the scheme: task.c */
    SEFL_NEED(sodium_base642bin(raw, sizeof raw, text, strlen(text), NULL, &n, NULL,
                                sodium_base64_VARIANT_ORIGINAL) == 0,
              SEFL_EPROTO, "task: %s is not base64", f->path);
    /* one key, one text */
    sodium_bin2base64(again, sizeof again, raw, n, sodium_base64_VARIANT_ORIGINAL);
    SEFL_NEED(strcmp(again, text) == 0, SEFL_EPROTO, "task: %s is not base64", f->path);
    return sefl_at(paillier_pub_read(&d->key.pub, span_of(raw, n)), "task: %s", f->path);
}

static sefl_status put_text(task_draft *d, const task_field *f, const char *text)
{
    size_t n = strlen(text);
    SEFL_NEED(n >= 1 && n < f->size, SEFL_EPROTO, "task: %s has %zu characters: must have 1 to %zu",
              f->path, n, f->size - 1);
    for (size_t i = 0; i < n; i++)
        SEFL_NEED(text[i] >= 0x20 && text[i] < 0x7f, SEFL_EPROTO,
                  "task: %s contains a character that is not printable ASCII", f->path);
    put(d, f, text, n + 1);
    return SEFL_OK;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* A member of an object of model.tensors. */
static sefl_status tensor_number(uint32_t *out, const char *name, const char *what, const json_t *v)
{
    SEFL_NEED(json_is_integer(v) && json_integer_value(v) >= 1 &&
                  json_integer_value(v) <= UINT32_MAX,
              SEFL_EPROTO, "task: model.tensors: %.*s: %s must be a whole number above 0",
              LAYOUT_NAME_MAX, name, what);
    *out = (uint32_t)json_integer_value(v);
    return SEFL_OK;
}

static sefl_status put_tensor(layout *l, const json_t *v)
{
    uint32_t block, dims[LAYOUT_RANK_MAX];
    const char *name = json_string_value(json_object_get(v, "name"));
    const json_t *shape = json_object_get(v, "shape");
    SEFL_NEED(json_is_object(v) && json_object_size(v) == 3 && name && json_is_array(shape),
              SEFL_EPROTO,
              "task: model.tensors: each tensor must be an object with name, shape and block");
    for (const char *c = name; *c; c++) /* it goes into messages */
        SEFL_NEED(*c > 0x20 && *c < 0x7f, SEFL_EPROTO,
                  "task: model.tensors: a name contains a character that is not printable ASCII");
    SEFL_NEED(json_array_size(shape) <= LAYOUT_RANK_MAX, SEFL_EPROTO,
              "task: model.tensors: %.*s has more than %d dimensions", LAYOUT_NAME_MAX, name,
              LAYOUT_RANK_MAX);
    for (size_t i = 0; i < json_array_size(shape); i++)
        SEFL_PASS(tensor_number(&dims[i], name, "a dimension", json_array_get(shape, i)));
    SEFL_PASS(tensor_number(&block, name, "block", json_object_get(v, "block")));
    return layout_add(l, name, (uint32_t)json_array_size(shape), dims, block);
}

static sefl_status put_tensors(task_draft *d, const task_field *f, const json_t *v)
{
    layout *l = &d->t.layout;
    SEFL_NEED(json_is_array(v) && json_array_size(v) >= 1, SEFL_EPROTO,
              "task: %s must be a list of tensors, not empty", f->path);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (put_tensor(l, json_array_get(v, i)) != SEFL_OK)
            return sefl_fail_at(SEFL_EPROTO, "task: %s", f->path);
    return SEFL_OK;
}

static sefl_status put_names(task_draft *d, const task_field *f, const json_t *v)
{
    sefl_status st = SEFL_OK;
    sefl_buf names = { 0 };
    SEFL_CHECK(json_is_array(v) && json_array_size(v) <= LAYOUT_TENSORS_MAX, SEFL_EPROTO,
               "task: %s must be a list of at most %d names", f->path, LAYOUT_TENSORS_MAX);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *name = json_string_value(json_array_get(v, i));
        SEFL_CHECK(name && *name && strlen(name) <= LAYOUT_NAME_MAX + 1, SEFL_EPROTO,
                   "task: %s must contain names of 1 to %d characters", f->path, LAYOUT_NAME_MAX);
        for (const char *c = name; *c; c++)
            SEFL_CHECK(*c > 0x20 && *c < 0x7f && *c != ',', SEFL_EPROTO,
                       "task: %s contains a name with a character that is not allowed", f->path);
        SEFL_TRY(wr_fmt(&names, "%s%s", i ? "," : "", name));
    }
    SEFL_TRY(wr_u8(&names, 0));
    SEFL_TRY(sefl_strdup(&d->t.only, (const char *)names.p));
done:
    buf_clear(&names);
    return st;
}

static sefl_status put_filter(task_draft *d, const task_field *f, const json_t *v)
{
    dp_filter filter = { 0 };
    SEFL_NEED(json_is_array(v) && json_array_size(v) <= DP_FILTER_LAGS, SEFL_EPROTO,
              "task: %s must be a list of at most %d numbers", f->path, DP_FILTER_LAGS);
    for (; filter.b < json_array_size(v); filter.b++) {
        const json_t *g = json_array_get(v, filter.b);
        SEFL_NEED(json_is_integer(g) && json_integer_value(g) >= 0 &&
                      json_integer_value(g) <= DP_FILTER_ONE,
                  SEFL_EPROTO, "task: %s must contain whole numbers from 0 to %d", f->path,
                  DP_FILTER_ONE);
        filter.gamma[filter.b] = (uint16_t)json_integer_value(g);
    }
    put(d, f, &filter, sizeof filter);
    return SEFL_OK;
}

static sefl_status put_value(task_draft *d, const task_field *f, const json_t *v)
{
    SEFL_NEED(!json_is_real(v), SEFL_EPROTO,
              "task: %s is a floating-point number: decimals are written as strings", f->path);
    if (f->kind == TASK_KIND_TENSORS)
        return put_tensors(d, f, v);
    if (f->kind == TASK_KIND_NAMES)
        return put_names(d, f, v);
    if (f->kind == TASK_KIND_FILTER)
        return put_filter(d, f, v);
    if (f->kind == TASK_KIND_U64) {
        SEFL_NEED(json_is_integer(v) && json_integer_value(v) >= 0, SEFL_EPROTO,
                  "task: %s must be a whole number", f->path);
        return put_count(d, f, (uint64_t)json_integer_value(v));
    }
    if (f->kind == TASK_KIND_BOOL) {
        bool b = json_is_true(v);
        SEFL_NEED(json_is_boolean(v), SEFL_EPROTO, "task: %s must be true or false", f->path);
        put(d, f, &b, sizeof b);
        return SEFL_OK;
    }
    SEFL_NEED(json_is_string(v), SEFL_EPROTO, "task: %s must be a string", f->path);
    SEFL_NEED(json_string_length(v) <= TEXT_MAX, SEFL_EPROTO, "task: %s is too long", f->path);
    const char *text = json_string_value(v);
    switch (f->kind) {
    case TASK_KIND_TEXT:
        return put_text(d, f, text);
    case TASK_KIND_CHOICE:
        return put_word(d, f, text);
    case TASK_KIND_DECIMAL:
    case TASK_KIND_NANO:
        return put_nano(d, f, text);
    case TASK_KIND_REAL:
        return put_real(d, f, text);
    case TASK_KIND_HASH:
        return put_hash(d, f, text);
    case TASK_KIND_KEY:
        return put_key(d, f, text);
    case TASK_KIND_BOOL:
    case TASK_KIND_U64:
    case TASK_KIND_TENSORS:
    case TASK_KIND_NAMES:
    case TASK_KIND_FILTER:
        break;
    }
    return SEFL_OK;
}

/* ---- the document ---------------------------------------------------------------------------- */

sefl_status task_json_failed(const json_error_t *e, const char *what)
{
    if (json_error_code(e) == json_error_out_of_memory)
        return sefl_fail(SEFL_ENOMEM, "out of memory: %s", what);
    char text[JSON_ERROR_TEXT_LENGTH];
    snprintf(text, sizeof text, "%s", e->text); /* it quotes the input: not for a terminal */
    for (char *c = text; *c; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
    return sefl_fail(SEFL_EPROTO, "%s: line %d, column %d: %s", what, e->line, e->column, text);
}

static const task_field *find(const char *path)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (strcmp(task_fields[i].path, path) == 0)
            return &task_fields[i];
    return NULL;
}

static bool is_group(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < FIELDS; i++)
        if (strncmp(task_fields[i].path, name, n) == 0 && task_fields[i].path[n] == '.')
            return true;
    return false;
}

static sefl_status unknown(const char *path)
{
    const char *names[FIELDS + 1] = { 0 };
    char word[65];
    for (size_t i = 0; i < FIELDS; i++)
        names[i] = task_fields[i].path;
    snprintf(word, sizeof word, "%.64s", path);
    for (char *c = word; *c; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
    const char *near = suggest_name(word, names);
    return near ? sefl_fail(SEFL_EPROTO, "task: unknown member %s; did you mean %s?", word, near)
                : sefl_fail(SEFL_EPROTO, "task: unknown member %s", word);
}

/* All members of `object`, whose own name is `group` ("" for the document); sets seen[]. */
static sefl_status read_object(task_draft *d, json_t *object, const char *group, bool seen[FIELDS])
{
    const char *name;
    json_t *v;
    char path[128];
    SEFL_NEED(json_is_object(object), SEFL_EPROTO, "task: %s must be an object",
              *group ? group : "the document");
    json_object_foreach(object, name, v)
    {
        snprintf(path, sizeof path, "%s%s%.64s", group, *group ? "." : "", name);
        const task_field *f = strchr(name, '.') ? NULL : find(path);
        if (f) {
            SEFL_PASS(put_value(d, f, v));
            seen[f - task_fields] = true;
        } else if (!*group && strlen(name) < 64 && is_group(name)) {
            SEFL_PASS(read_object(d, v, name, seen));
        } else {
            return unknown(path);
        }
    }
    return SEFL_OK;
}

/* Before the version: a task with such a member has an older one. */
static sefl_status refuse_draws(const json_t *root)
{
    const json_t *privacy = json_object_get(root, "privacy");
    const char *rate = json_string_value(json_object_get(privacy, "record_rate"));
    const char *sampling = json_string_value(json_object_get(privacy, "sampling"));
    SEFL_NEED(!rate || strcmp(rate, "1") == 0, SEFL_EUNSUPPORTED,
              "task: privacy.record_rate: " TASK_NO_DRAWS);
    SEFL_NEED(!sampling || strcmp(sampling, "hidden") != 0, SEFL_EUNSUPPORTED,
              "task: privacy.sampling: " TASK_NO_DRAWS);
    return SEFL_OK;
}

sefl_status task_draft_read(task_draft *d, sefl_span document)
{
    sefl_status st = SEFL_OK;
    json_error_t e;
    json_t *root = NULL;
    bool seen[FIELDS] = { 0 };

    *d = (task_draft){ 0 };
    SEFL_CHECK(document.n >= 1 && document.n <= TASK_BYTES_MAX, SEFL_EPROTO,
               "task: the document has %zu bytes: must have 1 to %d", document.n, TASK_BYTES_MAX);
    root = json_loadb((const char *)document.p, document.n, JSON_REJECT_DUPLICATES, &e);
    if (!root) {
        st = task_json_failed(
            &e, document.p[0] == '{' ? "task" : "not a task ('sefl task new', 'sefl task sign')");
        goto done;
    }
    SEFL_TRY(refuse_draws(root));
    const json_t *version = json_object_get(root, "sefl_task");
    SEFL_CHECK(!json_is_integer(version) || json_integer_value(version) == TASK_VERSION,
               SEFL_EUNSUPPORTED,
               "task: a document of version %lld, but this program reads version %d: create and "
               "sign a new task ('sefl task new', 'sefl task sign')",
               (long long)json_integer_value(version), TASK_VERSION);
    SEFL_TRY(read_object(d, root, "", seen));
    for (size_t i = 0; i < FIELDS; i++) {
        const char *path = task_fields[i].path;
        const bool applies = task_field_applies(path, d->body == TASK_BODY_EXTERNAL);
        SEFL_CHECK(seen[i] || !applies, SEFL_EPROTO,
                   "task: member %s is missing: another version of sefl wrote this task; create "
                   "and sign a new one",
                   path);
        SEFL_CHECK(!seen[i] || applies, SEFL_EPROTO,
                   "task: member %s does not apply: model.body is %s", path,
                   d->body == TASK_BODY_EXTERNAL ? "external" : "not external");
    }
done:
    json_decref(root);
    return st;
}

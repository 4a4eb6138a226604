/* Reads a task document by the list of its members (task_fields.h).
 *
 * Every member of the document must be in the list, once, and every entry of the list in the
 * document. This file checks each value alone; task.c checks how the values fit together. Numbers
 * are integers: a real number anywhere is an error, even where the list wants a string. */
#define _GNU_SOURCE /* strtod_l */
#include "protocol/task_fields.h"

#include "base/alloc.h"
#include "base/hex.h"
#include "base/json_read.h"
#include "base/suggest.h"
#include "crypto/ahe/paillier.h"

#include <errno.h>
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

static void task_fields_put(task_draft *d, const task_field *f, const void *value, size_t n)
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
        task_fields_put(d, f, &small, sizeof small);
    else
        task_fields_put(d, f, &v, sizeof v);
    return SEFL_OK;
}

static sefl_status put_word(task_draft *d, const task_field *f, const char *text)
{
    unsigned i = 0;
    size_t n = strlen(text);
    for (const char *p = f->words; *p; i++) {
        size_t len = strcspn(p, " ");
        if (len == n && memcmp(p, text, n) == 0) {
            task_fields_put(d, f, &i, sizeof i);
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
        task_fields_put(d, f, text, strlen(text) + 1);
    } else {
        task_fields_put(d, f, &v, sizeof v);
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
    task_fields_put(d, f, &v, sizeof v);
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
    task_fields_put(d, f, raw, sizeof raw);
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
    task_fields_put(d, f, text, n + 1);
    return SEFL_OK;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* A document while it is read. */
typedef struct reader {
    task_draft *d;
    jread j;
    sefl_buf key, text;
    bool seen[FIELDS], groups[FIELDS]; /* groups: by the first field of each */
} reader;

/* Reads a string, which stays in r->text until the next one. */
static sefl_status read_text(reader *r, const char **out)
{
    buf_reset(&r->text);
    SEFL_PASS(jread_str(&r->j, &r->text));
    SEFL_PASS(wr_u8(&r->text, 0));
    *out = (const char *)r->text.p;
    return SEFL_OK;
}

/* False if the next value is not a whole number in this range. */
static bool read_whole(reader *r, uint64_t *out, uint64_t min, uint64_t max)
{
    return jread_u64(&r->j, out) == SEFL_OK && *out >= min && *out <= max;
}

static sefl_status open_list(reader *r, const char *path, const char *of)
{
    SEFL_NEED(jread_peek(&r->j) == '[', SEFL_EPROTO, "task: %s must be a list of %s", path, of);
    return jread_open(&r->j, '[');
}

/* Moves to the member of an object of model.tensors that has to come next; NULL: the end. */
static sefl_status next_member(reader *r, const char *name)
{
    bool more;
    SEFL_PASS(jread_key(&r->j, &r->key, &more));
    SEFL_NEED(name ? more && jread_is(&r->key, name) : !more, SEFL_EPROTO,
              "each tensor must be an object with name, shape and block, in this order");
    return SEFL_OK;
}

static sefl_status tensor_number(uint32_t *out, reader *r, const char *what)
{
    uint64_t v;
    SEFL_NEED(read_whole(r, &v, 1, UINT32_MAX), SEFL_EPROTO,
              "%.*s: %s must be a whole number above 0", LAYOUT_NAME_MAX, (const char *)r->text.p,
              what);
    *out = (uint32_t)v;
    return SEFL_OK;
}

static sefl_status put_tensor(reader *r)
{
    uint32_t block, rank = 0, dims[LAYOUT_RANK_MAX];
    const char *name;
    bool more;
    SEFL_PASS(jread_open(&r->j, '{'));
    SEFL_PASS(next_member(r, "name"));
    SEFL_PASS(read_text(r, &name));
    for (const char *c = name; *c; c++) /* it goes into messages */
        SEFL_NEED(*c > 0x20 && *c < 0x7f, SEFL_EPROTO,
                  "a name contains a character that is not printable ASCII");
    SEFL_PASS(next_member(r, "shape"));
    SEFL_PASS(jread_open(&r->j, '['));
    for (;;) {
        SEFL_PASS(jread_item(&r->j, &more));
        if (!more)
            break;
        SEFL_NEED(rank < LAYOUT_RANK_MAX, SEFL_EPROTO, "%.*s has more than %d dimensions",
                  LAYOUT_NAME_MAX, name, LAYOUT_RANK_MAX);
        SEFL_PASS(tensor_number(&dims[rank++], r, "a dimension"));
    }
    SEFL_PASS(next_member(r, "block"));
    SEFL_PASS(tensor_number(&block, r, "block"));
    SEFL_PASS(next_member(r, NULL));
    return layout_add(&r->d->t.layout, name, rank, dims, block);
}

static sefl_status put_tensors(reader *r, const task_field *f)
{
    SEFL_PASS(open_list(r, f->path, "tensors"));
    for (size_t n = 0;; n++) {
        bool more;
        SEFL_PASS(jread_item(&r->j, &more));
        SEFL_NEED(more || n > 0, SEFL_EPROTO, "task: %s must not be empty", f->path);
        if (!more)
            return SEFL_OK;
        const sefl_status st = put_tensor(r);
        if (st != SEFL_OK)
            return sefl_fail_at(st == SEFL_ENOMEM ? st : SEFL_EPROTO, "task: %s", f->path);
    }
}

static sefl_status put_names(reader *r, const task_field *f)
{
    sefl_status st = SEFL_OK;
    sefl_buf names = { 0 };
    const char *name = "";
    SEFL_TRY(open_list(r, f->path, "names"));
    for (size_t n = 0;; n++) {
        bool more;
        SEFL_TRY(jread_item(&r->j, &more));
        if (!more)
            break;
        SEFL_CHECK(n < LAYOUT_TENSORS_MAX, SEFL_EPROTO, "task: %s has more than %d names", f->path,
                   LAYOUT_TENSORS_MAX);
        SEFL_TRY(sefl_at(read_text(r, &name), "task: %s", f->path));
        SEFL_CHECK(*name && strlen(name) <= LAYOUT_NAME_MAX + 1, SEFL_EPROTO,
                   "task: %s must contain names of 1 to %d characters", f->path, LAYOUT_NAME_MAX);
        for (const char *c = name; *c; c++)
            SEFL_CHECK(*c > 0x20 && *c < 0x7f && *c != ',', SEFL_EPROTO,
                       "task: %s contains a name with a character that is not allowed", f->path);
        SEFL_TRY(wr_fmt(&names, "%s%s", n ? "," : "", name));
    }
    SEFL_TRY(wr_u8(&names, 0));
    SEFL_TRY(sefl_strdup(&r->d->t.only, (const char *)names.p));
done:
    buf_clear(&names);
    return st;
}

static sefl_status put_filter(reader *r, const task_field *f)
{
    dp_filter filter = { 0 };
    uint64_t v;
    char what[32];
    snprintf(what, sizeof what, "at most %d numbers", DP_FILTER_LAGS);
    SEFL_PASS(open_list(r, f->path, what));
    for (bool more;;) {
        SEFL_PASS(jread_item(&r->j, &more));
        if (!more)
            break;
        SEFL_NEED(filter.b < DP_FILTER_LAGS, SEFL_EPROTO,
                  "task: %s must be a list of at most %d numbers", f->path, DP_FILTER_LAGS);
        SEFL_NEED(read_whole(r, &v, 0, DP_FILTER_ONE), SEFL_EPROTO,
                  "task: %s must contain whole numbers from 0 to %d", f->path, DP_FILTER_ONE);
        filter.gamma[filter.b++] = (uint16_t)v;
    }
    task_fields_put(r->d, f, &filter, sizeof filter);
    return SEFL_OK;
}

/* Refuses a number with a point or an exponent, which it does not read. */
static sefl_status refuse_real(reader *r, const char *path)
{
    jread j = r->j;
    if (jread_peek(&j) != '0')
        return SEFL_OK;
    const uint8_t *from = j.p + j.at;
    SEFL_PASS(jread_skip(&j));
    for (; from < j.p + j.at; from++)
        SEFL_NEED(*from == '-' || (*from >= '0' && *from <= '9'), SEFL_EPROTO,
                  "task: %s is a floating-point number: decimals are written as strings", path);
    return SEFL_OK;
}

static sefl_status put_string(reader *r, const task_field *f)
{
    task_draft *d = r->d;
    const char *text;
    SEFL_NEED(jread_peek(&r->j) == '"', SEFL_EPROTO, "task: %s must be a string", f->path);
    SEFL_PASS(read_text(r, &text));
    SEFL_NEED(strlen(text) <= TEXT_MAX, SEFL_EPROTO, "task: %s is too long", f->path);
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

static sefl_status put_value(reader *r, const task_field *f)
{
    uint64_t v;
    bool b;
    SEFL_PASS(refuse_real(r, f->path));
    if (f->kind == TASK_KIND_TENSORS)
        return put_tensors(r, f);
    if (f->kind == TASK_KIND_NAMES)
        return put_names(r, f);
    if (f->kind == TASK_KIND_FILTER)
        return put_filter(r, f);
    if (f->kind == TASK_KIND_U64) {
        SEFL_NEED(read_whole(r, &v, 0, INT64_MAX), SEFL_EPROTO,
                  "task: %s must be a whole number, and not too big", f->path);
        return put_count(r->d, f, v);
    }
    if (f->kind == TASK_KIND_BOOL) {
        SEFL_NEED(jread_bool(&r->j, &b) == SEFL_OK, SEFL_EPROTO, "task: %s must be true or false",
                  f->path);
        task_fields_put(r->d, f, &b, sizeof b);
        return SEFL_OK;
    }
    return put_string(r, f);
}

/* ---- the document ---------------------------------------------------------------------------- */

static const task_field *task_fields_find(const char *path)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (strcmp(task_fields[i].path, path) == 0)
            return &task_fields[i];
    return NULL;
}

/* The first field of this group; NULL: there is no such group. */
static const task_field *find_group(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < FIELDS; i++)
        if (strncmp(task_fields[i].path, name, n) == 0 && task_fields[i].path[n] == '.')
            return &task_fields[i];
    return NULL;
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

static sefl_status once(bool *seen, const char *path)
{
    SEFL_NEED(!*seen, SEFL_EPROTO, "task: duplicate member %s", path);
    *seen = true;
    return SEFL_OK;
}

/* All members of the next object, whose own name is `group` ("" for the document). */
static sefl_status read_object(reader *r, const char *group)
{
    SEFL_NEED(jread_peek(&r->j) == '{', SEFL_EPROTO, "task: %s must be an object",
              *group ? group : "the document");
    SEFL_PASS(jread_open(&r->j, '{'));
    for (bool more;;) {
        char name[65], path[128];
        SEFL_PASS(jread_key(&r->j, &r->key, &more));
        if (!more)
            return SEFL_OK;
        snprintf(name, sizeof name, "%.*s", (int)r->key.n, r->key.n ? (const char *)r->key.p : "");
        snprintf(path, sizeof path, "%s%s%s", group, *group ? "." : "", name);
        const bool known = r->key.n < sizeof name && !strchr(name, '.');
        const task_field *f = known ? task_fields_find(path) : NULL;
        const task_field *first = known && !f && !*group ? find_group(name) : NULL;
        if (!f && !first)
            return unknown(path);
        SEFL_PASS(once(f ? &r->seen[f - task_fields] : &r->groups[first - task_fields], path));
        SEFL_PASS(f ? put_value(r, f) : read_object(r, name));
    }
}

/* Looks for the version in a document of any version. */
static sefl_status read_version(void *ctx, jread *j, const sefl_buf *key)
{
    jread number = *j;
    if (jread_is(key, "sefl_task") && jread_u64(&number, ctx) != SEFL_OK)
        *(uint64_t *)ctx = TASK_VERSION; /* task_fields refuses it with the reason */
    return jread_skip(j);
}

/* Checks the syntax of the whole document, and its version. */
static sefl_status check_version(sefl_span document)
{
    uint64_t version = TASK_VERSION;
    SEFL_PASS(
        sefl_at(jread_document(document, read_version, &version),
                document.p[0] == '{' ? "task" : "not a task ('sefl task new', 'sefl task sign')"));
    SEFL_NEED(version == TASK_VERSION, SEFL_EUNSUPPORTED,
              "task: a document of version %llu, but this program reads version %d: create and "
              "sign a new task ('sefl task new', 'sefl task sign'). If it had sampling hidden or "
              "a record_rate: " TASK_NO_DRAWS,
              (unsigned long long)version, TASK_VERSION);
    return SEFL_OK;
}

sefl_status task_draft_read(task_draft *d, sefl_span document)
{
    sefl_status st = SEFL_OK;
    reader r = { .d = d, .j = jread_over(document) };

    *d = (task_draft){ 0 };
    SEFL_CHECK(document.n >= 1 && document.n <= TASK_BYTES_MAX, SEFL_EPROTO,
               "task: the document has %zu bytes: must have 1 to %d", document.n, TASK_BYTES_MAX);
    SEFL_TRY(check_version(document));
    SEFL_TRY(read_object(&r, ""));
    for (size_t i = 0; i < FIELDS; i++) {
        const char *path = task_fields[i].path;
        const bool applies = task_field_applies(path, d->body == TASK_BODY_EXTERNAL);
        SEFL_CHECK(r.seen[i] || !applies, SEFL_EPROTO,
                   "task: member %s is missing: another version of sefl wrote this task; create "
                   "and sign a new one",
                   path);
        SEFL_CHECK(!r.seen[i] || applies, SEFL_EPROTO,
                   "task: member %s does not apply: model.body is %s", path,
                   d->body == TASK_BODY_EXTERNAL ? "external" : "not external");
    }
done:
    buf_clear(&r.key);
    buf_clear(&r.text);
    return st;
}

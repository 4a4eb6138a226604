#include "model/file/safetensors.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/outfile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char meta_key[] = "__metadata__";

typedef struct named {
    const char *name;
    size_t index;
} named;

/* Invariants
 * 1. Every name, key, value and type name points into `names`, where each ends with a NUL.
 * 2. list[] is sorted by begin, without overlap or gap.
 * 3. by_name[] and meta_by_name[] are sorted; names differ. */
struct tensors {
    char *path;
    int fd; /* -1: in memory */
    sefl_span memory;
    uint64_t data; /* where the data part begins in the file */
    uint64_t data_bytes;
    sefl_buf names; /* never moves: no longer than the header */
    tensor *list;
    named *by_name;
    size_t count, cap;
    tensor_meta *metas;
    named *meta_by_name;
    size_t meta_count, meta_cap;
    sefl_buf key, word; /* scratch for reading the header */
    bool meta_seen;
};

/* ---- bytes of the file --------------------------------------------------------------------- */

static sefl_status read_at(tensors *t, void *out, size_t n, uint64_t at)
{
    if (t->fd < 0) { /* the caller checked the bounds against data_bytes or the size */
        SEFL_NEED(at <= t->memory.n && n <= t->memory.n - at, SEFL_EPROTO,
                  "%s: the file is cut short", t->path);
        if (n > 0) /* an empty buffer has no address */
            memcpy(out, t->memory.p + at, n);
        return SEFL_OK;
    }
    size_t got;
    SEFL_PASS(file_read_at(t->fd, t->path, at, out, n, &got));
    SEFL_NEED(got == n, SEFL_EPROTO, "%s: the file is cut short", t->path);
    return SEFL_OK;
}

/* ---- header -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    tensor_type type;
    unsigned size; /* bytes per value */
} types[] = { { "F32", TENSOR_F32, 4 },   { "F64", TENSOR_F64, 8 },   { "F16", TENSOR_F16, 2 },
              { "BF16", TENSOR_BF16, 2 }, { "I64", TENSOR_OTHER, 8 }, { "I32", TENSOR_OTHER, 4 },
              { "I16", TENSOR_OTHER, 2 }, { "I8", TENSOR_OTHER, 1 },  { "U64", TENSOR_OTHER, 8 },
              { "U32", TENSOR_OTHER, 4 }, { "U16", TENSOR_OTHER, 2 }, { "U8", TENSOR_OTHER, 1 },
              { "BOOL", TENSOR_OTHER, 1 } };

/* Stores a string in names. */
static sefl_status keep(tensors *t, const char **out, const sefl_buf *s)
{
    *out = (const char *)t->names.p + t->names.n;
    SEFL_PASS(wr_raw(&t->names, s->p, s->n));
    return wr_u8(&t->names, 0);
}

static sefl_status read_meta(tensors *t, jread *j)
{
    bool more = false;
    SEFL_NEED(!t->meta_seen, SEFL_EPROTO, "%s occurs twice", meta_key);
    t->meta_seen = true;
    SEFL_PASS(jread_open(j, '{'));
    for (;;) {
        SEFL_PASS(jread_key(j, &t->key, &more));
        if (!more)
            break;
        SEFL_NEED(t->meta_count < TENSOR_META_MAX, SEFL_EPROTO, "more than %d metadata entries",
                  TENSOR_META_MAX);
        SEFL_PASS(sefl_room(&t->metas, &t->meta_cap, t->meta_count + 1, sizeof *t->metas));
        tensor_meta *m = &t->metas[t->meta_count++];
        SEFL_PASS(keep(t, &m->key, &t->key));
        buf_reset(&t->word);
        SEFL_PASS(jread_str(j, &t->word));
        SEFL_PASS(keep(t, &m->value, &t->word));
    }
    return SEFL_OK;
}

static sefl_status read_shape(jread *j, tensor *t)
{
    bool more = false;
    t->rank = 0;
    t->count = 1;
    SEFL_PASS(jread_open(j, '['));
    for (;;) {
        uint64_t n;
        SEFL_PASS(jread_item(j, &more));
        if (!more)
            break;
        SEFL_NEED(t->rank < TENSOR_RANK_MAX, SEFL_EPROTO, "more than %d dimensions",
                  TENSOR_RANK_MAX);
        SEFL_PASS(jread_u64(j, &n));
        t->shape[t->rank++] = n;
        SEFL_NEED(!__builtin_mul_overflow(t->count, n, &t->count), SEFL_EPROTO,
                  "the shape is too large");
    }
    return SEFL_OK;
}

static sefl_status read_offsets(jread *j, tensor *t)
{
    bool more = false;
    uint64_t *to[2] = { &t->begin, &t->end };
    SEFL_PASS(jread_open(j, '['));
    for (int i = 0; i < 3; i++) {
        SEFL_PASS(jread_item(j, &more));
        SEFL_NEED(more == (i < 2), SEFL_EPROTO, "data_offsets are two numbers");
        if (more)
            SEFL_PASS(jread_u64(j, to[i]));
    }
    return SEFL_OK;
}

/* {"dtype": .., "shape": .., "data_offsets": ..}, each once, in any order. */
static sefl_status read_entry(tensors *h, jread *j, tensor *t)
{
    bool more = false;
    unsigned seen = 0, size = 0;
    uint64_t bytes;
    SEFL_PASS(jread_open(j, '{'));
    for (;;) {
        SEFL_PASS(jread_key(j, &h->key, &more));
        if (!more)
            break;
        unsigned bit = jread_is(&h->key, "dtype")          ? 1
                       : jread_is(&h->key, "shape")        ? 2
                       : jread_is(&h->key, "data_offsets") ? 4
                                                           : 0;
        SEFL_NEED(bit, SEFL_EPROTO, "unknown member beside dtype, shape and data_offsets");
        SEFL_NEED(!(seen & bit), SEFL_EPROTO, "a member occurs twice");
        seen |= bit;
        if (bit == 2) {
            SEFL_PASS(read_shape(j, t));
        } else if (bit == 4) {
            SEFL_PASS(read_offsets(j, t));
        } else {
            buf_reset(&h->word);
            SEFL_PASS(jread_str(j, &h->word));
            for (size_t i = 0; i < sizeof types / sizeof *types; i++)
                if (jread_is(&h->word, types[i].name)) {
                    t->type = types[i].type;
                    t->type_name = types[i].name;
                    size = types[i].size;
                }
            SEFL_NEED(size, SEFL_EPROTO, "unknown dtype \"%.16s\"",
                      h->word.n && wr_u8(&h->word, 0) == SEFL_OK ? (const char *)h->word.p : "");
        }
    }
    SEFL_NEED(seen == 7, SEFL_EPROTO, "dtype, shape or data_offsets is missing");
    SEFL_NEED(t->begin <= t->end, SEFL_EPROTO, "data_offsets run backwards");
    SEFL_NEED(!__builtin_mul_overflow(t->count, size, &bytes) && bytes == t->end - t->begin,
              SEFL_EPROTO, "data_offsets span %llu bytes, the shape needs %llu x %u",
              (unsigned long long)(t->end - t->begin), (unsigned long long)t->count, size);
    return SEFL_OK;
}

static sefl_status read_header(tensors *t, sefl_span text)
{
    jread j = jread_over(text);
    bool more = false;
    SEFL_NEED(text.n > 0 && text.p[0] == '{', SEFL_EPROTO, "does not begin with '{'");
    SEFL_PASS(buf_reserve(&t->names, text.n));
    t->names.max = t->names.cap;
    SEFL_PASS(jread_open(&j, '{'));
    for (;;) {
        SEFL_PASS(jread_key(&j, &t->key, &more));
        if (!more)
            break;
        if (jread_is(&t->key, meta_key)) {
            SEFL_PASS(read_meta(t, &j));
            continue;
        }
        SEFL_NEED(t->count < TENSOR_COUNT_MAX, SEFL_EPROTO, "more than %d arrays",
                  TENSOR_COUNT_MAX);
        SEFL_NEED(t->key.n > 0 && t->key.n <= TENSOR_NAME_MAX, SEFL_EPROTO,
                  "a name of %zu bytes: must be 1 to %d", t->key.n, TENSOR_NAME_MAX);
        SEFL_PASS(sefl_room(&t->list, &t->cap, t->count + 1, sizeof *t->list));
        tensor *x = &t->list[t->count++];
        *x = (tensor){ 0 };
        SEFL_PASS(keep(t, &x->name, &t->key));
        SEFL_PASS(sefl_at(read_entry(t, &j, x), "array \"%.64s\"", x->name));
    }
    return jread_end(&j);
}

static int by_begin(const void *a, const void *b)
{
    const tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) /* empty ones first */
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static sefl_status sort_names(named *list, size_t n, const char *what)
{
    if (n > 1)
        qsort(list, n, sizeof *list, by_name);
    for (size_t i = 1; i < n; i++)
        if (strcmp(list[i - 1].name, list[i].name) == 0)
            return sefl_fail(SEFL_EPROTO, "two %s are named \"%.64s\"", what, list[i].name);
    return SEFL_OK;
}

/* Checks the parsed header: order, names, no overlap, no gap, the file's end. */
static sefl_status settle(tensors *t)
{
    uint64_t at = 0;
    SEFL_PASS(sefl_new(&t->by_name, t->count, sizeof *t->by_name));
    SEFL_PASS(sefl_new(&t->meta_by_name, t->meta_count, sizeof *t->meta_by_name));
    if (t->count > 1)
        qsort(t->list, t->count, sizeof *t->list, by_begin);
    for (size_t i = 0; i < t->count; i++) {
        const tensor *x = &t->list[i];
        t->by_name[i] = (named){ x->name, i };
        SEFL_NEED(x->begin >= at, SEFL_EPROTO, "array \"%.64s\" overlaps the one before", x->name);
        SEFL_NEED(x->begin == at, SEFL_EPROTO, "%llu unused bytes before array \"%.64s\"",
                  (unsigned long long)(x->begin - at), x->name);
        at = x->end;
    }
    SEFL_NEED(at <= t->data_bytes, SEFL_EPROTO, "arrays have %llu bytes, the file holds %llu",
              (unsigned long long)at, (unsigned long long)t->data_bytes);
    SEFL_NEED(at == t->data_bytes, SEFL_EPROTO, "%llu stray bytes after the last array",
              (unsigned long long)(t->data_bytes - at));
    for (size_t i = 0; i < t->meta_count; i++)
        t->meta_by_name[i] = (named){ t->metas[i].key, i };
    SEFL_PASS(sort_names(t->by_name, t->count, "arrays"));
    return sort_names(t->meta_by_name, t->meta_count, "metadata entries");
}

static sefl_status read_all(tensors *t, uint64_t size)
{
    sefl_status st = SEFL_OK;
    uint8_t length[8];
    sefl_buf text = { .max = TENSOR_HEADER_MAX };
    uint8_t *to;
    SEFL_CHECK(size >= 8, SEFL_EPROTO, "has %llu bytes: too short for a safetensors file",
               (unsigned long long)size);
    SEFL_TRY(read_at(t, length, 8, 0));
    uint64_t n = load_u64(length);
    SEFL_CHECK(n <= size - 8, SEFL_EPROTO,
               "not a safetensors file, or cut short: its first 8 bytes announce a header of %llu "
               "bytes, the file has %llu. Give a model ('sefl model new', 'sefl train' and each "
               "round write one)",
               (unsigned long long)n, (unsigned long long)size);
    SEFL_CHECK(n <= TENSOR_HEADER_MAX, SEFL_EPROTO, "a header of %llu bytes; at most %d are read",
               (unsigned long long)n, TENSOR_HEADER_MAX);
    SEFL_TRY(buf_extend(&text, &to, (size_t)n));
    SEFL_TRY(read_at(t, to, (size_t)n, 8));
    t->data = 8 + n;
    t->data_bytes = size - t->data;
    st = read_header(t, buf_span(&text));
    if (st == SEFL_EPROTO)
        st = sefl_fail_at(st, "header");
    if (st == SEFL_OK)
        st = settle(t);
done:
    if (st == SEFL_EPROTO)
        st = sefl_fail_at(st, "%s", t->path);
    buf_clear(&text);
    return st;
}

/* memory NULL: a file. */
static sefl_status open_any(tensors **out, const char *name, const sefl_span *memory)
{
    uint64_t size = memory ? memory->n : 0;
    SEFL_MAKE(tensors, t, out);
    t->fd = -1;
    SEFL_TRY(sefl_strdup(&t->path, name));
    if (memory)
        t->memory = *memory;
    else
        SEFL_TRY(file_open(&t->fd, &size, name, false));
    SEFL_TRY(read_all(t, size));
    SEFL_HAND_OVER(out, t, tensors_close);
}

sefl_status tensors_open(tensors **out, const char *path)
{
    return open_any(out, path, NULL);
}

sefl_status tensors_over(tensors **out, sefl_span bytes, const char *name)
{
    return open_any(out, name, &bytes);
}

void tensors_close(tensors *t)
{
    if (!t)
        return;
    if (t->fd >= 0)
        close(t->fd);
    sefl_free(t->path);
    buf_clear(&t->names);
    buf_clear(&t->key);
    buf_clear(&t->word);
    sefl_free(t->list);
    sefl_free(t->by_name);
    sefl_free(t->metas);
    sefl_free(t->meta_by_name);
    sefl_free(t);
}

/* ---- what is in it ------------------------------------------------------------------------- */

size_t tensors_count(const tensors *t)
{
    return t->count;
}

const tensor *tensors_at(const tensors *t, size_t i)
{
    return i < t->count ? &t->list[i] : NULL;
}

static const named *look_up(const named *list, size_t n, const char *name)
{
    named want = { .name = name };
    return n ? bsearch(&want, list, n, sizeof *list, by_name) : NULL;
}

const tensor *tensors_find(const tensors *t, const char *name)
{
    const named *f = look_up(t->by_name, t->count, name);
    return f ? &t->list[f->index] : NULL;
}

const char *tensors_meta(const tensors *t, const char *key)
{
    const named *f = look_up(t->meta_by_name, t->meta_count, key);
    return f ? t->metas[f->index].value : NULL;
}

bool tensors_meta_at(const tensors *t, size_t i, const char **key, const char **value)
{
    if (i >= t->meta_count)
        return false;
    *key = t->metas[i].key;
    *value = t->metas[i].value;
    return true;
}

float tensor_from_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float tensor_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h >> 15) << 31, e = h >> 10 & 31, m = h & 1023, bits;
    float f;
    if (e == 0) { /* zero and subnormals: m * 2^-24 */
        f = ldexpf((float)m, -24);
        return sign ? -f : f;
    }
    bits = sign | (e == 31 ? 255 : e + 112) << 23 | m << 13;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float convert(tensor_type type, const uint8_t *p)
{
    if (type == TENSOR_F16 || type == TENSOR_BF16) {
        uint16_t half = (uint16_t)(p[0] | p[1] << 8);
        return type == TENSOR_F16 ? tensor_from_f16(half) : tensor_from_bf16(half);
    }
    if (type == TENSOR_F32) {
        uint32_t bits = load_u32(p);
        float f;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    uint64_t bits = load_u64(p);
    double d;
    memcpy(&d, &bits, sizeof d);
    return (float)d;
}

sefl_status tensors_read_f32(tensors *t, const tensor *which, float *out, uint64_t count)
{
    uint8_t piece[1 << 14] = { 0 };
    SEFL_NEED(which->count == count, SEFL_EPROTO,
              "%s: array \"%.64s\" has %llu values instead of %llu", t->path, which->name,
              (unsigned long long)which->count, (unsigned long long)count);
    SEFL_NEED(which->type != TENSOR_OTHER, SEFL_EPROTO,
              "%s: array \"%.64s\" has type %s; only F32, F64, F16 and BF16 can be read", t->path,
              which->name, which->type_name);
    if (count == 0)
        return SEFL_OK;
    if (SEFL_LITTLE_ENDIAN && which->type == TENSOR_F32)
        return read_at(t, out, 4 * count, t->data + which->begin);
    size_t size = (size_t)((which->end - which->begin) / count), most = sizeof piece / size;
    for (uint64_t i = 0; i < count;) {
        size_t n = count - i < most ? (size_t)(count - i) : most;
        SEFL_PASS(read_at(t, piece, n * size, t->data + which->begin + i * size));
        for (size_t k = 0; k < n; k++)
            out[i + k] = convert(which->type, piece + k * size);
        i += n;
    }
    return SEFL_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

static sefl_status check_names(const tensor_out *a, size_t n, const tensor_meta *m, size_t mn)
{
    sefl_status st = SEFL_OK;
    named *list = NULL;
    SEFL_CHECK(n <= TENSOR_COUNT_MAX && mn <= TENSOR_META_MAX, SEFL_EINVAL,
               "%zu arrays and %zu metadata entries are too many", n, mn);
    SEFL_TRY(sefl_new(&list, n > mn ? n : mn, sizeof *list));
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(a[i].name);
        SEFL_CHECK(len > 0 && len <= TENSOR_NAME_MAX && strcmp(a[i].name, meta_key) != 0,
                   SEFL_EINVAL, "\"%.64s\" cannot be an array's name", a[i].name);
        SEFL_CHECK(a[i].rank <= TENSOR_RANK_MAX, SEFL_EINVAL, "array \"%.64s\" has %u dimensions",
                   a[i].name, a[i].rank);
        list[i] = (named){ a[i].name, i };
    }
    SEFL_CHECK(sort_names(list, n, "arrays") == SEFL_OK, SEFL_EINVAL, "%s", sefl_last_error());
    for (size_t i = 0; i < mn; i++)
        list[i] = (named){ m[i].key, i };
    SEFL_CHECK(sort_names(list, mn, "metadata entries") == SEFL_OK, SEFL_EINVAL, "%s",
               sefl_last_error());
done:
    sefl_free(list);
    return st;
}

static sefl_status make_header(sefl_buf *b, const tensor_out *arrays, size_t count,
                               const tensor_meta *metas, size_t meta_count)
{
    uint64_t at = 0;
    json j = json_into(b);
    json_open(&j, '{');
    if (meta_count) {
        json_key(&j, meta_key);
        json_open(&j, '{');
        for (size_t i = 0; i < meta_count; i++)
            json_key(&j, metas[i].key), json_str(&j, metas[i].value);
        json_close(&j, '}');
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t n = 4;
        json_key(&j, arrays[i].name);
        json_open(&j, '{');
        json_key(&j, "dtype"), json_str(&j, "F32");
        json_key(&j, "shape"), json_open(&j, '[');
        for (unsigned k = 0; k < arrays[i].rank; k++) {
            json_u64(&j, arrays[i].shape[k]);
            SEFL_NEED(!__builtin_mul_overflow(n, arrays[i].shape[k], &n), SEFL_EINVAL,
                      "array \"%.64s\" is too large", arrays[i].name);
        }
        json_close(&j, ']');
        json_key(&j, "data_offsets"), json_open(&j, '[');
        json_u64(&j, at);
        SEFL_NEED(!__builtin_add_overflow(at, n, &at), SEFL_EINVAL, "the arrays are too large");
        json_u64(&j, at);
        json_close(&j, ']');
        json_close(&j, '}');
    }
    json_close(&j, '}');
    SEFL_PASS(json_end(&j));
    while (b->n % 8)
        SEFL_PASS(wr_u8(b, ' '));
    SEFL_NEED(b->n <= TENSOR_HEADER_MAX, SEFL_EINVAL, "the header has %zu bytes", b->n);
    return SEFL_OK;
}

static sefl_status put_values(outfile *o, const tensor_out *a)
{
    uint8_t piece[1 << 14];
    uint64_t count = 1;
    for (unsigned k = 0; k < a->rank; k++)
        count *= a->shape[k];
    if (SEFL_LITTLE_ENDIAN)
        return outfile_put(o, a->values, 4 * count);
    for (uint64_t i = 0; i < count;) {
        size_t n = 0;
        for (; n < sizeof piece / 4 && i < count; n++, i++) {
            uint32_t bits;
            memcpy(&bits, &a->values[i], sizeof bits);
            store_u32(piece + 4 * n, bits);
        }
        SEFL_PASS(outfile_put(o, piece, 4 * n));
    }
    return SEFL_OK;
}

sefl_status tensors_write(const char *path, const tensor_out *arrays, size_t count,
                          const tensor_meta *metas, size_t meta_count)
{
    sefl_status st = SEFL_OK;
    sefl_buf head = { 0 };
    outfile o = { 0 };
    uint8_t length[8];
    SEFL_TRY(check_names(arrays, count, metas, meta_count));
    SEFL_TRY(make_header(&head, arrays, count, metas, meta_count));
    SEFL_TRY(outfile_open(&o, path, 0644));
    store_u64(length, head.n);
    SEFL_TRY(outfile_put(&o, length, sizeof length));
    SEFL_TRY(outfile_put(&o, head.p, head.n));
    for (size_t i = 0; i < count; i++)
        SEFL_TRY(put_values(&o, &arrays[i]));
    SEFL_TRY(outfile_commit(&o));
done:
    outfile_abort(&o);
    buf_clear(&head);
    return st;
}

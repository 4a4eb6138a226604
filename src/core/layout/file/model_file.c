#include "model/file/model_file.h"

#include "base/alloc.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "model/file/safetensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { METAS = 20, SIZES = 8, REQUIRED = 6, POSITIONS = 5000 }; /* rows of PyTorch's table */

/* ---- parameters of a configuration --------------------------------------------------------- */

static sefl_status layout_of(layout *l, lm_config *cfg)
{
    SEFL_PASS(lm_config_check(cfg));
    return lm_config_layout(cfg, l);
}

static sefl_status check_finite(const float *v, uint64_t n, const char *path, const char *name)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return sefl_fail(SEFL_EPROTO, "%s: array \"%s\": value %" PRIu64 " is not finite", path,
                             name, i);
    return SEFL_OK;
}

/* ---- metadata ------------------------------------------------------------------------------ */

typedef struct meta_text {
    char number[SIZES][16], hash[2 * SHA256_BYTES + 1], values[2 * SHA256_BYTES + 1];
    char clip[48];
    tensor_meta list[METAS];
    size_t n;
} meta_text;

/* The last two are in the file only if they differ from block. */
static const char *const size_names[SIZES] = { "vocab", "embed", "hidden",      "layers",
                                               "heads", "block", "block_embed", "block_decoder" };

static uint32_t *size_at(lm_config *c, int i)
{
    uint32_t *at[SIZES] = { &c->vocab, &c->embed, &c->hidden,      &c->layers,
                            &c->heads, &c->block, &c->block_embed, &c->block_decoder };
    return at[i];
}

static void put_meta(meta_text *t, const model_meta *meta, const char *kind)
{
    lm_config cfg = meta->cfg;
    t->list[t->n++] = (tensor_meta){ "sefl", kind };
    t->list[t->n++] = (tensor_meta){ "format", "pt" };
    t->list[t->n++] = (tensor_meta){ "model", cfg.body };
    for (int i = 0; i < SIZES; i++) {
        if (i >= REQUIRED && *size_at(&cfg, i) == cfg.block)
            continue;
        snprintf(t->number[i], sizeof t->number[i], "%" PRIu32, *size_at(&cfg, i));
        t->list[t->n++] = (tensor_meta){ size_names[i], t->number[i] };
    }
    t->list[t->n++] = (tensor_meta){ "tied", cfg.tied ? "true" : "false" };
    if (meta->has_vocab)
        hex_write(t->hash, meta->vocab_hash, SHA256_BYTES);
    if (meta->has_vocab && meta->kind == VOCAB_BPE)
        t->list[t->n++] = (tensor_meta){ "vocab_kind", vocab_kind_name(meta->kind) };
    t->list[t->n++] =
        (tensor_meta){ "vocab_order", meta->has_vocab ? vocab_order_name(meta->order) : "" };
    t->list[t->n++] = (tensor_meta){ "vocab_sha256", t->hash };
    if (meta->clip > 0) {
        char task[HEX_CHARS(MODEL_CLIP_TASK)];
        snprintf(t->clip, sizeof t->clip, "%" PRIu64 " %s", meta->clip,
                 hex_write(task, meta->clip_task, MODEL_CLIP_TASK));
        t->list[t->n++] = (tensor_meta){ "clip", t->clip };
    }
}

static bool parse_u32(const char *s, uint32_t *out)
{
    uint64_t v = 0;
    if (!*s || strlen(s) > 9)
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return false;
        v = 10 * v + (uint64_t)(*s - '0');
    }
    *out = (uint32_t)v;
    return v > 0;
}

static sefl_status get_vocab(model_meta *meta, const tensors *t, const char *path)
{
    const char *hash = tensors_meta(t, "vocab_sha256"), *order = tensors_meta(t, "vocab_order");
    const char *kind = tensors_meta(t, "vocab_kind");
    if (!hash || !*hash)
        return SEFL_OK;
    SEFL_NEED(hex_read(meta->vocab_hash, SHA256_BYTES, hash), SEFL_EPROTO,
              "%s: vocab_sha256 is not 64 hex digits", path);
    SEFL_NEED(order && vocab_order_parse(&meta->order, order) == SEFL_OK, SEFL_EPROTO,
              "%s: vocab_order is unknown", path);
    SEFL_NEED(!kind || strcmp(kind, vocab_kind_name(VOCAB_BPE)) == 0, SEFL_EPROTO,
              "%s: vocab_kind is unknown", path);
    meta->kind = kind ? VOCAB_BPE : VOCAB_WORDS;
    meta->has_vocab = true;
    return SEFL_OK;
}

/* "1500000000 0123456789abcdef" */
static sefl_status get_clip(model_meta *meta, const tensors *t, const char *path)
{
    const char *text = tensors_meta(t, "clip");
    char again[48], task[HEX_CHARS(MODEL_CLIP_TASK)];
    if (!text)
        return SEFL_OK;
    const char *space = strchr(text, ' ');
    bool good = space && space - text <= 19 && strspn(text, "0123456789") == (size_t)(space - text);
    if (good) {
        meta->clip = strtoull(text, NULL, 10);
        good = hex_read(meta->clip_task, MODEL_CLIP_TASK, space + 1) && meta->clip > 0;
    }
    if (good) {
        snprintf(again, sizeof again, "%" PRIu64 " %s", meta->clip,
                 hex_write(task, meta->clip_task, MODEL_CLIP_TASK));
        good = strcmp(again, text) == 0;
    }
    SEFL_NEED(good, SEFL_EPROTO, "%s: metadata \"clip\" is not a clip and a task", path);
    return SEFL_OK;
}

static sefl_status get_meta(model_meta *meta, const tensors *t, const char *path)
{
    const char *kind = tensors_meta(t, "sefl"), *tied = tensors_meta(t, "tied");
    *meta = (model_meta){ 0 };
    const char *body = tensors_meta(t, "model");
    SEFL_NEED(!body || strcmp(body, "external") != 0, SEFL_EUNSUPPORTED,
              "%s: an external model: only its own program can use it", path);
    SEFL_NEED(kind && strncmp(kind, "model ", 6) == 0, SEFL_EPROTO,
              "%s: not a SEFL model ('sefl model import' reads PyTorch's dense weights)", path);
    SEFL_NEED(strcmp(kind, "model 1") == 0, SEFL_EUNSUPPORTED,
              "%s: format \"%.32s\" is not supported; this program reads \"model 1\"", path, kind);
    meta->cfg.body = body;
    SEFL_NEED(meta->cfg.body, SEFL_EPROTO, "%s: the kind of model is missing", path);
    for (int i = 0; i < SIZES; i++) {
        const char *text = tensors_meta(t, size_names[i]);
        if (!text && i >= REQUIRED)
            continue;
        SEFL_NEED(text && parse_u32(text, size_at(&meta->cfg, i)), SEFL_EPROTO,
                  "%s: metadata \"%s\" is not a number above 0", path, size_names[i]);
    }
    SEFL_NEED(tied && (strcmp(tied, "true") == 0 || strcmp(tied, "false") == 0), SEFL_EPROTO,
              "%s: metadata \"tied\" is neither true nor false", path);
    meta->cfg.tied = tied[0] == 't';
    SEFL_PASS(get_vocab(meta, t, path));
    SEFL_PASS(get_clip(meta, t, path));
    sefl_status st = lm_config_check(&meta->cfg); /* points body to a string constant */
    return st == SEFL_EINVAL ? sefl_fail_at(SEFL_EPROTO, "%s", path) : st;
}

static void values_hash(char out[2 * SHA256_BYTES + 1], uint8_t digest[SHA256_BYTES],
                        const float *values, size_t n)
{
    sha256_of(digest, span_of(values, n * sizeof *values));
    hex_write(out, digest, SHA256_BYTES);
}

/* Points *out to theta, or to a copy in *own if models compute in double. */
static sefl_status as_floats(const float **out, float **own, const nn_real *theta, size_t n)
{
#if SEFL_MODEL_DOUBLE
    SEFL_PASS(sefl_new(own, n, sizeof **own));
    for (size_t i = 0; i < n; i++)
        (*own)[i] = (float)theta[i];
    *out = *own;
#else
    (void)own, (void)n;
    *out = theta;
#endif
    return SEFL_OK;
}

/* ---- our own file -------------------------------------------------------------------------- */

static void shape_of(const layout_tensor *p, unsigned *rank, uint64_t shape[TENSOR_RANK_MAX])
{
    *rank = p->block > 1 ? 1 : p->rank;
    shape[0] = p->count;
    for (uint32_t k = 0; p->block == 1 && k < p->rank; k++)
        shape[k] = p->shape[k];
}

sefl_status model_write(const char *path, const model_meta *meta, const nn_real *theta)
{
    uint8_t hash[SHA256_BYTES];
    return model_write_hash(path, meta, theta, hash);
}

/* Writes the values of a layout with these metadata and their hash. */
static sefl_status write_values(const char *path, const layout *l, const nn_real *theta,
                                meta_text *text, uint8_t hash[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    tensor_out *out = NULL;
    const float *values;
    float *own = NULL;
    SEFL_TRY(sefl_new(&out, l->n, sizeof *out));
    SEFL_TRY(as_floats(&values, &own, theta, l->count));
    for (size_t i = 0; i < l->n; i++) {
        out[i].name = l->tensor[i].name;
        out[i].values = values + l->tensor[i].offset;
        shape_of(&l->tensor[i], &out[i].rank, out[i].shape);
    }
    values_hash(text->values, hash, values, l->count);
    text->list[text->n++] = (tensor_meta){ "values_sha256", text->values };
    SEFL_TRY(tensors_write(path, out, l->n, text->list, text->n));
done:
    sefl_free(own);
    sefl_free(out);
    return st;
}

sefl_status model_write_hash(const char *path, const model_meta *given, const nn_real *theta,
                             uint8_t hash[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    model_meta meta = *given;
    layout l = { 0 };
    meta_text text = { 0 };
    SEFL_TRY(layout_of(&l, &meta.cfg));
    put_meta(&text, &meta, "model 1");
    SEFL_TRY(write_values(path, &l, theta, &text, hash));
done:
    layout_clear(&l);
    return st;
}

static bool has_shape(const tensor *x, unsigned rank, const uint64_t *shape)
{
    bool same = x->rank == rank;
    for (unsigned k = 0; same && k < rank; k++)
        same = x->shape[k] == shape[k];
    return same;
}

/* Finds the array with this name and shape. */
static sefl_status find_array(const tensor **out, const tensors *t, const char *path,
                              const char *name, unsigned rank, const uint64_t *shape)
{
    const tensor *x = tensors_find(t, name);
    SEFL_NEED(x, SEFL_EPROTO, "%s: array \"%s\" is missing", path, name);
    const bool same = has_shape(x, rank, shape);
    SEFL_NEED(same || rank != 2, SEFL_EPROTO, "%s: array \"%s\" is not %" PRIu64 " x %" PRIu64,
              path, name, shape[0], shape[1]);
    SEFL_NEED(same, SEFL_EPROTO, "%s: array \"%s\" is not a vector of %" PRIu64 " values", path,
              name, shape[0]);
    *out = x;
    return SEFL_OK;
}

sefl_status model_read(model_meta *meta, nn_real **theta, size_t *count, const char *path)
{
    sefl_status st = SEFL_OK;
    tensors *t = NULL;
    model_meta found;
    layout l = { 0 };
    float *values = NULL;
    char have[2 * SHA256_BYTES + 1];
    uint8_t digest[SHA256_BYTES];
    SEFL_TRY(tensors_open(&t, path));
    SEFL_TRY(get_meta(&found, t, path));
    SEFL_TRY(layout_of(&l, &found.cfg));
    SEFL_CHECK(tensors_count(t) == l.n, SEFL_EPROTO, "%s: %zu arrays, this model has %zu", path,
               tensors_count(t), l.n);
    for (size_t i = 0; i < l.n; i++) { /* check all before allocating */
        const tensor *x;
        uint64_t shape[TENSOR_RANK_MAX];
        unsigned rank;
        shape_of(&l.tensor[i], &rank, shape);
        SEFL_TRY(find_array(&x, t, path, l.tensor[i].name, rank, shape));
    }
    SEFL_TRY(sefl_new(&values, l.count, sizeof *values));
    for (size_t i = 0; i < l.n; i++) {
        const layout_tensor *p = &l.tensor[i];
        float *to = values + p->offset;
        SEFL_TRY(tensors_read_f32(t, tensors_find(t, p->name), to, p->count));
        SEFL_TRY(check_finite(to, p->count, path, p->name));
    }
    const char *want = tensors_meta(t, "values_sha256");
    values_hash(have, digest, values, l.count);
    SEFL_CHECK(!want || strcmp(want, have) == 0, SEFL_EPROTO,
               "%s: the file is damaged: its values do not match their hash", path);
#if SEFL_MODEL_DOUBLE
    SEFL_TRY(sefl_new(theta, l.count, sizeof **theta));
    for (size_t i = 0; i < l.count; i++)
        (*theta)[i] = values[i];
#else
    *theta = values, values = NULL;
#endif
    *meta = found;
    *count = l.count;
done:
    sefl_free(values);
    layout_clear(&l);
    tensors_close(t);
    return st;
}

sefl_status model_read_hash(uint8_t hash[SHA256_BYTES], const char *path)
{
    sefl_status st = SEFL_OK;
    tensors *t = NULL;
    float *values = NULL;
    size_t cap = 0;
    sha256 h;
    char have[2 * SHA256_BYTES + 1];
    SEFL_TRY(tensors_open(&t, path));
    sha256_init(&h);
    for (size_t i = 0; i < tensors_count(t); i++) {
        const tensor *x = tensors_at(t, i);
        SEFL_TRY(sefl_room(&values, &cap, x->count, sizeof *values));
        SEFL_TRY(tensors_read_f32(t, x, values, x->count));
        sha256_add(&h, span_of(values, x->count * sizeof *values));
    }
    sha256_end(&h, hash);
    const char *want = tensors_meta(t, "values_sha256");
    SEFL_CHECK(want && strcmp(want, hex_write(have, hash, SHA256_BYTES)) == 0, SEFL_EPROTO,
               "%s: the file is damaged: its values do not match their hash", path);
done:
    sefl_free(values);
    tensors_close(t);
    return st;
}

static const lm_body_facts *facts_of(const lm_config *cfg)
{
    return lm_body_facts_of(lm_body_named(cfg->body));
}

sefl_status model_check_shape(const model_meta *meta, const lm_config *cfg)
{
    lm_config a = meta->cfg, b = *cfg;
    SEFL_PASS(lm_config_check(&a));
    SEFL_PASS(lm_config_check(&b));
    SEFL_NEED(strcmp(a.body, b.body) == 0, SEFL_EINVAL, "model.body is %s, but the model has %s",
              b.body, a.body);
    for (int i = 0; i < SIZES; i++) {
        bool used = strcmp(size_names[i], "heads") != 0 || facts_of(&a)->heads;
        SEFL_NEED(!used || *size_at(&a, i) == *size_at(&b, i), SEFL_EINVAL,
                  "model.%s is %" PRIu32 ", but the model has %" PRIu32, size_names[i],
                  *size_at(&b, i), *size_at(&a, i));
    }
    SEFL_NEED(a.tied == b.tied, SEFL_EINVAL, "model.tied is %s, but the model has %s",
              b.tied ? "true" : "false", a.tied ? "true" : "false");
    return SEFL_OK;
}

/* ---- external models ----------------------------------------------------------------------- */

sefl_status model_write_tensors(const char *path, const layout *l, const nn_real *theta,
                                uint8_t hash[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    meta_text text = { 0 };
    sefl_buf blocks = { 0 };
    char shape[LAYOUT_SHAPE_BYTES];
    for (size_t i = 0; i < l->n; i++)
        if (l->tensor[i].block > 1)
            SEFL_TRY(wr_fmt(&blocks, "%s%s=%s", blocks.n ? "," : "", l->tensor[i].name,
                            layout_shape(shape, &l->tensor[i])));
    SEFL_TRY(wr_u8(&blocks, 0));
    text.list[text.n++] = (tensor_meta){ "sefl", "model 1" };
    text.list[text.n++] = (tensor_meta){ "format", "pt" };
    text.list[text.n++] = (tensor_meta){ "model", "external" };
    if (blocks.n > 1)
        text.list[text.n++] = (tensor_meta){ "blocks", (const char *)blocks.p };
    SEFL_TRY(write_values(path, l, theta, &text, hash));
done:
    buf_clear(&blocks);
    return st;
}

/* Reads one tensor, which is dense in the file, or a vector of its values, and hashes the file's
 * values. */
static sefl_status read_tensor(nn_real *theta, sha256 *h, tensors *t, const tensor *x,
                               const layout_tensor *p, const char *path)
{
    sefl_status st = SEFL_OK;
    const uint64_t vector = p->count;
    uint64_t dense[LAYOUT_RANK_MAX];
    float *values = NULL;
    nn_real *wide = NULL;
    char shape[LAYOUT_SHAPE_BYTES];
    for (uint32_t k = 0; k < p->rank; k++)
        dense[k] = p->shape[k];
    const bool is_dense = has_shape(x, p->rank, dense);
    SEFL_CHECK(is_dense || (p->block > 1 && has_shape(x, 1, &vector)), SEFL_EPROTO,
               "%s: tensor %s does not have the shape %s", path, p->name, layout_shape(shape, p));
    SEFL_TRY(sefl_new(&values, x->count, sizeof *values));
    SEFL_TRY(sefl_new(&wide, x->count, sizeof *wide));
    SEFL_TRY(tensors_read_f32(t, x, values, x->count));
    SEFL_TRY(check_finite(values, x->count, path, p->name));
    sha256_add(h, span_of(values, x->count * sizeof *values));
    for (uint64_t i = 0; i < x->count; i++)
        wide[i] = values[i];
    if (is_dense)
        layout_project(p, theta + p->offset, wide);
    else
        memcpy(theta + p->offset, wide, p->count * sizeof *wide);
done:
    sefl_free(values);
    sefl_free(wide);
    return st;
}

sefl_status model_read_tensors(nn_real **theta, const layout *l, const char *path)
{
    sefl_status st = SEFL_OK;
    tensors *t = NULL;
    nn_real *v = NULL;
    sha256 h;
    char have[2 * SHA256_BYTES + 1];
    uint8_t digest[SHA256_BYTES];
    *theta = NULL;
    SEFL_TRY(tensors_open(&t, path));
    for (size_t i = 0; i < l->n; i++)
        SEFL_CHECK(tensors_find(t, l->tensor[i].name), SEFL_EPROTO, "%s: tensor %s is missing",
                   path, l->tensor[i].name);
    SEFL_TRY(sefl_new(&v, l->count, sizeof *v));
    sha256_init(&h);
    for (size_t i = 0; i < tensors_count(t); i++) { /* in the order of the hash */
        const tensor *x = tensors_at(t, i);
        const layout_tensor *p = layout_find(l, x->name);
        SEFL_CHECK(p, SEFL_EPROTO, "%s: tensor %.127s is not part of the model", path, x->name);
        SEFL_TRY(read_tensor(v, &h, t, x, p, path));
    }
    const char *kind = tensors_meta(t, "sefl"), *want = tensors_meta(t, "values_sha256");
    sha256_end(&h, digest);
    hex_write(have, digest, SHA256_BYTES);
    SEFL_CHECK(!kind || !want || strcmp(want, have) == 0, SEFL_EPROTO,
               "%s: the file is damaged: its values do not match their hash", path);
    *theta = v, v = NULL;
done:
    sefl_free(v);
    tensors_close(t);
    return st;
}

/* Appends one array of a file; `blocks` has those that are compressed. */
static sefl_status list_tensor(layout *out, const tensor *x, const layout *blocks, const char *path)
{
    uint32_t shape[LAYOUT_RANK_MAX];
    const layout_tensor *b = layout_find(blocks, x->name);
    if (b)
        return layout_add(out, b->name, b->rank, b->shape, b->block);
    SEFL_NEED(x->type != TENSOR_OTHER, SEFL_EUNSUPPORTED,
              "%s: tensor %.127s has the type %.16s: save only tensors of floating-point numbers",
              path, x->name, x->type_name);
    SEFL_NEED(x->rank <= LAYOUT_RANK_MAX, SEFL_EUNSUPPORTED,
              "%s: tensor %.127s has %u dimensions: at most %d", path, x->name, x->rank,
              LAYOUT_RANK_MAX);
    for (unsigned k = 0; k < x->rank; k++) {
        SEFL_NEED(x->shape[k] <= UINT32_MAX, SEFL_ERANGE, "%s: tensor %.127s is too large", path,
                  x->name);
        shape[k] = (uint32_t)x->shape[k];
    }
    return sefl_at(layout_add(out, x->name, x->rank, shape, 1), "%s", path);
}

sefl_status model_list_tensors(layout *out, const char *path)
{
    sefl_status st = SEFL_OK;
    tensors *t = NULL;
    layout l = { 0 }, blocks = { 0 };
    *out = l;
    SEFL_TRY(tensors_open(&t, path));
    const char *text = tensors_meta(t, "blocks"), *body = tensors_meta(t, "model");
    if (text && body && strcmp(body, "external") == 0)
        SEFL_TRY(sefl_at(layout_parse(&blocks, text, 1), "%s: metadata \"blocks\"", path));
    for (size_t i = 0; i < tensors_count(t); i++)
        SEFL_TRY(list_tensor(&l, tensors_at(t, i), &blocks, path));
    SEFL_CHECK(l.n > 0, SEFL_EPROTO, "%s has no tensors", path);
    *out = l, l = (layout){ 0 };
done:
    layout_clear(&blocks);
    layout_clear(&l);
    tensors_close(t);
    return st;
}

/* ---- PyTorch's ----------------------------------------------------------------------------- */

/* (POSITIONS, 1, embed) */
static sefl_status position_table(float **out, size_t embed)
{
    SEFL_PASS(sefl_new(out, POSITIONS * embed, sizeof **out));
    for (size_t i = 0; i < POSITIONS * embed; i++)
        (*out)[i] = (float)lm_position(i / embed, i % embed, embed);
    return SEFL_OK;
}

sefl_status model_export(const char *path, const model_meta *given, const nn_real *theta)
{
    sefl_status st = SEFL_OK;
    model_meta meta = *given;
    layout l = { 0 };
    tensor_out *out = NULL;
    nn_real *dense = NULL;
    const float *values;
    float *own = NULL, *positions = NULL;
    meta_text text = { 0 };
    size_t n = 0;
    SEFL_TRY(layout_of(&l, &meta.cfg));
    SEFL_TRY(sefl_new(&out, l.n + 2, sizeof *out));
    SEFL_TRY(sefl_new(&dense, l.dense, sizeof *dense));
    for (size_t i = 0; i < l.n; i++)
        layout_expand(&l.tensor[i], dense + l.tensor[i].dense_offset, theta + l.tensor[i].offset);
    SEFL_TRY(as_floats(&values, &own, dense, l.dense));
    for (size_t i = 0; i < l.n; i++) {
        const layout_tensor *p = &l.tensor[i];
        tensor_out *o = &out[n++];
        *o = (tensor_out){ .name = p->name, .rank = p->rank, .values = values + p->dense_offset };
        for (uint32_t k = 0; k < p->rank; k++)
            o->shape[k] = p->shape[k];
        if (meta.cfg.tied && strcmp(p->name, "encoder.weight") == 0) {
            out[n] = *o;
            out[n++].name = "decoder.weight";
        }
    }
    if (facts_of(&meta.cfg)->positions) {
        SEFL_TRY(position_table(&positions, meta.cfg.embed));
        out[n++] = (tensor_out){ "pos_encoder.pe", 3, { POSITIONS, 1, meta.cfg.embed }, positions };
    }
    put_meta(&text, &meta, "dense 1");
    SEFL_TRY(tensors_write(path, out, n, text.list, text.n));
done:
    sefl_free(dense);
    sefl_free(positions);
    sefl_free(own);
    sefl_free(out);
    layout_clear(&l);
    return st;
}

static sefl_status side(uint32_t *out, const tensors *t, const char *path, const char *name,
                        unsigned dimension)
{
    const tensor *x = tensors_find(t, name);
    SEFL_NEED(x, SEFL_EPROTO, "%s: array \"%s\" is missing", path, name);
    SEFL_NEED(x->rank == 2 && x->shape[dimension] >= 1 && x->shape[dimension] <= BHM_MAX_SIDE,
              SEFL_EPROTO, "%s: array \"%s\" is not a matrix of a supported size", path, name);
    *out = (uint32_t)x->shape[dimension];
    return SEFL_OK;
}

/* Infers the sizes from the shapes of PyTorch's weights. */
static sefl_status guess_config(lm_config *cfg, const tensors *t, const char *path)
{
    const lm_body_facts *f = NULL;
    char name[72];
    for (unsigned k = 0; k < LM_BODY_KINDS && !f; k++) {
        f = lm_body_facts_of((lm_body_kind)k);
        cfg->body = lm_body_name((lm_body_kind)k);
        snprintf(name, sizeof name, f->hidden, 0u);
        f = tensors_find(t, name) ? f : NULL;
    }
    SEFL_NEED(
        f, SEFL_EPROTO,
        "%s: not a model of PyTorch's word-language-model example: has no array \"%s\", and no "
        "other one that tells its body",
        path, name);
    SEFL_PASS(side(&cfg->vocab, t, path, "encoder.weight", 0));
    SEFL_PASS(side(&cfg->embed, t, path, "encoder.weight", 1));
    SEFL_PASS(side(&cfg->hidden, t, path, name, f->hidden_columns));
    cfg->layers = 0;
    do
        snprintf(name, sizeof name, f->hidden, ++cfg->layers);
    while (cfg->layers <= LM_MAX_LAYERS && tensors_find(t, name));
    return lm_config_check(cfg);
}

/* Refuses arrays that this model does not have. */
static sefl_status check_known(const tensors *t, const layout *l, const char *path)
{
    for (size_t i = 0; i < tensors_count(t); i++) {
        const char *name = tensors_at(t, i)->name;
        if (strcmp(name, "pos_encoder.pe") != 0 && strcmp(name, "decoder.weight") != 0 &&
            !layout_find(l, name))
            return sefl_fail(SEFL_EPROTO, "%s: array \"%.64s\" is not part of this model", path,
                             name);
    }
    return SEFL_OK;
}

/* Reads and projects one parameter; adds the squared change and norm. */
static sefl_status import_param(nn_real *theta, tensors *t, const layout_tensor *p,
                                const char *path, double *changed, double *norm)
{
    sefl_status st = SEFL_OK;
    const size_t n = p->dense_count;
    const uint64_t shape[TENSOR_RANK_MAX] = { p->shape[0], p->shape[1] };
    const tensor *x = NULL;
    float *values = NULL;
    nn_real *dense = NULL, *near = NULL;
    SEFL_TRY(find_array(&x, t, path, p->name, p->rank, shape));
    SEFL_TRY(sefl_new(&values, n, sizeof *values));
    SEFL_TRY(sefl_new(&dense, n, sizeof *dense));
    SEFL_TRY(sefl_new(&near, n, sizeof *near));
    SEFL_TRY(tensors_read_f32(t, x, values, n));
    SEFL_TRY(check_finite(values, n, path, p->name));
    for (size_t i = 0; i < n; i++)
        dense[i] = values[i];
    layout_project(p, theta + p->offset, dense);
    layout_expand(p, near, theta + p->offset);
    for (size_t i = 0; i < n; i++) {
        double was = dense[i], d = near[i] - was;
        *changed += d * d;
        *norm += was * was;
    }
done:
    sefl_free(values);
    sefl_free(dense);
    sefl_free(near);
    return st;
}

/* Tied weights that the file stores twice must be equal. */
static sefl_status check_tied(tensors *t, const char *path)
{
    sefl_status st = SEFL_OK;
    const tensor *a = tensors_find(t, "encoder.weight"), *b = tensors_find(t, "decoder.weight");
    float *x = NULL, *y = NULL;
    if (!b)
        return SEFL_OK;
    SEFL_TRY(sefl_new(&x, a->count, sizeof *x));
    SEFL_TRY(sefl_new(&y, a->count, sizeof *y));
    SEFL_TRY(tensors_read_f32(t, a, x, a->count));
    SEFL_TRY(tensors_read_f32(t, b, y, a->count));
    SEFL_CHECK(memcmp(x, y, a->count * sizeof *x) == 0, SEFL_EPROTO,
               "%s: encoder.weight and decoder.weight differ: they are not tied", path);
done:
    sefl_free(x);
    sefl_free(y);
    return st;
}

sefl_status model_import(model_meta *meta, nn_real **theta, size_t *count, double *distance,
                         const char *path)
{
    sefl_status st = SEFL_OK;
    tensors *t = NULL;
    layout l = { 0 };
    nn_real *v = NULL;
    model_meta found = { .cfg = { .block = meta->cfg.block,
                                  .block_embed = meta->cfg.block_embed,
                                  .block_decoder = meta->cfg.block_decoder,
                                  .heads = meta->cfg.heads,
                                  .tied = meta->cfg.tied } };
    double changed = 0, norm = 0;
    SEFL_TRY(tensors_open(&t, path));
    SEFL_TRY(guess_config(&found.cfg, t, path));
    SEFL_TRY(get_vocab(&found, t, path));
    SEFL_TRY(layout_of(&l, &found.cfg));
    SEFL_TRY(check_known(t, &l, path));
    if (found.cfg.tied)
        SEFL_TRY(check_tied(t, path));
    SEFL_TRY(sefl_new(&v, l.count, sizeof *v));
    for (size_t i = 0; i < l.n; i++)
        SEFL_TRY(import_param(v, t, &l.tensor[i], path, &changed, &norm));
    *distance = norm > 0 ? sqrt(changed / norm) : 0;
    *meta = found;
    *count = l.count;
    *theta = v, v = NULL;
done:
    sefl_free(v);
    layout_clear(&l);
    tensors_close(t);
    return st;
}

#include "model/layout.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

void layout_clear(layout *l)
{
    sefl_free(l->tensor);
    *l = (layout){ 0 };
}

const layout_tensor *layout_find(const layout *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->tensor[i].name, name) == 0)
            return &l->tensor[i];
    return NULL;
}

bhm layout_matrix(const layout_tensor *t)
{
    return (bhm){ t->rank > 0 ? t->shape[0] : 1, t->rank > 1 ? t->shape[1] : 1, t->block };
}

sefl_status layout_copy(layout *out, const layout *l)
{
    layout copy = *l;
    *out = (layout){ 0 };
    copy.tensor = NULL, copy.cap = 0;
    SEFL_PASS(sefl_room(&copy.tensor, &copy.cap, l->n, sizeof *copy.tensor));
    if (l->n > 0)
        memcpy(copy.tensor, l->tensor, l->n * sizeof *copy.tensor);
    *out = copy;
    return SEFL_OK;
}

/* ---- adding tensors -------------------------------------------------------------------------- */

static bool is_name(const char *name, size_t n)
{
    static const char others[] = "_.-/:";
    if (n < 1 || n > LAYOUT_NAME_MAX || (n == 12 && memcmp(name, "__metadata__", n) == 0))
        return false;
    for (size_t i = 0; i < n; i++) {
        const char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              memchr(others, c, sizeof others - 1)))
            return false;
    }
    return true;
}

/* Sets the shape and the counts of a tensor whose name is valid. */
static sefl_status set_shape(layout_tensor *t, uint32_t rank, const uint32_t *shape, uint32_t block)
{
    uint64_t count = 1;
    SEFL_NEED(rank <= LAYOUT_RANK_MAX, SEFL_EINVAL, "tensor %s has %u dimensions: at most %d",
              t->name, rank, LAYOUT_RANK_MAX);
    for (uint32_t k = 0; k < rank; k++) {
        SEFL_NEED(shape[k] > 0, SEFL_EINVAL, "tensor %s has a dimension of 0", t->name);
        SEFL_NEED(count <= LAYOUT_VALUES_MAX / shape[k], SEFL_ERANGE,
                  "tensor %s has more than 2^31 values", t->name);
        count *= t->shape[k] = shape[k];
    }
    t->rank = rank;
    t->block = block;
    t->count = t->dense_count = (size_t)count;
    SEFL_NEED(block >= 1 && block <= BHM_MAX_BLOCK, SEFL_EINVAL,
              "tensor %s has block %u: must be from 1 to %d", t->name, block, BHM_MAX_BLOCK);
    if (block == 1)
        return SEFL_OK;
    SEFL_NEED(rank == 2 && shape[0] <= BHM_MAX_SIDE && shape[1] <= BHM_MAX_SIDE, SEFL_EINVAL,
              "tensor %s has block %u: only a matrix with at most %d rows and columns can be "
              "block-Hankel",
              t->name, block, BHM_MAX_SIDE);
    t->count = bhm_count(layout_matrix(t));
    return SEFL_OK;
}

sefl_status layout_add(layout *l, const char *name, uint32_t rank, const uint32_t *shape,
                       uint32_t block)
{
    const size_t n = strlen(name);
    SEFL_NEED(is_name(name, n), SEFL_EINVAL,
              "tensor \"%.32s\": a name has 1 to %d letters, digits and _ . - / :", name,
              LAYOUT_NAME_MAX);
    layout_tensor t = {
        .trainable = true, .offset = l->count, .dense_offset = l->dense, .update_offset = l->trained
    };
    memcpy(t.name, name, n);
    SEFL_PASS(set_shape(&t, rank, shape, block));
    SEFL_NEED(!layout_find(l, name), SEFL_EINVAL, "tensor %s occurs twice", name);
    SEFL_NEED(l->n < LAYOUT_TENSORS_MAX, SEFL_ERANGE, "tensor %s is one too many: at most %d", name,
              LAYOUT_TENSORS_MAX);
    SEFL_NEED(t.dense_count <= LAYOUT_VALUES_MAX - l->dense, SEFL_ERANGE,
              "tensor %s: the model has more than 2^31 values", name);
    SEFL_PASS(sefl_room(&l->tensor, &l->cap, l->n + 1, sizeof *l->tensor));
    l->tensor[l->n++] = t;
    l->count += t.count, l->dense += t.dense_count, l->trained += t.count;
    return SEFL_OK;
}

/* ---- which ones are trained ------------------------------------------------------------------ */

/* Returns the next item of a list and moves *list behind it. */
static sefl_span next_item(const char **list)
{
    const char *p = *list + strspn(*list, " ");
    size_t n = strcspn(p, ",");
    *list = p + n + (p[n] == ',');
    while (n > 0 && p[n - 1] == ' ')
        n--;
    return span_of(p, n);
}

static bool fits(const char *name, sefl_span item)
{
    const bool open = item.n > 0 && item.p[item.n - 1] == '*';
    const size_t n = item.n - open;
    return strncmp(name, (const char *)item.p, n) == 0 && (open || name[n] == 0);
}

sefl_status layout_only(layout *l, const char *only)
{
    for (const char *rest = only; *rest;) {
        const sefl_span item = next_item(&rest);
        bool found = false;
        for (size_t i = 0; i < l->n && !found; i++)
            found = item.n > 0 && fits(l->tensor[i].name, item);
        SEFL_NEED(found, SEFL_EINVAL, "\"%.*s\" fits no tensor of the model",
                  (int)(item.n < 64 ? item.n : 64), (const char *)item.p);
    }
    l->trained = 0;
    for (size_t i = 0; i < l->n; i++) {
        layout_tensor *t = &l->tensor[i];
        t->trainable = !*only;
        for (const char *rest = only; *rest && !t->trainable;)
            t->trainable = fits(t->name, next_item(&rest));
        t->update_offset = l->trained;
        l->trained += t->trainable ? t->count : 0;
    }
    return SEFL_OK;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Reads a number above 0; false if there is none, or if it does not fit. */
static bool number(uint32_t *out, sefl_span *s)
{
    uint64_t v = 0;
    const size_t before = s->n;
    for (; s->n > 0 && s->p[0] >= '0' && s->p[0] <= '9' && v <= UINT32_MAX; s->p++, s->n--)
        v = 10 * v + (uint64_t)(s->p[0] - '0');
    *out = (uint32_t)v;
    return s->n < before && v >= 1 && v <= UINT32_MAX;
}

/* "10x784/32", or "scalar"; *block is 0 if there is none. */
static bool read_shape(uint32_t *rank, uint32_t shape[LAYOUT_RANK_MAX], uint32_t *block,
                       sefl_span s)
{
    *rank = 0;
    *block = 0;
    if (s.n == 6 && memcmp(s.p, "scalar", 6) == 0)
        return true;
    do {
        if (*rank > 0)
            s.p++, s.n--;
        if (*rank >= LAYOUT_RANK_MAX || !number(&shape[(*rank)++], &s))
            return false;
    } while (s.n > 0 && s.p[0] == 'x');
    if (s.n > 0 && s.p[0] == '/') {
        s.p++, s.n--;
        if (!number(block, &s))
            return false;
    }
    return s.n == 0;
}

sefl_status layout_parse(layout *l, const char *text, uint32_t usual)
{
    while (*text) {
        char name[LAYOUT_NAME_MAX + 1] = "";
        uint32_t rank, shape[LAYOUT_RANK_MAX], block;
        const sefl_span item = next_item(&text);
        const uint8_t *eq = item.n > 0 ? memchr(item.p, '=', item.n) : NULL;
        const size_t n = eq ? (size_t)(eq - item.p) : 0;
        SEFL_NEED(n >= 1 && n <= LAYOUT_NAME_MAX, SEFL_EINVAL,
                  "tensor \"%.*s\": must have the form name=shape, with a name of at most %d "
                  "characters",
                  (int)(item.n < 32 ? item.n : 32), (const char *)item.p, LAYOUT_NAME_MAX);
        memcpy(name, item.p, n);
        SEFL_NEED(read_shape(&rank, shape, &block, span_of(eq + 1, item.n - n - 1)), SEFL_EINVAL,
                  "tensor %.64s: \"%.*s\" is not a shape such as 10, 10x784, 10x784/32 (block 32) "
                  "or scalar, of at most %d dimensions",
                  name, (int)(item.n - n - 1 < 32 ? item.n - n - 1 : 32), (const char *)eq + 1,
                  LAYOUT_RANK_MAX);
        if (block == 0)
            block = rank == 2 && shape[0] >= usual && shape[1] >= usual ? usual : 1;
        SEFL_PASS(layout_add(l, name, rank, shape, block));
    }
    return SEFL_OK;
}

char *layout_shape(char out[LAYOUT_SHAPE_BYTES], const layout_tensor *t)
{
    int at = t->rank == 0 ? snprintf(out, LAYOUT_SHAPE_BYTES, "scalar") : 0;
    for (uint32_t k = 0; k < t->rank; k++)
        at +=
            snprintf(out + at, LAYOUT_SHAPE_BYTES - (size_t)at, "%s%u", k ? "x" : "", t->shape[k]);
    if (t->block > 1)
        snprintf(out + at, LAYOUT_SHAPE_BYTES - (size_t)at, "/%u", t->block);
    return out;
}

sefl_status layout_write(const layout *l, sefl_buf *out)
{
    char shape[LAYOUT_SHAPE_BYTES];
    for (size_t i = 0; i < l->n; i++)
        SEFL_PASS(wr_fmt(out, "%s%s=%s", i ? "," : "", l->tensor[i].name,
                         layout_shape(shape, &l->tensor[i])));
    return SEFL_OK;
}

/* ---- model and update ------------------------------------------------------------------------ */

bool layout_next(const layout *l, layout_range *r)
{
    const size_t from = r->model + r->n, update = r->update + r->n;
    layout_range next = { .update = update };
    for (size_t i = 0; i < l->n; i++) { /* offsets ascend */
        const layout_tensor *t = &l->tensor[i];
        if (t->offset < from || !t->trainable) {
            if (next.n > 0)
                break;
            continue;
        }
        if (next.n == 0)
            next.model = t->offset;
        next.n += t->count;
    }
    *r = next;
    return next.n > 0;
}

void layout_select(const layout *l, nn_real *update, const nn_real *model)
{
    for (layout_range r = { 0 }; layout_next(l, &r);)
        memmove(update + r.update, model + r.model, r.n * sizeof *update);
}

/* ---- model and dense form -------------------------------------------------------------------- */

void layout_expand(const layout_tensor *t, nn_real *dense, const nn_real *values)
{
    if (t->block == 1)
        memcpy(dense, values, t->count * sizeof *dense);
    else
        bhm_expand(layout_matrix(t), dense, t->shape[1], values, 0, t->shape[0]);
}

void layout_project(const layout_tensor *t, nn_real *values, const nn_real *dense)
{
    if (t->block == 1)
        memcpy(values, dense, t->count * sizeof *values);
    else
        bhm_project(layout_matrix(t), values, dense, t->shape[1]);
}

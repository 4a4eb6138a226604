/* layout: the named tensors of a model, and where their values are in its flat vector.
 *
 * A federation sums flat vectors and does not know what they mean. A layout gives them their
 * meaning: it lists the tensors of a model in a fixed order, each with its name, shape and block
 * size. The built-in models build theirs from their settings (lm_config_layout); a task with
 * model.body external has its own list (protocol/task.h).
 *
 *     layout l = { 0 };
 *     SEFL_TRY(layout_add(&l, "fc.weight", 2, (uint32_t[]){ 10, 784 }, 1));
 *     SEFL_TRY(layout_add(&l, "fc.bias", 1, (uint32_t[]){ 10 }, 1));
 *     SEFL_TRY(layout_only(&l, "fc.bias"));           // l.count is 7850, l.trained is 10
 *     layout_clear(&l);
 *
 * There are three vectors:
 *     model     l.count values: all tensors, one after another. A tensor with block 1 is dense, in
 *               row-major order. A matrix with a block above 1 is block-Hankel (model/bhm) and
 *               has only the values of its anti-diagonals.
 *     update    l.trained values: those of the trainable tensors, in the same order. Clients send
 *               updates, and noise falls on updates only (layout_select, layout_next).
 *     dense     l.dense numbers: all tensors, block-Hankel matrices expanded. Programs outside
 *               SEFL train on this form (layout_expand, layout_project).
 *
 * Limits: LAYOUT_TENSORS_MAX tensors, LAYOUT_VALUES_MAX numbers in the dense form; names of 1 to
 * LAYOUT_NAME_MAX letters, digits and _ . - / : (not "__metadata__", which safetensors reserves).
 *
 * Threads: read-only after the last layout_add or layout_only.   Secrets: none. */
#ifndef MODEL_LAYOUT_H
#define MODEL_LAYOUT_H

#include "base/buf.h"
#include "model/bhm/bhm.h"
#include "model/lm_config.h"

#include <stdbool.h>

enum { LAYOUT_NAME_MAX = 127, LAYOUT_RANK_MAX = 4, LAYOUT_TENSORS_MAX = 4096 };
#define LAYOUT_VALUES_MAX (UINT64_C(1) << 31)

typedef struct layout_tensor {
    char name[LAYOUT_NAME_MAX + 1];
    uint32_t rank;                   /* 0 (one number) to LAYOUT_RANK_MAX */
    uint32_t shape[LAYOUT_RANK_MAX]; /* the first `rank` are above 0, the others 0 */
    uint32_t block;                  /* 1: dense; above 1, only for rank 2: block-Hankel */
    bool trainable;
    size_t offset, count; /* its values in the model's vector */
    size_t dense_offset, dense_count;
    size_t update_offset; /* its values in an update; only for a trainable tensor */
} layout_tensor;

typedef struct layout {
    layout_tensor *tensor; /* owned */
    size_t n, cap;
    size_t count, dense, trained; /* values of a model, its dense form, and an update */
} layout;

/* Appends a trainable tensor. SEFL_EINVAL or SEFL_ERANGE, with the tensor's name, for a name that
 * is not allowed or occurs twice, a shape or block out of range, or a layout that becomes too
 * large; the layout is then unchanged. */
sefl_status layout_add(layout *l, const char *name, uint32_t rank, const uint32_t *shape,
                       uint32_t block) SEFL_MUST_CHECK;

/* Makes only the tensors trainable that `only` names, a list of names separated by commas; a name
 * that ends with * stands for all names with that beginning. "" makes all tensors trainable.
 * SEFL_EINVAL if a name fits no tensor. */
sefl_status layout_only(layout *l, const char *only) SEFL_MUST_CHECK;

/* Appends the tensors of a text such as "fc.weight=10x784/32, fc.bias=10, scale=scalar": shapes,
 * with block sizes after a slash. A matrix without one gets `usual`, unless one of its sides is
 * shorter than that. */
sefl_status layout_parse(layout *l, const char *text, uint32_t usual) SEFL_MUST_CHECK;
/* Appends the text that layout_parse reads, without a space, to out. */
sefl_status layout_write(const layout *l, sefl_buf *out) SEFL_MUST_CHECK;
/* Writes a tensor's shape and block as in that text. */
enum { LAYOUT_SHAPE_BYTES = 64 };
char *layout_shape(char out[LAYOUT_SHAPE_BYTES], const layout_tensor *t);

sefl_status layout_copy(layout *out, const layout *l) SEFL_MUST_CHECK;
void layout_clear(layout *l);

/* Lists the tensors of a built-in model; the caller clears *out. */
sefl_status lm_config_layout(const lm_config *cfg, layout *out) SEFL_MUST_CHECK;

/* Returns column j of the Transformer's vector for position t, as in PyTorch's example: the sine or
 * cosine of t / 10000^(2 (j div 2) / embed). */
double lm_position(size_t t, size_t j, size_t embed);

/* Returns the tensor with this name; NULL if there is none. */
const layout_tensor *layout_find(const layout *l, const char *name);

/* Returns a tensor of rank 0 to 2 as a matrix; a vector of n values is n x 1. */
bhm layout_matrix(const layout_tensor *t);

/* ---- model and update ---------------------------------------------------------------------- */

/* n values at `model` in the model's vector are at `update` in an update. */
typedef struct layout_range {
    size_t model, update, n;
} layout_range;

/* Moves *r to the next range of trainable values, in ascending order; false after the last one.
 * Neighbouring tensors share a range. Begin with an empty one: layout_range r = { 0 }; */
bool layout_next(const layout *l, layout_range *r);

/* Copies the trainable values of a model's vector to an update. They may be the same array. */
void layout_select(const layout *l, nn_real *update, const nn_real *model);

/* ---- model and dense form ------------------------------------------------------------------ */

/* Writes the dense form of one tensor, t->dense_count numbers, from its t->count values. */
void layout_expand(const layout_tensor *t, nn_real *dense, const nn_real *values);
/* Writes the values of the nearest tensor of this form: for a block-Hankel matrix, the mean of each
 * anti-diagonal. Projecting a difference of two dense tensors gives the difference of their
 * projections. */
void layout_project(const layout_tensor *t, nn_real *values, const nn_real *dense);

#endif

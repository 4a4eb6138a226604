#include "model/file/exchange.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t weight_max = UINT64_C(1) << 53;

sefl_status exchange_write(const char *path, const layout *l, const float *dense)
{
    sefl_status st = SEFL_OK;
    static const tensor_meta format = { "format", "pt" };
    tensor_out *list = NULL;
    SEFL_TRY(sefl_new(&list, l->n, sizeof *list));
    for (size_t i = 0; i < l->n; i++) {
        const layout_tensor *t = &l->tensor[i];
        list[i] =
            (tensor_out){ .name = t->name, .rank = t->rank, .values = dense + t->dense_offset };
        for (uint32_t k = 0; k < t->rank; k++)
            list[i].shape[k] = t->shape[k];
    }
    SEFL_TRY(tensors_write(path, list, l->n, &format, 1));
done:
    sefl_free(list);
    return st;
}

/* ---- what came back -------------------------------------------------------------------------- */

/* "[10, 784]" */
static const char *shape_text(char *out, size_t n, unsigned rank, const uint64_t *shape)
{
    size_t at = 0;
    out[0] = 0;
    for (unsigned i = 0; i < rank && at < n; i++)
        at += (size_t)snprintf(out + at, n - at, "%s%llu", i ? ", " : "",
                               (unsigned long long)shape[i]);
    return out;
}

static sefl_status check_tensor(const layout_tensor *want, const tensor *got)
{
    char a[TENSOR_RANK_MAX * 24], b[TENSOR_RANK_MAX * 24];
    uint64_t shape[TENSOR_RANK_MAX] = { 0 };
    for (uint32_t i = 0; i < want->rank; i++)
        shape[i] = want->shape[i];
    SEFL_NEED(got->type == TENSOR_F32, SEFL_EPROTO, "tensor \"%s\" has type %s instead of F32",
              want->name, got->type_name);
    SEFL_NEED(got->rank == want->rank && memcmp(got->shape, shape, want->rank * sizeof *shape) == 0,
              SEFL_EPROTO, "tensor \"%s\" has shape [%s] instead of [%s]", want->name,
              shape_text(a, sizeof a, got->rank, got->shape),
              shape_text(b, sizeof b, want->rank, shape));
    return SEFL_OK;
}

static sefl_status read_weight(const tensors *t, uint64_t *weight)
{
    const char *text = tensors_meta(t, "weight");
    char *end;
    if (!text)
        return SEFL_OK;
    unsigned long long n = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    SEFL_NEED(n >= 1 && n <= weight_max && *end == 0, SEFL_EPROTO,
              "the metadata \"weight\" is \"%.32s\" instead of a whole number from 1 to 2^53",
              text);
    *weight = n;
    return SEFL_OK;
}

sefl_status exchange_read(tensors *t, const layout *l, float *dense, uint64_t *weight)
{
    uint64_t items = *weight;
    for (size_t i = 0; i < tensors_count(t); i++) {
        const tensor *got = tensors_at(t, i);
        const layout_tensor *want = layout_find(l, got->name);
        SEFL_NEED(want, SEFL_EPROTO, "tensor \"%.64s\" is not in the task's model", got->name);
        SEFL_PASS(check_tensor(want, got));
    }
    for (size_t i = 0; i < l->n; i++) {
        const layout_tensor *want = &l->tensor[i];
        float *to = dense + want->dense_offset;
        if (!want->trainable)
            continue;
        const tensor *got = tensors_find(t, want->name);
        SEFL_NEED(got, SEFL_EPROTO, "tensor \"%s\" is missing", want->name);
        SEFL_PASS(tensors_read_f32(t, got, to, want->dense_count));
        for (size_t k = 0; k < want->dense_count; k++)
            SEFL_NEED(isfinite(to[k]), SEFL_EPROTO, "tensor \"%s\": value %zu is not finite",
                      want->name, k);
    }
    SEFL_PASS(read_weight(t, &items));
    *weight = items;
    return SEFL_OK;
}

/* Any bytes as a model file: refused with a reason, or arrays that are inside the file, do not
 * overlap and can be read. */
#include "model/file/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tensors *t = NULL;
    sefl_status st = tensors_over(&t, span_of(data, size), "fuzz");
    if (st != SEFL_OK) {
        must(t == NULL && (st == SEFL_EPROTO || st == SEFL_ENOMEM) && *sefl_last_error());
        return 0;
    }
    uint64_t at = 0;
    for (size_t i = 0; i < tensors_count(t); i++) {
        const tensor *x = tensors_at(t, i);
        must(x->begin == at && x->end >= at && x->end <= size);
        at = x->end;
        must(tensors_find(t, x->name) == x);
        must(x->count <= size);
        float *v = malloc(x->count * sizeof *v + 1);
        must(v != NULL);
        must((tensors_read_f32(t, x, v, x->count) == SEFL_OK) == (x->type != TENSOR_OTHER));
        free(v);
    }
    const char *key, *value;
    for (size_t i = 0; tensors_meta_at(t, i, &key, &value); i++)
        must(tensors_meta(t, key) == value);
    tensors_close(t);
    return 0;
}

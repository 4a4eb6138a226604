/* safetensors: named arrays of numbers in a file that PyTorch and others open too.
 *
 *     8 bytes      n, length of the header, little-endian
 *     n bytes      {"__metadata__":{"kind":"lstm",...},
 *                   "encoder":{"dtype":"F32","shape":[65516],"data_offsets":[0,262064]},...}
 *                  and spaces, so that the data begins at a multiple of 8
 *     the rest     the arrays, little-endian, each where its offsets say
 *
 * Reading:
 *     tensors *t = NULL;
 *     SEFL_TRY(tensors_open(&t, path));
 *     const tensor *w = tensors_find(t, "decoder");
 *     SEFL_TRY(tensors_read_f32(t, w, values, count));   // count must be the array's
 *     const char *kind = tensors_meta(t, "kind");        // NULL if not there
 * done:
 *     tensors_close(t);
 *
 * A file is untrusted: the header has at most 16 MiB, 65,536 arrays of at most 8 dimensions
 * and 4,096 metadata entries; names differ; each array's offsets fit its shape and type, arrays do
 * not overlap, leave no holes and end with the file. All else is SEFL_EPROTO with a reason. F32 is
 * read as it is, F64, F16 and BF16 are turned into F32; other types may be in the file but not be
 * read. Values are copied out, so no alignment is asked of the file. The data is read when asked
 * for, never all at once.
 *
 * Writing:
 *     SEFL_TRY(tensors_write(path, arrays, count, metas, meta_count));
 *
 * writes F32, arrays in the given order, whole or not at all (base/outfile.h).
 *
 * Threads: an open one has one owner.   Secrets: none by itself; a model trained on secret text is
 * its owner's business. */
#ifndef MODEL_FILE_SAFETENSORS_H
#define MODEL_FILE_SAFETENSORS_H

#include "base/span.h"

#include <stdbool.h>

enum {
    TENSOR_RANK_MAX = 8,
    TENSOR_COUNT_MAX = 65536,
    TENSOR_META_MAX = 4096,
    TENSOR_HEADER_MAX = 16 << 20,
    TENSOR_NAME_MAX = 512
};

typedef enum tensor_type {
    TENSOR_F32,
    TENSOR_F64,
    TENSOR_F16,
    TENSOR_BF16,
    TENSOR_OTHER /* integers and the like: known size, never read */
} tensor_type;

typedef struct tensor {
    const char *name;
    tensor_type type;
    const char *type_name; /* as written: "F32" */
    unsigned rank;
    uint64_t shape[TENSOR_RANK_MAX];
    uint64_t count;      /* product of the shape */
    uint64_t begin, end; /* bytes of the data part */
} tensor;

typedef struct tensors tensors;

sefl_status tensors_open(tensors **out, const char *path) SEFL_MUST_CHECK;

/* The same over bytes in memory, which must outlive it. */
sefl_status tensors_over(tensors **out, sefl_span bytes, const char *name) SEFL_MUST_CHECK;

void tensors_close(tensors *t);

/* In the order of their data. */
size_t tensors_count(const tensors *t);
const tensor *tensors_at(const tensors *t, size_t i);

/* NULL if there is none of that name. */
const tensor *tensors_find(const tensors *t, const char *name);
const char *tensors_meta(const tensors *t, const char *key);

/* The i-th metadata entry, in the file's order; false when there are no more. */
bool tensors_meta_at(const tensors *t, size_t i, const char **key, const char **value);

/* SEFL_EPROTO if the array has another number of values, or is neither F32, F64, F16 nor BF16. NaN
 * and Inf are given as they are. */
sefl_status tensors_read_f32(tensors *t, const tensor *which, float *out,
                             uint64_t count) SEFL_MUST_CHECK;

/* ---- writing ------------------------------------------------------------------------------- */

typedef struct tensor_out {
    const char *name;
    unsigned rank;
    uint64_t shape[TENSOR_RANK_MAX];
    const float *values;
} tensor_out;

typedef struct tensor_meta {
    const char *key, *value;
} tensor_meta;

/* SEFL_EINVAL for two arrays or keys of one name, or anything the reader would refuse. */
sefl_status tensors_write(const char *path, const tensor_out *arrays, size_t count,
                          const tensor_meta *metas, size_t meta_count) SEFL_MUST_CHECK;

/* IEEE half and bfloat16 to float, exactly. */
float tensor_from_f16(uint16_t h);
float tensor_from_bf16(uint16_t h);

#endif

/* safetensors: reads and writes named arrays in the file format that PyTorch and others use.
 *
 *     8 bytes      n, length of the header, little-endian
 *     n bytes      {"__metadata__":{"kind":"lstm",...},
 *                   "encoder":{"dtype":"F32","shape":[65516],"data_offsets":[0,262064]},...}
 *                  then spaces, so that the data begins at a multiple of 8
 *     the rest     the arrays, little-endian, each at its offsets
 *
 * Reading:
 *     tensors *t = NULL;
 *     SEFL_TRY(tensors_open(&t, path));
 *     const tensor *w = tensors_find(t, "decoder");
 *     SEFL_TRY(tensors_read_f32(t, w, values, count));   // count must match the array
 *     const char *kind = tensors_meta(t, "kind");        // NULL if missing
 * done:
 *     tensors_close(t);
 *
 * A file is untrusted, so the reader checks it: the header has at most 16 MiB, 65,536 arrays of at
 * most 8 dimensions and 4,096 metadata entries; names are unique; each array's offsets match its
 * shape and type; arrays do not overlap, leave no gaps and end with the file. Otherwise
 * SEFL_EPROTO. The reader converts F64, F16 and BF16 to F32; it cannot read arrays of other types.
 * Files need no alignment. The reader loads data on demand, never all at once.
 *
 * Writing:
 *     SEFL_TRY(tensors_write(path, arrays, count, metas, meta_count));
 *
 * writes F32 arrays in the given order, atomically (base/outfile.h).
 *
 * Threads: an open file has one owner.   Secrets: possibly the values. */
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
    TENSOR_OTHER /* integers and booleans: their size is known, but they are never read */
} tensor_type;

typedef struct tensor {
    const char *name;
    tensor_type type;
    const char *type_name; /* as in the file: "F32" */
    unsigned rank;
    uint64_t shape[TENSOR_RANK_MAX];
    uint64_t count;      /* product of the shape */
    uint64_t begin, end; /* byte offsets in the data part */
} tensor;

typedef struct tensors tensors;

sefl_status tensors_open(tensors **out, const char *path) SEFL_MUST_CHECK;

/* Like tensors_open, but reads bytes in memory, which must outlive *out. */
sefl_status tensors_over(tensors **out, sefl_span bytes, const char *name) SEFL_MUST_CHECK;

void tensors_close(tensors *t);

/* Return the number of arrays, and the i-th array in the order of their data. */
size_t tensors_count(const tensors *t);
const tensor *tensors_at(const tensors *t, size_t i);

/* Find an array or a metadata value by name; NULL if there is none. */
const tensor *tensors_find(const tensors *t, const char *name);
const char *tensors_meta(const tensors *t, const char *key);

/* Returns the i-th metadata entry, in the file's order; false if there is none. */
bool tensors_meta_at(const tensors *t, size_t i, const char **key, const char **value);

/* Reads an array as F32. SEFL_EPROTO if it does not have `count` values, or if its type is not F32,
 * F64, F16 or BF16. Keeps NaN and Inf. */
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

/* SEFL_EINVAL for duplicate names or keys, and for anything the reader would refuse. */
sefl_status tensors_write(const char *path, const tensor_out *arrays, size_t count,
                          const tensor_meta *metas, size_t meta_count) SEFL_MUST_CHECK;

/* Convert IEEE half and bfloat16 to float, exactly. */
float tensor_from_f16(uint16_t h);
float tensor_from_bf16(uint16_t h);

#endif

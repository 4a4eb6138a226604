/* exchange: hands a model to a program outside SEFL and takes its trained values back, both as
 * safetensors files.
 *
 *     SEFL_TRY(exchange_write("model.safetensors", l, dense));      // the program reads this file
 *     ...                                                            // and writes the other one
 *     SEFL_TRY(tensors_open(&t, "out.safetensors"));
 *     SEFL_TRY(exchange_read(t, l, dense, &weight));
 *
 * Both files contain every tensor of the layout under its name, as float32 with its dense shape
 * (model/layout.h); block-Hankel matrices are expanded. The metadata of the file for the program
 * are "format": "pt", which PyTorch's loader requires. In the file from the program,
 *     - tensors that are not trainable may be missing, and their values are not read;
 *     - the metadata may contain "weight", the number of items (examples, words) that the update
 *       stands for: a whole number from 1 to 2^53.
 *
 * exchange_read refuses (SEFL_EPROTO, with the tensor's name) a trainable tensor that is missing, a
 * tensor that the layout does not have, another shape, another type than F32, and a value that is
 * not finite. The message contains no value.
 *
 * Threads: any.   Secrets: the values that a program gives back. */
#ifndef MODEL_FILE_EXCHANGE_H
#define MODEL_FILE_EXCHANGE_H

#include "model/file/safetensors.h"
#include "model/layout.h"

/* Writes l->dense values. */
sefl_status exchange_write(const char *path, const layout *l, const float *dense) SEFL_MUST_CHECK;

/* Replaces the trainable values of dense, l->dense values, by those of the file. Without the
 * metadata *weight is unchanged. On failure dense may be half written. */
sefl_status exchange_read(tensors *t, const layout *l, float *dense,
                          uint64_t *weight) SEFL_MUST_CHECK;

#endif

/* float_mode: whether the calling thread flushes denormals, numbers below the smallest normal one.
 *
 *     const float_mode was = float_mode_flush();
 *     ...float arithmetic: results and operands that would be denormal count as zero...
 *     float_mode_set(was);
 *
 * A processor takes up to a hundred times as long for an operation on a denormal. AS, which
 * chooses the model, could make some words slow, and see them in the time of an upload; so training
 * flushes (model/lm.h). pool_run gives its threads the mode of its caller.
 *
 * x86-64: FTZ and DAZ of MXCSR; arm64: FZ of FPCR. Elsewhere nothing changes.
 * Threads: each has its own mode.   Secrets: none. */
#ifndef BASE_FLOAT_MODE_H
#define BASE_FLOAT_MODE_H

#include <stdint.h>

typedef uint64_t float_mode;

/* Returns the former mode. */
float_mode float_mode_flush(void);

float_mode float_mode_get(void);
void float_mode_set(float_mode m);

#endif

/* kernels_list: declares the kernel tables, for the files that define and choose them. */
#ifndef MODEL_NN_KERNELS_LIST_H
#define MODEL_NN_KERNELS_LIST_H

#include "model/nn/kernels.h"

extern const nn_kernels nn_kernels_portable;
#ifdef __x86_64__
extern const nn_kernels nn_kernels_avx2, nn_kernels_avx512;
#endif

#endif

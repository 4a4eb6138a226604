/* The kernels with AVX-512. */
#include "model/nn/kernels_list.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>
#ifdef __clang__
#pragma clang attribute push( \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif

#define WIDTH_BYTES  64
#define KERNELS      nn_kernels_avx512
#define KERNELS_NAME "avx512"
#include "model/nn/kernels.inc"

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif

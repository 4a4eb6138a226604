/* The kernels with AVX2 and FMA. */

#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#define WIDTH_BYTES  32
#define KERNELS      nn_kernels_avx2
#define KERNELS_NAME "avx2"
#include "model/nn/kernels.inc"

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif

/* The kernels in plain C, with the vectors of the target's baseline, and the choice of kernels. */
#include "model/nn/kernels_list.h"

#include "base/cpu.h"

#define WIDTH_BYTES  16
#define KERNELS      nn_kernels_portable
#define KERNELS_NAME "portable"
#include "model/nn/kernels.inc"

static bool runs(const nn_kernels *k)
{
#ifdef __x86_64__
    const cpu_features *f = cpu_get();
    if (k == &nn_kernels_avx512)
        return f->avx512 && f->avx2 && f->fma;
    if (k == &nn_kernels_avx2)
        return f->avx2 && f->fma;
#endif
    return k == &nn_kernels_portable;
}

static const nn_kernels *const tables[] = {
#ifdef __x86_64__
    &nn_kernels_avx512,
    &nn_kernels_avx2,
#endif
    &nn_kernels_portable,
    NULL,
};

const nn_kernels *const *nn_kernels_all(void)
{
    const nn_kernels *const *t = tables;
    while (!runs(*t))
        t++; /* what follows a table that runs, runs too */
    return t;
}

const nn_kernels *nn_kernels_get(void)
{
    return *nn_kernels_all();
}

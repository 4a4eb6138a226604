#include "paper/compress.h"

#include <math.h>
#include <string.h>

void compress_project(const layout *l, float *v, const float *dense)
{
    for (const layout_tensor *t = l->tensor; t < l->tensor + l->n; t++)
        layout_project(t, v + t->offset, dense + t->dense_offset);
}

void compress_fold(const layout *l, float *v, const float *dense)
{
    memset(v, 0, l->count * sizeof *v);
    for (const layout_tensor *t = l->tensor; t < l->tensor + l->n; t++) {
        const bhm s = layout_matrix(t);
        bhm_fold(s, v + t->offset, dense + t->dense_offset, s.cols, 0, s.rows);
    }
}

double compress_norm(const float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    return sqrt(sum);
}

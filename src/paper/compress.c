#include "paper/compress.h"

#include "base/alloc.h"

#include <assert.h>
#include <math.h>
#include <string.h>

sefl_status compress_new(compress **out, const lm_config *cfg)
{
    lm_config one = *cfg;
    size_t n;
    SEFL_MAKE(compress, c, out);
    SEFL_TRY(lm_config_params(cfg, c->hankel, &c->n, &c->hankel_count));
    one.block = one.block_embed = one.block_decoder = 1;
    SEFL_TRY(lm_config_params(&one, c->dense, &n, &c->dense_count));
    assert(n == c->n);
    SEFL_HAND_OVER(out, c, compress_free);
}

void compress_free(compress *c)
{
    sefl_free(c);
}

void compress_expand(const compress *c, float *dense, const float *v)
{
    for (size_t i = 0; i < c->n; i++) {
        const lm_param *d = &c->dense[i], *h = &c->hankel[i];
        if (d->is_matrix)
            bhm_expand(h->shape, dense + d->offset, d->shape.cols, v + h->offset, 0, h->shape.rows);
        else
            memcpy(dense + d->offset, v + h->offset, d->count * sizeof *v);
    }
}

void compress_project(const compress *c, float *v, const float *dense)
{
    for (size_t i = 0; i < c->n; i++) {
        const lm_param *d = &c->dense[i], *h = &c->hankel[i];
        if (d->is_matrix)
            bhm_project(h->shape, v + h->offset, dense + d->offset, d->shape.cols);
        else
            memcpy(v + h->offset, dense + d->offset, d->count * sizeof *v);
    }
}

void compress_fold(const compress *c, float *v, const float *dense)
{
    memset(v, 0, c->hankel_count * sizeof *v);
    for (size_t i = 0; i < c->n; i++) {
        const lm_param *d = &c->dense[i], *h = &c->hankel[i];
        if (d->is_matrix)
            bhm_fold(h->shape, v + h->offset, dense + d->offset, d->shape.cols, 0, h->shape.rows);
        else
            memcpy(v + h->offset, dense + d->offset, d->count * sizeof *v);
    }
}

double compress_norm(const float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    return sqrt(sum);
}

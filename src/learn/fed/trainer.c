#include "fed/trainer.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

void trainer_expand(float *dense, const layout *l, const float *theta)
{
    for (size_t i = 0; i < l->n; i++) {
        const layout_tensor *x = &l->tensor[i];
        layout_expand(x, dense + x->dense_offset, theta + x->offset);
    }
}

static bool finite_all(const float *v, size_t n)
{
    bool yes = true;
    for (size_t i = 0; i < n; i++)
        yes = yes && isfinite(v[i]);
    return yes;
}

static sefl_status all_finite(const layout *l, const float *trained)
{
    for (size_t i = 0; i < l->n; i++) {
        const layout_tensor *x = &l->tensor[i];
        SEFL_NEED(!x->trainable || finite_all(trained + x->dense_offset, x->dense_count),
                  SEFL_ERANGE, "tensor %s: a trained value is not finite", x->name);
    }
    return SEFL_OK;
}

static void subtract(float *out, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] - b[i];
}

/* The projection of a difference; `change` has room for the dense tensor. */
static void change_of(float *v, const layout_tensor *x, const float *dense, const float *trained,
                      float *change)
{
    size_t n = x->dense_count;
    dense += x->dense_offset, trained += x->dense_offset;
    if (!x->trainable) {
        memset(v, 0, x->count * sizeof *v);
    } else if (x->block == 1) {
        subtract(v, trained, dense, n);
    } else {
        subtract(change, trained, dense, n);
        layout_project(x, v, change);
    }
}

sefl_status trainer_change(float *v, const layout *l, const float *dense, const float *trained)
{
    sefl_status st = SEFL_OK;
    float *change = NULL;
    size_t most = 0; /* of the block-Hankel tensors */
    for (size_t i = 0; i < l->n; i++)
        if (l->tensor[i].block > 1 && l->tensor[i].dense_count > most)
            most = l->tensor[i].dense_count;
    SEFL_TRY(sefl_new(&change, most, sizeof *change));
    for (size_t i = 0; i < l->n; i++) {
        const layout_tensor *x = &l->tensor[i];
        change_of(v + x->offset, x, dense, trained, change);
        SEFL_CHECK(finite_all(v + x->offset, x->count), SEFL_ERANGE,
                   "tensor %s: the change is not finite", x->name);
    }
done:
    sefl_free_secret(change, most * sizeof *change);
    return st;
}

static sefl_status train_dense(void *self, const train_job *job, float *v, uint64_t *weight)
{
    sefl_status st = SEFL_OK;
    const dense_trainer *d = self;
    const layout *l = &job->task->layout;
    size_t bytes = l->dense * sizeof(float);
    float *dense = NULL, *trained = NULL;
    SEFL_TRY(sefl_new(&dense, 1, bytes));
    SEFL_TRY(sefl_new(&trained, 1, bytes));
    trainer_expand(dense, l, job->theta);
    memcpy(trained, dense, bytes);
    SEFL_TRY(d->train(d->self, &(dense_round){ .of = job, .values = dense, .count = l->dense },
                      trained, weight));
    SEFL_TRY(all_finite(l, trained));
    SEFL_TRY(trainer_change(v, l, dense, trained));
done:
    sefl_free_secret(trained, bytes);
    sefl_free(dense);
    return st;
}

train_port trainer_of_dense(dense_trainer *d)
{
    return (train_port){ .self = d, .train = train_dense };
}

/* nn_head: computes decoder, softmax and cross-entropy together, tile by tile.
 *
 *     logits = h W^T + bias        loss = sum over tokens of (log sum exp logits - logits[target])
 *
 * With 33,278 words the logits of a batch take 93 MB and two thirds of a step's arithmetic. This
 * module computes and uses them tile by tile: HEAD_GROUPS * W tokens (352 with AVX-512) at a time,
 * with the vocabulary cut into slices that fit in a core's cache. A tile stores exp(logit - max of
 * its slice), from which loss and gradient follow, so each logit and each exponential is computed
 * once. The factor exp(max - lse) / n of the gradient is applied to smaller operands: to the tokens
 * for dW, and to each slice's share of dx. So dx is computed while the exponentials are cached.
 *
 *     nn_head_layout(&h, w, max_tokens, threads, &plan);
 *     SEFL_TRY(nn_head_run(&h, pool, &(nn_head_job){ .x = hidden, .n = n, .target = ids,
 *                          .v = v, .bias = b, .loss = &sum,
 *                          .dx = dhidden, .dv = dv, .dbias = db, .scale = 1.0 / n }));
 *
 * If hankel_fits is true, model/bhm/hankel multiplies; otherwise the dense kernels
 * (kernels_dense.inc) multiply expanded slices (l = 1: in place).
 * Threads: one owner; uses the pool. Results do not depend on the number of threads. */
#ifndef MODEL_NN_NN_HEAD_H
#define MODEL_NN_NN_HEAD_H

#include "base/pool.h"
#include "model/bhm/bhm.h"
#include "model/nn/kernels.h"
#include "model/nn/nn_plan.h"

enum { HEAD_GROUPS = 22, HEAD_SLICE = 768 };

typedef struct nn_head {
    bhm w;
    const nn_kernels *k;
    bool fast;     /* uses model/bhm/hankel */
    size_t tile;   /* tokens per tile */
    uint32_t rows; /* rows per slice, a multiple of the block */
    uint32_t slices;
    size_t part;           /* numbers in one slice's share of dx */
    nn_real *y;            /* (slices, tile * rows) */
    nn_real *max, *sum;    /* (slices, tile) */
    nn_real *chosen, *lse; /* (tile): the target's logit; log sum exp */
    nn_real *c;            /* dense: (slices, tile), exp(max - lse) * scale */
    nn_real *dx;           /* (slices, part) */
    nn_real *ws, *dws;     /* spectra of the weights and their gradient */
    nn_real *xs;           /* the tile's tokens: spectra, or [panels][cols][2W] */
    nn_real *scratch;      /* (lanes, scratch_size) */
    size_t scratch_size;
    uint32_t *lane_target; /* (lanes, tile) */
} nn_head;

typedef struct nn_head_job {
    const nn_real *x; /* (n, cols) */
    size_t n;
    const uint32_t *target; /* n words, each below rows */
    const nn_real *v, *bias;
    double *loss; /* out: sum over tokens, in nats */
    nn_real *dx;  /* (n, cols), overwritten; NULL: forward only */
    nn_real *dv;  /* gradient of v: overwritten, or added to if `add` is true */
    nn_real *dbias;
    nn_real scale; /* factor of the gradient: 1/n for the mean */
    bool add;
} nn_head_job;

/* If k is NULL, uses this machine's fastest kernels; force_dense uses only dense products (for
 * tests). */
void nn_head_layout(nn_head *h, bhm w, size_t max_tokens, unsigned lanes, const nn_kernels *k,
                    bool force_dense, nn_plan *p);

/* Computes the loss and, if job->dx is set, the gradients. n may exceed max_tokens. */
sefl_status nn_head_run(nn_head *h, pool *p, const nn_head_job *job) SEFL_MUST_CHECK;

/* Computes the logits (rows) of a single token, for generation. Uses the head's scratch. */
void nn_head_logits(const nn_head *h, nn_real *logits, const nn_real *x, const nn_real *v,
                    const nn_real *bias);

#endif

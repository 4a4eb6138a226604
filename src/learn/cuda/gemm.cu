/* Products of all slots, with cuBLAS. cuBLAS is column-major, so a row-major product y = x W^T is
 * its y^T = W x^T. */
#include "model/cuda/cuda.cuh"

struct operand {
    const void *p;
    int ld;
    size_t stride;
    cublasOperation_t op;
};

/* c (m x n) = (or +=) op(a) op(b), column-major, inner dimension k. */
static void product(device *d, int slots, int m, int n, int k, operand a, operand b, float *c,
                    int ldc, size_t sc, bool add)
{
    const float one = 1, beta = add ? 1 : 0;
    cudaDataType type = d->bf ? CUDA_R_16BF : CUDA_R_32F;
    BLAS(cublasGemmStridedBatchedEx(d->blas, a.op, b.op, m, n, k, &one, a.p, type, a.ld,
                                    (long long)a.stride, b.p, type, b.ld, (long long)b.stride, &beta,
                                    c, CUDA_R_32F, ldc, (long long)sc, slots, CUBLAS_COMPUTE_32F,
                                    CUBLAS_GEMM_DEFAULT));
}

/* Rows of the weight that take part: with the padding where the other operand has room for it (and
 * zeros in it). */
static int rows_of(const weight &w, int ldy)
{
    return ldy >= w.rows8 ? w.rows8 : w.rows;
}

void gemm_forward(device *d, const pass &p, float *y, int ldy, size_t sy, const void *x, size_t sx,
                  const weight &w, int tokens)
{
    int ld = ld_of(w.cols);
    product(d, p.slots, rows_of(w, ldy), tokens, ld, { w.dense, ld, w.size, CUBLAS_OP_T },
            { x, ld, sx, CUBLAS_OP_N }, y, ldy, sy, false);
}

void gemm_dx(device *d, const pass &p, float *dx, int ldx, size_t sx, const void *dy, int ldy,
             size_t sy, const weight &w, int tokens)
{
    product(d, p.slots, w.cols, tokens, rows_of(w, ldy), { w.dense, ld_of(w.cols), w.size, CUBLAS_OP_N },
            { dy, ldy, sy, CUBLAS_OP_N }, dx, ldx, sx, false);
}

void gemm_dw(device *d, const pass &p, const weight &w, const void *dy, int ldy, size_t sy,
             const void *x, size_t sx, int tokens, bool add)
{
    int ld = ld_of(w.cols);
    product(d, p.slots, ld, rows_of(w, ldy), tokens, { x, ld, sx, CUBLAS_OP_N }, { dy, ldy, sy, CUBLAS_OP_T },
            w.grad, ld, w.size, add);
}

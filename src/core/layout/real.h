/* real: the floating-point type of models, which is float. Tests also build the same sources with
 * double (SEFL_MODEL_DOUBLE=1), so that central differences are precise enough to check every
 * gradient to 1e-7. */
#ifndef MODEL_REAL_H
#define MODEL_REAL_H

#ifndef SEFL_MODEL_DOUBLE
#define SEFL_MODEL_DOUBLE 0
#endif

#if SEFL_MODEL_DOUBLE
typedef double nn_real;
#define nn_cblas_gemm cblas_dgemm
#else
typedef float nn_real;
#define nn_cblas_gemm cblas_sgemm
#endif

#endif

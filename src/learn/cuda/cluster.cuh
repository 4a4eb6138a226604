/* cluster: sm_90 instructions that CUDA C++ does not offer: access to the shared memory of a
 * cluster's blocks, barriers that count arriving bytes, and products of bf16 matrices. */
#ifndef MODEL_CUDA_CLUSTER_CUH
#define MODEL_CUDA_CLUSTER_CUH

#include <cuda_bf16.h>
#include <stdint.h>

/* On older GPUs the cluster kernels have no body and are not used; see device.clusters. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define CLUSTERS        1
#define CLUSTER_DIMS(n) __cluster_dims__(n, 1, 1)
#else
#define CLUSTERS 0
#define CLUSTER_DIMS(n)
#endif

__device__ inline uint32_t shared_at(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Returns the same address in the shared memory of the cluster's block `rank`. */
__device__ inline uint32_t peer_at(uint32_t at, int rank)
{
    uint32_t to;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(at), "r"(rank));
    return to;
}

__device__ inline void cluster_barrier(void)
{
    asm volatile("barrier.cluster.arrive.release;\n"
                 "barrier.cluster.wait.acquire;" ::
                     : "memory");
}

/* A full-barrier counts arriving bytes. Its phase ends when one thread has armed it with a number
 * of bytes and that many bytes have arrived, in either order. */
__device__ inline void full_init(uint64_t *bar)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_at(bar)) : "memory");
}

__device__ inline void full_arm(uint64_t *bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_at(bar)),
                 "r"(bytes)
                 : "memory");
}

__device__ inline void full_wait(uint64_t *bar, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(shared_at(bar)),
                 "r"(parity)
                 : "memory");
}

/* Makes this block's barriers visible to its peers after the next cluster_barrier. */
__device__ inline void full_publish(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Send 16 or 8 bytes; to and bar are addresses in a peer's shared memory. */
__device__ inline void send16(uint32_t to, const uint32_t v[4], uint32_t bar)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], "
                 "{%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(bar)
                 : "memory");
}

__device__ inline void send8(uint32_t to, float x, float y, uint32_t bar)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], "
                 "{%1, %2}, [%3];" ::"r"(to),
                 "r"(__float_as_uint(x)), "r"(__float_as_uint(y)), "r"(bar)
                 : "memory");
}

/* Multiplies fragments (m16n8k16). With g = lane / 4 and q = lane % 4, a thread has
 *   a: rows g, g + 8 at k = 2q, 2q + 1, then the same rows at k + 8;
 *   b: column g at k = 2q, 2q + 1, then at k + 8;
 *   c: row g at columns 2q, 2q + 1, then row g + 8. */
__device__ inline void mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Load b for two k-steps, or for one, from shared memory that stores it as consecutive 8 x 8
 * matrices: [k / 8][8 columns][k % 8]. */
__device__ inline void load_b2(uint32_t b[4], uint32_t at, int lane)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"(at + lane * 16)
                 : "memory");
}

__device__ inline void load_b1(uint32_t b[2], uint32_t at, int lane)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(b[0]), "=r"(b[1])
                 : "r"(at + (lane & 15) * 16)
                 : "memory");
}

/* Transposes an 8 x 8 matrix of bf16, of which a thread has row g, columns 2q and 2q + 1. */
__device__ inline uint32_t transposed(uint32_t x)
{
    uint32_t y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

__device__ inline uint32_t pack(float low, float high)
{
    __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&v;
}

#endif

/* A trusted server's noise, added to a sum on the device. The integers equal those of
 * privacy/mechanism/dgauss.c, bit for bit: the same steps [CKS20] on integers, with the same coins.
 * One thread draws the values of one piece, in order. */
#include "model/cuda/cuda.cuh"

typedef unsigned __int128 u128;

/* As privacy/mechanism/mech_coins.h: words of 64 bits from the stream, and bits from such words. */
struct coins {
    const uint32_t *key;
    uint64_t piece, next; /* nonce; next block */
    uint32_t block[16];
    unsigned used; /* words of block already drawn */
    uint64_t bits;
    unsigned bits_left;
};

__device__ static uint64_t draw_word(coins &c)
{
    if (c.used == 8) {
        chacha_block(c.block, c.key, c.next++, (uint32_t)c.piece, (uint32_t)(c.piece >> 32));
        c.used = 0;
    }
    const unsigned at = 2 * c.used++;
    return c.block[at] | (uint64_t)c.block[at + 1] << 32;
}

__device__ static bool draw_bit(coins &c)
{
    if (c.bits_left == 0)
        c.bits = draw_word(c), c.bits_left = 64;
    const bool v = c.bits & 1;
    c.bits >>= 1, c.bits_left--;
    return v;
}

/* Bernoulli(a/b) */
__device__ static bool flip(coins &c, u128 a, u128 b)
{
    if (a >= b)
        return true;
    for (;;) {
        a <<= 1;
        const bool digit = a >= b;
        if (digit)
            a -= b;
        if (draw_bit(c) != digit)
            return digit;
    }
}

/* Bernoulli(exp(-a/b)), a <= b */
__device__ static bool flip_exp_below_1(coins &c, u128 a, u128 b)
{
    unsigned k = 1;
    while (k < 1u << 14 && flip(c, a, b * k))
        k++;
    return k & 1;
}

__device__ static bool flip_exp(coins &c, u128 a, u128 b)
{
    for (; a > b; a -= b)
        if (!flip_exp_below_1(c, 1, 1))
            return false;
    return flip_exp_below_1(c, a, b);
}

__device__ static uint64_t below(coins &c, uint64_t bound)
{
    const uint64_t mask = UINT64_MAX >> __clzll((long long)(bound | 1));
    uint64_t v;
    do
        v = draw_word(c) & mask;
    while (v >= bound);
    return v;
}

/* discrete Laplace with scale t */
__device__ static long long laplace(coins &c, uint64_t t)
{
    for (;;) {
        const uint64_t u = below(c, t);
        uint64_t v = 0;
        if (!flip_exp_below_1(c, u, t))
            continue;
        while (v < 128 && flip_exp_below_1(c, 1, 1))
            v++;
        const uint64_t x = u + t * v;
        const bool negative = draw_bit(c);
        if (negative && x == 0)
            continue;
        return negative ? -(long long)x : (long long)x;
    }
}

__global__ void noise_kernel(long long *total, size_t values, engine_noise how)
{
    const size_t piece = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    size_t i = piece * ENGINE_NOISE_PIECE;
    const size_t end = min(i + ENGINE_NOISE_PIECE, values);
    coins c = { how.key, 1 + piece, 0, {}, 8, 0, 0 };
    const u128 scale = (u128)2 * how.num * how.den * ((u128)how.t * how.t);
    while (i < end) {
        const long long y = laplace(c, how.t);
        const uint64_t a = (uint64_t)(y < 0 ? -y : y);
        const u128 left = (u128)a * how.t * how.den;
        const u128 dist = left > how.num ? left - how.num : how.num - left;
        if (flip_exp(c, dist * dist, scale))
            total[i++] += y;
    }
}

void noise_add(device *d, long long *total, size_t values, const engine_noise *how)
{
    const size_t pieces = (values + ENGINE_NOISE_PIECE - 1) / ENGINE_NOISE_PIECE;
    noise_kernel<<<(unsigned)((pieces + 63) / 64), 64, 0, d->stream>>>(total, values, *how);
    LAUNCHED();
}

/* blake3_lanes: the run function that the vector implementations share.
 *
 * blake3_avx2.c and blake3_avx512.c define TARGET, RUN, LANES, VEC, LOAD_BLOCK and the operations
 * on VEC, then include this file. Word i of lane k's state is element k of v[i]. */
#include "base/blake3_inside.h"

__attribute__((target(TARGET))) void RUN(uint8_t (*out)[BLAKE3_BYTES], const blake3_work *w)
{
    const uint8_t *in[LANES];
    uint32_t low[LANES], high[LANES], word[8][LANES];
    VEC cv[8], m[16], v[16];
    for (size_t i = 0; i < LANES; i++) {
        in[i] = w->in[i < w->n ? i : 0]; /* unused lanes repeat the first one */
        uint64_t counter = w->counter + i * w->step;
        low[i] = (uint32_t)counter, high[i] = (uint32_t)(counter >> 32);
    }
    for (int i = 0; i < 8; i++)
        cv[i] = SET1((int)blake3_iv[i]);
    for (size_t k = 0; k < w->blocks; k++) {
        uint32_t flags = w->flags | (k == 0 ? w->first : 0) | (k + 1 == w->blocks ? w->last : 0);
        LOAD_BLOCK(m, in, BLAKE3_BLOCK * k);
        for (int i = 0; i < 8; i++)
            v[i] = cv[i];
        for (int i = 0; i < 4; i++)
            v[8 + i] = SET1((int)blake3_iv[i]);
        v[12] = LOAD(low), v[13] = LOAD(high);
        v[14] = SET1(BLAKE3_BLOCK), v[15] = SET1((int)flags);
#define G(a, b, c, d, x, y)                      \
    a = ADD(ADD(a, x), b), d = ROR16(XOR(d, a)); \
    c = ADD(c, d), b = ROR(XOR(b, c), 12);       \
    a = ADD(ADD(a, y), b), d = ROR8(XOR(d, a));  \
    c = ADD(c, d), b = ROR(XOR(b, c), 7);
#define ROUND(...) BLAKE3_ROUND(G, __VA_ARGS__)
        BLAKE3_ROUNDS(ROUND)
#undef ROUND
#undef G
        for (int i = 0; i < 8; i++)
            cv[i] = XOR(v[i], v[8 + i]);
    }
    for (int i = 0; i < 8; i++)
        STORE(word[i], cv[i]);
    for (size_t i = 0; i < w->n; i++)
        for (int k = 0; k < 8; k++)
            __builtin_memcpy(out[i] + 4 * k, &word[k][i], 4);
}

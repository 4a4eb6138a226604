/* blake3_inside: the types and rounds that the implementations of blake3 share. */
#ifndef BASE_BLAKE3_INSIDE_H
#define BASE_BLAKE3_INSIDE_H

#include "base/blake3.h"

enum {
    BLAKE3_BLOCK = 64,
    BLAKE3_LANES_MAX = 16,
    BLAKE3_CHUNK_START = 1,
    BLAKE3_CHUNK_END = 2,
    BLAKE3_PARENT = 4,
    BLAKE3_ROOT = 8,
};

/* Describes n inputs of `blocks` whole blocks each, to hash in parallel; 1 <= n <= lanes. Lane i
 * has counter `counter + i * step`. Every block gets `flags`, the first also `first`, the last also
 * `last`. The output has 32 bytes per lane and may overlap the inputs. */
typedef struct blake3_work {
    const uint8_t *in[BLAKE3_LANES_MAX];
    size_t n, blocks;
    uint64_t counter, step;
    uint32_t flags, first, last;
} blake3_work;

struct blake3_path {
    const char *name;
    size_t lanes;
    void (*run)(uint8_t (*out)[BLAKE3_BYTES], const blake3_work *w);
};

extern const uint32_t blake3_iv[8];

#if defined(__x86_64__)
void blake3_run_avx2(uint8_t (*out)[BLAKE3_BYTES], const blake3_work *w);
void blake3_run_avx512(uint8_t (*out)[BLAKE3_BYTES], const blake3_work *w);
#endif

/* The seven rounds. Line r lists the message words in the order in which round r uses them. The
 * specification's permutation 2 6 3 10 7 0 4 13 1 11 12 5 9 14 15 8 maps each line to the next. */
#define BLAKE3_ROUNDS(R)                                    \
    R(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) \
    R(2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8) \
    R(3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1) \
    R(10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6) \
    R(12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4) \
    R(9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7) \
    R(11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13)

/* One round over v[16] and m[16] with G(a, b, c, d, x, y): columns, then diagonals. */
#define BLAKE3_ROUND(G, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15) \
    G(v[0], v[4], v[8], v[12], m[s0], m[s1])                                                  \
    G(v[1], v[5], v[9], v[13], m[s2], m[s3])                                                  \
    G(v[2], v[6], v[10], v[14], m[s4], m[s5])                                                 \
    G(v[3], v[7], v[11], v[15], m[s6], m[s7])                                                 \
    G(v[0], v[5], v[10], v[15], m[s8], m[s9])                                                 \
    G(v[1], v[6], v[11], v[12], m[s10], m[s11])                                               \
    G(v[2], v[7], v[8], v[13], m[s12], m[s13])                                                \
    G(v[3], v[4], v[9], v[14], m[s14], m[s15])

#endif

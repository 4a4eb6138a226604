/* cpu: detects this processor's instruction sets, once.
 *
 * Fast paths are compiled with __attribute__((target(...))) and chosen at run time; each one
 * computes the same bytes as its portable version. The environment variable SEFL_CPU restricts the
 * choice for tests and bug reports: "portable", or the features to keep, such as "aes,avx2". */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include <stdbool.h>

/* The features that cpu.c detects; cpu.c defines the cpuid test for each name. */
#define CPU_FEATURE_LIST(X)       \
    X(aes)                        \
    X(pclmul)                     \
    X(sha)                        \
    X(bmi2)                       \
    X(adx)                        \
    X(avx2)                       \
    X(fma)                        \
    X(vaes)                       \
    X(vpclmul)                    \
    X(gfni)                       \
    X(avx512) /* F, BW, DQ, VL */ \
    X(avx512ifma)

typedef struct cpu_features {
#define CPU_FIELD(name) bool name;
    CPU_FEATURE_LIST(CPU_FIELD)
#undef CPU_FIELD
} cpu_features;

/* Returns the features in use. Threads: any. */
const cpu_features *cpu_get(void);

/* Returns a pointer into SEFL_CPU, to the first word that is neither a feature nor "portable"; NULL
 * if there is no such word. */
const char *cpu_unknown_word(void);

/* Writes the names of the features in use ("aes avx2"), or "nothing beyond plain C". */
enum { CPU_USED_BYTES = 160 };
void cpu_used(char out[CPU_USED_BYTES]);

/* Returns the processor's brand name, or "unknown" if it has none. */
const char *cpu_name(void);

#endif

/* cpu: which instructions this processor has; it is asked once.
 *
 * Fast paths are compiled with __attribute__((target(...))) and chosen at run time from this;
 * each gives the same bytes as its portable twin. SEFL_CPU=portable in the
 * environment (or a list of names to keep, such as "aes,avx2") narrows the choice for tests and
 * bug reports. */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include <stdbool.h>

/* name, cpuid expression is in cpu.c */
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

/* The features in use. Threads: any. */
const cpu_features *cpu_get(void);

/* The first word of SEFL_CPU that names no feature (and is not "portable"), NULL if all do. */
const char *cpu_unknown_word(void);

/* The names of the features in use, "aes avx2", or "nothing beyond plain C". */
enum { CPU_USED_BYTES = 160 };
void cpu_used(char out[CPU_USED_BYTES]);

/* The processor's own name, "unknown" where it has none. */
const char *cpu_name(void);

#endif

/* some: selects one input in `of` by a hash of its bytes, for work that is too expensive for every
 * input. The same input is always or never selected, so findings are reproducible. */
#ifndef TESTS_FUZZ_SOME_H
#define TESTS_FUZZ_SOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool some(const uint8_t *p, size_t n, uint32_t of)
{
    uint32_t h = 2166136261; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 16777619u;
    return (h >> 8) % of == 0;
}

#endif

#include "base/crc32c.h"

uint32_t crc32c(sefl_span bytes)
{
    uint32_t c = UINT32_MAX;
    for (size_t i = 0; i < bytes.n; i++) {
        c ^= bytes.p[i];
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (0x82f63b78u & (0u - (c & 1u)));
    }
    return ~c;
}

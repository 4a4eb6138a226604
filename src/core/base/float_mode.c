#include "base/float_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

enum { FTZ = 0x8000, DAZ = 0x0040 };

float_mode float_mode_get(void)
{
    return _mm_getcsr();
}

void float_mode_set(float_mode m)
{
    _mm_setcsr((unsigned)m);
}
#elif defined(__aarch64__)
enum { FTZ = 1 << 24, DAZ = 0 };

float_mode float_mode_get(void)
{
    uint64_t m;
    __asm__ volatile("mrs %0, fpcr" : "=r"(m));
    return m;
}

void float_mode_set(float_mode m)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(m));
}
#else
enum { FTZ = 0, DAZ = 0 };

float_mode float_mode_get(void)
{
    return 0;
}

void float_mode_set(float_mode m)
{
    (void)m;
}
#endif

float_mode float_mode_flush(void)
{
    const float_mode was = float_mode_get();
    float_mode_set(was | FTZ | DAZ);
    return was;
}

#include "base/cpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cpu_features found;
static char name[64] = "unknown";

#if defined(__x86_64__)
static unsigned long long xcr0(void)
{
    unsigned lo, hi;
    __asm__ __volatile__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (unsigned long long)hi << 32 | lo;
}

static void probe(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return;
    bool osxsave = c >> 27 & 1;
    unsigned long long os = osxsave ? xcr0() : 0;
    bool ymm = (os & 0x6) == 0x6, zmm = (os & 0xe6) == 0xe6; /* saved by the kernel */
    found.aes = c >> 25 & 1;
    found.pclmul = c >> 1 & 1;
    found.fma = ymm && (c >> 12 & 1);
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        found.bmi2 = b >> 8 & 1;
        found.adx = b >> 19 & 1;
        found.sha = b >> 29 & 1;
        found.avx2 = ymm && (b >> 5 & 1);
        found.vaes = ymm && found.avx2 && (c >> 9 & 1);
        found.vpclmul = ymm && found.avx2 && (c >> 10 & 1);
        found.gfni = ymm && found.avx2 && (c >> 8 & 1);
        found.avx512 = zmm && (b >> 16 & 1) && (b >> 17 & 1) && (b >> 30 & 1) && (b >> 31 & 1);
        found.avx512ifma = found.avx512 && (b >> 21 & 1);
    }
    unsigned brand[12] = { 0 };
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &brand[4 * i], &brand[4 * i + 1], &brand[4 * i + 2],
                         &brand[4 * i + 3]))
            return;
    memcpy(name, brand, sizeof brand);
    name[sizeof brand] = 0;
}
#else
static void probe(void) {}
#endif

/* True if the comma-separated list has the word of n bytes. */
static bool listed(const char *list, const char *word, size_t n)
{
    for (size_t m; *list; list += m + (list[m] == ',')) {
        m = strcspn(list, ",");
        if (m == n && memcmp(list, word, n) == 0)
            return true;
    }
    return false;
}

static void probe_once(void)
{
    probe();
    const char *keep = getenv("SEFL_CPU");
    if (keep && *keep) {
#define KEEP(f) found.f = found.f && listed(keep, #f, sizeof #f - 1);
        CPU_FEATURE_LIST(KEEP)
#undef KEEP
    }
}

const char *cpu_unknown_word(void)
{
    static const char names[] = "portable"
#define NAME(f) "," #f
        CPU_FEATURE_LIST(NAME);
#undef NAME
    const char *p = getenv("SEFL_CPU");
    for (size_t n; p && *p; p += n + (p[n] == ',')) {
        n = strcspn(p, ",");
        if (n > 0 && !listed(names, p, n))
            return p;
    }
    return NULL;
}

const cpu_features *cpu_get(void)
{
    pthread_once(&once, probe_once);
    return &found;
}

const char *cpu_name(void)
{
    pthread_once(&once, probe_once);
    return name;
}

void cpu_used(char out[CPU_USED_BYTES])
{
    const cpu_features *f = cpu_get();
    const char *blank = "";
    size_t n = 0;
#define ADD(feature)                                                              \
    if (f->feature) {                                                             \
        n += (size_t)snprintf(out + n, CPU_USED_BYTES - n, "%s" #feature, blank); \
        blank = " ";                                                              \
    }
    CPU_FEATURE_LIST(ADD)
#undef ADD
    if (n == 0)
        snprintf(out, CPU_USED_BYTES, "nothing beyond plain C");
}

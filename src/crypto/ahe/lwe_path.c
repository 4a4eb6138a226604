#include "base/cpu.h"
#include "crypto/ahe/lwe.h"

bool lwe_path_has(lwe_path path)
{
    const cpu_features *cpu = cpu_get();
    switch (path) {
    case LWE_PORTABLE:
        return true;
    case LWE_AVX2:
        return cpu->avx2 && cpu->fma;
    case LWE_AVX512:
        return cpu->avx512 && cpu->avx2 && cpu->fma;
    default:
        return false;
    }
}

lwe_path lwe_path_best(void)
{
    return lwe_path_has(LWE_AVX512) ? LWE_AVX512 : lwe_path_has(LWE_AVX2) ? LWE_AVX2 : LWE_PORTABLE;
}

const char *lwe_path_name(lwe_path path)
{
    static const char *const names[LWE_PATHS] = { "portable", "avx2", "avx512" };
    return path < LWE_PATHS ? names[path] : "?";
}

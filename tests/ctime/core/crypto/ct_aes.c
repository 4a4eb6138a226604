/* No branch or address of AES and the generator depends on key, data or output. VAES runs the same
 * instructions on wider registers, which valgrind does not support. */
#include "base/ct.h"
#include "crypto/prg/prg.h"

#include <stdlib.h>
#include <string.h>

int main(void)
{
    static uint8_t data[16 * 70];
    for (aes_path p = AES_SOFT; p <= AES_NI; p++) {
        uint8_t key[AES_KEY] = { 1, 2, 3 };
        aes128 k;
        if (!aes_path_has(p))
            continue;
        CT_SECRET(key, sizeof key);
        CT_SECRET(data, sizeof data);
        aes128_init_on(p, &k, key);
        aes128_ecb_soft(&k, data, data, 70);
        aes128_ecb_soft(&k, data, data, 3);
        aes128_ctr_on(p, &k, data, sizeof data - 5, 1, 2);
        sefl_wipe(&k, sizeof k);
        CT_PUBLIC(data, sizeof data); /* the next path starts from fresh state */
    }
    uint8_t seed[PRG_SEED] = { 7 };
    prg g;
    CT_SECRET(seed, sizeof seed);
    prg_init(&g, seed, "ctime");
    prg_fill(&g, data, 1001);
    prg_fill(&g, data, 77);
    prg_clear(&g);
    return 0;
}

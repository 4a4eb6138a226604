#include "crypto/prg/aes_paths.h"

#include "base/cpu.h"
#include "base/ct.h"

#include <string.h>

bool aes_path_has(aes_path path)
{
#if defined(__x86_64__)
    const cpu_features *cpu = cpu_get();
    bool vaes = cpu->aes && cpu->vaes && cpu->avx2;
    switch (path) {
    case AES_NI:
        return cpu->aes;
    case AES_VAES256:
        return vaes;
    case AES_VAES512:
        return vaes && cpu->avx512;
    default:
        return path == AES_SOFT;
    }
#else
    return path == AES_SOFT;
#endif
}

aes_path aes_path_best(void)
{
    aes_path p = AES_VAES512;
    while (!aes_path_has(p))
        p--;
    return p;
}

const char *aes_path_name(aes_path path)
{
    static const char *const names[AES_PATHS] = { "plain C", "AES-NI", "VAES-256", "VAES-512" };
    return path < AES_PATHS ? names[path] : "?";
}

void aes128_init_on(aes_path path, aes128 *k, const uint8_t key[AES_KEY])
{
#if defined(__x86_64__)
    if (path != AES_SOFT) {
        aes_ni_init(k, key);
        return;
    }
#endif
    (void)path;
    aes_soft_init(k, key);
}

void aes128_ecb_soft(const aes128 *k, uint8_t *out, const uint8_t *in, size_t blocks)
{
    size_t groups = blocks / AES_SOFT_GROUP, rest = blocks % AES_SOFT_GROUP;
    aes_soft_ecb(k, out, in, groups);
    if (rest > 0) {
        uint8_t last[AES_SOFT_GROUP * AES_BLOCK] = { 0 };
        memcpy(last, in + sizeof last * groups, rest * AES_BLOCK);
        aes_soft_ecb(k, last, last, 1);
        memcpy(out + sizeof last * groups, last, rest * AES_BLOCK);
        sefl_wipe(last, sizeof last);
    }
}

static void store_be64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> (56 - 8 * i));
}

/* Whole blocks. */
static void ctr_blocks(aes_path path, const aes128 *k, uint8_t *out, size_t blocks, uint64_t nonce,
                       uint64_t counter)
{
#if defined(__x86_64__)
    if (path != AES_SOFT) {
        size_t done = 0;
        if (path == AES_VAES512)
            done = aes_vaes512_ctr(k, out, blocks, nonce, counter);
        else if (path == AES_VAES256)
            done = aes_vaes256_ctr(k, out, blocks, nonce, counter);
        if (blocks - done >= 8)
            done += aes_ni_ctr(k, out + AES_BLOCK * done, blocks - done, nonce, counter + done);
        if (done < blocks)
            aes_ni_ctr_rest(k, out + AES_BLOCK * done, blocks - done, nonce, counter + done);
        return;
    }
#endif
    for (size_t i = 0; i < blocks; i++) {
        store_be64(out + AES_BLOCK * i, nonce);
        store_be64(out + AES_BLOCK * i + 8, counter + i);
    }
    (void)path;
    aes128_ecb_soft(k, out, out, blocks);
}

void aes128_ctr_on(aes_path path, const aes128 *k, uint8_t *out, size_t n, uint64_t nonce,
                   uint64_t counter)
{
    size_t blocks = n / AES_BLOCK, rest = n % AES_BLOCK;
    if (blocks > 0)
        ctr_blocks(path, k, out, blocks, nonce, counter);
    if (rest > 0) {
        uint8_t last[AES_BLOCK];
        ctr_blocks(path, k, last, 1, nonce, counter + blocks);
        memcpy(out + AES_BLOCK * blocks, last, rest);
        sefl_wipe(last, sizeof last);
    }
}

void aes128_init(aes128 *k, const uint8_t key[AES_KEY])
{
    aes128_init_on(aes_path_best(), k, key);
}

void aes128_ctr(const aes128 *k, uint8_t *out, size_t n, uint64_t nonce, uint64_t counter)
{
    aes128_ctr_on(aes_path_best(), k, out, n, nonce, counter);
}

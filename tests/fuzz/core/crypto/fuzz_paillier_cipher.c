/* Ciphertexts as AS and CSP receive them, under a toy key: units are checked; those that pass are
 * added and the sum is closed, and for some inputs (fuzz/some.h) masked and decrypted, where the
 * two decryptions must agree. (With a toy key, multiples of N and of its factors occur often.)
 * Input: bodies of 11 units. */
#include "base/span.h"
#include "crypto/ahe/paillier_internal.h"
#include "fuzz/some.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BITS = 16, CIPHER = BITS / 4, POSITIONS = 11 };

static void must(int ok)
{
    if (!ok)
        abort();
}

static paillier_sec *key(void)
{
    static paillier_sec *k;
    static const uint8_t p = 227, q = 211, hs[4] = { 0xcc, 0xb5, 0xcc, 0x4c };
    if (!k)
        must(paillier_sec_make(&k, BITS, &p, &q, hs) == SEFL_OK);
    return k;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const paillier_sec *sec = key();
    const paillier_pub *pub = paillier_sec_pub(sec);
    uint64_t n = load_u64((uint8_t[8]){ pub->n_bytes[0], pub->n_bytes[1] });
    uint8_t out[POSITIONS * CIPHER], m[POSITIONS * BITS / 8], w[POSITIONS * BITS / 8];
    paillier_sum *s = NULL;
    must(paillier_sum_new(&s, pub, POSITIONS) == SEFL_OK);
    bool decrypt = some(data, size, 32);
    int unit = 1; /* every ciphertext so far is coprime to N */
    for (; size >= POSITIONS * CIPHER; data += POSITIONS * CIPHER, size -= POSITIONS * CIPHER) {
        int good = 1;
        for (size_t i = 0; i < POSITIONS; i++) {
            uint64_t c = load_u32(data + i * CIPHER);
            good &= c != 0 && c < n * n && c % n != 0;
        }
        sefl_status st = paillier_check(pub, data, POSITIONS);
        must(st == (good ? SEFL_OK : SEFL_EPROTO));
        if (!good)
            continue;
        for (size_t i = 0; i < POSITIONS; i++)
            unit &=
                load_u32(data + i * CIPHER) % 227 != 0 && load_u32(data + i * CIPHER) % 211 != 0;
        must(paillier_sum_add(s, 0, data, POSITIONS, NULL) == SEFL_OK);
    }
    must(paillier_sum_close(s, NULL) == (unit ? SEFL_OK : SEFL_ECRYPTO));
    if (unit && decrypt) {
        must(paillier_sum_write(s, out, 0, POSITIONS, NULL, NULL) == SEFL_OK);
        must(paillier_decrypt(sec, m, out, POSITIONS, NULL, NULL) == SEFL_OK);
        must(paillier_decrypt_without_crt(sec, w, out, POSITIONS, NULL, NULL) == SEFL_OK);
        must(memcmp(m, w, sizeof m) == 0);
    }
    paillier_sum_free(s);
    return 0;
}

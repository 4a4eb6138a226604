/* Constant time of the lwe scheme: sampling, encryption, sealing, decryption and the plain units
 * run with their secrets marked; valgrind reports any branch or address that depends on one. */
#include "base/ct.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/lwe_head.h"
#include "crypto/ahe/lwe_unit.h"

#include <stdio.h>
#include <string.h>

static lwe_plan plan;
static lwe_work work;
static lwe_spectrum f;
static uint64_t sum[LWE_N];
static int64_t values[LWE_N];
static int32_t s[LWE_N];
static uint8_t unit[LWE_N * 8], row[LWE_N * 8], mask[LWE_N * 8], plain[LWE_N * 8];
static uint8_t m[512], modulus[384];

static void units(lwe_path path)
{
    uint8_t context[32] = { 1 }, seed[32] = { 2 };
    prg pub, err;
    lwe_plan_init(&plan, 28, 42, 4, path);
    memset(sum, 0, sizeof sum);
    memset(values, 3, sizeof values);
    CT_SECRET(seed, sizeof seed);
    CT_SECRET(values, sizeof values);
    prg_init(&pub, context, LWE_PUBLIC);
    prg_init(&err, seed, LWE_ERROR);
    lwe_secret_sample(s, seed);
    lwe_ring_spectrum(&plan.ring, &f, s, true);
    lwe_unit_encrypt(&plan, unit, values, LWE_N - 5, 0, &pub, &err, &f, &work);
    CT_PUBLIC(unit, sizeof unit); /* a ciphertext: it is sent */
    lwe_unit_add(&plan, sum, unit);

    memset(mask, 7, sizeof mask);
    CT_SECRET(mask, sizeof mask);
    lwe_unit_close(&plan, row, sum, 1, mask, &work);
    CT_PUBLIC(row, sizeof row); /* the masked sum: it is sent */

    for (size_t i = 0; i < LWE_N; i++)
        s[i] = -s[i];
    lwe_ring_spectrum(&plan.ring, &f, s, false);
    lwe_unit_decrypt(&plan, plain, row, 0, &pub, &f, &work);
}

static void heads(void)
{
    memset(modulus, 0xaa, sizeof modulus);
    modulus[0] |= 1;
    CT_SECRET(s, sizeof s);
    for (size_t i = 0; i < lwe_head_count(3072); i++) {
        lwe_head_encode(m, s, i, modulus, 3072);
        (void)lwe_head_decode(s, m, i, modulus, 3072);
    }
}

static void plain_units(void)
{
    static const uint8_t seed_bytes[AHE_SEED_BYTES] = { 5 };
    static uint64_t digits[LWE_N];
    uint8_t seed[AHE_SEED_BYTES];
    ahe_params p = { .scheme = &ahe_lwe,
                     .pack = { .w = 28, .kappa = 42, .d = 4 },
                     .values = LWE_N,
                     .unit_values = LWE_N,
                     .units = 1,
                     .plain_bytes = LWE_N / 8 * 28 };
    memcpy(seed, seed_bytes, sizeof seed);
    CT_SECRET(seed, sizeof seed);
    if (ahe_lwe.mask_units(&p, mask, 0, 1, seed) != SEFL_OK)
        return;
    CT_SECRET(plain, sizeof plain);
    ahe_lwe.plain_digits(&p, digits, plain, 1);
    ahe_lwe.plain_unmask(&p, values, plain, mask, 1);
    ahe_lwe.plain_add(&p, plain, values, 1);
}

int main(void)
{
    for (unsigned path = 0; path < LWE_PATHS; path++)
        if (lwe_path_has(path)) {
            printf("lwe units, %s\n", lwe_path_name(path));
            units(path);
        }
    heads();
    plain_units();
    return 0;
}

#include "crypto/ahe/lwe_unit.h"

#include "base/ct.h"
#include "base/span.h"

#include <assert.h>
#include <string.h>

void lwe_plan_init(lwe_plan *plan, unsigned w, unsigned kappa, unsigned d, lwe_path path)
{
    assert(w < kappa && kappa <= LWE_KAPPA_MAX && d <= kappa - w);
    plan->w = w, plan->kappa = kappa, plan->d = d, plan->path = path;
    lwe_ring_init(&plan->ring, path);
    lwe_bits_init(&plan->public_row, kappa, path);
    lwe_bits_init(&plan->coin_row, LWE_COINS, path);
    lwe_bits_init(&plan->upload_row, kappa - d, path);
    lwe_bits_init(&plan->plain_row, w, path);
}

/* floor(3*r / 2^128) for 128 uniform bits r: each value has probability 1/3 within 2^-128, without
 * rejection. The whole secret is read at once, 32 KiB. */
void lwe_secret_sample(int32_t s[LWE_N], const uint8_t seed[PRG_SEED])
{
    enum { BATCH = 128 };
    uint8_t coins[16 * BATCH];
    prg g;
    prg_init(&g, seed, LWE_SECRET);
    for (size_t i = 0; i < LWE_N; i += BATCH) {
        prg_fill(&g, coins, sizeof coins);
        for (size_t k = 0; k < BATCH; k++) {
            unsigned __int128 low = (unsigned __int128)3 * load_u64(coins + 16 * k);
            unsigned __int128 high = (unsigned __int128)3 * load_u64(coins + 16 * k + 8);
            s[i + k] = (int32_t)(uint32_t)((high + (low >> 64)) >> 64) - 1;
        }
    }
    prg_clear(&g);
    sefl_wipe(coins, sizeof coins);
}

static void expand(const lwe_plan *plan, lwe_work *work, uint64_t unit, const prg *pub)
{
    prg_read(pub, work->bytes, lwe_bits_bytes(&plan->public_row, LWE_N), unit, 0);
    lwe_bits_unpack(&plan->public_row, work->a, work->bytes, LWE_N);
}

void lwe_unit_encrypt(const lwe_plan *plan, uint8_t *out, const int64_t *values, size_t n,
                      uint64_t unit, const prg *pub, const prg *err, const lwe_spectrum *s,
                      lwe_work *work)
{
    const unsigned up = plan->kappa - plan->w;
    assert(n <= LWE_N);
    prg_read(err, work->bytes, lwe_bits_bytes(&plan->coin_row, LWE_N), unit, 0);
    lwe_bits_unpack(&plan->coin_row, work->c, work->bytes, LWE_N);
    lwe_bits_count(work->c, values, n, up, plan->path);
    lwe_bits_count(work->c + n, NULL, LWE_N - n, 0, plan->path);
    expand(plan, work, unit, pub);
    lwe_ring_mul_add(&plan->ring, work->c, work->a, plan->kappa, s, &work->scratch);
    lwe_bits_pack(&plan->upload_row, out, work->c, LWE_N, plan->d, -(uint64_t)(LWE_COINS / 2));
}

void lwe_unit_add(const lwe_plan *plan, uint64_t sum[LWE_N], const uint8_t *in)
{
    lwe_bits_add(&plan->upload_row, sum, in, LWE_N);
}

/* Each upload lost its low d bits, (2^d - 1)/2 on average: without the restoring term 10,000
 * clients would be off by 75,000 at d = 4, more than Delta/2. */
void lwe_unit_close(const lwe_plan *plan, uint8_t *out, const uint64_t sum[LWE_N], uint32_t clients,
                    const uint8_t *mask, lwe_work *work)
{
    const unsigned up = plan->kappa - plan->w;
    const uint64_t restore = (uint64_t)clients * (((uint64_t)1 << plan->d) - 1) / 2;
    lwe_bits_unpack(&plan->plain_row, work->a, mask, LWE_N);
    lwe_bits_join(work->c, sum, plan->d, work->a, up, LWE_N, plan->path);
    lwe_bits_pack(&plan->public_row, out, work->c, LWE_N, 0, restore);
}

void lwe_unit_decrypt(const lwe_plan *plan, uint8_t *plain, const uint8_t *in, uint64_t unit,
                      const prg *pub, const lwe_spectrum *minus_s, lwe_work *work)
{
    const unsigned up = plan->kappa - plan->w;
    lwe_bits_unpack(&plan->public_row, work->c, in, LWE_N);
    expand(plan, work, unit, pub);
    lwe_ring_mul_add(&plan->ring, work->c, work->a, plan->kappa, minus_s, &work->scratch);
    /* a row takes the floor: half of Delta first */
    lwe_bits_pack(&plan->plain_row, plain, work->c, LWE_N, up, (uint64_t)1 << (up - 1));
}

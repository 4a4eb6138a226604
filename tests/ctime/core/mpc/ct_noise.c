/* A server's operations on its own secrets in the online step (rounding, jumps, shares, noise), and
 * shares in the pool. */
#include "base/ct.h"
#include "mpc/noise/noise_quantise.h"
#include "mpc/noise/online.h"
#include "mpc/noise/shares_pool.h"
#include "support/digits.h"

#include <string.h>

enum { N = 128 };

static sefl_status zero_noise(void *ctx, int64_t *e, size_t first, size_t n)
{
    (void)ctx, (void)first;
    memset(e, 0, n * sizeof *e);
    CT_SECRET(e, n * sizeof *e);
    return SEFL_OK;
}

int main(void)
{
    uint8_t seed[PRG_SEED] = { 1 }, coins_seed[NOISE_COINS] = { 2 }, id[SHARES_ID] = { 3 };
    uint8_t reply[NOISE_REPLY_HEAD + N * 4], taken[4 * N];
    uint64_t digit[N], share[N];
    int64_t w[N];
    prg coins;
    shares_pool *p = NULL;
    shares_slice slice;
    memset(digit, 5, sizeof digit);
    memset(share, 0, sizeof share);
    for (size_t i = 0; i < N; i++)
        digit[i] &= ((uint64_t)1 << 44) - 1, share[i] = i;
    prg_init(&coins, seed, "ctime");
    CT_SECRET(&coins.key, sizeof coins.key);
    CT_SECRET(digit, sizeof digit);
    CT_SECRET(share, sizeof share);
    CT_SECRET(coins_seed, sizeof coins_seed);
    sefl_rng rng = prg_rng(&coins);
    if (shares_pool_new(&p, 0, &rng) != SEFL_OK ||
        shares_pool_add(p, id, share, N, 32) != SEFL_OK ||
        shares_pool_pick(p, &slice, N) != SEFL_OK ||
        shares_pool_take(p, &slice, taken, 4) != SEFL_OK)
        return 1;
    shares_pool_free(p);
    noise_digits d = noise_digits_of(digit);
    static uint8_t kept[2][N * NOISE_KEPT];
    CT_SECRET(kept, sizeof kept);
    for (int i = 0; i < 3; i++) { /* joint, own, joint with a filter */
        const bool own = i == 1;
        noise_params np = {
            .count = N, .k = 16, .t = 12, .g = 16, .shape = own ? &noise_own : &noise_joint
        };
        if (i == 2)
            np.gamma[0] = 3000, np.lags = 1;
        noise_filter_back(kept[1], np.gamma, np.lags, (const uint8_t *const[NOISE_LAGS]){ kept[0] },
                          N);
        noise_taken x = { taken, noise_share_bytes(&np) };
        noise_source add = own ? (noise_source){ zero_noise, NULL } : noise_taken_of(&x);
        size_t bytes;
        if (noise_reply_bytes(&bytes, &np) != SEFL_OK ||
            noise_reply_make(reply, &np, &d, &add, kept[1], NULL, &rng) != SEFL_OK)
            return 1;
        CT_PUBLIC(reply, sizeof reply); /* it leaves */
        if (noise_reply_finish(w, &np, span_of(reply, bytes), &d, &add, kept[1], NULL,
                               coins_seed) != SEFL_OK)
            return 1;
    }
    return 0;
}

/* What a server does to its own secrets: rounding, jumps, bit planes, folds, correction bits. */
#include "base/ct.h"
#include "mpc/noise/own.h"
#include "mpc/noise/round.h"
#include "mpc/noise/session.h"

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
    uint8_t seed[PRG_SEED] = { 1 }, bits[2 * 16 * 8], reply[N * 4];
    uint64_t digit[N];
    uint32_t value[N], back[N], v[N] = { 0 };
    int32_t jump[N], w[N];
    int64_t own[N];
    gc_label labels[N * 16], fold[N], delta;
    noise_params p = { .count = N, .k = 16, .t = 12, .g = 16, .profile = &sampler_g44 };
    prg coins;
    memset(digit, 5, sizeof digit);
    memset(labels, 9, sizeof labels);
    memset(&delta, 3, sizeof delta);
    for (size_t i = 0; i < N; i++)
        digit[i] &= ((uint64_t)1 << 44) - 1;
    prg_init(&coins, seed, "ctime");
    CT_SECRET(&coins.key, sizeof coins.key);
    CT_SECRET(digit, sizeof digit);
    CT_SECRET(labels, sizeof labels);
    CT_SECRET(&delta, sizeof delta);
    noise_round(value, digit, N, 16, 12, 16, &coins);
    noise_jumps(jump, N, &coins);
    noise_planes(bits, value, N, 16, N / 16);
    noise_values(back, bits, N, 16);
    noise_fold(fold, labels, 16, N / 16);
    noise_fold_add(fold, back, N, 16, &delta);
    noise_results(w, back, v, N, &p);
    noise_digits d = noise_digits_of(digit);
    noise_source e = { zero_noise, NULL };
    sefl_rng rng = prg_rng(&coins);
    if (noise_own_make(reply, &p, &d, &e, &rng) != SEFL_OK ||
        noise_own_finish(own, &p, reply, &d, &e, &rng) != SEFL_OK)
        return 1;
    CT_PUBLIC(back, sizeof back); /* the test looks at the result */
    CT_PUBLIC(value, sizeof value);
    return memcmp(back, value, sizeof back) != 0;
}

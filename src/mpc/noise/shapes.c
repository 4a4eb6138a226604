/* The shapes of the modes joint and own (noise/online.h). */
#include "base/ct.h"
#include "mpc/noise/online.h"
#include "mpc/noise/quantise.h"

enum { GROUP = JUMP_GROUP };

/* ---- joint ----------------------------------------------------------------------------------- */

/* digit = SR(digit) + Y; AS subtracts Y'. */
static void quantise_joint(uint64_t *digit, size_t n, const noise_params *p, int sign, prg *coins)
{
    uint32_t rounded[GROUP];
    int32_t jump[GROUP];
    noise_quantise(rounded, digit, n, p->k, p->t, p->g, coins);
    noise_jumps(jump, n, coins);
    for (size_t i = 0; i < n; i++)
        digit[i] = rounded[i] + (uint64_t)(int64_t)(sign * jump[i]);
    sefl_wipe(rounded, sizeof rounded);
    sefl_wipe(jump, sizeof jump);
}

/* e, a share, is in the ring. */
static void result_joint(int64_t *w, const uint64_t *got, const uint64_t *digit, const int64_t *e,
                         size_t n, unsigned up)
{
    enum { MEAN = 62 };
    for (size_t i = 0; i < n; i++)
        w[i] = (int64_t)((got[i] - digit[i] + (uint64_t)e[i] - MEAN) << up) >> up;
}

const noise_shape noise_joint = {
    .wire = 0,
    .slice = true,
    .dither = true,
    .coins = "noise joint",
    .coin_bytes = 8 + 4 + 2 * JUMP_SLOTS * JUMP_DRAWS / GROUP, /* U, a jump's coins and draws */
    .quantise = quantise_joint,
    .result = result_joint,
};

/* ---- own ------------------------------------------------------------------------------------- */

/* digit = (digit + U) >> g, U uniform on g bits. */
static void quantise_own(uint64_t *digit, size_t n, const noise_params *p, int sign, prg *coins)
{
    uint64_t u[GROUP], low = ((uint64_t)1 << p->g) - 1;
    (void)sign;
    prg_fill(coins, u, n * sizeof *u);
    for (size_t i = 0; i < n; i++)
        digit[i] = (digit[i] + (load_u64(&u[i]) & low)) >> p->g;
    sefl_wipe(u, sizeof u);
}

/* e, AS's noise, is not in the ring. */
static void result_own(int64_t *w, const uint64_t *got, const uint64_t *digit, const int64_t *e,
                       size_t n, unsigned up)
{
    for (size_t i = 0; i < n; i++)
        w[i] = ((int64_t)((got[i] - digit[i]) << up) >> up) + e[i];
}

const noise_shape noise_own = {
    .wire = 1,
    .fraction = true,
    .coins = "noise own",
    .coin_bytes = 8,
    .quantise = quantise_own,
    .result = result_own,
};

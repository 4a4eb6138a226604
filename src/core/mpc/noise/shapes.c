/* The shapes of the modes joint and own (noise/online.h). */
#include "base/ct.h"
#include "mpc/noise/noise_quantise.h"
#include "mpc/noise/online.h"

enum { GROUP = JUMP_GROUP };

/* ---- joint ----------------------------------------------------------------------------------- */

/* digit = SR(digit) + Y; AS subtracts Y'. */
static void quantise_joint(uint64_t *digit, size_t n, unsigned cut, int sign, prg *coins)
{
    int32_t jump[GROUP];
    noise_quantise(digit, n, cut, coins);
    noise_jumps(jump, n, coins);
    for (size_t i = 0; i < n; i++)
        digit[i] += (uint64_t)(int64_t)(sign * jump[i]);
    sefl_wipe(jump, sizeof jump);
}

const noise_shape noise_joint = {
    .wire = 0,
    .slice = true,
    .dither = true,
    .mean2 = 123,
    .less = 62,
    .coins = "noise joint",
    .coin_bytes = 8 + 4 + 2 * JUMP_SLOTS * JUMP_DRAWS / GROUP, /* U, a jump's coins and draws */
    .quantise = quantise_joint,
};

/* ---- own ------------------------------------------------------------------------------------- */

/* digit = (digit + U) >> cut, U uniform on `cut` bits. */
static void quantise_own(uint64_t *digit, size_t n, unsigned cut, int sign, prg *coins)
{
    (void)sign;
    noise_quantise(digit, n, cut, coins);
}

const noise_shape noise_own = {
    .wire = 1,
    .fraction = true,
    .coins = "noise own",
    .coin_bytes = 8,
    .quantise = quantise_own,
};

#include "mpc/noise/noise_quantise.h"

#include "base/ct.h"
#include "base/span.h"

#include <assert.h>

#define ONES 0x0101010101010101u

void noise_quantise(uint64_t *digit, size_t n, unsigned cut, prg *coins)
{
    enum { GROUP = 512 };
    uint64_t u[GROUP], low = ((uint64_t)1 << cut) - 1;
    assert(cut <= 62);
    for (size_t at = 0; at < n; at += GROUP) {
        size_t m = n - at < GROUP ? n - at : GROUP;
        prg_fill(coins, u, m * sizeof *u);
        for (size_t i = 0; i < m; i++)
            digit[at + i] = (digit[at + i] + (load_u64(&u[i]) & low)) >> cut;
    }
    sefl_wipe(u, sizeof u);
}

/* The 64 draws at p: bit k of byte b is set if draw 8 k + b is zero. */
static inline uint64_t zeros_of(const uint8_t *p)
{
    uint64_t all = 0;
    for (unsigned k = 0; k < 8; k++) {
        uint64_t x = load_u64(p + 8 * k) & 31 * ONES;
        all |= (~(x + 127 * ONES) & 128 * ONES) >> (7 - k);
    }
    return all;
}

uint32_t noise_geometric(const uint8_t draws[JUMP_DRAWS])
{
    uint64_t blocks = 0, alive = ~(uint64_t)0, first = 0, count = 0, row = ~(uint64_t)0;
    for (size_t i = 0; i < JUMP_DRAWS; i += 64) {
        uint64_t zeros = zeros_of(draws + i);
        first |= zeros & alive; /* of the first block that has any */
        alive &= 0 - ct_is_zero_u64(zeros);
        blocks += 64 & alive;
    }
    for (unsigned k = 0; k < 8; k++) { /* eight draws: bytes before the first zero; 8 if none */
        uint64_t zero = first >> k & ONES;
        uint64_t before = ((zero & (0 - zero)) - 1) & ONES;
        count += (before * ONES) >> 56 & row;
        row &= 0 - ct_is_zero_u64(zero);
    }
    return (uint32_t)(blocks + (count & ~alive));
}

void noise_jumps(int32_t *out, size_t n, prg *coins)
{
    uint8_t draws[JUMP_DRAWS];
    uint32_t slot[JUMP_SLOTS + 1], coin[JUMP_GROUP];
    assert(n <= JUMP_GROUP);
    for (unsigned s = 0; s < JUMP_SLOTS; s++) {
        prg_fill(coins, draws, sizeof draws);
        slot[s] = noise_geometric(draws);
        prg_fill(coins, draws, sizeof draws);
        slot[s] -= noise_geometric(draws);
    }
    slot[JUMP_SLOTS] = 0;
    prg_fill(coins, coin, n * sizeof *coin);
    for (size_t i = 0; i < n; i++) {
        uint64_t c = load_u32(&coin[i]) & ((1u << JUMP_RATE_BITS) - 1);
        uint32_t mask = (uint32_t)ct_mask_u64(ct_is_zero_u64(c));
        out[i] = (int32_t)(slot[0] & mask);
        for (unsigned s = 0; s < JUMP_SLOTS; s++) /* a used candidate moves out of the row */
            slot[s] ^= (slot[s] ^ slot[s + 1]) & mask;
    }
    sefl_wipe(draws, sizeof draws);
    sefl_wipe(slot, sizeof slot);
    sefl_wipe(coin, sizeof coin);
}

/* noise_filter: correlated noise. Each round takes back part of the noise of earlier rounds,
 * although nobody knows that noise: each server works on its own share of it.
 *
 * Without a filter a round releases A + W: the aggregate and fresh noise. With a filter, round r
 * releases A + W_r - sum over j of gamma_j / 4096 W_(r-j), for j = 1 .. NOISE_LAGS. W_r contains
 * everything that both servers added in round r: X, their roundings and their rare jumps. Each
 * server keeps one number per value and round; the two numbers add up to W_r 2^F, exactly and
 * modulo 2^64. With k ring bits, F = 52 - k:
 *
 *     both   q = sum of -gamma_j s_j          mod 2^64; s_j: the number that it kept in round r - j
 *            H = (q + 2^11) >> 12             mod 2^52 = 2^(k+F)
 *     CSP    y = (digit << (F-t-g)) + H       mod 2^52;  AS: - H;  the digit contains the dither J
 *     both   a = (y + U) >> F,  U uniform on F bits;   d = a + Y  (AS: a - Y')
 *     CSP    keeps (x << F) + (d << F) - y                          mod 2^64
 *     AS     keeps (x << F) - (d << F) + y - mean2 << (F - 1)       mod 2^64
 *
 * x is a share of X, of which k + 12 bits matter, and mean2 = 123 is twice the mean of X. (In mode
 * own each server knows its noise and filters it in the clear: protocol/modes/own.c.)
 *
 * The modulus shrinks by 12 bits when H is made, so no share needs a truncation protocol. H of both
 * servers together differs from the exact number by less than one unit of 2^-F; docs/PRIVACY.md
 * charges it. Only d leaves a server, never y: the low bits of y depend on the rounding errors of
 * earlier rounds, which the other server must not see.
 *
 * A lag whose numbers one server has lost is left out by both (noise_params.lags): that removes
 * terms from the sensitivity, and the release only becomes noisier. docs/PRIVACY.md has the proof.
 *
 * Secret: every number except gamma, lags, widths and n.   Constant time.   Threads: pure
 * functions. */
#ifndef MPC_NOISE_NOISE_FILTER_H
#define MPC_NOISE_NOISE_FILTER_H

#include <stddef.h>
#include <stdint.h>

enum {
    NOISE_LAGS = 4,        /* the longest filter */
    NOISE_GAMMA_BITS = 12, /* gamma counts 1/4096 */
    NOISE_PLACE_BITS = 52, /* k + F */
    NOISE_KEPT = 8,        /* bytes per value and round */
    NOISE_GAMMA_ONE = 1 << NOISE_GAMMA_BITS
};

/* A server's memory of a round: NOISE_KEPT bytes per value, little-endian. It first holds H, which
 * does not depend on the round's sum and is made in advance; the release overwrites it with the
 * numbers that the server keeps. */

/* Writes H for n values to memory. Lag j is used if bit j of lags is set; past[j] has the numbers
 * kept in round r - 1 - j, and may be `memory`. */
void noise_filter_back(uint8_t *memory, const uint16_t gamma[NOISE_LAGS], unsigned lags,
                       const uint8_t *const past[NOISE_LAGS], size_t n);

typedef struct noise_filter {
    unsigned up; /* F - t - g: bits of y below a digit */
    unsigned F;
    int sign;       /* 1 at CSP, -1 at AS */
    unsigned mean2; /* twice the mean of X */
} noise_filter;

/* Computes n numbers y in place from digits; memory then has what the server keeps, without d. */
void noise_filter_place(const noise_filter *f, uint64_t *digit, uint8_t *memory, const int64_t *x,
                        size_t n);
/* Adds d to what the server keeps. */
void noise_filter_keep(const noise_filter *f, uint8_t *memory, const uint64_t *d, size_t n);

#endif

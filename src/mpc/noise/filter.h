/* noise/filter: correlated noise. Each round takes back part of the noise of earlier rounds,
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
 * charges it. Only d leaves a server: y on the fine grid shows the roundings of the last
 * round, so a server never releases it.
 *
 * A lag whose numbers one server has lost is left out by both (noise_params.lags): that removes
 * terms from the sensitivity, and the release only becomes noisier. docs/PRIVACY.md has the proof.
 *
 * Secret: every number except gamma, lags, widths and n.   Constant time.   Threads: pure
 * functions. */
#ifndef MPC_NOISE_FILTER_H
#define MPC_NOISE_FILTER_H

#include <stddef.h>
#include <stdint.h>

enum {
    NOISE_LAGS = 4,        /* the longest filter */
    NOISE_GAMMA_BITS = 12, /* gamma counts 1/4096 */
    NOISE_PLACE_BITS = 52, /* k + F */
    NOISE_KEPT = 8,        /* bytes per value and round */
    NOISE_GAMMA_ONE = 1 << NOISE_GAMMA_BITS
};

/* A server's memory of earlier rounds: NOISE_KEPT bytes per value, little-endian. */
typedef struct noise_memory {
    const uint8_t *past[NOISE_LAGS]; /* past[j]: kept in round r - 1 - j; NULL unless it is used */
    uint8_t *keep;                   /* gets the numbers of this round */
} noise_memory;

/* Writes H for n values that begin at value `at`. Lag j is used if bit j of lags is set; then
 * m->past[j] must be there. */
void noise_filter_back(uint64_t *h, const uint16_t gamma[NOISE_LAGS], unsigned lags,
                       const noise_memory *m, size_t at, size_t n);

/* Computes y in place from digits with `up` = F - t - g bits fewer. sign is 1 at CSP, -1 at AS. */
void noise_filter_place(uint64_t *digit, const uint64_t *h, size_t n, unsigned up, int sign);

/* Writes the n numbers that a server keeps, from its x, d and y. */
void noise_filter_keep(uint8_t *keep, const int64_t *x, const uint64_t *d, const uint64_t *y,
                       size_t n, unsigned F, int sign, unsigned mean2);

#endif

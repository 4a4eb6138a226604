/* pack: how the numbers of a task become slots: grid, widths, bounds, and the proof that sums fit.
 *
 * Every party derives a pack from (clients, clip, noise, dimension, scheme) when it reads the task,
 * gets the same result, and refuses a task whose sum could overflow. Letters as in
 * docs/PARAMETERS.md:
 *   k  ring width of the coarse lattice, the circuit's input      (16 usually)
 *   t  fraction bits below it                                      (12; 14 from z = 4 on)
 *   w  slot width, k + t                                           (28)
 *   g  guard bits of the lower slot that a digit includes          (16 for paillier, else 0)
 *   s  mask headroom on top of a packed integer                    (80 for paillier)
 *
 *     pack_config c = { .scheme = PACK_PAD, .clients = 10000, .dimension = 945510 };
 *     SEFL_TRY(pack_decimal(&c.clip, "1.5"));
 *     SEFL_TRY(pack_decimal(&c.noise, "0.5"));        // 0: no noise, "DP off"
 *     SEFL_TRY(pack_init(&p, &c));                    // SEFL_ERANGE: a sum does not fit
 *
 * The grid. A client sends integers X that represent x = q * X. With noise, grid/grid.h gives the
 * step q; without noise q = C / 2^fraction_bits.
 *
 * The bound. |X_i| <= value_max at every client, the smaller of sqrt(S2) and the coordinate clip;
 * clients * value_max < (2^(k-1) - 128) * 2^t leaves room for the noise (except jumps), so no sum
 * wraps. Without noise: clients * value_max < 2^(w-1).
 *
 * All machines get the same result: settings are decimals held as whole billionths, and every
 * decision uses integer arithmetic (grid/grid.h).
 *
 * Secret: the values given to pack_check_values. Public: everything else. Threads: any. */
#ifndef CRYPTO_AHE_PACK_H
#define CRYPTO_AHE_PACK_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PACK_K_MIN = 12, /* the noise circuit's smallest and largest ring */
    PACK_K_MAX = 24,
    PACK_W_MAX = 48,      /* widest slot; a digit of w + g bits fits 64 */
    PACK_S_PAILLIER = 80, /* a mask hides a sum within 2^-80 */
    PACK_G_PAILLIER = 16, /* more for very many coordinates and large z, see pack.c */
};

/* A decimal setting, in billionths: 1.5 is 1500000000. */
typedef uint64_t pack_nano;
#define PACK_ONE ((pack_nano)1000000000)

typedef enum pack_scheme { PACK_PAILLIER, PACK_PAD } pack_scheme;

typedef struct pack_config {
    pack_scheme scheme;
    uint32_t clients;   /* maximum number of clients in one sum: not the task's threshold */
    uint64_t dimension; /* coordinates under the clip, extra slots (weight, ...) included */
    pack_nano clip;     /* C, L2 norm of an update */
    pack_nano noise;    /* z, noise over sensitivity; 0: no noise */

    /* With noise: maximum |coordinate| as a share of D. 0 chooses: no clip (1) if the sum fits
     * k = 16 without one, or if there are fewer than 400 coordinates; otherwise what the smallest
     * k >= 16 allows, at least 0.17. */
    pack_nano coordinate_clip;
    unsigned k;             /* with noise: ring width; 0: the smallest that fits */
    unsigned fraction_bits; /* without noise: q = C / 2^fraction_bits; 0: from the dimension */
} pack_config;

typedef struct pack {
    pack_scheme scheme; /* the scheme it is for; others refuse it */
    unsigned k, t, w, g, s;
    uint32_t clients;  /* maximum number of clients in one sum */
    int64_t value_max; /* a client's |value| is at most this; clients * value_max < 2^(w-1) */

    /* the grid; zero unless pack_init made the pack */
    uint64_t s2;        /* a client's sum of X_i^2 is at most this; 0 without noise: no such test */
    uint64_t r_2p16;    /* R * 2^16: the clip in fine steps */
    double q;           /* one fine step; a client's grid: x = q * X */
    double h;           /* one coarse step, 2^t * q */
    double sensitivity; /* D = q * sqrt(S2), the L2 sensitivity for the accountant; 0: no noise */
} pack;

/* Parses a decimal number, digits with at most one point: "12", "0.25". SEFL_EINVAL for anything
 * else, for more than 9 decimals, and above 9 million. */
sefl_status pack_decimal(pack_nano *out, const char *text) SEFL_MUST_CHECK;

/* Derives a pack. SEFL_EINVAL if a setting is out of range; SEFL_ERANGE, with the numbers, if a sum
 * could overflow or the grid is too coarse. On failure *out is zeroed. */
sefl_status pack_init(pack *out, const pack_config *c) SEFL_MUST_CHECK;

/* Fails unless the widths are consistent and sums fit: clients * value_max < 2^(w-1). */
sefl_status pack_check(const pack *p) SEFL_MUST_CHECK;

/* Returns how many slots fit one Paillier plaintext: floor((bits - 2 - s) / w) for N of `bits` bits. */
size_t pack_slots(const pack *p, unsigned bits);

/* SEFL_ERANGE, with the index (first + i), if a value is outside [-value_max, value_max]; the message
 * does not contain the value. Time depends on the values only if the check fails. */
sefl_status pack_check_values(const pack *p, const int64_t *values, size_t n,
                              size_t first) SEFL_MUST_CHECK;

#endif

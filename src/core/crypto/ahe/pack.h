/* pack: derives the grid, widths and bounds of a task's slots, and proves that sums fit.
 *
 * Every party derives a pack from (clients, clip, noise, dimension, scheme) when it reads the task,
 * gets the same result, and refuses a task whose sum could overflow. docs/PROTOCOL.md uses the
 * same letters:
 *   k  ring width of the coarse lattice, the circuit's input      (16 usually)
 *   t  fraction bits below that lattice                            (12, or 14 if z >= 4)
 *   w  slot width, k + t                                           (28)
 *   g  guard bits of the lower slot that a digit includes          (16 for paillier, else 0)
 *   s  mask headroom on top of a packed integer                    (80 for paillier)
 *
 *     pack_config c = { .scheme = PACK_PAD, .clients = 10000, .dimension = 945510 };
 *     SEFL_TRY(pack_decimal(&c.clip, "1.5"));
 *     SEFL_TRY(pack_decimal(&c.noise, "0.5"));        // 0: no noise, "DP off"
 *     SEFL_TRY(pack_init(&p, &c));                    // SEFL_ERANGE: a sum does not fit
 *
 * The grid. A client sends integers X that represent x = q * X. In a task with noise, grid/grid.h
 * derives the step q; in a task without noise, q = C / 2^fraction_bits.
 *
 * The bound. Every client has |X_i| <= value_max, the smaller of sqrt(S2) and the coordinate clip.
 * If clients * value_max < (2^(k-1) - 128) * 2^t, no sum wraps, because the noise (except jumps)
 * stays below 128 coarse steps. A task without noise needs only clients * value_max < 2^(w-1).
 *
 * All machines get the same result: decimal settings are stored as whole billionths, and every
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
    PACK_K_MIN = 12, /* smallest and largest ring of the noise circuit */
    PACK_K_MAX = 24,
    PACK_W_MAX = 48,      /* widest slot; a digit of w + g bits fits in 64 bits */
    PACK_S_PAILLIER = 80, /* statistical security of a mask, in bits */
    PACK_G_PAILLIER = 16, /* minimum; very many coordinates and a large z need more (pack.c) */
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

    /* With noise: maximum |coordinate| as a share of D. 0: chosen automatically. It is then 1 (no
     * clip) if the unclipped sum fits k = 16 or there are fewer than 400 coordinates; otherwise it
     * is the largest share that fits the smallest k >= 16 with room for at least 0.17. */
    pack_nano coordinate_clip;
    unsigned k;             /* with noise: ring width; 0: the smallest that fits */
    unsigned fraction_bits; /* without noise: q = C / 2^fraction_bits; 0: set from the dimension */
} pack_config;

typedef struct pack {
    pack_scheme scheme; /* the only scheme that accepts this pack */
    unsigned k, t, w, g, s;
    uint32_t clients;  /* maximum number of clients in one sum */
    int64_t value_max; /* maximum |value| of a client; clients * value_max < 2^(w-1) */

    /* the grid; all zero unless pack_init made the pack */
    uint64_t s2;        /* maximum of a client's sum of X_i^2; 0: no noise, so no bound */
    uint64_t r_2p16;    /* R * 2^16: the clip in fine steps */
    double q;           /* one fine step: a client's X stands for x = q * X */
    double h;           /* one coarse step, 2^t * q */
    double sensitivity; /* D = q * sqrt(S2), the L2 sensitivity for the accountant; 0: no noise */
} pack;

/* Parses a decimal number: digits with at most one point, such as "12" or "0.25". SEFL_EINVAL if it
 * is anything else, has more than 9 decimals, or exceeds 9 million. */
sefl_status pack_decimal(pack_nano *out, const char *text) SEFL_MUST_CHECK;

/* Derives a pack. SEFL_EINVAL if a setting is out of range; SEFL_ERANGE, with the numbers, if a sum
 * could overflow or the grid is too coarse. On failure *out is zeroed. */
sefl_status pack_init(pack *out, const pack_config *c) SEFL_MUST_CHECK;

/* SEFL_EINVAL if the widths are inconsistent; SEFL_ERANGE unless clients * value_max < 2^(w-1). */
sefl_status pack_check(const pack *p) SEFL_MUST_CHECK;

/* Returns the number of slots in a Paillier plaintext, for an N of `bits` bits. */
size_t pack_slots(const pack *p, unsigned bits);

/* SEFL_ERANGE, with the index (first + i), if a value is outside [-value_max, value_max]; the
 * message does not show the value. Time depends on the values only if the check fails. */
sefl_status pack_check_values(const pack *p, const int64_t *values, size_t n,
                              size_t first) SEFL_MUST_CHECK;

#endif

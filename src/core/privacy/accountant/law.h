/* law: the noise distributions that the accountant supports, as one table (law.c).
 *
 * An event describes releases by a law and its parameters. docs/PRIVACY.md proves each bound.
 *   joint     The circuit's G44 noise. Its Renyi curve is at most that of a Gaussian of multiplier
 *             z / sqrt(1.0048), for orders 1.01 to 256 and z >= 0.25; count * dim * 1.1e-22 is
 *             subtracted from delta. Under sampling (rate < 1) rdp_sampled_bound applies: at whole
 *             orders the moment formula of the sampled Gaussian, between them a bound that follows
 *             from the unsampled divergences alone, since nothing more is proven about this noise
 *             on vectors. No other accountant accepts this noise: see pld.h.
 *   discrete  The exact discrete Gaussian (`own`, `cdp`). It is a post-processing of a continuous
 *             Gaussian of variance sigma^2 - 6 (in units of the integer grid), up to a factor of
 *             1 +- 1e-50 per coordinate. So every bound for a Gaussian of multiplier
 *             z * sqrt(1 - 6 / sigma_steps^2) applies to it, in any dimension and under sampling.
 *   gauss     The ideal continuous Gaussian, for tests and for comparisons with other accountants;
 *             this system never adds such noise.
 *   none      A release without a claim. A history that contains one has no epsilon.
 *
 * To add a law, add a row to law.c and a value to dp_noise.
 *
 * DP_SOURCES lists who adds noise of which law. A release mode (protocol/modes) names its row, and
 * `sefl privacy plan --noise` accepts every row.
 * Threads: any.   Secrets: none. */
#ifndef PRIVACY_ACCOUNTANT_LAW_H
#define PRIVACY_ACCOUNTANT_LAW_H

#include <stdbool.h>
#include <stdint.h>

/* Ledgers store these values: never change one. */
typedef enum dp_noise {
    DP_NOISE_NONE = 0,
    DP_NOISE_JOINT = 1,
    DP_NOISE_DISCRETE = 2,
    DP_NOISE_GAUSS = 3,
} dp_noise;

typedef struct dp_event {
    dp_noise noise;
    double z;           /* noise standard deviation over L2 sensitivity */
    double rate;        /* rate of a unit's secret Poisson sampling; 1: no amplification */
    uint64_t count;     /* number of such releases */
    uint64_t dim;       /* coordinates of a release; 0 unless the law uses it */
    double sigma_steps; /* noise standard deviation in grid steps; 0 unless the law uses it */
} dp_event;

#define DP_TEXT_OF(x)      #x
#define DP_TEXT(x)         DP_TEXT_OF(x)

#define DP_JOINT_FACTOR    1.0048  /* largest ratio of G44's Renyi curve to the Gaussian's */
#define DP_JOINT_CUT       1.1e-22 /* probability mass per coordinate that the proof excludes */
#define DP_JOINT_Z_MIN     0.25
#define DP_JOINT_Z_TEXT    DP_TEXT(DP_JOINT_Z_MIN) /* for messages */
#define DP_SIGMA_STEPS_MIN 25.0    /* discrete: below this the term -6 costs more than 0.5 % */
#define DP_SIGMA_STEPS     38662.0 /* the grid's value for z < 4: 9.43919 * 2^12, rounded down */

typedef struct dp_law {
    const char *name;
    bool claims;           /* false: a history with such a release has no epsilon */
    bool released;         /* the system adds this noise to releases; a ledger accepts it */
    bool uses_dim;         /* the law uses dp_event.dim */
    bool uses_sigma_steps; /* the law uses dp_event.sigma_steps */
    bool numerical;        /* pld.h accounts for it as a Gaussian with multiplier gauss_z */
    double z_min;          /* nothing is proven for a smaller z */
    const char *below;     /* error message for a smaller z, one clause */
    double z_search_min;   /* dp_find_z does not try a smaller z */
    double order_max;      /* the Renyi bound holds from order 1.01 to this; 0: at every order */
    double cut;            /* mass per release and coordinate that is subtracted from delta */
    /* Returns the multiplier of the Gaussian whose Renyi curve bounds this law. */
    double (*gauss_z)(const dp_event *ev);
} dp_law;

/* S(NAME, name, law, independent noises in a release, one sentence of help) */
/* clang-format off */
#define DP_SOURCES(S)                                                                              \
    S(JOINT, joint, DP_NOISE_JOINT, 1, "With joint, the servers draw the noise together")          \
    S(OWN, own, DP_NOISE_DISCRETE, 2, "With own, each server adds its own noise")                  \
    S(CDP, cdp, DP_NOISE_DISCRETE, 1, "With cdp, one trusted server adds the noise")
/* clang-format on */

#define DP_SOURCE_ENUM(NAME, name, law, noises, text) DP_SOURCE_##NAME,
enum { DP_SOURCES(DP_SOURCE_ENUM) DP_SOURCE_COUNT, DP_SOURCE_USUAL = DP_SOURCE_JOINT };

/* "joint own cdp" */
#define DP_SOURCE_WORD(NAME, name, law, noises, text) " " #name
#define DP_SOURCE_WORDS                               (&(DP_SOURCES(DP_SOURCE_WORD))[1])
/* The sentences of help, after a first one and without the last full stop. */
#define DP_SOURCE_SENTENCE(NAME, name, law, noises, text) ". " text
#define DP_SOURCE_HELP                                    DP_SOURCES(DP_SOURCE_SENTENCE)

typedef struct dp_source {
    const char *name;
    dp_noise law;    /* what the accountant charges for */
    unsigned noises; /* independent noises in a release, each of deviation z * sensitivity */
} dp_source;

extern const dp_source dp_sources[DP_SOURCE_COUNT];

/* Returns the law of this noise; NULL for an unknown value. */
const dp_law *dp_law_of(dp_noise noise);

/* Returns "none", "joint", "discrete" or "gauss"; "?" for an unknown value. */
const char *dp_noise_name(dp_noise noise);

/* True if releases with this noise can have an epsilon; false for an unknown value. */
bool dp_noise_claims(dp_noise noise);

#endif

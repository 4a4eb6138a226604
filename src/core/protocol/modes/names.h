/* names: the list of release modes. mode.h is the manual.
 *
 * M(NAME, name, one clause of help) names the table mode_name (protocol/modes/name.c).
 * Threads: any. */
#ifndef PROTOCOL_MODES_NAMES_H
#define PROTOCOL_MODES_NAMES_H

/* clang-format off */
#define RELEASE_MODES(M)                                                                           \
    M(NONE, none, "none adds no noise, so everybody learns the exact average")                     \
    M(JOINT, joint, "with joint, the servers draw one noise together, and CSP must be honest")     \
    M(OWN, own, "with own, each server adds its own noise, which doubles the variance, and one "   \
                "honest server is enough")
/* clang-format on */
#define RELEASE_MODE_DEFAULT \
    "; if it is not set, it is own for privacy.unit record under crypto.scheme pad"

/* These numbers never appear on the wire. */
#define RELEASE_MODE_ENUM(NAME, name, text) TASK_NOISE_##NAME,
typedef enum task_noise { RELEASE_MODES(RELEASE_MODE_ENUM) RELEASE_MODE_COUNT } task_noise;

/* "none joint own": the values of the setting privacy.noise. */
#define RELEASE_MODE_WORD(NAME, name, text) " " #name
#define RELEASE_MODE_WORDS                  (&(RELEASE_MODES(RELEASE_MODE_WORD))[1])
/* The help of that setting, one clause per mode. */
#define RELEASE_MODE_CLAUSE(NAME, name, text) "; " text
/* without the separator before the first clause */
#define RELEASE_MODE_HELP (&(RELEASE_MODES(RELEASE_MODE_CLAUSE) RELEASE_MODE_DEFAULT)[2])

#endif

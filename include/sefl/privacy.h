/* privacy: how much privacy a task would spend, how much noise it needs, and what was spent.
 *
 *     sefl_privacy_plan p = { .size = sizeof p, .noise = SEFL_NOISE_JOINT, .values = 100000,
 *                             .clients = 1000, .rate = 1, .rounds = 40, .delta = 1e-6,
 *                             .epsilon = 3 };
 *     sefl_privacy_claim c = { .size = sizeof c };
 *     if (sefl_privacy_compute(&c, &p) == SEFL_OK && c.claimed)
 *         printf("z %g gives epsilon %g\n", c.z, c.epsilon_server);
 *
 * The numbers are those of `sefl privacy plan`: docs/PRIVACY.md proves the bounds.
 * Threads: any.   Secrets: none.   Cost: milliseconds; with rate < 1 up to a second. */
#ifndef SEFL_PRIVACY_H
#define SEFL_PRIVACY_H

#include "sefl/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sefl_noise {
    SEFL_NOISE_JOINT = 1, /* one noise that neither server knows; CSP must follow the protocol */
    SEFL_NOISE_OWN = 2    /* each server adds its own noise: one honest server is enough */
} sefl_noise;

typedef enum sefl_neighbours {
    SEFL_ZERO_OUT = 0, /* a neighbour has one client's update replaced with zeros */
    SEFL_REPLACE = 1   /* replaced with any other update: twice the sensitivity */
} sefl_neighbours;

/* What to compute; zero is the default of every optional member. */
typedef struct sefl_privacy_plan {
    size_t size; /* sizeof(sefl_privacy_plan) */
    sefl_noise noise;
    sefl_neighbours neighbours;
    uint64_t values;  /* numbers in an update */
    uint64_t clients; /* population; optional: needed for noise_over_signal */
    uint64_t rounds;
    uint64_t max_rounds_per_client; /* 0: no limit */
    double rate;                    /* share of clients drawn in a round: 0 < rate <= 1 */
    double delta;
    double z;         /* noise multiplier; 0: find the smallest one for `epsilon` */
    double epsilon;   /* used if z is 0: target against a server */
    int reserved;     /* 0; until 0.2 a setting that is gone */
    int public_count; /* not 0: the number of participants is published */
} sefl_privacy_plan;

typedef struct sefl_privacy_claim {
    size_t size;               /* you set it: sizeof(sefl_privacy_claim) */
    int claimed;               /* 0: nothing is claimed, and why_not says why */
    double z;                  /* given or found */
    double epsilon_server;     /* against a server, or anyone who sees participation; infinite if
                            * nothing is claimed */
    double epsilon_others;     /* against everybody else */
    double noise_over_signal;  /* norm of the noise over the largest norm of a sum; 0: no clients */
    double clients_for_signal; /* clients per round for noise no larger than the signal */
    const char *why_not;       /* NULL if claimed */
} sefl_privacy_claim;

/* Fills *out. SEFL_EINVAL if a value is out of range; SEFL_EBUDGET if no z up to 1e6 suffices. */
SEFL_API sefl_status sefl_privacy_compute(sefl_privacy_claim *out, const sefl_privacy_plan *plan);

/* What a claim of a ledger protects. */
typedef enum sefl_unit {
    SEFL_UNIT_CLIENT = 0, /* all data of a client */
    SEFL_UNIT_RECORD = 1, /* one record of a client */
    SEFL_UNIT_MIXED = 2   /* the tasks protect different units: no claim */
} sefl_unit;

/* What a ledger file records: the ledger of a client's owner or of a server. */
typedef struct sefl_ledger_status {
    size_t size; /* you set it: sizeof(sefl_ledger_status) */
    uint64_t tasks, rounds;
    int claimed; /* 0: nothing is claimed, for example after a round without noise */
    sefl_unit unit;
    double delta;
    double epsilon_server, epsilon_others;
    char why_not[128]; /* "" if claimed */
} sefl_ledger_status;

/* Reads a ledger without changing or locking it. delta 0: that of its latest task with a claim.
 * SEFL_ENOTFOUND: no such file; SEFL_EPROTO: the file was changed. */
SEFL_API sefl_status sefl_ledger_read(sefl_ledger_status *out, const char *path, double delta);

#ifdef __cplusplus
}
#endif
#endif

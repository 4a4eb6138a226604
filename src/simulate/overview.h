/* overview: a run in one line, from what its folder holds, finished or not; `sefl compare` puts several
 * side by side.
 *
 *     SEFL_TRY(overview_read(&o, "runs/first"));
 *
 * Threads: any.   Secrets: none. */
#ifndef SIMULATE_OVERVIEW_H
#define SIMULATE_OVERVIEW_H

#include "simulate/experiment.h"
#include "simulate/run_folder.h"

typedef struct overview {
    char name[EXPERIMENT_NAME_MAX + 1];
    char folder[PATH_MAX];
    char text[2200]; /* what it was measured on; perplexities of different texts do not compare */
    const char *protection;
    bool full;
    uint32_t clients;
    char scheme[16], noise[16], z[48], block[24];
    bool claim, over;
    uint64_t rounds, rounds_asked, skipped, blocked;
    double clients_mean; /* in a round that was released */
    double last, best;   /* perplexity; NAN: none */
    uint64_t best_round;
    bool has_epsilon;
    double epsilon_server, epsilon_others;
    double seconds, train, encrypt, sum, twopc; /* a round */
    double up_client;                           /* bytes a client and round */
    double link;                                /* bytes a round; NAN: none */
} overview;

/* SEFL_ENOTFOUND if the folder is no run's. */
sefl_status overview_read(overview *out, const char *folder) SEFL_MUST_CHECK;
sefl_status overview_json(sefl_buf *out, const overview *o) SEFL_MUST_CHECK;

#endif

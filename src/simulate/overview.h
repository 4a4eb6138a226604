/* overview: summarises a run from the files in its folder, finished or not; `sefl compare` shows
 * several runs side by side.
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
    char text[2200]; /* describes the validation text; only runs with the same text compare */
    const char *protection;
    bool full;
    uint32_t clients;
    char scheme[16], noise[16], z[48], block[24];
    bool claim, over;
    uint64_t rounds_asked;
    run_totals t;
} overview;

/* Returns the mean per round that was not skipped, for a total of o->t; NAN if there is none. */
double overview_mean(const overview *o, double total);

/* SEFL_ENOTFOUND if the folder is not a run folder. */
sefl_status overview_read(overview *out, const char *folder) SEFL_MUST_CHECK;
sefl_status overview_json(sefl_buf *out, const overview *o) SEFL_MUST_CHECK;

#endif

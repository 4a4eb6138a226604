/* overview: summarises a run, finished or not, from the files in its folder; `sefl compare` shows
 * several runs side by side. A run of `sefl simulate` has a config.yml; of any other run (a demo,
 * an aggregator, a provisioned federation) the overview has what its metrics.jsonl says.
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
    char text[2200]; /* describes the validation text; "": not simulated */
    run_facts facts;
    char protection[20]; /* "-": unknown, also in the next texts */
    bool full;
    uint32_t clients; /* 0: unknown */
    char scheme[20], noise[20], z[48];
    char block[72]; /* "8", or "8/1/8": model.block, block_embed, block_decoder, if one is set */
    bool claim, over;
    uint64_t rounds_asked; /* 0: unknown */
    run_totals t;
    double test_best, test_last; /* test perplexity, as in run_state; 0: unknown */
} overview;

/* Divides a total in o->t by the number of rounds that were not skipped; NAN if there are none. */
double overview_mean(const overview *o, double total);

/* True if both runs are known to measure perplexity on different texts or words. */
bool overview_differ(const overview *a, const overview *b);

/* SEFL_ENOTFOUND if this is not a run. */
sefl_status overview_read(overview *out, const char *folder) SEFL_MUST_CHECK;
sefl_status overview_json(sefl_buf *out, const overview *o) SEFL_MUST_CHECK;

#endif

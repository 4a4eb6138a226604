/* run_folder: manages runs/NAME, the folder that a run writes to and resumes from.
 *
 *     config.yml                  the resolved experiment, with defaults as comments
 *     metrics.jsonl               one object per round (report/run_log.h)
 *     model/round-N.safetensors   model released in round N; 0: the initial model
 *     model/best.safetensors, model/last.safetensors
 *     vocab.txt  ledger  log  summary.json (when the run is over)
 *     state, optimiser-N          for resuming; csp-ledger (crypto full); noise-N: the servers'
 *                                 memory of the latest rounds (correlated noise)
 *
 * A run can resume from any point, because it writes in this order: a round's model, optimiser and
 * noise, its metrics line, then `state`. A resumed run truncates metrics.jsonl to the length in
 * `state`. Threads: one owner.   Secrets: none. */
#ifndef SIMULATE_RUN_FOLDER_H
#define SIMULATE_RUN_FOLDER_H

#include "base/buf.h"
#include "report/run_log.h"
#include "sum/agg.h"

#include <limits.h>

/* The state from which a run resumes. */
typedef struct run_state {
    agg_memory agg;
    bool over;
    uint64_t model_round,
        best_round;             /* rounds of the latest and the best model; 0: initial model */
    uint64_t revealed, skipped; /* last revealed round; last skipped round */
    uint64_t now_ms;
    uint64_t metrics_bytes;
    uint64_t text;           /* federation_text of the training text; 0: not recorded */
    uint64_t init;           /* hash of the initial model; 0: not recorded */
    double first_perplexity; /* perplexity of the initial model; 0: unknown */
    double test_best,
        test_last;    /* finished run: test perplexity of the best and the last model; 0: unknown */
    char device[128]; /* work_device: the device that trains this run; "": not recorded */
    uint64_t *taken;  /* number of rounds in which each client took part; owned */
    uint32_t clients;
} run_state;

sefl_status run_state_write(const run_state *s, const char *path) SEFL_MUST_CHECK;
/* SEFL_ENOTFOUND if the run has no state. */
sefl_status run_state_read(run_state *out, const char *path) SEFL_MUST_CHECK;
void run_state_clear(run_state *s);

typedef struct run_folder {
    char root[PATH_MAX - 64];
    int lock; /* descriptor; -1: none */
} run_folder;

/* Creates the run folder and sets *fresh, or opens an existing one if its config.yml is the same.
 * SEFL_EEXIST: the folder is not a run folder, or it contains another run that has finished a
 * round; the message names the first setting that differs. SEFL_ESTATE: another process uses it.
 * After success, call run_folder_close. */
sefl_status run_folder_open(run_folder *f, const char *runs, const char *name, sefl_span config,
                            bool *fresh) SEFL_MUST_CHECK;
void run_folder_close(run_folder *f);
/* Locks a folder for this process until the caller closes *lock, which is -1 if the folder cannot
 * be opened. SEFL_ESTATE: another process has locked it. */
sefl_status run_folder_lock(int *lock, const char *folder) SEFL_MUST_CHECK;
/* Returns root/NAME, which is valid until the fourth call after this one. */
const char *run_path(const run_folder *f, const char *fmt, ...) SEFL_PRINTF(2, 3);

/* Returns the path of model/round-N.safetensors, which is valid as long as run_path's result. */
const char *run_model_path(const run_folder *f, uint64_t round);
/* Atomically makes model/NAME a hard link to the model of `round`. */
sefl_status run_folder_link(const run_folder *f, const char *name, uint64_t round) SEFL_MUST_CHECK;

/* Truncates metrics.jsonl to this length; SEFL_EPROTO if it is already shorter. */
sefl_status run_metrics_cut(const run_folder *f, uint64_t bytes) SEFL_MUST_CHECK;

#endif

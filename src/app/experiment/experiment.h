/* experiment: reads a file that describes a simulated federation and expands it into runs.
 *
 *     settings_init(&s, experiment_schema());
 *     SEFL_TRY(yaml_read(&s, "experiment.yml"));               // then options: settings_set
 *     for (size_t i = 0; i < experiment_runs(&s); i++) {
 *         SEFL_TRY(experiment_run(&one, &s, i));               // run i of the sweep
 *         SEFL_TRY(experiment_make(&e, &one));                 // checked, as a struct
 *
 *     name: lr-study                  # runs/lr-study, or runs/lr-study-training.lr=5, ...
 *     clients: 100                    protection: sefl             # none, cdp
 *     crypto: clear                   # full: the real cryptography
 *     data: { words: 2000, alpha: 0.5 }                        # generated; path: a folder of text
 *     network: { dropout: 0.1, stragglers: 0.2, slowdown: 5 }
 *     training: { epochs: 1, lr: 10 }
 *     sweep: { training.lr: [5, 10, 20] }
 *
 * A file may contain the experiment's own keys and those of a task (task_schema), except the ones
 * that the simulator fills in (hashes, vocabulary, enrolled). `sweep.KEY` lists values for any key
 * except name, threads, models.keep and the trainer's; with several lists, every combination is a
 * run. Paths are relative to the file's folder.
 *
 * Threads: the schema may be shared; settings have one owner.   Secrets: none. */
#ifndef SIMULATE_EXPERIMENT_H
#define SIMULATE_EXPERIMENT_H

#include "base/buf.h"
#include "config/settings.h"
#include "model/corpus/partition.h"
#include "simulate/protection.h"

enum { EXPERIMENT_CLIENTS_MAX = 1000000, EXPERIMENT_RUNS_MAX = 1000, EXPERIMENT_NAME_MAX = 200 };

/* Returns a table of all keys, which ends with a NULL key. Sweep keys ("sweep.KEY") come last. */
const setting_def *experiment_schema(void);

typedef struct experiment {
    char name[EXPERIMENT_NAME_MAX + 1];
    uint64_t seed;
    const protection *protection;
    bool external; /* model.body: no text; a trainer knows the data */
    bool full;     /* crypto: full */
    unsigned key_bits;
    uint32_t clients;
    unsigned threads;
    const char *device, *precision; /* model/engine/engine.h; borrowed; NULL: cpu, bf16 */
    const char *trainer;            /* command of fed/hook.h; borrowed; NULL: none */
    const char *trainer_folder;     /* where it runs */
    uint64_t trainer_timeout, trainer_memory;
    /* data; strings borrowed from the settings */
    const char *data; /* "": generated text */
    const char *vocab;
    const char *init; /* model file to start from; "": random values */
    uint32_t vocab_words;
    uint64_t words; /* for generated text: training tokens per client */
    double alpha;
    partition_kind partition;
    bool data_public;
    /* network and clients' machines, in virtual time */
    double dropout, stragglers, slowdown;
    bool exact; /* the share `dropout` is exact in every round */
    uint64_t client_ms;
    uint64_t eval_every, models_keep;
    bool clip_given;
    double classic_epsilon, classic_delta; /* task_settings_classic; 0: the noise has another z */
} experiment;

/* Returns the number of runs: 1 if there is no sweep, 0 if it is above EXPERIMENT_RUNS_MAX. */
size_t experiment_runs(const settings *s);
/* Initialises out (the caller clears it) with the settings of run i. They contain no sweep keys;
 * the run's name shows its values. */
sefl_status experiment_run(settings *out, const settings *s, size_t i) SEFL_MUST_CHECK;

/* Fills in out. The message of SEFL_EINVAL names the settings that do not fit together. Paths from
 * options are relative to the working folder. s must outlive out. */
sefl_status experiment_make(experiment *out, settings *s) SEFL_MUST_CHECK;

/* Returns how many clients drop out of each round with network.exact: round(dropout * clients). */
uint32_t experiment_dropouts(const experiment *e);

/* True if the weights are exactly proportional to the clients' numbers of words: capped with
 * weight_cap 0. The task's cap is then the largest client's number of words. */
bool experiment_exact_weights(const settings *s);

/* Initialises out with settings for task_make, from the experiment, its protection's requirements
 * and these arguments. Hashes are in hex; valid_hash is NULL if there is no validation text. */
sefl_status experiment_task(settings *out, const settings *s, const experiment *e, uint32_t words,
                            const char *vocab_hash, const char *init_hash,
                            const char *valid_hash) SEFL_MUST_CHECK;

struct task;
/* Fits the task to the experiment: a baseline may have one client, although a task needs two.
 * SEFL_EINVAL if network.exact leaves too few clients in a round. */
sefl_status experiment_fit(const experiment *e, struct task *t) SEFL_MUST_CHECK;

/* Writes the settings as a file that reproduces the run: every key with its value, except
 * `threads`, which does not change the result. */
sefl_status experiment_write(sefl_buf *out, const settings *s) SEFL_MUST_CHECK;

#endif

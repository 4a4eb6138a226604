/* experiment: one file that describes a simulated federation, and the runs that follow from it.
 *
 *     settings_init(&s, experiment_schema());
 *     SEFL_TRY(experiment_read(&s, "experiment.yml"));         // flags may follow: settings_set
 *     for (size_t i = 0; i < experiment_runs(&s); i++) {
 *         SEFL_TRY(experiment_run(&one, &s, i));               // the sweep's i-th choice
 *         SEFL_TRY(experiment_make(&e, &one));                 // numbers instead of words
 *
 *     name: lr-study                  # runs/lr-study, or runs/lr-study-training.lr=5, ...
 *     clients: 100                    protection: sefl             # none, cdp
 *     crypto: clear                   # full: the real cryptography
 *     data: { words: 2000, alpha: 0.5 }                        # generated; path: a folder of text
 *     network: { dropout: 0.1, stragglers: 0.2, slowdown: 5 }
 *     training: { epochs: 1, lr: 10 }
 *     sweep: { training.lr: [5, 10, 20] }
 *
 * The keys are those of a task (task_schema), without what the program knows by itself (hashes,
 * vocabulary, enrolled), and those of experiment_own. `sweep.KEY` takes a list of values for any
 * key but name, threads and models.keep; several lists give every combination. Relative paths count
 * from the folder of the file.
 *
 * Threads: the schema may be shared; settings have one owner.   Secrets: none. */
#ifndef SIMULATE_EXPERIMENT_H
#define SIMULATE_EXPERIMENT_H

#include "base/buf.h"
#include "config/settings.h"
#include "model/corpus/partition.h"
#include "simulate/protection.h"

enum { EXPERIMENT_CLIENTS_MAX = 10000, EXPERIMENT_RUNS_MAX = 1000, EXPERIMENT_NAME_MAX = 200 };

/* Every key, ends with a NULL key. Sweep keys come last and begin with "sweep.". */
const setting_def *experiment_schema(void);
/* Keys that are no task's: a table of the same kind. */
extern const setting_def experiment_own[];

typedef struct experiment {
    char name[EXPERIMENT_NAME_MAX + 1];
    uint64_t seed;
    const protection *protection;
    bool full; /* crypto: full */
    unsigned key_bits;
    uint32_t clients;
    unsigned threads;
    const char *device, *precision; /* model/engine/engine.h; borrowed; NULL: cpu, bf16 */
    /* data; strings borrowed from the settings */
    const char *data; /* "": generated */
    const char *vocab;
    uint32_t vocab_words;
    uint64_t words; /* generated: training tokens of a client */
    double alpha;
    partition_kind partition;
    bool data_public;
    /* network and clients' machines, in virtual time */
    double dropout, stragglers, slowdown;
    uint64_t client_ms;
    uint64_t eval_every, models_keep;
    bool clip_given;
} experiment;

/* The file into s; what went wrong has file, line and column. */
sefl_status experiment_read(settings *s, const char *path) SEFL_MUST_CHECK;

/* How many runs the sweep asks for: 1 without one; 0 if there are more than EXPERIMENT_RUNS_MAX. */
size_t experiment_runs(const settings *s);
/* Initialises out (clear it) with the settings of run i: no sweep keys, and a name that shows the
 * choice. */
sefl_status experiment_run(settings *out, const settings *s, size_t i) SEFL_MUST_CHECK;

/* SEFL_EINVAL names what does not fit together. Paths from flags count from the working folder. s
 * must outlive out. */
sefl_status experiment_make(experiment *out, settings *s) SEFL_MUST_CHECK;

/* Settings for task_make, initialised here: those of the experiment, what protection demands, and
 * these; hashes in hex, valid_hash NULL where there is no validation text. */
sefl_status experiment_task(settings *out, const settings *s, const experiment *e, uint32_t words,
                            const char *vocab_hash, const char *init_hash,
                            const char *valid_hash) SEFL_MUST_CHECK;

/* Writes the settings as a file that gives the same run: every key with its value, except
 * `threads`, which changes nothing. */
sefl_status experiment_write(sefl_buf *out, const settings *s) SEFL_MUST_CHECK;

#endif

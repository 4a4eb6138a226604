/* record: the result of one finished run, as the file runs/NAME.json in the results folder.
 *
 *     SEFL_TRY(record_collect(&r, &o, &run, &settings, "runs/results/NAME"));
 *     SEFL_TRY(record_write(&o, &r));
 *     SEFL_TRY(records_read(&all, &o));                 // every file, sorted by name
 *
 * A record describes the run (name, settings, seed, version, commit, device, a hash of the text)
 * and its results: perplexities, seconds, bytes and privacy. Each run has a file of its own, so
 * that copying merges the results of several processes and machines. Readers skip unknown members.
 *
 * `epsilon_server` and `epsilon_others` are the true totals over all released rounds, or NAN, with
 * a reason in epsilon_why, if none is proven. `classic_epsilon` is the epsilon of one round by the
 * paper's calibration; no total follows from it.
 *
 * Threads: one owner.   Secrets: none. */
#ifndef PAPER_RECORD_H
#define PAPER_RECORD_H

#include "paper/table.h"

enum { RECORD_TEXT = 160 };

#define RECORD_TEXTS(X) \
    X(name)             \
    X(scale)            \
    X(body)             \
    X(protection)       \
    X(z)                \
    X(variant)          \
    X(version)          \
    X(commit)           \
    X(device)           \
    X(text)             \
    X(why)              \
    X(epsilon_why)      \
    X(model_sha256)

/* variant names that of the run, or is "". best_round has the best validation perplexity; best_test
 * is the test perplexity of its model. first_valid is from before training; values is the number of
 * integers in an update; planned is the number of rounds in the run's name; noise_ratio is that of
 * simulate/plan.h. */
#define RECORD_NUMBERS(X) \
    X(block)              \
    X(dropout)            \
    X(clients)            \
    X(seed)               \
    X(planned)            \
    X(rounds)             \
    X(skipped)            \
    X(blocked)            \
    X(diverged)           \
    X(values)             \
    X(first_valid)        \
    X(best_valid)         \
    X(best_round)         \
    X(last_valid)         \
    X(best_test)          \
    X(last_test)          \
    X(noise_ratio)        \
    X(delta)              \
    X(classic_epsilon)    \
    X(epsilon_server)     \
    X(epsilon_others)     \
    X(threads)            \
    X(seconds)            \
    X(train_seconds)      \
    X(eval_seconds)       \
    X(up_bytes)           \
    X(down_bytes)         \
    X(memory_bytes)

typedef struct run_record {
#define RECORD_MEMBER(name) char name[RECORD_TEXT];
    RECORD_TEXTS(RECORD_MEMBER)
#undef RECORD_MEMBER
#define RECORD_MEMBER(name) double name; /* NAN: unknown */
    RECORD_NUMBERS(RECORD_MEMBER)
#undef RECORD_MEMBER
    /* as JSON: all settings but name, seed, paths and machine, as an object; validation perplexity
     * after each round, as an array, null if it is unknown */
    sefl_buf settings, valid;
} run_record;

typedef struct records {
    run_record *at;
    size_t n;
} records;

/* Collects the result of a finished run from its run folder. */
sefl_status record_collect(run_record *out, const paper_options *o, const paper_run *run,
                           settings *s, const char *folder) SEFL_MUST_CHECK;
/* Writes runs/NAME.json. */
sefl_status record_write(const paper_options *o, const run_record *r) SEFL_MUST_CHECK;
run_record record_none(void); /* every number is NAN */
sefl_status record_read(run_record *out, const char *path) SEFL_MUST_CHECK;
void record_clear(run_record *r);

/* SEFL_EEXIST, with the first difference, if the record was made with other settings than s. */
sefl_status record_check(const run_record *r, const settings *s) SEFL_MUST_CHECK;

/* Reads all records of the results folder. SEFL_EPROTO if one is damaged or of the other scale. */
sefl_status records_read(records *out, const paper_options *o) SEFL_MUST_CHECK;
void records_clear(records *r);
/* Returns the record of the run; NULL if there is none. */
const run_record *records_find(const records *all, const paper_run *run);

#endif

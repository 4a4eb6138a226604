/* record: the result of one finished run, as the file runs/NAME.json in the results folder.
 *
 *     SEFL_TRY(record_make(row, &o, &run, &settings, "runs/results/NAME"));
 *     SEFL_TRY(records_read(&all, &o));                 // every file, sorted by name
 *     record_number(records_find(&all, &run), "best_test")
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

#include "paper/sheet.h"
#include "paper/table.h"

/* variant names that of the run, or is "". best_round has the best validation perplexity; best_test
 * is the test perplexity of its model. first_valid is from before training; values is the number of
 * integers in an update; planned is the number of rounds in the run's name; noise_ratio is that of
 * simulate/plan.h. The file also has `settings`, all but name, seed, paths and machine, and
 * `valid`, the validation perplexity after each round. */
#define RECORD_COLUMNS                                                                          \
    "name scale body protection z variant version commit device text why epsilon_why "          \
    "model_sha256 block dropout clients seed planned rounds skipped blocked diverged values "   \
    "first_valid best_valid best_round last_valid best_test last_test noise_ratio delta "       \
    "classic_epsilon epsilon_server epsilon_others threads seconds train_seconds eval_seconds " \
    "up_bytes down_bytes memory_bytes"
enum { RECORD_WIDTH = 41 };
typedef sheet_cell run_record[RECORD_WIDTH]; /* a row of these columns */

/* NAN or "" if it is unknown, or if there is no record. */
double record_number(const sheet_cell *r, const char *column);
const char *record_text(const sheet_cell *r, const char *column);
void record_clear(run_record r); /* nothing is known */
void record_put(run_record r, const char *column, double v);
void record_put_text(run_record r, const char *column, const char *text);

/* Collects the result of a finished run from its run folder, and writes runs/NAME.json. */
sefl_status record_make(run_record out, const paper_options *o, const paper_run *run, settings *s,
                        const char *folder) SEFL_MUST_CHECK;
/* Writes a record with its settings and validation perplexities, as JSON. */
sefl_status record_write(const paper_options *o, const run_record r, sefl_span set,
                         sefl_span valid) SEFL_MUST_CHECK;
/* SEFL_EPROTO if the file is not a record. The settings, as JSON, may be NULL. */
sefl_status record_read(run_record out, sefl_buf *set, const char *path) SEFL_MUST_CHECK;
/* SEFL_EEXIST, with the first difference, if the record was made with other settings than s. */
sefl_status record_check(const char *path, const settings *s) SEFL_MUST_CHECK;

/* Reads all records of the results folder. SEFL_EPROTO if one is damaged or of the other scale. */
sefl_status records_read(sheet *out, const paper_options *o) SEFL_MUST_CHECK;
/* Returns the record of the run; NULL if there is none. */
const sheet_cell *records_find(const sheet *all, const paper_run *run);

#endif

/* table: the runs behind the paper's figures of perplexity, and the hyper-parameters of its two
 * models.
 *
 *     paper_table_make(&t, quick, PAPER_DROPOUT);          
 *     paper_run_name(name, &t.run[0]);                  // "lstm-sefl-b8-d25-z0-n10-r40-s1"
 *     SEFL_TRY(paper_run_settings(&s, &t.run[0], &o));  // an experiment (simulate/experiment.h)
 *
 * table.c lists the runs as sweeps, in the order in which they should run: the dropout table, block
 * sizes, noise, the public start, other models, 1,000 clients, more seeds. Figures share runs: a
 * run's name contains all values that distinguish it, and each name occurs once. There is one list
 * of settings per model. The runs of a model differ only in the values in their names; a variant
 * has a name too, which stands for its settings, text or start ("lstm-...-s1-tied").
 *
 * Threads: any.   Secrets: none. */
#ifndef PAPER_TABLE_H
#define PAPER_TABLE_H

#include "paper/paper.h"

enum { PAPER_NAME_BYTES = 80, PAPER_RUNS_MAX = 512, PAPER_SEEDS = 3 };
/* Rounds of the dropout table and of the block sizes; rounds of the other figures. */
enum { PAPER_ROUNDS = 40, PAPER_ROUNDS_SHORT = 20 };
#define PAPER_RELEASE "joint" /* release mode of the runs with noise, except those of cdp */
enum { PAPER_LSTM, PAPER_TRANSFORMER, PAPER_BODIES };
extern const char *const paper_body_names[PAPER_BODIES]; /* "lstm", "transformer" */

typedef enum paper_part { PAPER_TEXT_ALL, PAPER_TEXT_PUBLIC, PAPER_TEXT_REST } paper_part;

/* How a run differs from the others of its model. */
typedef struct paper_variant {
    const char *name;
    paper_part text;               /* of the training text (paper_split) */
    bool start;                    /* starts from the model of paper_run_public */
    const char *set[PAPER_BODIES]; /* settings (paper_set) of each model; NULL: none */
} paper_variant;

typedef struct paper_run {
    unsigned figures;       /* figures that show it (paper.h) */
    unsigned body;          /* PAPER_LSTM or PAPER_TRANSFORMER */
    const char *protection; /* none, cdp or sefl */
    unsigned block;
    unsigned dropout; /* share of the clients that drop out of each round, in percent */
    const char *z;    /* noise multiplier; "0": no noise */
    uint32_t clients;
    unsigned rounds; /* a run with noise ends earlier if it stops improving */
    uint64_t seed;
    const paper_variant *variant; /* NULL: none */
} paper_run;

typedef struct paper_table {
    paper_run run[PAPER_RUNS_MAX];
    size_t n;
} paper_table;

/* Lists the runs of these figures in order. */
void paper_table_make(paper_table *out, bool quick, unsigned figures);

/* Returns the block size of a model in the dropout table. */
unsigned paper_block(unsigned body);
/* Returns the rounds of a run; quick runs have few. */
unsigned paper_rounds(bool quick, unsigned rounds);

/* Returns the variant of this name; NULL if there is none. */
const paper_variant *paper_variant_named(const char *name);
/* Returns the run that trains, on the public part of the text, the model from which r starts. */
paper_run paper_run_public(const paper_run *r);

void paper_run_name(char out[PAPER_NAME_BYTES], const paper_run *r);
/* Initialises out, which the caller clears. o->over replaces values of the table. */
sefl_status paper_run_settings(settings *out, const paper_run *r,
                               const paper_options *o) SEFL_MUST_CHECK;

#endif

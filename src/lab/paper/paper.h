/* paper: repeats the paper's evaluation and draws its figures with the paper's values for
 * comparison.
 *
 *     paper_options o = { .results = "results", .runs = "runs/results", .device = "cuda", ... };
 *     SEFL_TRY(paper_open(&o));                       // the results folder, checked
 *     SEFL_TRY(paper_runs(&o, PAPER_DROPOUT));        // makes the missing runs
 *     SEFL_TRY(paper_draw(&o, PAPER_ALL));            // CSV and SVG from results/ alone
 *
 * The results folder is small and committed. It has one file per finished run (runs/NAME.json, see
 * record.h), files of measurements (cost, CSR, projection), and a CSV and an SVG per figure. Run
 * folders (simulate/run_folder.h) are elsewhere and may be deleted once their results are stored.
 *
 * `quick` runs everything at small scale on a CPU. Quick results show only that the code works, and
 * do not support the paper's claims: each output is marked QUICK, and a folder has quick results or
 * full results, never both.
 *
 * Parts, in reading order: table (models and runs), record (the result of a run), runs (the loop),
 * draw (figures of perplexity), limit (the most noise); cost, csr, projection (measurements with
 * their own files and figures).
 * Threads: one owner.   Secrets: none. */
#ifndef PAPER_PAPER_H
#define PAPER_PAPER_H

#include "base/progress.h"
#include "config/settings.h"
#include "paper/svg.h"

#include <limits.h>

/* Names of the figures, in the order of their bits. */
#define PAPER_FIGURES "dropout blocks epsilon cost csr projection noise start models full"
enum {
    PAPER_DROPOUT = 1,     /* perplexity by dropout */
    PAPER_BLOCKS = 2,      /* perplexity by block size */
    PAPER_EPSILON = 4,     /* perplexity by noise */
    PAPER_COST = 8,        /* seconds and bytes of a secure round by block size */
    PAPER_CSR = 16,        /* index formats under additive encryption */
    PAPER_PROJECTION = 32, /* training in compressed form against projected updates */
    PAPER_NOISE = 64,      /* the most noise at which the dropout table's figures hold */
    PAPER_START = 128,     /* a start from a model of public text against a random start */
    PAPER_MODELS = 256,    /* the models with one setting changed */
    PAPER_FULL = 512,      /* the real cryptography against the same run in the clear */
    PAPER_ALL = 1023,
};

typedef struct paper_options {
    bool quick;
    const char *data;    /* folder with train.txt, valid.txt, test.txt; NULL: generated text */
    const char *results; /* folder of results */
    const char *runs;    /* folder of run folders */
    const char *device;  /* cuda, cpu or auto */
    unsigned threads;    /* 0: one per core */
    const char *version, *commit; /* of this program, recorded in results */
    const settings *over;         /* settings (experiment.h) that replace the table's; NULL: none */
    unsigned shard, shards; /* does every shards-th piece of work, from `shard`; shards 0: all */
    void *ctx;
    void (*say)(void *ctx, const char *line); /* one line for the user, without a line feed */
    /* Called after each round of a run; perplexity 0: not measured. May be NULL. */
    void (*round)(void *ctx, const char *name, uint64_t round, uint64_t rounds, double perplexity);
    const sefl_progress *stop; /* called often, by any thread; false: stop with SEFL_ECANCELLED */
} paper_options;

/* Creates or checks the results folder. SEFL_EEXIST if it has results of the other scale, or is not
 * a results folder. */
sefl_status paper_open(const paper_options *o) SEFL_MUST_CHECK;

/* True if this shard does piece number `piece` of the work. */
bool paper_is_mine(const paper_options *o, size_t piece);
/* Returns "QUICK" or "full", the scale that every result states. */
const char *paper_scale(const paper_options *o);
void paper_say(const paper_options *o, const char *fmt, ...) SEFL_PRINTF(2, 3);

/* Sets out to the folder of the runs' text, "" for generated text: o->data, or a copy of its
 * beginning for quick runs. SEFL_EINVAL unless it has training, validation and test text. */
sefl_status paper_text(char out[PATH_MAX], const paper_options *o) SEFL_MUST_CHECK;
/* Splits the text of o->data (NULL: generates some) for a public start: RUNS/split/public has the
 * first tenth of the training text, RUNS/split/rest has the rest; both have the validation and the
 * test text. RUNS/split/words.txt lists the words of the whole training text. */
sefl_status paper_split(const paper_options *o) SEFL_MUST_CHECK;
/* Calls work(o) while this process alone holds the results folder NAME, which it creates if needed.
 * If another process holds it, says so and returns SEFL_OK. */
sefl_status paper_alone(const paper_options *o, const char *name,
                        sefl_status (*work)(const paper_options *o)) SEFL_MUST_CHECK;
/* Sets each of the words, "key=value" without a space in it. Protection none uses floats, which it
 * neither clips nor quantises: with it, settings of privacy are left out. */
sefl_status paper_set(settings *s, const char *words, ...) SEFL_PRINTF(2, 3) SEFL_MUST_CHECK;
/* Creates a folder and its parents. */
sefl_status paper_make_folder(const char *folder) SEFL_MUST_CHECK;
/* Formats the path of a file in the results folder. */
sefl_status paper_path(char out[PATH_MAX], const paper_options *o, const char *fmt, ...)
    SEFL_PRINTF(3, 4) SEFL_MUST_CHECK;
/* Writes a file to the results folder atomically. */
sefl_status paper_write(const paper_options *o, sefl_span bytes, const char *name, ...)
    SEFL_PRINTF(3, 4) SEFL_MUST_CHECK;
/* Block sizes that figures compare, and a chart of n series over them, on a logarithmic axis. */
enum { PAPER_BLOCK_SIZES = 5 };
extern const unsigned paper_block_sizes[PAPER_BLOCK_SIZES];
/* False if a quick run leaves the block size out. */
bool paper_has_block(const paper_options *o, unsigned block);
svg_chart paper_block_chart(const char *title, const char *unit, const svg_series *series,
                            size_t n);

/* Writes n charts, one below the other, as the file NAME.svg. Writes nothing if they have no
 * value. Adds QUICK to the titles where needed. */
sefl_status paper_svg(const paper_options *o, const char *name, const svg_chart *c,
                      size_t n) SEFL_MUST_CHECK;

/* Executes the runs of these figures that have no result yet, in the order of table.h; leaves out
 * those that another process works on.
 * Several processes may share the folders: each takes the next run that no other process works on.
 * SEFL_ECANCELLED after o->stop; the same call then resumes the interrupted run. SEFL_EEXIST if a
 * result has other settings. */
sefl_status paper_runs(const paper_options *o, unsigned figures) SEFL_MUST_CHECK;
/* Prints one line per run: its name, and its result if there is one. */
sefl_status paper_list(const paper_options *o, unsigned figures) SEFL_MUST_CHECK;
/* Writes CSV files, figures and tables.md from the results folder alone. */
sefl_status paper_draw(const paper_options *o) SEFL_MUST_CHECK;

/* Measure, and write result files; do nothing if the results folder already has them. Call them
 * with paper_alone. SEFL_ECANCELLED after o->stop. */
/* Seconds and bytes of a secure round with real cryptography, by block size (PAPER_COST). */
sefl_status paper_cost(const paper_options *o) SEFL_MUST_CHECK;
/* Index formats against BHM under additive encryption (PAPER_CSR). */
sefl_status paper_csr(const paper_options *o) SEFL_MUST_CHECK;
/* Training in compressed form against projected dense training, and kappa (PAPER_PROJECTION). */
sefl_status paper_projection(const paper_options *o) SEFL_MUST_CHECK;
/* Write the CSV and the SVG from the result files alone, or nothing if there are none. */
sefl_status paper_cost_draw(const paper_options *o) SEFL_MUST_CHECK;
sefl_status paper_csr_draw(const paper_options *o) SEFL_MUST_CHECK;
sefl_status paper_projection_draw(const paper_options *o) SEFL_MUST_CHECK;

#endif

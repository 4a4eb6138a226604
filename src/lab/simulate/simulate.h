/* simulate: runs a whole federation in one process. The state machines of AS, CSP and every client
 * (sum/agg.h, sum/csp.h, protocol/participant.h) run in virtual time. The clients train as real
 * ones do. The servers use the real cryptography over a channel in memory (crypto: full) or compute
 * in the clear (crypto: clear). The integers, and so the model, are the same in both cases, with
 * any number of threads and ranks, and in every repetition.
 *
 *     SEFL_TRY(simulate_run(&(simulate_config){ .settings = &one, .runs = "runs" }, &result));
 *
 * Parts, in reading order: experiment (the file), federation (text, keys, task), population (which
 * clients take part), work (training and sums), servers (the driver of sum/as_rounds.h over ports
 * in memory), clear (CSP's answers in the clear), roles/aggregator/step (the next model),
 * run_folder (the files of a run).
 *
 * Protection none averages the clients' floats. cdp sums the same integers as sefl, and a trusted
 * server adds one discrete Gaussian. sefl uses the task's release mode with two servers.
 *
 * When a run is over, the model of the best validation round and the last model are evaluated on
 * the test text, if there is one. Nothing else reads that text.
 *
 * Several processes may share the work of one run (ranks.h): all of them call simulate_run with the
 * same settings. Only rank 0 has a result, calls the callbacks, and writes files.
 *
 * A finished run is not repeated. An interrupted run resumes after its last finished round and
 * writes the same bytes as one without interruption.
 * Threads: one owner.   Secrets: none (the seed is public). */
#ifndef SIMULATE_SIMULATE_H
#define SIMULATE_SIMULATE_H

#include "base/progress.h"
#include "simulate/experiment.h"
#include "simulate/federation.h"
#include "simulate/plan.h"
#include "simulate/run_folder.h"

struct simulate_result;

typedef struct simulate_config {
    settings *settings;  /* settings of one run, over experiment_schema */
    const char *runs;    /* folder of run folders */
    const ranks *ranks;  /* processes that run it together; NULL: only this one */
    federation_key *key; /* shared by several runs; NULL: this run creates its own key */
    void *ctx;
    /* r contains the rounds that an earlier process finished, and the warnings so far. */
    void (*begin)(void *ctx, const federation *f, const struct simulate_result *r);
    void (*round)(void *ctx, const run_line *r);
    /* Before `round`: what became of each client (population_fates). */
    void (*turnout)(void *ctx, uint64_t round, const char *fates, uint32_t clients);
    const sefl_progress *progress; /* counts a round's clients; may stop the run */
    /* Called in every small unit of work (work.h, servers.h), so that a run can stop soon. Several
     * threads may call it at once; its counts are meaningless. May be NULL. */
    const sefl_progress *stop;
} simulate_config;

typedef struct simulate_result {
    char folder[PATH_MAX];
    bool was_there; /* the run had already finished, so nothing was done */
    run_totals t;
    const char *why;         /* why the run ended */
    double first_perplexity; /* perplexity of the initial model; 0: unknown */
    double best_possible;    /* perplexity of the text generator itself; 0: unknown */
    double test_best;        /* test perplexity of the best validation round's model; 0: unknown */
    double test_last;        /* test perplexity of the last model; 0: unknown */
    uint8_t model[32];       /* SHA-256 of the last model's values */
    bool claim;
    double epsilon_target, delta;
    bool unit_record;        /* the epsilons are for a record, not a client */
    double z;                /* 0: no noise, or a run that was already complete */
    char filter[24];         /* privacy.filter of the task, "" without one or as for z */
    uint64_t weight_cap;     /* 0: equal weights, or a run that was already complete */
    plan_classic classic;    /* over the rounds that were not skipped */
    uint64_t memory_bytes;   /* peak resident memory of the process */
    unsigned threads, ranks; /* threads of rank 0 */
    char device[128];        /* work_device; "" for a run that was already complete */
    char fallback[512];      /* work_fallback, or "" */
    plan_warnings warnings;
} simulate_result;

/* Starts or resumes a run, or loads the result of a finished one. */
sefl_status simulate_run(const simulate_config *c, simulate_result *out) SEFL_MUST_CHECK;

/* Sets the line's time and appends it to a metrics.jsonl, with the facts of the run. */
sefl_status simulate_log(uint64_t *bytes, const char *path, run_line *l, const task *t,
                         const experiment *e) SEFL_MUST_CHECK;
/* Appends the contents of a finished run's summary.json. */
sefl_status simulate_summary_write(sefl_buf *out, const simulate_result *r,
                                   const experiment *e) SEFL_MUST_CHECK;

#endif

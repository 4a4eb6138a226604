/* fed_run: runs a provisioned federation (operator/provision.h) on this machine, with CSP, AS and
 * each client as a separate process, and prints every round. `sefl demo` and `sefl try` use it.
 *
 *     fed_run f;
 *     SEFL_TRY(fed_run_open(&f, &(fed_run_config){ .out = "runs/demo", .kind = "demo" }));
 *     ... provision_make into fed_run_federation(&f); set f.clients, f.rounds, f.deadline_ms ...
 *     SEFL_TRY(fed_run_start(&f));
 *     SEFL_TRY(fed_run_watch(&f));                 // until the last round is released
 *     SEFL_TRY(fed_run_end(&f));                   // until every party has ended
 *     SEFL_TRY(fed_run_report(&f, &baselines));
 * done:
 *     fed_run_close(&f);                           // ends every process
 *
 *     out/KIND.txt            marks the folder: another run of this kind may replace it
 *     out/federation/...      the folder of `sefl provision`, with the files that the roles write
 *     out/log/NAME.log        output of each process
 *     out/metrics.jsonl       one line per round; summary.json, report.html: see report/report.h
 *
 * Threads: one owner.   Secrets: the folder holds the keys of all parties. */
#ifndef CLI_FULL_FED_RUN_H
#define CLI_FULL_FED_RUN_H

#include "base/dir.h"
#include "cli/full/processes.h"
#include "cli/meter.h"
#include "report/run_log.h"

typedef struct fed_run_config {
    const char *out;
    const char *kind;         /* "demo", "try" */
    const char *const *files; /* what an earlier run may have left in `out`, beside the list above;
                                 ends with NULL; may be NULL */
    bool quiet;               /* prints nothing */
    bool page;                /* AS serves its web page; fed_run_start prints where */
} fed_run_config;

typedef struct fed_run {
    dir_tree at; /* the run's folder */
    uint32_t clients, rounds;
    uint64_t deadline_ms; /* of a round */
    bool quiet, page;
    meter line; /* progress line */
    uint64_t began_ns;
    char at_as[64]; /* host:port */
    run_log log;    /* what AS published so far */
    size_t shown;   /* rounds printed */
    char *sample;   /* text that the last model wrote: set by fed_run_report; may be NULL */
    processes parties;
    int lock; /* lock on the folder; -1: none */
    /* Called each time new rounds were printed and while a round is under way; may be NULL. */
    sefl_status (*step)(void *ctx);
    void *step_ctx;
} fed_run;

/* Prepares the folder. A non-empty folder without the mark is SEFL_EEXIST. */
sefl_status fed_run_open(fed_run *f, const fed_run_config *c) SEFL_MUST_CHECK;
void fed_run_close(fed_run *f);

/* Prints to stdout, unless the run is quiet. */
void fed_run_talk(const fed_run *f, const char *fmt, ...) SEFL_PRINTF(2, 3);

/* Starts CSP, AS and the clients, in this order. */
sefl_status fed_run_start(fed_run *f) SEFL_MUST_CHECK;

/* The processes are named client-01, ...; i counts from 0. A killed client may be started again. */
void fed_run_client_name(char out[PROCESSES_NAME_MAX], uint32_t i);
sefl_status fed_run_start_client(fed_run *f, uint32_t i) SEFL_MUST_CHECK;

sefl_status fed_run_watch(fed_run *f) SEFL_MUST_CHECK;
sefl_status fed_run_end(fed_run *f) SEFL_MUST_CHECK;

/* Perplexities to compare with, NAN if unknown. */
typedef struct fed_run_baselines {
    double first, plain, best;
} fed_run_baselines;

/* Writes metrics.jsonl, summary.json and report.html. */
sefl_status fed_run_report(fed_run *f, const fed_run_baselines *b) SEFL_MUST_CHECK;

#endif

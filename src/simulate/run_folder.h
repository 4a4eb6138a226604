/* run_folder: runs/NAME, the files that a run writes and resumes from.
 *
 *     config.yml                  the experiment as resolved; defaults stand there as comments
 *     metrics.jsonl               one object per round (below)
 *     model/round-N.safetensors   released by round N; 0: the initial model
 *     model/best.safetensors, model/last.safetensors
 *     vocab.txt  ledger  log  summary.json (when it is over)
 *     state, optimiser-N          to resume; csp-ledger (crypto full)
 *
 * A line of metrics.jsonl; what is not known is left out, "blocked" unless it is true:
 *     {"round":3,"skipped":false,"clients":97,"asked":100,"late":2,"dropped":1,"diverged":0,
 *      "perplexity":41.2,"loss":3.718,"epsilon_server":2.1,"epsilon_others":2.1,"epsilon_target":8,
 *      "seconds":4.1,"train_seconds":7.5,"encrypt_seconds":0.2,"sum_seconds":0.1,"2pc_seconds":0.3,
 *      "step_seconds":0.1,"eval_seconds":0.2,"cpu_seconds":8.2,"up_bytes":4705384,"down_bytes":1200000,
 *      "link_bytes":883000,"virtual_seconds":15.2}
 * clients: whose update counts; diverged: of them, whose training diverged, so that it is zeros.
 * seconds is wall time; train, encrypt (clipping and rounding too) and sum are processor time of all clients
 * together, what one core would need; the others are wall time. cpu is all that the process used.
 *
 * A run can resume from every moment, because it writes in this order: model and optimiser of a
 * round, its line, then `state`. A resumed run cuts off lines behind the state's length.
 * Threads: one owner.   Secrets: none. */
#ifndef SIMULATE_RUN_FOLDER_H
#define SIMULATE_RUN_FOLDER_H

#include "base/buf.h"
#include "sum/agg.h"

#include <limits.h>

typedef struct run_round {
    uint64_t round;
    bool skipped;
    bool blocked; /* by the release check: charged, but the model stayed as it was */
    uint32_t clients, asked, late, dropped, diverged;
    double perplexity, loss; /* 0: not evaluated */
    bool has_epsilon;
    double epsilon_server, epsilon_others, epsilon_target;
    double seconds, train, encrypt, sum, twopc, step, eval, cpu;
    uint64_t up, down, link; /* link: UINT64_MAX where no server talked to another */
    double virtual_seconds;
} run_round;

sefl_status run_round_write(sefl_buf *out, const run_round *r) SEFL_MUST_CHECK;
/* Members that it does not know are skipped. */
sefl_status run_round_read(run_round *out, sefl_span line) SEFL_MUST_CHECK;

/* Every round of a metrics.jsonl, in order; a torn last line is left out. *out is the caller's to
 * sefl_free. */
sefl_status run_metrics_read(run_round **out, size_t *n, const char *path) SEFL_MUST_CHECK;

/* What a run resumes from. */
typedef struct run_state {
    agg_memory agg;
    bool over;
    uint64_t model_round, best_round; /* whose model is the latest, the best; 0: the initial one */
    uint64_t opened, skipped;         /* highest rounds of either */
    uint64_t now_ms;
    uint64_t metrics_bytes;
    uint64_t text;           /* federation_text of what it trains on; 0: not written down */
    double first_perplexity; /* of the initial model; 0: not known */
    uint64_t *taken;         /* clients numbers; owned */
    uint32_t clients;
} run_state;

sefl_status run_state_write(const run_state *s, const char *path) SEFL_MUST_CHECK;
/* SEFL_ENOTFOUND for a run that has none. */
sefl_status run_state_read(run_state *out, const char *path) SEFL_MUST_CHECK;
void run_state_clear(run_state *s);

typedef struct run_folder {
    char root[PATH_MAX - 64];
    int lock; /* -1: none */
} run_folder;

/* Makes the folder and its parts, or opens one of the same experiment (*fresh tells); SEFL_EEXIST with
 * the first line that differs if it holds another that ended a round, or something that is no run;
 * SEFL_ESTATE while another process has it open. On success: run_folder_close. */
sefl_status run_folder_open(run_folder *f, const char *runs, const char *name, sefl_span config,
                            bool *fresh) SEFL_MUST_CHECK;
void run_folder_close(run_folder *f);
/* root/name; valid until the fourth next call. */
const char *run_path(const run_folder *f, const char *fmt, ...) SEFL_PRINTF(2, 3);

/* `name` becomes the same file as `target`, both in model/, at once. */
sefl_status run_folder_link(const run_folder *f, const char *name,
                            const char *target) SEFL_MUST_CHECK;

/* Cuts metrics.jsonl to this length (SEFL_EPROTO if it is shorter), and appends a line, durably; *bytes:
 * its length then. */
sefl_status run_metrics_cut(const run_folder *f, uint64_t bytes) SEFL_MUST_CHECK;
sefl_status run_metrics_append(const run_folder *f, const run_round *r,
                               uint64_t *bytes) SEFL_MUST_CHECK;

#endif

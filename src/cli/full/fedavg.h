/* fedavg: plain federated averaging of the same task on the same text, in this process: no
 * encryption, no clipping, no quantising, no noise, no dropouts. The demo compares the protected
 * run with it.
 *
 *     SEFL_TRY(fedavg_run(&after, &(fedavg_config){ .folder = "fed", .clients = 8 }, &progress));
 *
 * The folder is one of `sefl provision`: vocabulary, initial model and every client's text come
 * from it. Training and averaging are those of the simulator's `protection: none`
 * (simulate/work.h). The result does not depend on the number of threads.
 * Threads: one call at a time; works on a pool of its own.   Secrets: the clients' text, on a
 * machine that has all of it. */
#ifndef CLI_FULL_FEDAVG_H
#define CLI_FULL_FEDAVG_H

#include "base/progress.h"
#include "protocol/task.h"

typedef struct fedavg_config {
    const char *folder;
    const task *task;
    uint32_t clients;
    unsigned threads; /* 0: one per core */
} fedavg_config;

typedef struct fedavg_result {
    double before, after; /* perplexity on the public validation text */
} fedavg_result;

/* progress counts rounds. */
sefl_status fedavg_run(fedavg_result *out, const fedavg_config *c,
                       const sefl_progress *progress) SEFL_MUST_CHECK;

#endif

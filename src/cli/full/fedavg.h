/* fedavg: plain federated averaging of the same task on the same text, in this process: no encryption,
 * no clipping, no rounding, no noise, nobody lost. What the protected run is measured against.
 *
 *     SEFL_TRY(fedavg_run(&after, &(fedavg_config){ .folder = "fed", .clients = 8 }, &progress));
 *
 * The folder is one of `sefl provision`: task, words, initial model and every client's text are read from
 * it. Local training is that of a client (roles/client/train.h): same steps, same settings; the average
 * is taken in double. The result does not depend on the number of threads.
 * Threads: one call at a time; works on a pool of its own.   Secrets: the clients' text, on a machine that
 * has all of it. */
#ifndef CLI_FULL_FEDAVG_H
#define CLI_FULL_FEDAVG_H

#include "base/progress.h"
#include "protocol/task.h"

typedef struct fedavg_config {
    const char *folder;
    const task *task;
    uint32_t clients;
    unsigned threads; /* 0: one a core */
} fedavg_config;

typedef struct fedavg_result {
    double before, after; /* perplexity on the public validation text */
} fedavg_result;

/* progress counts rounds. SEFL_EUNSUPPORTED for a task whose server does more than average. */
sefl_status fedavg_run(fedavg_result *out, const fedavg_config *c,
                       const sefl_progress *progress) SEFL_MUST_CHECK;

#endif

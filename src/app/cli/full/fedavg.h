/* fedavg: runs a task as plain federated averaging on the clients' text, in this process, without
 * encryption, clipping, quantising, noise or dropouts. The demo compares the protected run with it.
 *
 *     fedavg_config c = { .folder = "fed", .task = &task, .clients = 8 };
 *     SEFL_TRY(fedavg_run(&result, &c, &progress));
 *
 * The folder, which `sefl provision` made, contains the vocabulary, the initial model and every
 * client's text. Training and averaging work as in the simulator's `protection: none`. The result
 * does not depend on the number of threads. Memory: 4 bytes per value and client.
 * Threads: one call at a time; uses its own pool.   Secrets: the clients' text, all of which is on
 * this machine. */
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

/* Trains for all rounds of the task; progress counts rounds. */
sefl_status fedavg_run(fedavg_result *out, const fedavg_config *c,
                       const sefl_progress *progress) SEFL_MUST_CHECK;

#endif

/* demo_fed: runs a whole secure federation on this machine and prints its result.
 *
 * The demo provisions a federation in `out` and starts CSP, AS and each client as a separate
 * process (mutual TLS, full-size keys). It kills some clients during a round, restarts them in the
 * next, and waits for the end of the task. Then it trains the same model with plain FedAvg and
 * prints both results, the cost and the privacy claim: `none`, or the true epsilon.
 * fed_run.h runs the processes and lists the files of `out`.
 *
 * When the demo ends, even by a failure, it ends every process. */
#ifndef CLI_FULL_DEMO_FED_H
#define CLI_FULL_DEMO_FED_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { DEMO_CLIENTS_MAX = 64 };

/* The options; the command fills them in. */
typedef struct demo {
    const char *out;
    const char *scheme; /* "pad" or "paillier" */
    const char *noise;  /* multiplier z, decimal */
    uint32_t bits;      /* size of the Paillier key */
    uint32_t clients;   /* 4 to DEMO_CLIENTS_MAX */
    uint32_t rounds;    /* 2 or more */
    uint32_t words;     /* tokens per client */
    bool open;          /* AS serves its web page, and the demo prints where */
    bool json;          /* prints one object instead of progress and a table */
} demo;

sefl_status demo_fed_run(const demo *d) SEFL_MUST_CHECK;

#endif

/* demo_fed: runs a whole secure federation on this machine and prints its result.
 *
 * Provisions below `out`, starts CSP, AS and the clients as processes of their own (mutual TLS,
 * keys of full size), kills some clients in the middle of a round and starts them again in the
 * next, waits for the task's end, trains the same by plain FedAvg for comparison, and prints what
 * came out, what it cost and what is claimed about privacy: `none`, or the true epsilon.
 *
 *     out/demo.txt            marks the folder as a demo's: another demo may replace it
 *     out/federation/...      as `sefl provision` makes it, with all that the roles wrote
 *     out/log/NAME.log        what each process said
 *     out/metrics.jsonl       one line per round; summary.json, report.html: see report/report.h
 *
 * A folder that is not empty and has no such mark is left alone: SEFL_EEXIST. Every process ends
 * with the demo, also after a failure. */
#ifndef CLI_FULL_DEMO_FED_H
#define CLI_FULL_DEMO_FED_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { DEMO_CLIENTS_MAX = 64 };

/* Of both demos; the command fills it. */
typedef struct demo {
    const char *out;
    const char *scheme; /* "pad" or "paillier" */
    const char *noise;  /* multiplier z, decimal */
    uint32_t bits;      /* of the Paillier key */
    uint32_t clients;   /* 4 to DEMO_CLIENTS_MAX; of a sum: 1 to 1000 */
    uint32_t rounds;    /* 2 or more */
    uint32_t words;     /* tokens a client */
    uint32_t values;    /* numbers in each vector of a sum */
    bool sum;           /* demo_sum.h */
    bool json;          /* print one object instead of progress and table */
} demo;

sefl_status demo_fed_run(const demo *d) SEFL_MUST_CHECK;

#endif

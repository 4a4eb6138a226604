/* demo_table: prints the result of a demo: the perplexities side by side, the privacy claim, the
 * number of clients that a strong claim needs, the time and bytes of each part, each party's view,
 * and the files.
 *
 * Threads: one caller.   Secrets: none. */
#ifndef CLI_FULL_DEMO_TABLE_H
#define CLI_FULL_DEMO_TABLE_H

#include "cli/full/fedavg.h"
#include "report/run_log.h"

typedef struct demo_result {
    fedavg_result plain;
    double best; /* perplexity of the text's generator on the validation text */
    double seconds, provision_seconds, plain_seconds;
    uint64_t update_bytes;
} demo_result;

typedef struct demo_facts {
    const char *out;
    const task *task;
    uint32_t clients, lost;
    uint64_t lost_round;
    const run_log *rounds;
    bool json;
} demo_facts;

sefl_status demo_table(const demo_result *r, const demo_facts *s) SEFL_MUST_CHECK;

#endif

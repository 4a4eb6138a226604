/* demo_table: what a demo ends with: perplexities side by side, what is claimed about privacy and how many
 * clients a real claim would take, seconds and bytes of each part, who could see what, where things are.
 *
 * Threads: one caller.   Secrets: none. */
#ifndef CLI_FULL_DEMO_TABLE_H
#define CLI_FULL_DEMO_TABLE_H

#include "protocol/task.h"
#include "report/run_log.h"

typedef struct demo_result {
    double before, plain,
        best; /* perplexity on the public validation text; after: from the rounds */
    double seconds, provision_seconds, plain_seconds;
    uint64_t update_bytes;
} demo_result;

typedef struct demo_scene {
    const char *out;
    const task *task;
    uint32_t clients, lost;
    uint64_t lost_round;
    const run_log *rounds;
    bool json;
} demo_scene;

sefl_status demo_table(const demo_result *r, const demo_scene *s) SEFL_MUST_CHECK;

/* "69.9 kB" */
void demo_bytes(char out[24], double bytes);

#endif

/* report: what a round came to, for metrics and people. Only numbers that everybody may know.
 *
 * Threads: values.   Secrets: none. */
#ifndef ROLES_AGGREGATOR_REPORT_H
#define ROLES_AGGREGATOR_REPORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rounds_report {
    uint64_t round;
    bool skipped;
    bool blocked;     /* opened and charged, but the release check kept its sum from the model */
    bool has_clients; /* false where participation is not published */
    uint32_t clients;
    uint32_t refused;  /* sealed tasks: whose heads CSP refused; with has_clients */
    uint64_t up_bytes; /* of their updates; with has_clients */
    double seconds;    /* since the round opened */
    double
        ahead_seconds; /* noise shares made since the last release, for whichever round: all lanes */
    double open_seconds, release_seconds;
    uint64_t ahead_bytes, open_bytes; /* between AS and CSP, both ways; 0: fetched again */
    bool has_perplexity;
    double perplexity;
    bool has_epsilon; /* false: nothing is claimed */
    double epsilon_server, epsilon_others, epsilon_target;
} rounds_report;

#endif

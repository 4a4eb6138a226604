/* round_report: the result of a round, for metrics and people. Only numbers that everybody may
 * know.
 *
 * Threads: values.   Secrets: none. */
#ifndef SUM_ROUND_REPORT_H
#define SUM_ROUND_REPORT_H

#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds that AS spends on the parts of a round after it closes. */
typedef struct round_parts {
    uint64_t freeze;  /* set and tree seed stored */
    uint64_t set;     /* sealed tasks: SET to VERDICT */
    uint64_t sum;     /* waiting for the closed sum */
    uint64_t charge;  /* our ledger */
    uint64_t reveal;  /* as_link_reveal */
    uint64_t store;   /* the integers */
    uint64_t release; /* the next model */
} round_parts;

typedef struct rounds_report {
    uint64_t round;
    bool skipped;
    bool blocked;     /* revealed and charged, but the release check kept its sum from the model */
    bool has_clients; /* false where participation is not published */
    uint32_t clients;
    uint32_t refused;     /* sealed tasks: uploads that CSP refused; with has_clients */
    uint64_t up_bytes;    /* of the uploads; with has_clients */
    double seconds;       /* since the round opened */
    double ahead_seconds; /* noise shares made since the last release, for any round: all lanes */
    double open_seconds, release_seconds;
    uint64_t ahead_bytes, open_bytes; /* between AS and CSP, both ways; 0: fetched again */
    bool has_perplexity;
    double perplexity;
    bool has_epsilon; /* false: nothing is claimed */
    double epsilon_server, epsilon_others, epsilon_target;
    round_parts parts;
} rounds_report;

#endif

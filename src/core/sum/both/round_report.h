/* round_report: the result of a round in public numbers, for metrics and operators.
 *
 * Threads: any.   Secrets: none. */
#ifndef SUM_ROUND_REPORT_H
#define SUM_ROUND_REPORT_H

#include <stdbool.h>
#include <stdint.h>

/* The time that AS spends on each part of a round after its close, in nanoseconds. */
typedef struct round_parts {
    uint64_t freeze;  /* storing the set and the tree seed */
    uint64_t set;     /* sealed tasks: from SET to VERDICT */
    uint64_t sum;     /* waiting for the closed sum */
    uint64_t charge;  /* charging AS's ledger */
    uint64_t reveal;  /* as_link_reveal */
    uint64_t store;   /* storing the integers */
    uint64_t release; /* making the next model */
} round_parts;

typedef struct rounds_report {
    uint64_t round;
    bool skipped;
    bool dropped;     /* skipped because the operator dropped it */
    bool early;       /* skipped before its deadline */
    bool blocked;     /* revealed and charged, but the release check blocked the sum */
    bool has_clients; /* false if participation is not public */
    uint32_t clients;
    uint32_t refused;     /* sealed tasks: uploads that CSP refused; 0 unless has_clients */
    uint64_t up_bytes;    /* size of all uploads; 0 unless has_clients */
    double seconds;       /* time since the round opened */
    double ahead_seconds; /* time that all lanes spent on noise shares since the last release */
    double open_seconds, release_seconds;
    double eval_seconds;              /* the part of release_seconds that validates the model */
    uint64_t ahead_bytes, open_bytes; /* between AS and CSP; open_bytes 0: fetched again */
    bool has_perplexity;
    double perplexity, word_perplexity; /* as in release_made */
    double clip;                        /* as in release_made */
    bool has_epsilon;                   /* false if the task claims no epsilon */
    double epsilon_server, epsilon_others, epsilon_target;
    round_parts parts;
} rounds_report;

#endif

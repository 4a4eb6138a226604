/* ledger_inside: what the files of the ledger share: its memory, and the gate before a charge. */
#ifndef STORE_LEDGER_INSIDE_H
#define STORE_LEDGER_INSIDE_H

#include "store/ledger.h"

/* A task and the rounds charged to it. */
typedef struct ledger_entry {
    ledger_terms terms;
    uint64_t *rounds; /* rising */
    size_t n, cap;
} ledger_entry;

struct ledger {
    int fd; /* -1: read only */
    bool broken;
    char *path, *population;
    size_t size;        /* of the verified file */
    size_t last_append; /* where its last append begins */
    size_t ignored;     /* bytes of an unfinished record behind it, when it was opened */
    ledger_entry *tasks;
    size_t n_tasks, cap_tasks;
    uint8_t (*hashes)[LEDGER_HASH_BYTES]; /* after record i */
    size_t n_records, cap_records;
};

/* SEFL_EBUDGET if one more round of task `at` (n_tasks: a new one) under these terms would pass
 * their epsilon_max, or leave nothing to claim. */
sefl_status ledger_gate(const ledger *l, size_t at, const ledger_terms *terms,
                        uint64_t round) SEFL_MUST_CHECK;

#endif

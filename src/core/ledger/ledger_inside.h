/* ledger_inside: the ledger's state in memory and its budget check, for the files of the ledger. */
#ifndef STORE_LEDGER_INSIDE_H
#define STORE_LEDGER_INSIDE_H

#include "store/ledger.h"

/* A task and the rounds charged to it. */
typedef struct ledger_entry {
    ledger_terms terms;
    uint64_t *rounds; /* sorted */
    size_t n, cap;
} ledger_entry;

struct ledger {
    int fd; /* -1: read-only, or in a medium */
    bool shared;
    ledger_medium m; /* if shared; path is then the copy */
    bool broken;
    char *path, *population;
    size_t size;        /* size of the verified part of the file */
    size_t last_append; /* offset of the last append */
    size_t ignored;     /* size of an incomplete last record when the file was opened */
    ledger_entry *tasks;
    size_t n_tasks, cap_tasks;
    uint8_t (*hashes)[LEDGER_HASH_BYTES]; /* hash after record i */
    size_t n_records, cap_records;
};

/* SEFL_EBUDGET if one more round of task number `at` (n_tasks: a new task) would exceed the
 * epsilon_max of these terms or invalidate the claim. */
sefl_status ledger_check_budget(const ledger *l, size_t at, const ledger_terms *terms,
                                uint64_t round) SEFL_MUST_CHECK;

#endif

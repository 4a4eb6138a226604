/* ledger_terms: checks a task's privacy terms and converts them to bytes and to accountant events.
 * Internal to the ledger.   Threads: any.   Secrets: none. */
#ifndef STORE_LEDGER_TERMS_H
#define STORE_LEDGER_TERMS_H

#include "base/buf.h"
#include "store/ledger.h"

enum {
    LEDGER_TERMS_BYTES =
        LEDGER_TASK_BYTES + 2 + 7 * 8 + 8 + DP_FILTER_LAGS * 2 + 4 * 8 + LEDGER_HASH_BYTES
};

/* Charged rounds of a task. */
typedef struct ledger_use {
    uint64_t count, lowest, highest;
    const uint64_t *rounds; /* sorted; used only with a horizon */
} ledger_use;

sefl_status ledger_terms_write(sefl_buf *b, const ledger_terms *t) SEFL_MUST_CHECK;
sefl_status ledger_terms_read(rd *r, ledger_terms *t) SEFL_MUST_CHECK;

/* SEFL_EINVAL, naming the term, if one is invalid. A term that this kind of noise does not use must
 * be 0, so that equal tasks have equal bytes. */
sefl_status ledger_terms_check(const ledger_terms *t) SEFL_MUST_CHECK;

/* Compares the terms by their bytes in the file. */
sefl_status ledger_terms_equal(bool *equal, const ledger_terms *a,
                               const ledger_terms *b) SEFL_MUST_CHECK;

/* Returns the accountant event for these rounds. The adversary is a server (or anyone who sees
 * participation) if against_server is true, otherwise everyone else. */
dp_event ledger_terms_event(const ledger_terms *t, const ledger_use *use, bool against_server);

/* Returns S of these rounds, with its slack. The terms must have a filter. */
double ledger_terms_s(const ledger_terms *t, const ledger_use *use);

/* SEFL_EINVAL if a task with these terms cannot have this round. */
sefl_status ledger_terms_round(const ledger_terms *t, uint64_t round) SEFL_MUST_CHECK;

#endif

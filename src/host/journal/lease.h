/* lease: which of the processes that share a journal may do something, until when.
 *
 *     st = lease_take(j, "csp", "host:1234", 10000, &l);   // SEFL_ESTATE: another process has it
 *     SEFL_TRY(lease_renew(j, &l));                        // well before 10 s are over
 *     SEFL_TRY(journal_begin_shared(j));
 *     SEFL_TRY(lease_check(j, &l));                        // SEFL_ESTATE: it is lost
 *     SEFL_TRY(journal_fact_put(j, ...));
 *     SEFL_TRY(journal_commit(j));                         // commits only while the lease is ours
 *     lease_release(j, &l);                                // others need not wait
 *
 * A lease is a row of the database, with a name, a holder and a time at which it expires. Only the
 * database's clock counts, so the clocks of the processes need not agree. Each lease_take gives a
 * higher fencing number than every take before. A process may be stopped for an hour between a look
 * at its lease and a write, so a look proves nothing: lease_check locks the row until the
 * transaction ends, and fails if the number is no longer the process's own. A take waits for that
 * transaction. So whatever a transaction with lease_check commits, it commits before the next
 * holder begins. A renewal does not wait: writing a large file must not cost the lease. (Expiry
 * alone does not fail lease_check: until another process takes the lease, nobody else can have
 * acted.)
 *
 * The server ends a transaction that stands still (store/pg/pg.h), so a stopped process delays the
 * next holder by seconds. With SQLite leases work too, in the one process that has the folder.
 * Threads: any (the journal locks).   Secrets: none. */
#ifndef STORE_JOURNAL_LEASE_H
#define STORE_JOURNAL_LEASE_H

#include "store/journal/journal.h"

enum { LEASE_NAME_MAX = 120 };

typedef struct lease {
    char name[LEASE_NAME_MAX + 1];
    uint64_t fence; /* from 1 on */
    uint64_t ttl_ms;
} lease;

/* Takes a lease that is free, expired or released. holder is for people (host and process), at most
 * 120 bytes. SEFL_ESTATE if another has it; the message names the holder. */
sefl_status lease_take(journal *j, const char *name, const char *holder, uint64_t ttl_ms,
                       lease *out) SEFL_MUST_CHECK;
/* Lets it expire ttl_ms from now. SEFL_ESTATE if another process took it or it was released. An
 * expired lease that nobody took is ours again. */
sefl_status lease_renew(journal *j, const lease *l) SEFL_MUST_CHECK;
/* Lets others take it at once. Does nothing if it is lost already. */
sefl_status lease_release(journal *j, const lease *l) SEFL_MUST_CHECK;
/* Inside a transaction of j (SEFL_ESTATE outside): SEFL_ESTATE unless the lease is still ours; it
 * then stays so until the transaction ends. */
sefl_status lease_check(journal *j, const lease *l) SEFL_MUST_CHECK;

typedef struct lease_info {
    char name[LEASE_NAME_MAX + 1], holder[LEASE_NAME_MAX + 1];
    uint64_t fence;
    uint64_t left_ms; /* 0: expired or released */
} lease_info;
/* SEFL_ENOTFOUND if no process ever took it. */
sefl_status lease_look(journal *j, const char *name, lease_info *out) SEFL_MUST_CHECK;

/* From now on every write to the journal (rows, facts, updates, files, keys) checks this lease in
 * its own transaction: a process that lost it changes nothing any more. NULL: no longer. */
void journal_guard(journal *j, const lease *l);

#endif

/* audit_as: AS's store (sum/as_store.h) with an audit log (roles/audit/audit_log.h).
 *
 *     audit_as d = { .inner = as_disk_store(&disk), .log = log, .account = account, .task = &t };
 *     as_store s = audit_as_store(&d);          // d must outlive s
 *
 * The store passes every call on to `inner` and writes the entries of a round: round_opened,
 * round_closed, verdict, charged, replied, revealed, counted, blocked, skipped. An entry is durable
 * before its fact is, and the log is signed when a round ends. If the log cannot be written, the
 * call fails, as if the journal could not be written: AS does nothing that its log does not show.
 * The entry of a charge follows its fact, because a charge may be refused; it is durable before
 * AS's next step, and after a crash between the two that step writes it.
 * Threads: as the inner store.   Secrets: none enters the log. */
#ifndef ROLES_AGGREGATOR_AUDIT_AS_H
#define ROLES_AGGREGATOR_AUDIT_AS_H

#include "roles/audit/audit_log.h"
#include "sum/account.h"
#include "sum/as_store.h"

typedef struct audit_as {
    as_store inner;
    audit_log *log;
    account *account;
    const task *task;
    uint64_t charged; /* the last round whose charge is in the log of this process */
} audit_as;

as_store audit_as_store(audit_as *d);

#endif

/* audit_stores: the stores of both servers (sum/as_store.h, sum/csp_store.h), with an audit log.
 *
 *     audit_as d = { .inner = as_disk_store(&disk), .log = log, .account = account, .task = &t };
 *     as_store s = audit_as_store(&d);          // d must outlive s
 *
 * Each store passes every call on to `inner` and writes the entries of a round: round_opened,
 * round_closed, verdict, charged, revealed, counted, blocked, skipped, task_ended. An entry is
 * durable before its fact is, and the log is signed when a round ends. If the log cannot be
 * written, the call fails, as if the journal could not be written: a server does nothing that its
 * log does not show. (The charge is an exception: its entry follows the charge, because a charge
 * may be refused. After a crash between the two, the round's next step writes the entry.)
 * Threads: as the inner store.   Secrets: none enters the log. */
#ifndef ROLES_AUDIT_AUDIT_STORES_H
#define ROLES_AUDIT_AUDIT_STORES_H

#include "roles/audit/audit_log.h"
#include "sum/account.h"
#include "sum/as_store.h"
#include "sum/csp_store.h"

typedef struct audit_as {
    as_store inner;
    audit_log *log;
    account *account;
    const task *task;
    uint64_t charged; /* the last round whose charge is in the log of this process */
} audit_as;

as_store audit_as_store(audit_as *d);

typedef struct audit_csp {
    csp_store inner;
    audit_log *log;
} audit_csp;

csp_store audit_csp_store(audit_csp *d);

#endif

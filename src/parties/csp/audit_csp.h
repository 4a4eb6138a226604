/* audit_csp: CSP's store (sum/csp_store.h) with an audit log (roles/audit/audit_log.h).
 *
 *     audit_csp d = { .inner = csp_disk_store(&disk), .log = log };
 *     csp_store s = audit_csp_store(&d);        // d must outlive s
 *
 * The store passes every call on to `inner` and writes the entries of a round: round_opened,
 * verdict, charged, revealed, skipped, vouched, task_ended. An entry is durable before its fact is,
 * and the log is signed when a round ends. If the log cannot be written, the call fails, as if the
 * journal could not be written: CSP does nothing that its log does not show. Two entries follow
 * their fact: that of a charge, because a charge may be refused, and that of a reveal, because a
 * reveal that fails before its mark is tried again with another output. Both are durable before
 * CSP's next step, and before the output leaves; after a crash between fact and entry, the next
 * start or step writes the entry.
 * Threads: as the inner store.   Secrets: none enters the log. */
#ifndef ROLES_CSP_AUDIT_CSP_H
#define ROLES_CSP_AUDIT_CSP_H

#include "roles/audit/audit_log.h"
#include "sum/csp_store.h"

typedef struct audit_csp {
    csp_store inner;
    audit_log *log;
    uint64_t charged, revealed; /* the last rounds with such an entry in the log of this process */
} audit_csp;

csp_store audit_csp_store(audit_csp *d);
/* Writes the entry of a reveal whose mark is durable, unless this process has; then signs. At
 * start, for the last round. SEFL_ENOTFOUND: the store has no record of it. */
sefl_status audit_csp_revealed(audit_csp *d, uint64_t round) SEFL_MUST_CHECK;

#endif

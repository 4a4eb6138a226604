/* CSP's audit log (roles/audit/audit_log.h). */
#include "roles/csp/csp_inside.h"

sefl_status csp_audit_open(csp_role *r)
{
    journal_round last = { 0 };
    const csp_settings *c = r->o.settings;
    /* each process has a log of its own, and a shared journal names none of them */
    SEFL_PASS(
        audit_log_open(&r->audit, &(audit_log_config){ .folder = c->state,
                                                       .key = r->key,
                                                       .clock = &r->wall,
                                                       .log = r->o.log,
                                                       .journal = c->store ? NULL : r->journal }));
    sefl_status st = journal_round_last(r->journal, &last);
    SEFL_PASS(st == SEFL_ENOTFOUND ? SEFL_OK : st);
    r->audited = (audit_csp){ .inner = csp_disk_store(&r->disk), .log = r->audit };
    r->store = audit_csp_store(&r->audited);
    SEFL_PASS(audit_started(r->audit, "csp", &r->task));
    if (last.state == CSP_REVEALED || last.state == CSP_SKIPPED)
        audit_add(r->audit, "resumed", lf_u64("round", last.round),
                  lf_str("state", csp_state_name(last.state)));
    if (last.state == CSP_REVEALED) {
        st = audit_csp_revealed(&r->audited, last.round);
        SEFL_PASS(st == SEFL_ENOTFOUND ? SEFL_OK : st);
    }
    return audit_log_sign(r->audit);
}

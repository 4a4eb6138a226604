/* CSP's page for Prometheus (roles/monitor.h). It shows no number of clients. */
#include "roles/csp/csp_inside.h"

static const monitor_outcome outcomes[] = { MONITOR_REVEALED, MONITOR_SKIPPED };

static const monitor_step_id steps[] = { MONITOR_STEP_CHARGE,  MONITOR_STEP_RECEIVE,
                                         MONITOR_STEP_DECRYPT, MONITOR_STEP_COMPUTE,
                                         MONITOR_STEP_STORE,   MONITOR_STEP_SEND,
                                         MONITOR_STEP_NOISE };

void csp_monitor_round(void *ctx, csp_round_state state, const csp_times *t)
{
    csp_role *r = ctx;
    monitor *m = &r->monitor;
    monitor_round(m, state == CSP_SKIPPED ? MONITOR_SKIPPED : MONITOR_REVEALED);
    monitor_spent(m, r->account, &r->task);
    if (state == CSP_SKIPPED)
        return;
    monitor_step(m, MONITOR_STEP_CHARGE, t->charge);
    monitor_step(m, MONITOR_STEP_RECEIVE, t->receive);
    monitor_step(m, MONITOR_STEP_DECRYPT, t->decrypt);
    monitor_step(m, MONITOR_STEP_COMPUTE, t->compute);
    monitor_step(m, MONITOR_STEP_STORE, t->store);
    monitor_step(m, MONITOR_STEP_SEND, t->output);
}

void csp_monitor_noise(void *ctx, uint64_t bytes, uint64_t ns)
{
    csp_role *r = ctx;
    atomic_fetch_add(&r->monitor.noise_bytes, bytes);
    monitor_step(&r->monitor, MONITOR_STEP_NOISE, ns);
}

sefl_status csp_monitor_page(void *ctx, sefl_buf *body, unsigned *status)
{
    sefl_status st = SEFL_OK;
    csp_role *r = ctx;
    prom p = prom_into(body);
    server_view v;
    (void)status;
    pthread_mutex_lock(&r->task_lock);
    SEFL_TRY(csp_view(r, &v));
    monitor_common(&p, &r->monitor,
                   &(monitor_view){ .server = &v,
                                    .outcomes = outcomes,
                                    .outcomes_n = sizeof outcomes / sizeof *outcomes,
                                    .steps = steps,
                                    .steps_n = sizeof steps / sizeof *steps,
                                    .shares = r->shares });
    monitor_peers(&p, r->counters.certificates);
    counters_show(&p, MONITOR_ENROLMENTS, "outcome", &r->counters, "enrol.");
    counters_show(&p, MONITOR_TRUST, "reason", &r->counters, "trust_list_");
    monitor_family(&p, MONITOR_BYTES);
    monitor_sample(&p, "part", "noise", atomic_load(&r->monitor.noise_bytes));
    monitor_count(&p, MONITOR_CHECKS, atomic_load(&r->counters.n[COUNT_NOISE_CHECK]));
    st = prom_end(&p);
done:
    pthread_mutex_unlock(&r->task_lock);
    return st;
}

#include "protocol/modes/mode.h"
#include "protocol/participant.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Reports which rule the task breaks and why, then which change accepts the task and its effect. */
static sefl_status SEFL_PRINTF(5, 6) refuse(sefl_status st, const char **broken, const char *rule,
                                            const char *change, const char *fmt, ...)
{
    char why[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    if (broken)
        *broken = rule;
    return sefl_fail(st, "policy: %s: %s (%s)", rule, why, change);
}

static sefl_status check_servers(const policy *p, const task *t, const char **broken)
{
    static const pinned none;
    bool as = memcmp(p->servers.as, t->servers.as, SIGN_PUB_BYTES) == 0;
    bool csp = memcmp(p->servers.csp, t->servers.csp, SIGN_PUB_BYTES) == 0;
    if ((as && csp) || memcmp(&p->servers, &none, sizeof none) == 0)
        return SEFL_OK;
    return refuse(SEFL_EAUTH, broken, "allowed_servers",
                  "compare both servers' keys with their operators before you change "
                  "aggregator_key or csp_key of client.yml",
                  "the task's %s has another key than the pinned one", as ? "csp" : "aggregator");
}

static sefl_status check_noise(const policy *p, const task *t, const char **broken)
{
    char allowed[128] = "";
    size_t at = 0;
    if (p->noise_modes == 0 || (p->noise_modes >> t->noise & 1) != 0)
        return SEFL_OK;
    for (unsigned i = 0; i < RELEASE_MODE_COUNT && at < sizeof allowed; i++)
        if (p->noise_modes >> i & 1)
            at +=
                (size_t)snprintf(allowed + at, sizeof allowed - at, " %s", release_modes[i]->name);
    return refuse(SEFL_EINVAL, broken, "noise_modes",
                  "adding it accepts the task" RELEASE_MODES(RELEASE_MODE_CLAUSE),
                  "the task's noise is %s; the policy allows%s", task_mode(t)->name, allowed);
}

static bool above(double value, double limit) /* a limit of 0: none */
{
    return limit != 0 && !(value <= limit);
}

sefl_status policy_check(const policy *p, const task *t, const char **broken)
{
    const uint64_t rounds =
        dp_turns_in(&(dp_turns){ t->max_rounds_per_client, t->separation }, t->rounds);
    SEFL_PASS(check_servers(p, t, broken));
    if (!t->claim && !p->allow_no_claim)
        return refuse(SEFL_EINVAL, broken, "claim_none",
                      "claim_none: true accepts it, but then no epsilon bounds what the released "
                      "models reveal about this client's text",
                      "the task claims no differential privacy, but the policy requires a claim");
    SEFL_PASS(check_noise(p, t, broken));
    if (t->claim && above(t->epsilon, p->epsilon_task))
        return refuse(SEFL_EINVAL, broken, "epsilon_per_task",
                      "a larger epsilon_per_task accepts it, but lets the released models reveal "
                      "more about this client's text",
                      "the task's target is %g; at most %g is allowed", t->epsilon,
                      p->epsilon_task);
    if (t->claim && above(t->delta, p->delta_max)) /* with a large delta, no epsilon means much */
        return refuse(
            SEFL_EINVAL, broken, "delta_max",
            "a larger delta_max accepts it; delta is the probability that epsilon does not hold",
            "the task's delta is %g; at most %g is allowed", t->delta, p->delta_max);
    if (t->claim && above(t->epsilon, p->epsilon_total))
        return refuse(SEFL_EINVAL, broken, "epsilon_total",
                      "a larger epsilon_total accepts it, but lets all tasks together reveal more "
                      "about this client's text",
                      "the task's target alone is %g; at most %g is allowed over all tasks",
                      t->epsilon, p->epsilon_total);
    if (t->threshold < p->threshold_min)
        return refuse(SEFL_EINVAL, broken, "clients_min",
                      "a smaller clients_min accepts it, but then hides this client's update among "
                      "fewer others",
                      "the task reveals sums of %u clients; at least %u are required", t->threshold,
                      p->threshold_min);
    if (p->rounds_max > 0 && rounds > p->rounds_max)
        return refuse(SEFL_EINVAL, broken, "rounds_max",
                      "a larger rounds_max accepts it; each round reveals a little more",
                      "the task may ask a client for %llu rounds; at most %llu are allowed",
                      (unsigned long long)rounds, (unsigned long long)p->rounds_max);
    return SEFL_OK;
}

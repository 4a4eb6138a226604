#include "protocol/participant.h"

#include <stdio.h>
#include <string.h>

/* One rule: true if the task keeps it. Else `say` notes why, after the rule's name. */
typedef struct rule {
    const char *name;
    sefl_status st;
    bool (*keeps)(const policy *p, const task *t);
    void (*say)(const policy *p, const task *t);
    const char *change; /* what would accept the task, and what that means */
} rule;

static bool servers_keep(const policy *p, const task *t)
{
    static const pinned none;
    return memcmp(&p->servers, &none, sizeof none) == 0 ||
           (memcmp(p->servers.as, t->servers.as, SIGN_PUB_BYTES) == 0 &&
            memcmp(p->servers.csp, t->servers.csp, SIGN_PUB_BYTES) == 0);
}

static void servers_say(const policy *p, const task *t)
{
    (void)t;
    bool as = memcmp(p->servers.as, t->servers.as, SIGN_PUB_BYTES) != 0;
    sefl_note("the task's %s is not the one that is allowed", as ? "aggregator" : "csp");
}

static bool claim_keeps(const policy *p, const task *t)
{
    return t->claim || p->allow_no_claim;
}

static void claim_say(const policy *p, const task *t)
{
    (void)p, (void)t;
    sefl_note("the task claims no differential privacy, the policy wants a claim");
}

static bool noise_keeps(const policy *p, const task *t)
{
    return p->noise_modes == 0 || (p->noise_modes >> t->noise & 1) != 0;
}

static void noise_say(const policy *p, const task *t)
{
    char allowed[128] = "";
    size_t at = 0;
    for (unsigned i = 0; i < RELEASE_MODE_COUNT && at < sizeof allowed; i++)
        if (p->noise_modes >> i & 1)
            at +=
                (size_t)snprintf(allowed + at, sizeof allowed - at, " %s", release_modes[i]->name);
    sefl_note("the task's noise is %s, allowed:%s", task_mode(t)->name, allowed);
}

static bool epsilon_keeps(const policy *p, const task *t)
{
    return p->epsilon_task == 0 || !t->claim || t->epsilon <= p->epsilon_task;
}

static void epsilon_say(const policy *p, const task *t)
{
    sefl_note("the task's target is %g, at most %g is allowed", t->epsilon, p->epsilon_task);
}

/* An epsilon means little beside a large delta: 0.5 would make any epsilon small. */
static bool delta_keeps(const policy *p, const task *t)
{
    return p->delta_max == 0 || !t->claim || t->delta <= p->delta_max;
}

static void delta_say(const policy *p, const task *t)
{
    sefl_note("the task's delta is %g, at most %g is allowed", t->delta, p->delta_max);
}

static bool total_keeps(const policy *p, const task *t)
{
    return p->epsilon_total == 0 || !t->claim || t->epsilon <= p->epsilon_total;
}

static void total_say(const policy *p, const task *t)
{
    sefl_note("the task's target alone is %g, at most %g is allowed over all tasks", t->epsilon,
              p->epsilon_total);
}

static bool clients_keep(const policy *p, const task *t)
{
    return t->threshold >= p->threshold_min;
}

static void clients_say(const policy *p, const task *t)
{
    sefl_note("the task opens sums of %u clients, at least %u are wanted", t->threshold,
              p->threshold_min);
}

static uint64_t most_rounds(const task *t)
{
    uint64_t m = t->max_rounds_per_client;
    return m > 0 && m < t->rounds ? m : t->rounds;
}

static bool rounds_keep(const policy *p, const task *t)
{
    return p->rounds_max == 0 || most_rounds(t) <= p->rounds_max;
}

static void rounds_say(const policy *p, const task *t)
{
    sefl_note("the task may ask a client for %llu rounds, at most %llu are allowed",
              (unsigned long long)most_rounds(t), (unsigned long long)p->rounds_max);
}

static const rule rules[] = {
    { "allowed_servers", SEFL_EAUTH, servers_keep, servers_say,
      "compare both servers' keys with their operators before you change aggregator_key or csp_key "
      "of client.yml" },
    { "claim_none", SEFL_EINVAL, claim_keeps, claim_say,
      "claim_none: true accepts it, and then no epsilon bounds what the released models reveal "
      "about this client's text" },
    { "noise_modes", SEFL_EINVAL, noise_keeps, noise_say,
      "adding it accepts the task" RELEASE_MODES(RELEASE_MODE_CLAUSE) },
    { "epsilon_per_task", SEFL_EINVAL, epsilon_keeps, epsilon_say,
      "a larger epsilon_per_task accepts it, and lets the released models reveal more about this "
      "client's text" },
    { "delta_max", SEFL_EINVAL, delta_keeps, delta_say,
      "a larger delta_max accepts it; delta is the chance that the epsilon does not hold" },
    { "epsilon_total", SEFL_EINVAL, total_keeps, total_say,
      "a larger epsilon_total accepts it, and lets all tasks together reveal more about this "
      "client's text" },
    { "clients_min", SEFL_EINVAL, clients_keep, clients_say,
      "a smaller clients_min accepts it, and this client's update is hidden among fewer others" },
    { "rounds_max", SEFL_EINVAL, rounds_keep, rounds_say,
      "a larger rounds_max accepts it; each round reveals a little more" },
};

sefl_status policy_check(const policy *p, const task *t, const char **broken)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (!rules[i].keeps(p, t)) {
            rules[i].say(p, t);
            sefl_note("%s (%s)", sefl_last_error(), rules[i].change);
            if (broken)
                *broken = rules[i].name;
            return sefl_fail_at(rules[i].st, "policy: %s", rules[i].name);
        }
    return SEFL_OK;
}

/* What the charges of a ledger add up to, and whether one more fits. Nothing is written here. */
#include "store/ledger_inside.h"

#include "base/alloc.h"
#include "store/ledger_terms.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Charges on top of those in the ledger: rounds first .. first + count - 1, none of them charged,
 * of task `at`; at == n_tasks: of a new task with these terms. */
typedef struct more {
    size_t at;
    const ledger_terms *terms; /* NULL: none */
    uint64_t first, count;
} more;

/* The event of one task. A client's ledger of correlated noise needs the sorted list of rounds. */
static sefl_status event_of(dp_event *out, const ledger_terms *t, const ledger_entry *e,
                            bool against_server, const more *m)
{
    sefl_status st = SEFL_OK;
    uint64_t *all = NULL;
    const uint64_t *rounds = e ? e->rounds : NULL; /* NULL: none yet */
    const size_t n = rounds ? e->n : 0;
    ledger_use use = { n, n > 0 ? rounds[0] : UINT64_MAX, n > 0 ? rounds[n - 1] : 0, rounds };
    assert(t);
    if (m && m->count > 0) {
        const uint64_t last = m->first + m->count - 1;
        use.count += m->count;
        use.lowest = m->first < use.lowest ? m->first : use.lowest;
        use.highest = last > use.highest ? last : use.highest;
    }
    if (m && m->count > 0 && t->filter.b > 0 && t->horizon > 0) {
        size_t k = 0;
        SEFL_TRY(sefl_new(&all, use.count, sizeof *all));
        for (; k < n && rounds[k] < m->first; k++)
            all[k] = rounds[k];
        for (uint64_t i = 0; i < m->count; i++)
            all[k + i] = m->first + i;
        for (; k < n; k++)
            all[k + m->count] = rounds[k];
        use.rounds = all;
    }
    *out = ledger_terms_event(t, &use, against_server);
done:
    sefl_free(all);
    return st;
}

/* All charges as events. */
static sefl_status events_of(const ledger *l, dp_event **out, size_t *n, bool against_server,
                             const more *m)
{
    SEFL_PASS(sefl_new(out, l->n_tasks + 1, sizeof **out));
    *n = 0;
    for (size_t i = 0; i < l->n_tasks; i++)
        SEFL_PASS(event_of(&(*out)[(*n)++], &l->tasks[i].terms, &l->tasks[i], against_server,
                           i == m->at ? m : NULL));
    if (m->terms && m->at == l->n_tasks)
        SEFL_PASS(event_of(&(*out)[(*n)++], m->terms, NULL, against_server, m));
    return SEFL_OK;
}

double ledger_task_s(const ledger *l, size_t i)
{
    const ledger_entry *e = &l->tasks[i];
    return ledger_terms_s(&e->terms, &(ledger_use){ .count = e->n,
                                                    .highest = e->n ? e->rounds[e->n - 1] : 0,
                                                    .rounds = e->rounds });
}

#define MIXED_UNITS "some tasks protect clients and others records: they have no common total"

/* tasks that claim something, by unit, terms (may be NULL) among them */
static void count_units(const ledger *l, size_t n[2], const ledger_terms *terms)
{
    n[0] = n[1] = 0;
    for (size_t i = 0; i < l->n_tasks; i++)
        n[l->tasks[i].terms.unit] += dp_noise_claims(l->tasks[i].terms.noise);
    if (terms)
        n[terms->unit] += dp_noise_claims(terms->noise);
}

static sefl_status total_of(const ledger *l, dp_claim *out, bool against_server, const more *m,
                            double delta, dp_neighbours nb)
{
    sefl_status st = SEFL_OK;
    dp_event *ev = NULL;
    size_t n, of_unit[2];
    count_units(l, of_unit, m->terms);
    if (of_unit[LEDGER_UNIT_CLIENT] && of_unit[LEDGER_UNIT_RECORD]) {
        *out = (dp_claim){ .epsilon = INFINITY, .why_not = MIXED_UNITS };
        goto done;
    }
    SEFL_TRY(events_of(l, &ev, &n, against_server, m));
    SEFL_TRY(dp_epsilon(out, ev, n, &(dp_question){ .delta = delta, .neighbours = nb }));
done:
    sefl_free(ev);
    return st;
}

static uint64_t rounds_in_all(const ledger *l)
{
    uint64_t n = 0;
    for (size_t i = 0; i < l->n_tasks; i++)
        n += l->tasks[i].n;
    return n;
}

sefl_status ledger_spent(const ledger *l, double delta, ledger_total *out)
{
    ledger_total t = { .delta = delta, .tasks = l->n_tasks, .rounds = rounds_in_all(l) };
    size_t of_unit[2];
    count_units(l, of_unit, NULL);
    t.unit = of_unit[LEDGER_UNIT_RECORD] == 0   ? LEDGER_TOTAL_CLIENT
             : of_unit[LEDGER_UNIT_CLIENT] == 0 ? LEDGER_TOTAL_RECORD
                                                : LEDGER_TOTAL_MIXED;
    if (delta == 0) {
        t.delta = 1e-5; /* of an empty ledger; it does not matter */
        for (size_t i = 0; i < l->n_tasks; i++)
            if (dp_noise_claims(l->tasks[i].terms.noise))
                t.delta = l->tasks[i].terms.delta;
    }
    dp_claim *server[2] = { &t.server, &t.server_replace };
    dp_claim *others[2] = { &t.others, &t.others_replace };
    for (int i = 0; i < 2; i++) {
        dp_neighbours nb = i ? DP_REPLACE : DP_ZERO_OUT;
        SEFL_PASS(total_of(l, server[i], true, &(more){ 0 }, t.delta, nb));
        SEFL_PASS(total_of(l, others[i], false, &(more){ 0 }, t.delta, nb));
        if (server[i]->epsilon < others[i]->epsilon) /* others see no more than a server */
            *others[i] = *server[i];
    }
    *out = t;
    return SEFL_OK;
}

sefl_status ledger_would_spend(const ledger *l, const ledger_terms *terms, uint64_t rounds,
                               dp_claim *out)
{
    const more m = { l->n_tasks, terms, 1, rounds };
    return total_of(l, out, true, &m, terms->delta, DP_ZERO_OUT);
}

sefl_status ledger_rounds_left(const ledger *l, const ledger_terms *terms, uint64_t most,
                               uint64_t *out)
{
    size_t at = 0;
    uint64_t low = 0, high = most + 1; /* epsilon grows with each round */
    *out = most;
    if (!dp_noise_claims(terms->noise))
        return SEFL_OK;
    while (at < l->n_tasks && memcmp(l->tasks[at].terms.task, terms->task, LEDGER_TASK_BYTES) != 0)
        at++;
    const ledger_entry *e = at < l->n_tasks ? &l->tasks[at] : NULL;
    const uint64_t next = e && e->n ? e->rounds[e->n - 1] + 1 : 1;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        dp_claim then;
        SEFL_PASS(total_of(l, &then, true, &(more){ at, terms, next, middle }, terms->delta,
                           DP_ZERO_OUT));
        if (then.claimed && then.epsilon <= terms->epsilon_max)
            low = middle;
        else
            high = middle;
    }
    *out = low;
    return SEFL_OK;
}

/* ---- the budget check --------------------------------------------------------------------- */

/* for printing with four places: never less than it is */
static double up4(double epsilon)
{
    return ceil(epsilon * 1e4) / 1e4;
}

sefl_status ledger_check_budget(const ledger *l, size_t at, const ledger_terms *terms,
                                uint64_t round)
{
    dp_claim now, then;
    if (!dp_noise_claims(terms->noise))
        return SEFL_OK;
    SEFL_PASS(total_of(l, &then, true, &(more){ at, terms, round, 1 }, terms->delta, DP_ZERO_OUT));
    if (then.claimed && then.epsilon <= terms->epsilon_max)
        return SEFL_OK;
    SEFL_NEED(then.claimed, SEFL_EBUDGET,
              "population \"%s\": no differential privacy could be claimed (%s); a task with "
              "target epsilon %g cannot be charged",
              l->population, then.why_not, terms->epsilon_max);
    SEFL_PASS(total_of(l, &now, true, &(more){ 0 }, terms->delta, DP_ZERO_OUT));
    SEFL_NEED(false, SEFL_EBUDGET,
              "round %" PRIu64 " would bring population \"%s\" to epsilon %.4f at delta %g; the "
              "target is %g (spent: %.4f over %" PRIu64 " rounds of %zu tasks)",
              round, l->population, up4(then.epsilon), terms->delta, terms->epsilon_max,
              up4(now.epsilon), rounds_in_all(l), l->n_tasks);
    return SEFL_OK;
}

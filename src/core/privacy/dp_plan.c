#include "privacy/dp_plan.h"

#include "base/log.h"
#include "privacy/dp_grid.h"

#include <inttypes.h>
#include <math.h>

dp_event dp_plan_event(const dp_plan *p, bool against_server)
{
    /* an observer who knows the number of participants learns about each client's sampling: no
     * amplification */
    const bool seen = p->unit_record || against_server || p->public_count;
    dp_event ev = { .noise = dp_sources[p->source].law,
                    .z = p->z,
                    .rate = seen ? 1 : p->rate,
                    .count = p->rounds,
                    .dim = p->dim,
                    .sigma_steps = DP_SIGMA_STEPS };
    if (seen && p->max_rounds > 0 && p->max_rounds < p->rounds)
        ev.count = p->max_rounds;
    if (p->unit_record && p->record_turns > 0)
        ev.count = p->record_turns;
    return ev;
}

sefl_status dp_plan_compute(dp_plan *p)
{
    SEFL_NEED(p->record_turns <= p->rounds && (p->record_turns == 0 || p->max_rounds == 0),
              SEFL_EINVAL,
              "record_turns is %" PRIu64 ": it must be at most the number of rounds, and 0 with a "
              "limit of rounds per client",
              p->record_turns);
    dp_event server = dp_plan_event(p, true), others = dp_plan_event(p, false);
    dp_question q = { .delta = p->delta };
    const double clients = (double)p->clients;
    p->cohort = clients * p->rate;
    if (p->max_rounds > 0) /* no client takes part in more rounds */
        p->cohort = fmin(p->cohort, clients * (double)p->max_rounds / (double)p->rounds);
    if (p->z == 0)
        SEFL_PASS(dp_find_z(&p->z, &server, p->epsilon, &q));
    server.z = others.z = p->z;
    for (int i = 0; i < 2; i++) {
        q.neighbours = i ? DP_REPLACE : DP_ZERO_OUT;
        SEFL_PASS(dp_epsilon(&p->server[i], &server, 1, &q));
        SEFL_PASS(dp_epsilon(&p->others[i], &others, 1, &q));
        if (p->server[i].epsilon < p->others[i].epsilon) /* others see no more than a server does */
            p->others[i] = p->server[i];
    }
    p->signals = p->cohort;
    if (p->unit_record) {
        const dp_record_turns turns = { p->record_turns ? p->record_turns : p->rounds, p->rounds,
                                        1 };
        p->records_max = dp_record_most(&turns, p->records);
        p->signals *= (double)p->records * (double)turns.turns / (double)p->rounds;
    }
    double spread = p->z * sqrt((double)p->dim * dp_sources[p->source].noises);
    p->noise_over_signal = spread / p->signals;
    p->least_cohort = ceil(spread / (p->signals / p->cohort));
    return SEFL_OK;
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* The noise of one way in the models. */
static void measure(dp_way *w, const dp_turns_plan *p, const dp_filter *f)
{
    const dp_model_noise with = dp_filter_models(f, p->rounds, p->momentum);
    const dp_model_noise plain = dp_filter_models(&(dp_filter){ 0 }, p->rounds, p->momentum);
    const double spread = w->z * sqrt((double)p->dim * dp_sources[p->source].noises) / w->cohort;
    w->last = spread * with.last / plain.last;
    w->mean = spread * with.mean / plain.mean;
    w->clients = ceil((double)p->clients * w->last);
}

static sefl_status independent(dp_way *w, const dp_turns_plan *p, uint64_t turns, double cohort)
{
    const dp_event ev = {
        .noise = dp_sources[p->source].law, .rate = 1, .count = turns, .dim = p->dim
    };
    *w = (dp_way){ .turns = turns, .cohort = cohort };
    SEFL_PASS(dp_find_z(&w->z, &ev, p->epsilon, &(dp_question){ .delta = p->delta }));
    measure(w, p, &(dp_filter){ 0 });
    return SEFL_OK;
}

/* one: the z of a single release. */
static sefl_status correlated(dp_turns_plan *p, double one)
{
    const dp_law *law = dp_law_of(dp_sources[p->source].law);
    dp_way *w = &p->correlated;
    dp_grid g;
    unsigned bits = DP_FILTER_OWN_BITS;
    const uint64_t turns = dp_turns_in(&p->turns, p->rounds);
    *w = (dp_way){ .turns = turns,
                   .cohort = (double)p->clients *
                             fmin(1 / (double)p->turns.apart, (double)turns / (double)p->rounds) };
    if (!p->has_filter)
        p->filter = dp_filter_best(p->rounds, &p->turns, p->momentum);
    const double s = dp_filter_s(&p->filter, p->rounds, &p->turns);
    if (law->uses_dim) {
        SEFL_PASS(dp_grid_init(
            &g,
            &(dp_grid_config){ .z = one * s, .clip = 1, .dim = p->dim, .clients = p->clients }));
        bits = DP_FILTER_SUM_BITS - g.k;
    }
    const double units = dp_filter_units(bits);
    SEFL_PASS(dp_filter_z(&w->z, &p->filter, p->rounds, &p->turns, p->dim, units, one));
    p->s = s + dp_filter_slack(&p->filter, p->rounds, p->dim, w->z, units);
    measure(w, p, &p->filter);
    return SEFL_OK;
}

/* The z of one release that leaves out what all rounds leave out. */
static sefl_status one_release(double *one, const dp_turns_plan *p)
{
    const dp_law *law = dp_law_of(dp_sources[p->source].law);
    const dp_event ev = { .noise = dp_sources[p->source].law,
                          .rate = 1,
                          .count = 1,
                          .dim = law->uses_dim ? p->dim * p->rounds : 0 };
    return dp_find_z(one, &ev, p->epsilon, &(dp_question){ .delta = p->delta });
}

/* Tries 1, 2, 3, 4, 5, 7, ... turns. */
static sefl_status choose_turns(dp_turns_plan *p, double one)
{
    double least = INFINITY;
    dp_turns best = { p->rounds, 1 };
    for (uint64_t most = 1; most <= p->rounds; most += 1 + most / 4) {
        p->turns = (dp_turns){ most, dp_turns_apart(most, p->rounds) };
        if (p->clients / p->turns.apart < 2)
            continue; /* no round has two clients */
        SEFL_PASS(correlated(p, one));
        if (p->correlated.last < least)
            least = p->correlated.last, best = p->turns;
        if (least <= 1)
            break;
    }
    p->turns = best;
    return SEFL_OK;
}

sefl_status dp_turns_plan_compute(dp_turns_plan *p)
{
    double one;
    SEFL_NEED(p->rounds >= 1 && p->rounds <= DP_FILTER_ROUNDS_MAX, SEFL_EINVAL,
              "correlated noise: 1 to %d rounds", DP_FILTER_ROUNDS_MAX);
    SEFL_NEED(p->momentum >= 0 && p->momentum < 1, SEFL_EINVAL,
              "momentum is %g: it must be at least 0 and below 1", p->momentum);
    SEFL_PASS(one_release(&one, p));
    if (p->turns.most == 0 && p->turns.apart == 0)
        SEFL_PASS(choose_turns(p, one));
    if (p->turns.apart == 0)
        p->turns.apart = dp_turns_apart(p->turns.most, p->rounds);
    SEFL_NEED(p->turns.apart <= p->rounds, SEFL_EINVAL,
              "a separation of %" PRIu64 " with %" PRIu64
              " rounds: some clients would never take part; use at most the number of rounds",
              p->turns.apart, p->rounds);
    SEFL_NEED(p->clients / p->turns.apart >= 2, SEFL_EINVAL,
              "%" PRIu64 " clients with a separation of %" PRIu64
              " are fewer than 2 in a round: use more clients or a smaller separation",
              p->clients, p->turns.apart);
    p->turns.most = dp_turns_in(&p->turns, p->rounds);
    SEFL_PASS(correlated(p, one));
    const double cohort = p->correlated.cohort;
    SEFL_PASS(independent(&p->independent, p, p->turns.most, cohort));
    SEFL_PASS(independent(&p->everybody, p, p->rounds, (double)p->clients));
    const dp_event round = { .noise = dp_sources[p->source].law,
                             .z = p->correlated.z,
                             .dim = p->dim,
                             .sigma_steps = DP_SIGMA_STEPS };
    const dp_event all = dp_filter_event(&round, p->s, p->rounds);
    for (int i = 0; i < 2; i++)
        SEFL_PASS(dp_epsilon(
            &p->claim[i], &all, 1,
            &(dp_question){ .delta = p->delta, .neighbours = i ? DP_REPLACE : DP_ZERO_OUT }));
    return SEFL_OK;
}

/* ---- the three ways, shown ------------------------------------------------------------------- */

double dp_z_shown(double z)
{
    double shown = ceil(z * 1e6) / 1e6;
    return shown >= z ? shown : shown + 1e-6;
}

static sefl_status way_text(sefl_buf *out, const char *name, const dp_way *w)
{
    return wr_fmt(out, "  %-32s %-8.3g %-8.3g %-10.10g %-7" PRIu64 " %-9.0f %.0f\n", name, w->last,
                  w->mean, dp_z_shown(w->z), w->turns, w->cohort, w->clients);
}

sefl_status dp_ways_text(sefl_buf *out, const dp_turns_plan *p)
{
    SEFL_PASS(wr_fmt(out, "noise over signal                  in last  in mean             rounds  "
                          "clients   enrolled "
                          "clients\n"
                          "                                   model    model    z          each    "
                          "a round   for 1 in "
                          "the last model\n"));
    SEFL_PASS(way_text(out, "turns, correlated noise", &p->correlated));
    SEFL_PASS(way_text(out, "turns, independent noise", &p->independent));
    SEFL_PASS(way_text(out, "everybody in every round", &p->everybody));
    if (p->filter.b > 0)
        SEFL_PASS(wr_fmt(out,
                         "Correlated noise leaves %.3g times less noise in the last model than "
                         "independent noise with the same turns.\n",
                         p->independent.last / p->correlated.last));
    if (p->everybody.last < p->correlated.last && p->everybody.turns > p->correlated.turns)
        SEFL_PASS(wr_fmt(out,
                         "Everybody in every round has less noise still, for %.3g times as many "
                         "uploads.\n",
                         (double)p->everybody.turns / (double)p->correlated.turns));
    return SEFL_OK;
}

static void way_json(json *j, const char *name, const dp_way *w)
{
    json_key(j, name), json_open(j, '{');
    json_fields(j, lf_real("noise_last_model", w->last), lf_real("noise_mean_model", w->mean),
                lf_real("z", w->z), lf_u64("rounds_per_client", w->turns),
                lf_real("cohort", w->cohort), lf_real("clients_needed", w->clients));
    json_close(j, '}');
}

void dp_ways_json(json *j, const dp_turns_plan *p)
{
    way_json(j, "correlated", &p->correlated);
    way_json(j, "independent", &p->independent);
    way_json(j, "everybody", &p->everybody);
}

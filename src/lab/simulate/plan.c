#include "simulate/plan.h"

#include "base/log.h"
#include "crypto/ahe/ahe.h"
#include "model/lm.h"
#include "privacy/accountant/accountant.h"
#include "privacy/combinations.h"
#include "protocol/head.h"
#include "protocol/modes/mode.h"
#include "protocol/task_budget.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Measured memory of a client beside its text: its state machine and tables; with crypto full also
 * its head, entry and voucher. */
#define CLIENT_BYTES      950.0
#define CLIENT_BYTES_FULL 3250.0

void plan_warn(plan_warnings *w, const char *fmt, ...)
{
    va_list ap;
    if (w->n == PLAN_WARNINGS)
        return;
    va_start(ap, fmt);
    vsnprintf(w->text[w->n++], PLAN_WARNING_MAX, fmt, ap);
    va_end(ap);
}

void plan_warnings_json(json *j, const plan_warnings *w)
{
    json_key(j, "warnings"), json_open(j, '[');
    for (unsigned i = 0; i < w->n; i++)
        json_str(j, w->text[i]);
    json_close(j, ']');
}

/* ---- who takes part -------------------------------------------------------------------------- */

/* Returns the share of clients whose time, client_ms * U[0.5, 1.5) * slowdown, meets the
 * deadline. */
static double in_time(const experiment *e, uint64_t deadline_ms, double slowdown)
{
    double most = (double)deadline_ms / ((double)e->client_ms * slowdown) - 0.5;
    return most < 0 ? 0 : most > 1 ? 1 : most;
}

static void participation(plan *p, const federation *s)
{
    plan_warnings *w = &p->warnings;
    const experiment *e = s->e;
    const task *t = &s->task;
    double drawn = t->sampling == TASK_OPEN ? t->rate : 1 / (double)t->separation;
    double fast = in_time(e, t->deadline_ms, 1), slow = in_time(e, t->deadline_ms, e->slowdown);
    double share = (1 - e->stragglers) * fast + e->stragglers * slow;
    p->asked = drawn * e->clients;
    p->per_round = p->asked * (1 - e->dropout) * share;
    if (t->enough > 0 && p->per_round > t->enough)
        p->per_round = t->enough;
    if (p->per_round > t->clients_max)
        p->per_round = t->clients_max;
    if (share < 0.999)
        plan_warn(
            w,
            "%.0f %% of the clients miss the deadline of %.0f s: set rounds.deadline_ms above %.0f",
            100 * (1 - share), 1e-3 * (double)t->deadline_ms,
            1.5 * (double)e->client_ms * (e->stragglers > 0 ? e->slowdown : 1));
    if (p->per_round < t->threshold)
        plan_warn(
            w,
            "about %.1f clients upload per round, the threshold is %" PRIu32
            ": most rounds will be skipped (rounds.threshold, network.dropout, rounds.deadline_ms)",
            p->per_round, t->threshold);
}

/* ---- privacy --------------------------------------------------------------------------------- */

/* Computes epsilon of `count` rounds. Against a server sampling does not amplify. */
static sefl_status epsilon_of(dp_claim *server, dp_claim *others, const task *t, uint64_t count,
                              double delta)
{
    const task as_if = plan_as_claimed(t);
    const dp_event against = task_event_server(&as_if, count), ev = task_event(&as_if, count);
    dp_question q = { .delta = delta };
    SEFL_PASS(dp_epsilon(server, &against, 1, &q));
    return dp_epsilon(others, &ev, 1, &q);
}

static sefl_status budget(plan *p, const task *t)
{
    SEFL_PASS(task_budget_rounds(&p->rounds, t));
    if (p->rounds < t->rounds)
        plan_warn(&p->warnings,
                  "the budget of epsilon %g ends after round %" PRIu64 " of %" PRIu64
                  ": use a larger privacy.z or fewer rounds",
                  t->epsilon, p->rounds, t->rounds);
    return SEFL_OK;
}

/* Returns the growth of the noise if two servers add it. */
static double noises(const federation *s)
{
    return sqrt(plan_source(&s->task)->noises);
}

double plan_noise_ratio(const federation *s, double clients)
{
    const double need = task_noise_clients(&s->task);
    if (need == 0)
        return 0;
    if (clients <= 0)
        return HUGE_VAL;
    return need / clients / (s->e->protection->two_servers ? 1 : noises(s)); /* one adds it once */
}

const char *plan_fewer_values(const federation *s)
{
    return s->task.external ? "fewer trained values (training.only)"
                            : "a larger model.block, fewer trained values (training.only)";
}

sefl_status plan_spend(plan_spent *out, const federation *s, uint64_t rounds)
{
    const task *t = &s->task;
    dp_claim server, others;
    const task as_if = plan_as_claimed(t);
    const dp_event ev = task_event(&as_if, 1);
    *out = (plan_spent){ .delta = t->claim                  ? t->delta
                                  : s->e->classic_delta > 0 ? s->e->classic_delta
                                                            : PLAN_DELTA,
                         .why = "there is no noise" };
    if (!task_mode(t)->noisy)
        return SEFL_OK;
    out->why = "the accountant does not support so little noise";
    if (dp_event_check(&ev) != SEFL_OK)
        return SEFL_OK;
    SEFL_PASS(epsilon_of(&server, &others, t, rounds, out->delta));
    out->known = server.claimed && others.claimed;
    out->server = server.epsilon;
    out->others = others.epsilon;
    if (!out->known)
        out->why = server.why_not ? server.why_not : others.why_not;
    return SEFL_OK;
}

sefl_status plan_classic_of(plan_classic *out, const federation *s, uint64_t rounds)
{
    *out = (plan_classic){ .epsilon = s->e->classic_epsilon, .rounds = rounds };
    return out->epsilon > 0 ? plan_spend(&out->total, s, rounds) : SEFL_OK;
}

void plan_classic_text(char out[PLAN_CLASSIC_TEXT], const plan_classic *c)
{
    char total[128];
    if (c->total.known)
        snprintf(total, sizeof total, "epsilon %.4g against a server, %.4g against others",
                 dp_four_digits(c->total.server, true), dp_four_digits(c->total.others, true));
    else
        snprintf(total, sizeof total, "no epsilon is proven");
    snprintf(out, PLAN_CLASSIC_TEXT,
             "epsilon %g for one round alone, at delta %g: not a claim%s; over %" PRIu64
             " rounds %s",
             c->epsilon, c->total.delta, c->epsilon < 1 ? "" : ", and not proven for epsilon >= 1",
             c->rounds, total);
}

void plan_classic_json(json *j, const plan_classic *c)
{
    const plan_spent *t = &c->total;
    if (c->epsilon > 0)
        json_fields(j, lf_real("classic_epsilon", c->epsilon), lf_real("classic_delta", t->delta),
                    lf_bool("classic_proven", c->epsilon < 1), lf_u64("total_rounds", c->rounds),
                    lf_if(t->known, lf_real("total_epsilon_server", t->server)),
                    lf_if(t->known, lf_real("total_epsilon_others", t->others)));
}

static sefl_status privacy(plan *p, const federation *s)
{
    const task *t = &s->task;
    plan_spent all;
    SEFL_PASS(plan_spend(&all, s, t->rounds));
    p->z = strtod(t->z, NULL);
    p->noise = p->z > 0;
    p->claim = t->claim;
    p->delta = all.delta;
    SEFL_PASS(plan_classic_of(&p->classic, s, t->rounds));
    p->unit_record = t->unit == TASK_UNIT_RECORD;
    p->noise_ratio = plan_noise_ratio(s, p->per_round);
    p->has_epsilon = all.known;
    p->epsilon_server = all.server;
    p->epsilon_others = all.others;
    p->why_no_epsilon = all.why;
    const double both = s->e->protection->two_servers ? noises(s) : 1;
    if (t->claim)
        SEFL_PASS(budget(p, t));
    if (plan_need_of(&p->need, t, PLAN_EPSILON, p->delta) != SEFL_OK)
        p->need = (plan_need){ 0 };
    p->need.clients = (uint64_t)ceil(both * (double)p->need.clients);
    p->need.no_larger = (uint64_t)ceil(both * (double)p->need.no_larger);
    return SEFL_OK;
}

/* Not with what a filter does not go together with, and not for records. */
static void three_ways(plan *p, const federation *s)
{
    const task *t = &s->task;
    const dp_source *source = plan_source(t);
    dp_turns_plan *w = &p->ways;
    if (combination_refused(task_features(t) | FEATURE(FILTER)) || p->unit_record ||
        (source->noises > 1 && !s->e->protection->two_servers))
        return;
    p->ways_proposed = t->max_rounds_per_client == 0 && t->separation == 1;
    *w = (dp_turns_plan){ .source = (unsigned)(source - dp_sources),
                          .clients = p->clients,
                          .rounds = t->rounds,
                          .dim = t->values,
                          .epsilon = t->claim ? t->epsilon : PLAN_EPSILON,
                          .delta = p->delta,
                          .momentum = t->server == TASK_MOMENTUM ? t->server_optim.momentum : 0,
                          .has_filter = t->filter.b > 0,
                          .filter = t->filter };
    if (!p->ways_proposed)
        w->turns = (dp_turns){ t->max_rounds_per_client, t->separation };
    p->has_ways = dp_turns_plan_compute(w) == SEFL_OK; /* not: too few clients, or no z */
}

/* Sites whose texts do not fit the turns of the records (privacy/record_turns.h). */
static void record_warnings(plan *p, const federation *s)
{
    const task *t = &s->task;
    uint32_t large = 0, small = 0;
    if (t->unit != TASK_UNIT_RECORD)
        return;
    const dp_record_turns turns = task_record_turns(t);
    for (uint32_t i = 0; i < s->clients; i++) {
        large += s->text[i].docs > 0 && dp_record_unused(&turns, s->text[i].docs) > 0;
        small += s->text[i].docs > 0 && dp_record_empty(&turns, s->text[i].docs) > 0;
    }
    if (large > 0)
        plan_warn(&p->warnings,
                  "texts with more records than rounds.count x privacy.records_max (%" PRIu64
                  "): %" PRIu32 "; some of their records are never used",
                  t->rounds * t->records_max, large);
    if (small > 0)
        plan_warn(
            &p->warnings,
            "texts with fewer records than rounds.count / privacy.record_turns (%.4g): %" PRIu32
            "; in some rounds they use none, and are charged all the same",
            (double)t->rounds / (double)t->record_turns, small);
}

static void privacy_warnings(plan *p, const federation *s)
{
    plan_warnings *w = &p->warnings;
    uint64_t n = p->need.clients;
    uint64_t unit = n >= 10000 ? 1000 : n >= 1000 ? 100 : 10; /* "about": round it */
    n = (n + unit / 2) / unit * unit;
    char text[TASK_TURNS_TEXT];
    if (task_turns_warning(text, &s->task))
        plan_warn(w, "%s", text);
    record_warnings(p, s);
    if (!s->e->protection->quantises)
        plan_warn(w, "protection none: the server sees every update; no privacy is claimed");
    else if (!p->claim)
        plan_warn(w, "no differential privacy claimed (privacy.claim: none)%s",
                  p->noise ? "" : ": the server learns the exact average");
    if (p->noise_ratio > PLAN_RATIO_BAD)
        plan_warn(w,
                  "at %.0f clients this noise drowns the update (%.3g times the largest signal): "
                  "epsilon %g needs about %" PRIu64 "; %s or fewer rounds need less",
                  p->per_round, p->noise_ratio, PLAN_EPSILON, n, plan_fewer_values(s));
    else if (p->noise_ratio > PLAN_RATIO_GOOD)
        plan_warn(w,
                  "the noise is %.2f times the largest signal: learning will be slow above a third",
                  p->noise_ratio);
    if (p->claim && p->noise_ratio <= PLAN_RATIO_BAD && p->has_epsilon &&
        p->epsilon_server > 2 * PLAN_EPSILON)
        plan_warn(w,
                  "an epsilon of %.0f protects little: epsilon %g over these rounds needs z = %.2f "
                  "and about %" PRIu64 " clients",
                  p->epsilon_server, PLAN_EPSILON, ceil(p->need.z * 100) / 100, n);
    if (!p->claim && p->noise && p->noise_ratio <= PLAN_RATIO_BAD &&
        s->e->clients < p->need.clients)
        plan_warn(w,
                  "%" PRIu32 " clients are too few to learn with a small epsilon: epsilon %g over "
                  "these rounds needs z = %.2f and about %" PRIu64 " clients",
                  s->e->clients, PLAN_EPSILON, ceil(p->need.z * 100) / 100, n);
}

/* ---- seconds and memory ---------------------------------------------------------------------- */

static double mean_words(const federation *s)
{
    double words = 0;
    for (uint32_t i = 0; i < s->clients; i++)
        words += (double)calibrate_words(&s->task, &s->text[i]);
    return words / s->clients;
}

static void seconds(plan *p, const federation *s, const rates *r)
{
    const experiment *e = s->e;
    const task *t = &s->task;
    double d = (double)t->values, n = p->per_round, words = mean_words(s);
    plan_seconds *c = &p->client, *one = &p->round;
    p->words = (uint64_t)words;
    c->train = e->trainer ? 0 : 1e-6 * r->train_us_token * words;
    one->train = n * c->train;
    double rounding = e->protection->quantises ? 1e-9 * r->round_ns_value * d : 0;
    c->encrypt = rounding;
    one->encrypt = n * rounding;
    if (e->full) {
        double encryption = 1e-3 * r->encrypt_ms_update + 1e-9 * r->encrypt_ns_value * d;
        c->encrypt += encryption;
        one->encrypt += n * encryption;
        one->sum = n * 1e-9 * r->sum_ns_value * d + 1e-3 * r->sum_ms_round;
    }
    if (e->protection->quantises)
        one->twopc = 1e-3 * r->release_ms_round + 1e-9 * r->release_ns_value * d;
    if (e->full)
        one->twopc += n * (1e-3 * r->open_ms_client + 1e-9 * r->open_ns_value * d);
    one->step = 1e-3 * r->step_ms_round;
    double eval = 1e-6 * r->eval_us_token * (double)s->valid.tokens;
    uint64_t evals = e->eval_every ? p->rounds / e->eval_every : 1;
    one->eval = p->rounds > 0 ? eval * (double)evals / (double)p->rounds : 0;
    double lanes = n < p->threads ? n : p->threads;
    double parallel = lanes > 0 ? (one->train + one->encrypt) / lanes : 0;
    one->wall = parallel + one->sum + one->twopc + one->step + one->eval;
    p->seconds = (double)p->rounds * one->wall;
}

static double text_bytes(const corpus *c)
{
    return 4.0 * (double)c->tokens + 8.0 * (double)(c->lines + 1) + 8.0 * (double)(c->docs + 1);
}

/* Predicts the peak memory, while the sum is released; work.h lists the clients' part. */
static sefl_status memory(plan *p, const federation *s, const rates *r)
{
    sefl_status st = SEFL_OK;
    const experiment *e = s->e;
    const task *t = &s->task;
    double d = (double)t->values, bytes = r->program_bytes, text = 0;
    lm *m = NULL;
    if (!t->external) {
        SEFL_TRY(lm_new(&m, &t->model, NULL));
        bytes += (p->threads + (s->valid.tokens > 0)) * (double)lm_memory(m);
    }
    if (e->trainer)
        plan_warn(&p->warnings, "the time and the memory of the trainer are not predicted");
    bytes += (p->threads + (s->valid.tokens > 0)) * 4 * d; /* the round's model in each engine */
    bytes += p->threads * 4 * d;                           /* a client's update */
    if (e->protection->quantises)
        bytes += p->threads * 8 * d; /* its integers */
    for (uint32_t i = 0; i < s->clients; i++)
        text += text_bytes(&s->text[i]);
    bytes += text * e->clients / s->clients + text_bytes(&s->valid);
    bytes += (double)e->clients * (CLIENT_BYTES + (e->full ? CLIENT_BYTES_FULL : 0));
    bytes +=
        4 * d + 24 * d; /* the global model; released integers and a stored copy; their average */
    bytes += 8 * (double)optim_state_count(t->server_optim.kind, 1) * d;
    if (e->full)
        bytes += p->threads * (double)task_body_bytes(t) + (double)ahe_body_bytes(&t->ahe) +
                 r->tables_bytes;
    else if (e->protection->quantises)
        bytes += p->threads * 8 * d; /* sums */
    if (e->protection->quantises)
        bytes += r->release_bytes_round + r->release_bytes_value * d;
    p->memory_bytes = (uint64_t)bytes;
    double there = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
    if (there > 0 && bytes > 0.9 * there)
        plan_warn(&p->warnings,
                  "the run needs %.1f GB of memory, the machine has %.1f: use fewer threads or %s",
                  1e-9 * bytes, 1e-9 * there, plan_fewer_values(s));
done:
    lm_free(m);
    return st;
}

sefl_status plan_make(plan *out, const federation *s, const rates *r, unsigned threads)
{
    const experiment *e = s->e;
    const task *t = &s->task;
    plan *p = out;
    *p = (plan){ .protection = e->protection->name,
                 .crypto = e->full ? "full" : "clear",
                 .scheme = t->ahe.scheme->name,
                 .clients = e->clients,
                 .rounds = t->rounds,
                 .rounds_asked = t->rounds,
                 .values = t->values,
                 .threads = threads };
    participation(p, s);
    SEFL_PASS(privacy(p, s));
    p->up_bytes = e->protection->two_servers ? task_body_bytes(t) : 4 * t->values;
    p->down_bytes = (uint64_t)r->model_bytes;
    p->link_bytes = (uint64_t)(r->link_bytes_round + r->link_bytes_value * (double)t->values);
    if (e->full) /* heads, when they arrive and in the set */
        p->link_bytes += (uint64_t)(p->per_round * (double)(head_bytes(t->seal) + HEAD_PREFIX));
    seconds(p, s, r);
    SEFL_PASS(memory(p, s, r));
    privacy_warnings(p, s);
    three_ways(p, s);
    return SEFL_OK;
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void put_seconds(json *j, const char *name, const plan_seconds *s)
{
    json_key(j, name), json_open(j, '{');
    json_fields(j, lf_real("train_seconds", s->train), lf_real("encrypt_seconds", s->encrypt),
                lf_real("sum_seconds", s->sum), lf_real("2pc_seconds", s->twopc),
                lf_real("step_seconds", s->step), lf_real("eval_seconds", s->eval),
                lf_real("seconds", s->wall));
    json_close(j, '}');
}

sefl_status plan_json(sefl_buf *out, const plan *p)
{
    json j = json_into(out);
    char filter[DP_FILTER_TEXT];
    json_open(&j, '{');
    json_fields(&j, lf_str("protection", p->protection), lf_str("crypto", p->crypto),
                lf_str("scheme", p->scheme), lf_u64("clients", p->clients),
                lf_real("clients_per_round", p->per_round), lf_u64("rounds", p->rounds),
                lf_u64("rounds_asked", p->rounds_asked), lf_u64("values", p->values),
                lf_u64("threads", p->threads), lf_u64("up_bytes_per_client", p->up_bytes),
                lf_u64("down_bytes_per_client", p->down_bytes),
                lf_real("up_bytes", p->per_round * (double)p->up_bytes),
                lf_real("down_bytes", p->asked * (double)p->down_bytes),
                lf_u64("link_bytes", p->link_bytes), lf_u64("memory_bytes", p->memory_bytes));
    put_seconds(&j, "round", &p->round);
    put_seconds(&j, "client", &p->client);
    json_fields(&j, lf_real("seconds", p->seconds), lf_str("claim", p->claim ? "dp" : "none"),
                lf_real("z", p->z), lf_real("noise_to_signal", p->noise_ratio),
                lf_if(p->has_epsilon, lf_real("epsilon_server", p->epsilon_server)),
                lf_if(p->has_epsilon, lf_real("epsilon_others", p->epsilon_others)),
                lf_real("delta", p->delta), lf_real("z_for_epsilon_8", p->need.z),
                lf_u64("clients_for_epsilon_8", p->need.clients));
    if (p->has_ways) {
        json_key(&j, "ways"), json_open(&j, '{');
        json_fields(&j, lf_real("epsilon", p->ways.epsilon),
                    lf_u64("max_rounds_per_client", p->ways.turns.most),
                    lf_u64("separation", p->ways.turns.apart),
                    lf_str("filter", dp_filter_text(filter, &p->ways.filter)));
        dp_ways_json(&j, &p->ways);
        json_close(&j, '}');
    }
    plan_classic_json(&j, &p->classic);
    plan_warnings_json(&j, &p->warnings);
    json_close(&j, '}');
    return json_end(&j);
}

#include "base/hex.h"
#include "cli/options.h"
#include "cli/print.h"

#include "base/buf.h"
#include "base/json.h"
#include "privacy/accountant/pld.h"
#include "privacy/combinations.h"
#include "privacy/dp_grid.h"
#include "privacy/dp_plan.h"
#include "store/text_ledger.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define NO_CLAIM "no differential privacy claimed"

static const char *const unit_name[] = { "client", "record", "mixed" };

/* ---- plan ---------------------------------------------------------------------------------- */

typedef struct plan {
    /* options */
    dp_plan q;
    double clip;
    bool pld, classic, json;
    unsigned unit; /* 0: client, 1: record */
    bool correlated;
    dp_turns_plan turns;                    /* with --correlated */
    const char *ledger, *population, *text; /* for spent and new */
    /* results */
    pld_interval pld_server, pld_others;
    dp_grid grid;
} plan;

static sefl_status compute(plan *p)
{
    dp_plan *q = &p->q;
    if (p->classic)
        q->z = dp_classic(q->delta) / q->epsilon;
    SEFL_PASS(dp_plan_compute(q));
    if (p->pld) {
        dp_event server = dp_plan_event(q, true), others = dp_plan_event(q, false);
        SEFL_PASS(dp_pld_epsilon(&p->pld_server, &server, 1, q->delta));
        SEFL_PASS(dp_pld_epsilon(&p->pld_others, &others, 1, q->delta));
    }
    return dp_grid_init(
        &p->grid,
        &(dp_grid_config){ .z = q->z, .clip = p->clip, .dim = q->dim, .clients = q->clients });
}

static double up(double v)
{
    return dp_four_digits(v, true);
}

static double down(double v)
{
    return dp_four_digits(v, false);
}

static void text_epsilon(const char *who, const dp_claim c[2], double delta, const char *mark)
{
    if (!c[0].claimed) {
        printf("%-34s %s: %s\n", who, NO_CLAIM, c[0].why_not);
        return;
    }
    printf("%-34s %-9.4g at delta %g", who, up(c[0].epsilon), delta);
    if (c[1].claimed)
        printf(", replacement %.4g", up(c[1].epsilon));
    else
        printf(", replacement: %s", NO_CLAIM);
    printf("%s\n", mark);
}

/* Digits for a number of clients, which may be a fraction: no exponent up to 2^24. */
static int digits(double clients)
{
    return clients < 1000 ? 4 : 8;
}

static bool limits_records(const dp_plan *p)
{
    return p->unit_record && p->record_turns > 0 && p->record_turns < p->rounds;
}

/* Records that take turns: what a round uses, and how all records in every round compare. */
static void records_text(const plan *p)
{
    dp_plan all = p->q;
    if (!p->q.unit_record)
        return;
    printf("%-34s %" PRIu64 "   (the most records of such a client in a round)\n",
           "privacy.records_max", p->q.records_max);
    if (!limits_records(&p->q) || !(p->q.epsilon > 0) || p->classic)
        return;
    all.record_turns = 0, all.z = 0;
    if (dp_plan_compute(&all) == SEFL_OK)
        printf("%-34s z %.10g, noise over signal %.3g, %.3g times the training\n",
               "  all records in every round", dp_z_shown(all.z), all.noise_over_signal,
               (double)p->q.rounds / (double)p->q.record_turns);
}

static void plan_text(const plan *p)
{
    const double drawn = (double)p->q.clients * p->q.rate;
    printf("plan: %" PRIu64 " clients, rate %g (%.*g per round), %" PRIu64 " rounds", p->q.clients,
           p->q.rate, digits(p->q.cohort), p->q.cohort, p->q.rounds);
    if (p->q.max_rounds > 0)
        printf(", each client in at most %" PRIu64, p->q.max_rounds);
    printf(", %s noise\n", dp_sources[p->q.source].name);
    if (limits_records(&p->q))
        printf("%-34s a single record; each of a client's %" PRIu64 " is used in at most %" PRIu64
               " rounds\n",
               "protected unit", p->q.records, p->q.record_turns);
    else if (p->q.unit_record)
        printf("%-34s a single record; a round uses all %" PRIu64 " of a client\n",
               "protected unit", p->q.records);
    if (p->q.cohort < drawn)
        printf("WARNING: with at most %" PRIu64 " rounds per client, a round has %.*g clients on "
               "average, not %.*g\n",
               p->q.max_rounds, digits(p->q.cohort), p->q.cohort, digits(drawn), drawn);
    printf("%-34s %.10g%s\n", "noise multiplier z", dp_z_shown(p->q.z),
           p->classic ? "   (classic formula, as in the paper)" : "");
    text_epsilon("epsilon against a server", p->q.server, p->q.delta,
                 "   <- limited by the budget");
    text_epsilon("epsilon against others", p->q.others, p->q.delta, "");
    if (p->q.rate < 1 && !p->q.public_count && !p->q.unit_record)
        printf("%-34s AS keeps the number of participants secret, and divides the sum by rate x "
               "enrolled (or by the weight slot)\n",
               "  this one holds only if");
    if (p->pld) {
        printf("%-34s %.4g to %.4g against a server, %.4g to %.4g against others\n",
               "  the same, numerical (PLD)", down(p->pld_server.lower), up(p->pld_server.upper),
               down(p->pld_others.lower), up(p->pld_others.upper));
    }
    printf("%-34s %.4g for one round alone; not a total%s\n", "classic formula",
           up(dp_classic(p->q.delta) / p->q.z),
           dp_classic(p->q.delta) / p->q.z >= 1 ? ", and proven only below 1" : "");
    printf("%-34s %.3g   (noise norm over the largest signal norm, %" PRIu64 " values)\n",
           "noise over signal", p->q.noise_over_signal, p->q.dim);
    records_text(p);
    printf("%-34s %.0f per round for noise no larger than the signal%s\n", "smallest cohort",
           p->q.least_cohort,
           p->q.least_cohort > p->q.cohort ? ": MORE than a round has, expect little learning"
                                           : "");
    printf("%-34s step %.4g, sensitivity D %.6g for clip %g, %u + %u bits per value\n", "grid",
           p->grid.q, p->grid.d_sens, p->clip, p->grid.k, p->grid.t);
}

/* Writes the claims against a server and against others, for zeroing out and for replacement. */
static void json_claims(json *j, const dp_claim server[2], const dp_claim others[2])
{
    static const char *const keys[] = { "server", "server_replace", "others", "others_replace" };
    for (int i = 0; i < 4; i++) {
        const dp_claim *c = i < 2 ? &server[i] : &others[i - 2];
        json_object(j, keys[i],
                    lf_bool("claimed", c->claimed), /* epsilon is null without a claim */
                    lf_real("epsilon", c->epsilon), lf_if(c->claimed, lf_real("order", c->order)),
                    lf_if(!c->claimed, lf_str("statement", NO_CLAIM)),
                    lf_if(!c->claimed, lf_str("why", c->why_not)));
    }
}

static sefl_status plan_json(const plan *p)
{
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    json_fields(&j, lf_u64("clients", p->q.clients), lf_real("sample_rate", p->q.rate),
                lf_u64("rounds", p->q.rounds), lf_u64("max_rounds_per_client", p->q.max_rounds),
                lf_str("noise", dp_sources[p->q.source].name),
                lf_bool("public_count", p->q.public_count),
                lf_str("unit", unit_name[p->q.unit_record]));
    if (p->q.unit_record)
        json_fields(&j, lf_u64("records", p->q.records),
                    lf_u64("record_turns", limits_records(&p->q) ? p->q.record_turns : p->q.rounds),
                    lf_u64("records_max", p->q.records_max));
    json_fields(&j, lf_real("delta", p->q.delta), lf_real("z", p->q.z));
    json_claims(&j, p->q.server, p->q.others);
    if (p->pld) {
        json_object(&j, "server_pld", lf_real("lower", p->pld_server.lower),
                    lf_real("upper", p->pld_server.upper));
        json_object(&j, "others_pld", lf_real("lower", p->pld_others.lower),
                    lf_real("upper", p->pld_others.upper));
    }
    json_fields(&j, lf_real("classic_one_round", dp_classic(p->q.delta) / p->q.z),
                lf_u64("dim", p->q.dim), lf_real("clip", p->clip), lf_real("cohort", p->q.cohort),
                lf_real("noise_over_signal", p->q.noise_over_signal),
                lf_u64("smallest_cohort", (uint64_t)p->q.least_cohort));
    json_object(&j, "grid", lf_real("step", p->grid.q), lf_real("sensitivity", p->grid.d_sens),
                lf_u64("s2", p->grid.s2), lf_u64("ring_bits", p->grid.k),
                lf_u64("fraction_bits", p->grid.t));
    json_close(&j, '}');
    return print_json(&j);
}

/* Returns what is wrong with the combination of options; NULL if it is valid. */
static const char *misuse_of(const plan *p)
{
    const dp_law *law = dp_law_of(dp_sources[p->q.source].law);
    const char *refused = combination_refused(
        (p->q.record_turns ? FEATURE(TURNS) : 0) | (p->q.max_rounds ? FEATURE(MOST) : 0) |
        (p->correlated ? FEATURE(FILTER) : 0) | (p->q.rate < 1 ? FEATURE(OPEN) : 0));
    return !(p->q.rate > 0)                      ? "--sample-rate is 0: it must be above 0"
           : !(p->q.delta > 0 && p->q.delta < 1) ? "--delta must be above 0 and below 1"
           : !(p->clip > 0)                      ? "--clip is 0: it must be above 0"
           : (p->q.epsilon > 0) == (p->q.z > 0)
               ? "either --epsilon (to find z) or --z is required, above 0"
           : !p->unit && (p->q.records || p->q.record_turns)
               ? "--records and --record-turns need --unit record"
           : p->q.record_turns > p->q.rounds ? "--record-turns must be at most --rounds"
           : refused                         ? refused
           : p->unit && !p->q.records    ? "--unit record needs --records, the records of a client"
           : p->q.z > 0 && p->q.z < 1e-3 ? "--z must be from 0.001 to 1000"
           : p->classic && !(p->q.epsilon > 0)
               ? "--classic needs --epsilon, the epsilon of a single round"
           : !p->correlated && (p->turns.turns.apart || p->turns.momentum != 0)
               ? "--separation and --momentum need --correlated"
           : p->correlated && !(p->q.epsilon > 0) ? "--correlated needs --epsilon: it finds z"
           : p->correlated && (p->unit || p->classic || p->pld)
               ? "--correlated plans --unit client alone, and not with --classic or --pld"
           : p->pld && !law->numerical ? "--pld: joint noise has no privacy-loss accountant; "
                                         "only the Renyi bound is proven for it"
           : p->pld && p->q.z > 0 && p->q.z < 0.05 ? "--z must be at least 0.05 with --pld"
                                                   : NULL;
}

/* Reports a failure. The options are valid by now, so it is not a misuse. */
static int outcome(sefl_status st)
{
    if (st == SEFL_OK)
        return CLI_DONE;
    (void)cli_failed(&cmd_privacy, st);
    return CLI_FAILED;
}

/* ---- correlated noise ------------------------------------------------------------------------ */

static sefl_status turns_text(const dp_turns_plan *t)
{
    sefl_buf b = { 0 };
    char filter[DP_FILTER_TEXT];
    printf("plan: %" PRIu64 " clients, %" PRIu64 " rounds, %s noise, correlated, server momentum "
           "%g\n",
           t->clients, t->rounds, dp_sources[t->source].name, t->momentum);
    printf("settings for 'sefl task new -c FILE':\n");
    printf("  rounds.enrolled: %" PRIu64 "\n  rounds.count: %" PRIu64
           "\n  privacy.epsilon: %.10g\n  privacy.delta: %.10g\n",
           t->clients, t->rounds, t->epsilon, t->delta);
    if (t->momentum > 0)
        printf("  server.step: momentum\n  server.momentum: %.10g\n", t->momentum);
    if (t->filter.b > 0)
        printf("  privacy.filter: %s%s%s\n", t->filter.b > 1 ? "\"" : "",
               dp_filter_text(filter, &t->filter), t->filter.b > 1 ? "\"" : "");
    printf("  privacy.z: %.10g\n  rounds.max_per_client: %" PRIu64 "\n  rounds.separation: %" PRIu64
           "\n",
           dp_z_shown(t->correlated.z), t->turns.most, t->turns.apart);
    if (t->filter.b == 0)
        printf(
            "no filter: if a client takes part in every round, correlated noise gains nothing\n");
    text_epsilon("epsilon against everybody", t->claim, t->delta, "");
    printf("%-34s all %" PRIu64 " rounds are one release with noise z / %.4g = %.4g\n",
           "what is charged", t->rounds, up(t->s), down(t->correlated.z / t->s));
    sefl_status st = dp_ways_text(&b, t);
    if (st == SEFL_OK)
        printf("%.*s", (int)b.n, (const char *)b.p);
    buf_clear(&b);
    return st;
}

static sefl_status turns_json(const dp_turns_plan *t)
{
    sefl_buf b = { 0 };
    json j = json_into(&b);
    char filter[DP_FILTER_TEXT];
    json_open(&j, '{');
    json_fields(
        &j, lf_u64("clients", t->clients), lf_u64("rounds", t->rounds),
        lf_str("noise", dp_sources[t->source].name), lf_real("delta", t->delta),
        lf_real("momentum", t->momentum), lf_str("filter", dp_filter_text(filter, &t->filter)),
        lf_u64("max_rounds_per_client", t->turns.most), lf_u64("separation", t->turns.apart),
        lf_real("z", dp_z_shown(t->correlated.z)), lf_real("s", t->s));
    json_claims(&j, t->claim, t->claim);
    dp_ways_json(&j, t);
    json_close(&j, '}');
    return print_json(&j);
}

static sefl_status make_turns(plan *p)
{
    dp_turns_plan *t = &p->turns;
    t->source = p->q.source;
    t->clients = p->q.clients, t->rounds = p->q.rounds, t->dim = p->q.dim;
    t->epsilon = p->q.epsilon, t->delta = p->q.delta;
    t->turns.most = p->q.max_rounds;
    SEFL_PASS(dp_turns_plan_compute(t));
    return p->json ? turns_json(t) : turns_text(t);
}

static sefl_status make_plan(plan *p)
{
    if (p->correlated)
        return make_turns(p);
    SEFL_PASS(compute(p));
    if (p->json)
        return plan_json(p);
    plan_text(p);
    return SEFL_OK;
}

static int run_plan(void *options)
{
    plan *p = options;
    const char *wrong = misuse_of(p);
    p->q.unit_record = p->unit == 1;
    return wrong ? cli_misuse(&cmd_privacy, "%s", wrong) : outcome(make_plan(p));
}

/* ---- spent --------------------------------------------------------------------------------- */

static const char *const unit_mark[] = { ", for a client",
                                         ", FOR A RECORD; nothing is claimed for a client", "" };

/* What a task with correlated noise is charged, and why. */
static void spent_filter(const ledger *l, size_t i, const ledger_terms *t)
{
    if (t->filter.b == 0)
        return;
    const double s = ledger_task_s(l, i);
    char filter[DP_FILTER_TEXT];
    printf("    correlated noise (filter %s", dp_filter_text(filter, &t->filter));
    printf("): an update also shows in later rounds, so its rounds are charged as one release\n"
           "    with noise z / S = %g / %.4g = %.4g; ",
           t->z, up(s), down(t->z / s));
    if (t->horizon > 0)
        printf("S covers this client's rounds up to the last one, %" PRIu64
               ", which it cannot stop\n",
               t->horizon);
    else
        printf("S covers the worst pattern of rounds of a client so far\n");
}

static void spent_text(const ledger *l, const ledger_total *t)
{
    const dp_claim server[2] = { t->server, t->server_replace };
    const dp_claim others[2] = { t->others, t->others_replace };
    ledger_head head;
    char id[2 * LEDGER_HASH_BYTES + 1];
    printf("population \"%s\": %" PRIu64 " round%s of %" PRIu64 " task%s\n", ledger_population(l),
           t->rounds, t->rounds == 1 ? "" : "s", t->tasks, t->tasks == 1 ? "" : "s");
    uint64_t rounds;
    const ledger_terms *terms;
    for (size_t i = 0; (terms = ledger_task(l, i, &rounds)) != NULL; i++) {
        hex_write(id, terms->task, 8);
        printf("  task %s  %6" PRIu64 " rounds  ", id, rounds);
        if (!dp_noise_claims(terms->noise))
            printf("claim: none\n");
        else
            printf("unit %s, %s noise, z %g, rate %g, target epsilon %g at delta %g\n",
                   unit_name[terms->unit], dp_noise_name(terms->noise), terms->z, terms->rate,
                   terms->epsilon_max, terms->delta);
        if (terms->turns > 0)
            printf("    records take turns: each is charged for at most %" PRIu64 " of %" PRIu64
                   " rounds\n",
                   terms->turns, terms->turn_rounds);
        spent_filter(l, i, terms);
    }
    text_epsilon("spent, against a server", server, t->delta, unit_mark[t->unit]);
    text_epsilon("spent, against others", others, t->delta, unit_mark[t->unit]);
    if (ledger_ignored(l) > 0)
        printf("%-34s ignored %zu bytes of an unfinished record at the end\n", "note",
               ledger_ignored(l));
    ledger_get_head(l, &head);
    hex_write(id, head.hash, sizeof head.hash);
    printf("%-34s record %" PRIu64 ", %s\n", "head", head.records, id);
}

static sefl_status spent_json(const ledger *l, const ledger_total *t)
{
    const dp_claim server[2] = { t->server, t->server_replace };
    const dp_claim others[2] = { t->others, t->others_replace };
    sefl_buf b = { 0 };
    json j = json_into(&b);
    ledger_head head;
    char id[2 * LEDGER_HASH_BYTES + 1];
    uint64_t rounds;
    const ledger_terms *terms;
    json_open(&j, '{');
    json_fields(&j, lf_str("population", ledger_population(l)), lf_u64("rounds", t->rounds),
                lf_real("delta", t->delta), lf_str("unit", unit_name[t->unit]),
                lf_u64("ignored_bytes", ledger_ignored(l)));
    json_claims(&j, server, others);
    json_key(&j, "tasks"), json_open(&j, '[');
    for (size_t i = 0; (terms = ledger_task(l, i, &rounds)) != NULL; i++) {
        hex_write(id, terms->task, sizeof terms->task);
        json_object(&j, NULL, lf_str("task", id), lf_u64("rounds", rounds),
                    lf_str("unit", unit_name[terms->unit]),
                    lf_str("noise", dp_noise_name(terms->noise)), lf_real("z", terms->z),
                    lf_real("rate", terms->rate),
                    lf_u64("max_rounds_per_client", terms->max_rounds_per_client),
                    lf_real("epsilon_max", terms->epsilon_max), lf_real("delta", terms->delta),
                    lf_u64("separation", terms->separation), lf_u64("record_turns", terms->turns),
                    lf_if(terms->filter.b > 0, lf_u64("horizon", terms->horizon)),
                    lf_if(terms->filter.b > 0,
                          lf_real("s", terms->filter.b > 0 ? ledger_task_s(l, i) : 0)));
    }
    json_close(&j, ']');
    ledger_get_head(l, &head);
    hex_write(id, head.hash, sizeof head.hash);
    json_object(&j, "head", lf_u64("records", head.records), lf_str("hash", id));
    json_close(&j, '}');
    return print_json(&j);
}

static int run_spent(void *options)
{
    sefl_status st = SEFL_OK;
    const plan *p = options;
    ledger *l = NULL;
    ledger_total total;
    if (p->q.delta >= 1)
        return cli_misuse(&cmd_privacy, "--delta must be above 0 and below 1");
    SEFL_TRY(ledger_open_read(&l, p->ledger));
    SEFL_TRY(ledger_spent(l, p->q.delta, &total));
    if (p->json)
        SEFL_TRY(spent_json(l, &total));
    else
        spent_text(l, &total);
done:
    ledger_close(l);
    return outcome(st);
}

/* ---- new ----------------------------------------------------------------------------------- */

static int run_new(void *options)
{
    const plan *p = options;
    if (!p->population == !p->text)
        return cli_misuse(
            &cmd_privacy,
            "new requires --population NAME (for a server) or --text TEXT (for a client)");
    sefl_status st =
        p->text ? text_ledger_create(p->ledger, p->text) : ledger_create(p->ledger, p->population);
    if (st == SEFL_OK && p->text)
        printf("%s: empty ledger for the text %s\n", p->ledger, p->text);
    else if (st == SEFL_OK)
        printf("%s: empty ledger for the population \"%s\"\n", p->ledger, p->population);
    return outcome(st);
}

#define TO(member) SETTING_TO(plan, member)
static const setting_def options[] = {
    { "clients", SETTING_U64, "0", TO(q.clients), .min = 1, .max = 1 << 24,
      .help = "Number of enrolled clients" },
    { "sample-rate", SETTING_REAL, "1", TO(q.rate), .max = 1, .arg = "Q",
      .help = "Probability that a client takes part in a round" },
    { "rounds", SETTING_U64, "0", TO(q.rounds), .min = 1, .max = 1000000000,
      .help = "Total number of rounds" },
    { "epsilon", SETTING_REAL, "0", TO(q.epsilon), .max = 1000000, .arg = "E",
      .help = "Target epsilon, for which the command computes the noise multiplier z" },
    { "z", SETTING_REAL, "0", TO(q.z), .max = 1000, .arg = "Z",
      .help = "Noise multiplier to use instead of a target epsilon" },
    { "delta", SETTING_REAL, "0", TO(q.delta), .arg = "D",
      .help =
          "Delta of the guarantee, above 0 and below 1; 'spent' uses the delta of the latest claim "
          "by default" },
    { "unit", SETTING_CHOICE, "client", "client record", TO(unit),
      .help = "What the guarantee protects: all data of a client, or a single record" },
    { "records", SETTING_U64, "0", TO(q.records), .min = 1, .max = 1000000000,
      .help = "Number of records of a client, with --unit record" },
    { "record-turns", SETTING_U64, "0", TO(q.record_turns), .min = 1, .max = 1000000000, .arg = "K",
      .help = "With --unit record: maximum number of rounds that use one record; all by default" },
    { "max-rounds-per-client", SETTING_U64, "0", TO(q.max_rounds), .min = 1, .max = 1000000000,
      .help = "Maximum rounds per client; a limit lowers the epsilon against a server" },
    { "correlated", SETTING_FLAG, TO(correlated),
      .help = "Plan correlated noise for clients that take turns: find filter, turns and z for "
              "--epsilon" },
    { "separation", SETTING_U64, "0", TO(turns.turns.apart), .min = 1, .max = 1 << 17, .arg = "S",
      .help = "With --correlated: rounds from one upload of a client to its next" },
    { "momentum", SETTING_REAL, "0", TO(turns.momentum), .max = 1, .arg = "B",
      .help = "With --correlated: momentum of the aggregation server" },
    { "public-count", SETTING_FLAG, TO(q.public_count),
      .help = "Assume a public number of participants, so that sampling does not amplify privacy" },
    { "noise", SETTING_CHOICE, "joint", DP_SOURCE_WORDS, TO(q.source),
      .help = "Source of the noise" DP_SOURCE_HELP },
    { "dim", SETTING_U64, "945510", TO(q.dim), .min = 1, .max = UINT64_C(1) << 32,
      .help = "Number of values in an update" },
    { "clip", SETTING_REAL, "1", TO(clip), .arg = "C", .help = "Maximum L2 norm of an update" },
    { "classic", SETTING_FLAG, TO(classic),
      .help = "Compute z with the original paper's formula; E is then the epsilon of one round" },
    { "pld", SETTING_FLAG, TO(pld), .help = "Also run the PLD accountant (own or cdp noise)" },
    { "population", SETTING_TEXT, "", TO(population), .arg = "NAME",
      .help = "Population whose privacy a server's new ledger records" },
    { "text", SETTING_PATH, "", TO(text), .arg = "TEXT",
      .help = "Text whose privacy a client's new ledger records; TEXT/.sefl-ledger names it" },
    OPTION_JSON(plan),
    { 0 },
};

#define LEDGER_ARG "LEDGER", "one ledger"
#define AT         offsetof(plan, ledger)
static const cli_action actions[] = {
    { "plan", NULL, NULL,
      "Prints the noise multiplier and two epsilons: one against a server or anyone else who sees "
      "which clients take part (the budget limits this one), and one against everyone else.",
      "clients rounds delta",
      "sample-rate epsilon z unit records record-turns max-rounds-per-client correlated separation "
      "momentum public-count noise dim clip classic pld json",
      0, .run = run_plan },
    { "spent", LEDGER_ARG, "Prints the privacy that each task in a ledger has spent.", NULL,
      "delta json", AT, .run = run_spent },
    { "new", LEDGER_ARG,
      "Creates an empty ledger: one per population for a server, one per text for a client. "
      "Servers and clients never create one themselves, because that could reset the budget.",
      NULL, "population text", AT, .run = run_new },
    { 0 },
};

const cli_command cmd_privacy = {
    .name = "privacy",
    .example = "sefl privacy plan --clients 3000 --sample-rate 0.1 --rounds 100 \\\n"
               "      --epsilon 8 --delta 1e-6",
    CLI_OPTIONS(plan),
    .actions = actions,
};

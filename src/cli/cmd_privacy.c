#include "base/hex.h"
#include "cli/actions.h"
#include "cli/cli.h"
#include "cli/print.h"

#include "base/buf.h"
#include "base/json.h"
#include "privacy/accountant/gauss.h"
#include "privacy/accountant/pld.h"
#include "privacy/grid.h"
#include "store/text_ledger.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_CLAIM "no differential privacy claimed"

/* ---- plan ---------------------------------------------------------------------------------- */

typedef struct plan {
    /* asked */
    double clients, rate, rounds, epsilon, delta, dim, clip, z, max_rounds;
    bool hidden, public_count, pld, classic, json;
    const char *noise; /* joint, own, cdp */
    /* found */
    dp_claim server[2], others[2]; /* zero-out, replacement */
    pld_interval pld_server, pld_others;
    dp_grid grid;
    double cohort; /* clients a round, the limit on rounds a client included */
    double noise_over_signal, least_cohort;
} plan;

/* a finite decimal number, nothing behind it; strtod would also take 0x10, inf and nan */
static bool parse_real(const char *text, double *out)
{
    char *end;
    if (text[0] == 0 || text[strspn(text, "0123456789+-.eE")] != 0)
        return false;
    double v = strtod(text, &end);
    if (end == text || *end != 0 || !isfinite(v))
        return false;
    *out = v;
    return true;
}

static dp_event event_of(const plan *p, bool against_server)
{
    dp_event ev = { .noise = strcmp(p->noise, "joint") == 0 ? DP_NOISE_JOINT : DP_NOISE_DISCRETE,
                    .z = p->z,
                    .rate = p->rate,
                    .count = (uint64_t)p->rounds,
                    .dim = (uint64_t)p->dim,
                    .sigma_steps = 38662 };
    /* who sees how many took part learns about one client's coin: no amplification */
    if ((against_server && !p->hidden) || p->public_count) {
        ev.rate = 1;
        if (p->max_rounds > 0 && p->max_rounds < p->rounds)
            ev.count = (uint64_t)p->max_rounds;
    }
    return ev;
}

static sefl_status compute(plan *p)
{
    sefl_status st = SEFL_OK;
    dp_event server = event_of(p, true), others = event_of(p, false);
    dp_question q = { .delta = p->delta };
    p->cohort = p->clients * p->rate;
    if (p->max_rounds > 0) /* nobody can be in more of them */
        p->cohort = fmin(p->cohort, p->clients * p->max_rounds / p->rounds);
    if (p->classic)
        p->z = classic_z(p->epsilon, p->delta);
    else if (p->z == 0)
        SEFL_TRY(dp_find_z(&p->z, &server, p->epsilon, &q));
    server.z = others.z = p->z;
    for (int i = 0; i < 2; i++) {
        q.neighbours = i ? DP_REPLACE : DP_ZERO_OUT;
        SEFL_TRY(dp_epsilon(&p->server[i], &server, 1, &q));
        SEFL_TRY(dp_epsilon(&p->others[i], &others, 1, &q));
        if (p->server[i].epsilon < p->others[i].epsilon) /* others see no more than a server */
            p->others[i] = p->server[i];
    }
    if (p->pld) {
        SEFL_TRY(dp_pld_epsilon(&p->pld_server, &server, 1, p->delta));
        SEFL_TRY(dp_pld_epsilon(&p->pld_others, &others, 1, p->delta));
    }
    SEFL_TRY(dp_grid_init(&p->grid, &(dp_grid_config){ .z = p->z,
                                                       .clip = p->clip,
                                                       .dim = (uint64_t)p->dim,
                                                       .clients = (uint64_t)p->clients }));
    /* both servers' own noises add up in the release */
    double spread = p->z * sqrt(p->dim) * (strcmp(p->noise, "own") == 0 ? M_SQRT2 : 1);
    p->noise_over_signal = spread / p->cohort;
    p->least_cohort = ceil(spread);
done:
    return st;
}

static double up(double v)
{
    return dp_quantised(v, true);
}

static double down(double v)
{
    return dp_quantised(v, false);
}

/* z upwards to six places: whoever copies it gets at least this much noise */
static double z_shown(double z)
{
    double shown = ceil(z * 1e6) / 1e6;
    return shown >= z ? shown : shown + 1e-6;
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

static void plan_text(const plan *p)
{
    printf("plan: %.0f clients, rate %g (%.4g a round%s), %.0f rounds", p->clients, p->rate,
           p->cohort, p->hidden ? ", hidden" : "", p->rounds);
    if (p->max_rounds > 0)
        printf(", each client in at most %.0f", p->max_rounds);
    printf(", %s noise\n", p->noise);
    if (p->cohort < p->clients * p->rate)
        printf(
            "WARNING: with at most %.0f rounds a client a round has %.4g clients on average, not "
            "%.4g\n",
            p->max_rounds, p->cohort, p->clients * p->rate);
    printf("%-34s %.10g%s\n", "noise multiplier z", z_shown(p->z),
           p->classic ? "   (classic formula, as in the paper)" : "");
    text_epsilon("epsilon against a server", p->server, p->delta, "   <- the budget gate");
    text_epsilon("epsilon against others", p->others, p->delta, "");
    if (p->rate < 1 && !p->public_count)
        printf("%-34s the number that took part is never published (divisor: rate x enrolled, or "
               "the weight slot)\n",
               "  with sampling only if");
    if (p->pld) {
        printf("%-34s %.4g to %.4g against a server, %.4g to %.4g against others\n",
               "  the same, numerical (PLD)", down(p->pld_server.lower), up(p->pld_server.upper),
               down(p->pld_others.lower), up(p->pld_others.upper));
    }
    printf("%-34s %.4g for one round alone; not a total%s\n", "classic formula",
           up(classic_epsilon(p->z, p->delta)),
           classic_epsilon(p->z, p->delta) >= 1 ? ", and proven below 1 only" : "");
    printf("%-34s %.3g   (noise norm over the largest signal norm, %.0f values)\n",
           "noise over signal", p->noise_over_signal, p->dim);
    printf("%-34s %.0f a round for noise no larger than the signal%s\n", "smallest cohort",
           p->least_cohort,
           p->least_cohort > p->cohort ? ": MORE than there are, expect little learning" : "");
    printf("%-34s step %.4g, sensitivity D %.6g for clip %g, %u + %u bits a value\n", "grid",
           p->grid.q, p->grid.d_sens, p->clip, p->grid.k, p->grid.t);
}

static void json_claim(json *j, const char *key, const dp_claim *c)
{
    json_key(j, key), json_open(j, '{');
    json_key(j, "claimed"), json_bool(j, c->claimed);
    json_key(j, "epsilon"), json_real(j, c->epsilon); /* null when nothing is claimed */
    if (c->claimed)
        json_key(j, "order"), json_real(j, c->order);
    else
        json_key(j, "statement"), json_str(j, NO_CLAIM), json_key(j, "why"),
            json_str(j, c->why_not);
    json_close(j, '}');
}

static void json_pld(json *j, const char *key, const pld_interval *e)
{
    json_key(j, key), json_open(j, '{');
    json_key(j, "lower"), json_real(j, e->lower);
    json_key(j, "upper"), json_real(j, e->upper);
    json_close(j, '}');
}

static int plan_json(const plan *p)
{
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    json_key(&j, "clients"), json_u64(&j, (uint64_t)p->clients);
    json_key(&j, "sample_rate"), json_real(&j, p->rate);
    json_key(&j, "rounds"), json_u64(&j, (uint64_t)p->rounds);
    json_key(&j, "max_rounds_per_client"), json_u64(&j, (uint64_t)p->max_rounds);
    json_key(&j, "noise"), json_str(&j, p->noise);
    json_key(&j, "hidden"), json_bool(&j, p->hidden);
    json_key(&j, "public_count"), json_bool(&j, p->public_count);
    json_key(&j, "delta"), json_real(&j, p->delta);
    json_key(&j, "z"), json_real(&j, p->z);
    json_claim(&j, "server", &p->server[0]);
    json_claim(&j, "server_replace", &p->server[1]);
    json_claim(&j, "others", &p->others[0]);
    json_claim(&j, "others_replace", &p->others[1]);
    if (p->pld) {
        json_pld(&j, "server_pld", &p->pld_server);
        json_pld(&j, "others_pld", &p->pld_others);
    }
    json_key(&j, "classic_one_round"), json_real(&j, classic_epsilon(p->z, p->delta));
    json_key(&j, "dim"), json_u64(&j, (uint64_t)p->dim);
    json_key(&j, "clip"), json_real(&j, p->clip);
    json_key(&j, "cohort"), json_real(&j, p->cohort);
    json_key(&j, "noise_over_signal"), json_real(&j, p->noise_over_signal);
    json_key(&j, "smallest_cohort"), json_u64(&j, (uint64_t)p->least_cohort);
    json_key(&j, "grid"), json_open(&j, '{');
    json_key(&j, "step"), json_real(&j, p->grid.q);
    json_key(&j, "sensitivity"), json_real(&j, p->grid.d_sens);
    json_key(&j, "s2"), json_u64(&j, p->grid.s2);
    json_key(&j, "ring_bits"), json_u64(&j, p->grid.k);
    json_key(&j, "fraction_bits"), json_u64(&j, p->grid.t);
    json_close(&j, '}');
    json_close(&j, '}');
    return print_json_end(&cmd_privacy, &j);
}

enum { OPT_JSON = 256, OPT_HIDDEN, OPT_PUBLIC_COUNT, OPT_PLD, OPT_CLASSIC, OPT_NOISE, OPT_NUMBER };

static int run_plan(int argc, char **argv)
{
    plan p = { .rate = 1, .dim = 945510, .clip = 1, .noise = "joint" };
    bool given[9] = { 0 };
    const struct {
        const char *name;
        double *to, min, max;
        bool whole, above; /* above: min itself is not allowed */
        const char *wanted;
    } numbers[] = {
        { "clients", &p.clients, 1, 1 << 24, true, false, "a whole number from 1 to 16777216" },
        { "sample-rate", &p.rate, 0, 1, false, true, "a number above 0 and at most 1" },
        { "rounds", &p.rounds, 1, 1e9, true, false, "a whole number from 1 to 1e9" },
        { "epsilon", &p.epsilon, 0, 1e6, false, true, "a finite number above 0" },
        { "delta", &p.delta, 0, 0.999999, false, true, "a number above 0 and below 1" },
        { "dim", &p.dim, 1, 4294967296.0, true, false, "a whole number from 1 to 2^32" },
        { "clip", &p.clip, 0, 1e30, false, true, "a finite number above 0" },
        { "z", &p.z, 1e-3, 1e3, false, false, "a number from 0.001 to 1000" },
        { "max-rounds-per-client", &p.max_rounds, 1, 1e9, true, false, "a whole number above 0" },
    };
    enum { NUMBERS = sizeof numbers / sizeof numbers[0] };
    struct option longopts[NUMBERS + 7] = { { "json", no_argument, NULL, OPT_JSON },
                                            { "hidden", no_argument, NULL, OPT_HIDDEN },
                                            { "public-count", no_argument, NULL, OPT_PUBLIC_COUNT },
                                            { "pld", no_argument, NULL, OPT_PLD },
                                            { "classic", no_argument, NULL, OPT_CLASSIC },
                                            { "noise", required_argument, NULL, OPT_NOISE } };
    for (int i = 0; i < NUMBERS; i++)
        longopts[6 + i] =
            (struct option){ numbers[i].name, required_argument, NULL, OPT_NUMBER + i };

    opterr = 0, optind = 1;
    for (int c; (c = getopt_long(argc, argv, ":", longopts, NULL)) != -1;) {
        switch (c) {
        case OPT_JSON:
            p.json = true;
            break;
        case OPT_HIDDEN:
            p.hidden = true;
            break;
        case OPT_PUBLIC_COUNT:
            p.public_count = true;
            break;
        case OPT_PLD:
            p.pld = true;
            break;
        case OPT_CLASSIC:
            p.classic = true;
            break;
        case OPT_NOISE:
            p.noise = optarg;
            break;
        default: {
            int i = c - OPT_NUMBER;
            double v;
            if (i < 0 || i >= NUMBERS)
                return cli_bad_option(&cmd_privacy, argc, argv, c, longopts);
            if (!parse_real(optarg, &v) || v > numbers[i].max || v < numbers[i].min ||
                (numbers[i].above && v <= numbers[i].min) || (numbers[i].whole && v != floor(v)))
                return cli_misuse(&cmd_privacy, "--%s is \"%.40s\": it must be %s", numbers[i].name,
                                  optarg, numbers[i].wanted);
            *numbers[i].to = v;
            given[i] = true;
        }
        }
    }
    if (optind < argc)
        return cli_misuse(&cmd_privacy, "no argument \"%.64s\" is taken", argv[optind]);
    if (strcmp(p.noise, "joint") != 0 && strcmp(p.noise, "own") != 0 && strcmp(p.noise, "cdp") != 0)
        return cli_misuse(&cmd_privacy, "--noise is \"%.40s\": it must be joint, own or cdp",
                          p.noise);
    if (!given[0] || !given[2] || !given[4])
        return cli_misuse(&cmd_privacy, "--%s is needed",
                          !given[0]   ? "clients"
                          : !given[2] ? "rounds"
                                      : "delta");
    if (given[3] == given[7])
        return cli_misuse(&cmd_privacy, "either --epsilon (to find z) or --z is needed");
    if (p.classic && !given[3])
        return cli_misuse(&cmd_privacy, "--classic needs --epsilon, the one of a single round");
    if (p.pld && strcmp(p.noise, "joint") == 0)
        return cli_misuse(&cmd_privacy,
                          "--pld: joint noise has no privacy-loss accountant, only the Renyi rule "
                          "is proven for it");
    if (p.pld && given[7] && p.z < 0.05)
        return cli_misuse(&cmd_privacy, "--z is %g: --pld takes 0.05 or more", p.z);
    sefl_status st = compute(&p);
    if (st != SEFL_OK) {
        cli_failed(&cmd_privacy, st);
        return CLI_FAILED; /* every option was acceptable by itself */
    }
    if (p.json)
        return plan_json(&p);
    plan_text(&p);
    return CLI_DONE;
}

/* ---- spent --------------------------------------------------------------------------------- */

static const char *const unit_name[] = { "client", "record", "mixed" };
static const char *const unit_mark[] = { ", for a client",
                                         ", FOR A RECORD; nothing is claimed for a client", "" };

static void spent_text(const ledger *l, const ledger_total *t)
{
    const dp_claim server[2] = { t->server, t->server_replace };
    const dp_claim others[2] = { t->others, t->others_replace };
    ledger_head head;
    char id[2 * LEDGER_HASH_BYTES + 1];
    printf("population \"%s\": %" PRIu64 " rounds of %" PRIu64 " tasks\n", ledger_population(l),
           t->rounds, t->tasks);
    uint64_t rounds;
    const ledger_terms *terms;
    for (size_t i = 0; (terms = ledger_task(l, i, &rounds)) != NULL; i++) {
        hex_write(id, terms->task, 8);
        printf("  task %s  %6" PRIu64 " rounds  ", id, rounds);
        if (!dp_noise_claims(terms->noise))
            printf("claim: none\n");
        else
            printf("unit %s, %s noise, z %g, rate %g%s, target epsilon %g at delta %g\n",
                   unit_name[terms->unit], dp_noise_name(terms->noise), terms->z, terms->rate,
                   terms->hidden ? " (hidden)" : "", terms->epsilon_max, terms->delta);
    }
    text_epsilon("spent, against a server", server, t->delta, unit_mark[t->unit]);
    text_epsilon("spent, against others", others, t->delta, unit_mark[t->unit]);
    if (ledger_ignored(l) > 0)
        printf("%-34s %zu bytes of an unfinished record at the end were ignored\n", "note",
               ledger_ignored(l));
    ledger_get_head(l, &head);
    hex_write(id, head.hash, sizeof head.hash);
    printf("%-34s record %" PRIu64 ", %s\n", "head", head.records, id);
}

static int spent_json(const ledger *l, const ledger_total *t)
{
    sefl_buf b = { 0 };
    json j = json_into(&b);
    ledger_head head;
    char id[2 * LEDGER_HASH_BYTES + 1];
    uint64_t rounds;
    const ledger_terms *terms;
    json_open(&j, '{');
    json_key(&j, "population"), json_str(&j, ledger_population(l));
    json_key(&j, "rounds"), json_u64(&j, t->rounds);
    json_key(&j, "delta"), json_real(&j, t->delta);
    json_key(&j, "unit"), json_str(&j, unit_name[t->unit]);
    json_key(&j, "ignored_bytes"), json_u64(&j, ledger_ignored(l));
    json_claim(&j, "server", &t->server);
    json_claim(&j, "server_replace", &t->server_replace);
    json_claim(&j, "others", &t->others);
    json_claim(&j, "others_replace", &t->others_replace);
    json_key(&j, "tasks"), json_open(&j, '[');
    for (size_t i = 0; (terms = ledger_task(l, i, &rounds)) != NULL; i++) {
        hex_write(id, terms->task, sizeof terms->task);
        json_open(&j, '{');
        json_key(&j, "task"), json_str(&j, id);
        json_key(&j, "rounds"), json_u64(&j, rounds);
        json_key(&j, "unit"), json_str(&j, unit_name[terms->unit]);
        json_key(&j, "noise"), json_str(&j, dp_noise_name(terms->noise));
        json_key(&j, "z"), json_real(&j, terms->z);
        json_key(&j, "rate"), json_real(&j, terms->rate);
        json_key(&j, "hidden"), json_bool(&j, terms->hidden);
        json_key(&j, "max_rounds_per_client"), json_u64(&j, terms->max_rounds_per_client);
        json_key(&j, "epsilon_max"), json_real(&j, terms->epsilon_max);
        json_key(&j, "delta"), json_real(&j, terms->delta);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    ledger_get_head(l, &head);
    hex_write(id, head.hash, sizeof head.hash);
    json_key(&j, "head"), json_open(&j, '{');
    json_key(&j, "records"), json_u64(&j, head.records);
    json_key(&j, "hash"), json_str(&j, id);
    json_close(&j, '}');
    json_close(&j, '}');
    return print_json_end(&cmd_privacy, &j);
}

static int run_spent(int argc, char **argv)
{
    static const struct option longopts[] = { { "json", no_argument, NULL, OPT_JSON },
                                              { "delta", required_argument, NULL, OPT_NUMBER },
                                              { 0 } };
    bool as_json = false;
    double delta = 0;
    opterr = 0, optind = 1;
    for (int c; (c = getopt_long(argc, argv, ":", longopts, NULL)) != -1;) {
        if (c == OPT_JSON)
            as_json = true;
        else if (c != OPT_NUMBER)
            return cli_bad_option(&cmd_privacy, argc, argv, c, longopts);
        else if (!parse_real(optarg, &delta) || !(delta > 0 && delta < 1))
            return cli_misuse(&cmd_privacy,
                              "--delta is \"%.40s\": it must be a number above 0 and below 1",
                              optarg);
    }
    if (argc - optind != 1)
        return cli_misuse(&cmd_privacy, "spent takes one ledger");
    ledger *l = NULL;
    ledger_total total;
    int rc = CLI_DONE;
    sefl_status st = ledger_open_read(&l, argv[optind]);
    if (st == SEFL_OK)
        st = ledger_spent(l, delta, &total);
    if (st != SEFL_OK) {
        cli_failed(&cmd_privacy, st);
        rc = CLI_FAILED;
    } else if (as_json) {
        rc = spent_json(l, &total);
    } else {
        spent_text(l, &total);
    }
    ledger_close(l);
    return rc;
}

/* ---- new ----------------------------------------------------------------------------------- */

/* By hand and once: a ledger that a role made by itself could be a reset. */
static int run_new(int argc, char **argv)
{
    static const struct option longopts[] = { { "population", required_argument, NULL, 'p' },
                                              { "text", required_argument, NULL, 't' },
                                              { 0 } };
    const char *population = NULL, *text = NULL;
    opterr = 0, optind = 1;
    for (int c; (c = getopt_long(argc, argv, ":", longopts, NULL)) != -1;) {
        if (c != 'p' && c != 't')
            return cli_bad_option(&cmd_privacy, argc, argv, c, longopts);
        *(c == 'p' ? &population : &text) = optarg;
    }
    if (argc - optind != 1 || !population == !text)
        return cli_misuse(&cmd_privacy,
                          "new takes a file and --population NAME (a server) or --text TEXT (a "
                          "client)");
    sefl_status st =
        text ? text_ledger_create(argv[optind], text) : ledger_create(argv[optind], population);
    if (st != SEFL_OK) {
        cli_failed(&cmd_privacy, st);
        return CLI_FAILED;
    }
    if (text)
        printf("%s: an empty ledger of the text %s\n", argv[optind], text);
    else
        printf("%s: an empty ledger of the population \"%s\"\n", argv[optind], population);
    return CLI_DONE;
}

static int run(int argc, char **argv)
{
    static const char *const names[] = { "plan", "spent", "new", NULL };
    static int (*const runs[])(int, char **) = { run_plan, run_spent, run_new };
    size_t which;
    int rc = cli_action_pick(&cmd_privacy, names, argc, argv, &which);
    return rc == CLI_DONE ? runs[which](argc - 1, argv + 1) : rc;
}

const cli_command cmd_privacy = {
    .name = "privacy",
    .summary = "plan a privacy budget, make a ledger, or show what it has spent",
    .usage = "plan --clients N --rounds T --delta D (--epsilon E | --z Z)\n"
             "                    [options]\n"
             "       sefl privacy spent LEDGER [--delta D] [--json]\n"
             "       sefl privacy new LEDGER --population NAME | --text TEXT",
    .details = "  --clients N       enrolled clients\n"
               "  --sample-rate Q   each takes part in a round with this probability (1)\n"
               "  --rounds T        rounds in all\n"
               "  --epsilon E       target: the noise multiplier is found for it\n"
               "  --z Z             or: the noise multiplier, noise over sensitivity\n"
               "  --delta D         delta of the target\n"
               "  --max-rounds-per-client M   enforced limit, counts against a server\n"
               "  --hidden          everybody uploads each round, those not drawn upload zeros\n"
               "  --public-count    the number that took part is published: no amplification\n"
               "  --noise KIND      joint (both servers together), own (one each), cdp (trusted)\n"
               "  --dim D           values of an update (945510)\n"
               "  --clip C          L2 norm of an update (1)\n"
               "  --classic         z by the paper's formula; E is then that of one round\n"
               "  --pld             also the numerical accountant (own and cdp)\n"
               "  --json            one JSON object\n"
               "new makes an empty ledger, before the first task: a server's, once for a\n"
               "population, or a client's, once for its text (TEXT/.sefl-ledger then names it).\n"
               "A role never makes one itself, for that could be a reset. Two epsilons are\n"
               "printed: against a server, or anyone who sees who takes part, and against\n"
               "everybody else. The first is the budget gate.",
    .example = "sefl privacy plan --clients 3000 --sample-rate 0.1 --rounds 100 \\\n"
               "      --epsilon 8 --delta 1e-6",
    .words = "plan spent new",
    .run = run,
};

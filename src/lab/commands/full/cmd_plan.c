#include "cli/full/experiment_args.h"
#include "cli/meter.h"
#include "cli/print.h"

#include "base/alloc.h"
#include "base/file.h"
#include "privacy/accountant/accountant.h"
#include "simulate/deploy.h"
#include "simulate/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOME_CLIENTS = 16 };

typedef struct session {
    experiment_args args;
    const char *rates, *save, *deploy;
    uint64_t aggregators, window_s;
    bool quick, json;
} session;

static void print_seconds(const char *name, double s)
{
    if (s >= 100)
        printf("  %s %.0f s", name, s);
    else if (s >= 1)
        printf("  %s %.1f s", name, s);
    else
        printf("  %s %.0f ms", name, 1e3 * s);
}

static sefl_status print_ways(const plan *p)
{
    const dp_turns_plan *w = &p->ways;
    sefl_buf b = { 0 };
    char filter[DP_FILTER_TEXT];
    if (!p->has_ways)
        return SEFL_OK;
    printf("\nnoise in the last model with epsilon %g over %" PRIu64 " rounds; %s: at most %" PRIu64
           " per client, %" PRIu64 " apart, filter %s\n",
           w->epsilon, w->rounds, p->ways_proposed ? "turns could be" : "turns", w->turns.most,
           w->turns.apart, w->filter.b ? dp_filter_text(filter, &w->filter) : "none");
    sefl_status st = dp_ways_text(&b, w);
    if (st == SEFL_OK)
        printf("%.*s\n", (int)b.n, (const char *)b.p);
    buf_clear(&b);
    return st;
}

static sefl_status print_plan(const plan *p, const char *name)
{
    char need[PLAN_NEED_TEXT], classic[PLAN_CLASSIC_TEXT];
    const bool sefl = strcmp(p->protection, "sefl") == 0;
    printf("%s: protection %s%s%s, %" PRIu32 " clients, about %.0f per round, %" PRIu64
           " rounds, %zu values\n",
           name, p->protection, sefl ? ", crypto " : "", sefl ? p->crypto : "", p->clients,
           p->per_round, p->rounds_asked, p->values);
    printf("a client    up %s  down %s per round", human_bytes((double)p->up_bytes).text,
           human_bytes((double)p->down_bytes).text);
    if (p->words > 0)
        printf("; %" PRIu64 " words of training", p->words);
    printf(":");
    if (p->client.train > 0)
        print_seconds("train", p->client.train);
    if (p->client.encrypt > 0)
        print_seconds("encrypt", p->client.encrypt);
    printf("\na round   ");
    if (p->round.train > 0)
        print_seconds("train", p->round.train);
    print_seconds("encrypt", p->round.encrypt);
    print_seconds("sum", p->round.sum);
    printf(" (processor time)");
    print_seconds("2pc", p->round.twopc);
    print_seconds("step", p->round.step);
    print_seconds("eval", p->round.eval);
    if (p->link_bytes > 0)
        printf("\nservers     %s between them per round\n",
               human_bytes((double)p->link_bytes).text);
    else
        printf("\nservers     nothing between them (crypto clear)\n");
    printf("all rounds  %.0f s on %u thread%s, %s of memory\n", p->seconds, p->threads,
           p->threads == 1 ? "" : "s", human_bytes((double)p->memory_bytes).text);
    if (p->noise)
        printf("noise       z = %g: %.3g times the largest signal (z * sqrt(values) / clients%s)\n",
               p->z, p->noise_ratio, p->unit_record ? " / records_max" : "");
    if (p->has_epsilon)
        printf("privacy     epsilon %.4g against a server, %.4g against others, over %" PRIu64
               " rounds at delta %g, for a %s%s\n",
               dp_four_digits(p->epsilon_server, true), dp_four_digits(p->epsilon_others, true),
               p->rounds_asked, p->delta, p->unit_record ? "record, not for a client" : "client",
               p->claim ? "" : " (not claimed)");
    else
        printf("privacy     none: %s\n", p->why_no_epsilon);
    plan_classic_text(classic, &p->classic);
    if (p->classic.epsilon > 0)
        printf("classic     %s\n", classic);
    plan_need_text(need, &p->need);
    printf("epsilon %g   %s\n", PLAN_EPSILON, need);
    SEFL_PASS(print_ways(p));
    for (unsigned i = 0; i < p->warnings.n; i++)
        printf("warning: %s\n", p->warnings.text[i]);
    return SEFL_OK;
}

typedef struct shown {
    char text[16];
} shown;

/* Three digits, never with an exponent. */
static shown digits(double v)
{
    shown s;
    if (v >= 100)
        snprintf(s.text, sizeof s.text, "%.0f", v);
    else if (v < 0.001)
        snprintf(s.text, sizeof s.text, "0");
    else
        snprintf(s.text, sizeof s.text, "%.*f", v >= 10 ? 1 : v >= 0.1 ? 2 : 3, v);
    return s;
}

static void print_deploy(const deploy *d)
{
    const double w = (double)d->ask.window_s;
    const bool one = d->aggregators == 1;
    printf("\n%" PRIu64 " clients per round, who upload within %" PRIu64 " s\n", d->ask.clients,
           d->ask.window_s);
    printf("uploads     %s, %s each: %s per second, %s Gbit/s\n", human_bytes(d->in_bytes).text,
           human_bytes((double)d->up_bytes).text, digits((double)d->ask.clients / w).text,
           digits(8e-9 * d->in_bytes / w).text);
    printf("processors  AS %s s, PostgreSQL %s s, CSP %s s (%s, %s and %s cores in the window)\n",
           digits(d->as_seconds).text, digits(d->database_seconds).text,
           digits(d->csp_seconds).text, digits(d->as_seconds / w).text,
           digits(d->database_seconds / w).text, digits(d->csp_seconds / w).text);
    printf("link        heads %s, noise shares %s before the round, reveal %s\n",
           human_bytes(d->heads_bytes).text, human_bytes(d->noise_bytes).text,
           human_bytes(d->link_bytes).text);
    printf("memory      the leader's lists %s\n", human_bytes(d->lists_bytes).text);
    printf("after close %s s, with the noise if none is ready; %s s more at CSP if no head came "
           "early\n",
           digits(d->after).text, digits(d->csp_after).text);
    printf("machines    %" PRIu64 " aggregator%s, %s, 1 CSP\n", d->aggregators, one ? "" : "s",
           one ? "no database (2 with PostgreSQL survive the loss of one)" : "1 PostgreSQL");
    if (d->aggregators < d->need)
        printf("warning: the uploads need %" PRIu64 " aggregators\n", d->need);
    printf("in use      AS %.0f %%, its network %.0f %%, folder %.0f %%, commits %.0f %%, CSP "
           "%.0f %%\n",
           100 * d->use[DEPLOY_AS_CORES], 100 * d->use[DEPLOY_AS_NETWORK],
           100 * d->use[DEPLOY_FOLDER], 100 * d->use[DEPLOY_DATABASE], 100 * d->use[DEPLOY_CSP]);
    printf("bottleneck  %s\nnext        %s\n", deploy_parts[d->bottleneck].name,
           deploy_parts[d->bottleneck].next);
}

/* One row for each number of the list. */
static sefl_status plan_deploy(const session *s, const federation *f, const rates *r)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    deploy_costs costs;
    SEFL_TRY(deploy_measure(&costs, f));
    if (s->json)
        json_open(&j, '[');
    else
        printf("%" PRIu64 " values; assumed: aggregators with %d cores and %.0f Gbit, CSP with %d "
               "cores, a folder of %.0f GB/s, %.0f ms per commit, no part above %.0f %%\n",
               (uint64_t)f->task.values, DEPLOY_CORES, 8e-9 * DEPLOY_NETWORK_BYTES,
               DEPLOY_CSP_CORES, 1e-9 * DEPLOY_FOLDER_BYTES, DEPLOY_COMMIT_MS, 100 * DEPLOY_USE);
    for (const char *at = s->deploy; *at;) {
        char *end;
        const deploy_ask ask = { .clients = strtoull(at, &end, 10),
                                 .aggregators = s->aggregators,
                                 .window_s = s->window_s };
        deploy d;
        SEFL_CHECK(end > at && (*end == ',' || !*end) && *at != '-', SEFL_EINVAL,
                   "--deploy: \"%s\" is not a list of numbers such as 1000,100000", s->deploy);
        SEFL_TRY(deploy_make(&d, f, r, &costs, &ask));
        if (s->json)
            deploy_json(&j, &d);
        else
            print_deploy(&d);
        at = *end ? end + 1 : end;
    }
    if (s->json) {
        json_close(&j, ']');
        st = print_json(&j);
    }
done:
    buf_clear(&b);
    return st;
}

static sefl_status plan_one(void *self, settings *one, experiment *e)
{
    sefl_status st = SEFL_OK;
    const session *s = self;
    federation *sc = NULL;
    pool *pl = NULL;
    rates r;
    plan *p = NULL;
    sefl_buf b = { 0 };
    meter m;
    if (strcmp(e->device, "cpu") != 0)
        fprintf(stderr, "sefl plan: times and memory are for device: cpu, not %s\n", e->device);
    e->device = "cpu";
    sefl_progress progress = meter_start(&m, "measuring");
    SEFL_TRY(pool_new(&pl, e->threads));
    /* generated texts are alike: a few of them are enough */
    SEFL_TRY(federation_new(&sc, &(federation_config){ .experiment = e,
                                                       .settings = one,
                                                       .some = *e->data ? 0 : SOME_CLIENTS,
                                                       .progress = &progress }));
    if (s->rates)
        SEFL_TRY(rates_read(&r, s->rates));
    else
        SEFL_TRY(calibrate(&r, sc, pl, s->quick ? 1.5 : 8));
    meter_stop(&m);
    if (s->save) {
        SEFL_TRY(rates_write(&b, &r));
        SEFL_TRY(file_write_atomic(s->save, buf_span(&b), 0666));
        buf_reset(&b);
    }
    if (s->deploy) {
        SEFL_TRY(plan_deploy(s, sc, &r));
        goto done;
    }
    SEFL_TRY(sefl_new(&p, 1, sizeof *p));
    SEFL_TRY(plan_make(p, sc, &r, pool_threads(pl)));
    if (s->json)
        SEFL_TRY(print_made(plan_json(&b, p), &b));
    else
        SEFL_TRY(print_plan(p, e->name));
done:
    meter_stop(&m);
    sefl_free(p);
    buf_clear(&b);
    federation_free(sc);
    pool_free(pl);
    return st;
}

static sefl_status work(void *self)
{
    session *s = self;
    SEFL_NEED(
        !s->rates || (!s->quick && !s->save), SEFL_EINVAL,
        "--rates replaces the measurement of --quick and --save-rates: give one or the other");
    return experiment_args_each(&s->args, plan_one, s);
}

static const setting_def options[] = {
    EXPERIMENT_OPTIONS,
    { "quick", SETTING_FLAG, SETTING_TO(session, quick),
      .help = "Measure this machine for about 2 seconds instead of 10" },
    { "rates", SETTING_PATH, "", SETTING_TO(session, rates),
      .help = "Do not measure; use the rates that --save-rates wrote to FILE" },
    { "save-rates", SETTING_PATH, "", SETTING_TO(session, save),
      .help = "Write the rates measured on this machine for this model to FILE" },
    { "deploy", SETTING_TEXT, "", SETTING_TO(session, deploy), .arg = "N,N,...",
      .help = "Predict what a round with so many clients costs the servers of a real federation, "
              "how many machines it needs, and the bottleneck" },
    { "aggregators", SETTING_U64, "0", SETTING_TO(session, aggregators), .min = 0, .max = 1000,
      .help = "With --deploy: number of aggregators; 0: as many as it needs" },
    { "window", SETTING_U64, "600", SETTING_TO(session, window_s), .min = 1, .max = 1000000,
      .help = "With --deploy: seconds in which all clients of a round upload" },
    OPTION_JSON(session),
    { 0 },
};

const cli_command cmd_plan = {
    .name = "plan",
    .about = "Predicts, for one round, the bytes transferred, the time of each step and the "
             "noise-to-signal ratio; for the whole run, the time, memory and epsilon. Warns of "
             "problems and suggests changes. It plans every run of a sweep, but starts none. With "
             "--deploy it predicts the servers of a real federation instead (docs/SCALING.md).",
    .example = "echo 'clients: 20' > experiment.yml && sefl plan --quick -c experiment.yml",
    EXPERIMENT_COMMAND(session, .work = work),
};

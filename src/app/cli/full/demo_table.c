#define _GNU_SOURCE
#include "cli/full/demo_table.h"
#include "cli/print.h"

#include "report/report.h"
#include "simulate/plan_need.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DELTA 1e-6

/* Returns the number of clients at which the average has as little noise per value, z * clip /
 * clients, as in this run. */
static double as_here(const demo_facts *s, const plan_need *n)
{
    return ceil(n->z / strtod(s->task->z, NULL) * s->clients);
}

static void model_path(char out[64], const demo_facts *s)
{
    uint64_t last = 0;
    for (size_t i = 0; i < s->rounds->n; i++)
        if (!s->rounds->at[i].skipped && !s->rounds->at[i].blocked)
            last = s->rounds->at[i].round;
    snprintf(out, 64, "federation/aggregator/models/round-%" PRIu64 ".safetensors", last);
}

/* Returns the size of a model file. Every client that starts a round fetches one. */
static double model_bytes(const demo_facts *s)
{
    char path[4096];
    struct stat sb;
    snprintf(path, sizeof path, "%s/federation/public/init.safetensors", s->out);
    return stat(path, &sb) == 0 ? (double)sb.st_size : NAN;
}

static void print_perplexity(const demo_result *r, const demo_facts *s, const run_totals *t)
{
    char after[40];
    snprintf(after, sizeof after, "after %" PRIu64 " secure rounds", t->released);
    printf("\nperplexity on the public validation text\n"
           "  before                  %8.1f\n"
           "  %-23s %8.1f   clipped, encrypted, noisy; %" PRIu32 " of %" PRIu32
           " clients lost in round %" PRIu64 "\n"
           "  plain FedAvg            %8.1f   same text and training, all clients, no protection\n"
           "  best possible           %8.1f   the perplexity of the generator itself\n",
           r->plain.before, after, t->all.perplexity, s->lost, s->clients, s->lost_round,
           r->plain.after, r->best);
}

static void print_privacy(const demo_facts *s, const run_totals *t, const plan_need *n)
{
    char need[PLAN_NEED_TEXT];
    plan_need_text(need, n);
    printf("\nprivacy\n");
    if (isnan(t->all.epsilon_server))
        printf("  epsilon spent           none claimed: z = %s is too little noise for any claim\n",
               s->task->z);
    else
        printf("  epsilon spent           %.1f at delta %g against a server%s\n",
               t->all.epsilon_server, s->task->delta,
               t->all.epsilon_server > 10 ? ": too large to protect anyone" : "");
    printf(
        "  epsilon %g               %s\n"
        "                          (delta %g). The noise is then a third of the largest update;\n"
        "                          with %" PRIu64 " clients it is as large as that update, and\n"
        "                          %.0f have the ratio of this demo with its %" PRIu32 " clients\n",
        n->epsilon, need, n->delta, n->no_larger, as_here(s, n), s->clients);
}

static void print_cost(const demo_result *r, const demo_facts *s, const run_totals *t)
{
    const double size = model_bytes(s), one = (double)r->update_bytes;
    printf("\npart (all rounds)                     seconds       bytes\n"
           "  keys, text, task                    %7.1f\n"
           "  clients train, encrypt, upload      %7.1f   %9s   up; %s per update\n"
           "  clients fetch the model             %7s   %9s   down; %s per model\n"
           "  AS and CSP make noise shares        %7.1f   %9s   while clients train\n"
           "  AS and CSP reveal the noisy sum     %7.1f   %9s\n"
           "  release and validation              %7.1f\n"
           "  plain FedAvg, for comparison        %7.1f\n"
           "  all                                 %7.1f\n",
           r->provision_seconds, t->collect, human_bytes(t->all.up_bytes).text,
           human_bytes(one).text, "", human_bytes(t->all.up_bytes / one * size).text,
           human_bytes(size).text, t->all.ahead_seconds, human_bytes(t->all.ahead_bytes).text,
           t->all.open_seconds, human_bytes(t->all.open_bytes).text, t->all.release_seconds,
           r->plain_seconds, r->seconds);
}

static void print_rest(const demo_facts *s)
{
    char model[64];
    const char *o = s->out;
    model_path(model, s);
    printf("\nWho saw what: AS saw who took part, encrypted updates and the noisy sums. CSP saw\n"
           "%s sums under a mask that only AS knows. Neither saw an update, an exact sum or\n"
           "the noise, unless they collude. (This folder holds all keys: for trials only.)\n",
           task_is_sealed(s->task) ? "who took part, and" : "only");
    printf("\nmodel     %s/%s\nreport    %s/report.html\nlogs      %s/log\n", o, model, o, o);
    const char *me = program_invocation_name;
    printf("\nnext\n"
           "  %s model generate %s/%s \\\n      --vocab %s/federation/public/vocab.txt\n"
           "  %s report %s\n"
           "  %s task show %s/federation/public/task.signed --explain\n"
           "  %s privacy spent %s/federation/csp/ledger\n"
           "  %s provision trial --clients 4      # and start each party yourself\n",
           me, o, model, o, me, o, me, o, me, o, me);
}

static sefl_status say_json(const demo_result *r, const demo_facts *s, const run_totals *t,
                            const plan_need *n)
{
    sefl_buf b = { 0 };
    char model[64], path[4200];
    json j = json_into(&b);
    model_path(model, s);
    snprintf(path, sizeof path, "%s/%s", s->out, model);
    json_open(&j, '{');
    json_fields(&j, lf_str("folder", s->out), lf_str("model", path), lf_u64("clients", s->clients),
                lf_u64("rounds", s->rounds->n), lf_u64("released", t->released),
                lf_u64("lost_clients", s->lost), lf_u64("lost_round", s->lost_round));
    json_object(&j, "perplexity", lf_real("before", r->plain.before),
                lf_real("after", t->all.perplexity), lf_real("plain", r->plain.after),
                lf_real("best", r->best));
    json_fields(&j, lf_str("claim", isnan(t->all.epsilon_server) ? "none" : "dp"),
                lf_real("epsilon", t->all.epsilon_server)); /* null if nothing is claimed */
    json_object(&j, "epsilon_8", lf_real("z", n->z), lf_real("delta", n->delta),
                lf_u64("clients", n->clients), lf_real("clients_as_here", as_here(s, n)),
                lf_u64("clients_noise_no_larger", n->no_larger));
    json_object(&j, "seconds", lf_real("provision", r->provision_seconds),
                lf_real("clients", t->collect), lf_real("ahead", t->all.ahead_seconds),
                lf_real("open", t->all.open_seconds), lf_real("release", t->all.release_seconds),
                lf_real("plain", r->plain_seconds), lf_real("all", r->seconds));
    json_object(&j, "bytes", lf_u64("update", r->update_bytes), lf_real("up", t->all.up_bytes),
                lf_real("ahead", t->all.ahead_bytes), lf_real("open", t->all.open_bytes));
    json_close(&j, '}');
    return print_json(&j);
}

sefl_status demo_table(const demo_result *r, const demo_facts *s)
{
    run_totals t = run_log_totals(s->rounds);
    plan_need n;
    SEFL_PASS(plan_need_of(&n, s->task, PLAN_EPSILON, DELTA));
    if (s->json)
        return say_json(r, s, &t, &n);
    print_perplexity(r, s, &t);
    print_privacy(s, &t, &n);
    print_cost(r, s, &t);
    print_rest(s);
    return SEFL_OK;
}

#define _GNU_SOURCE
#include "cli/full/demo_table.h"
#include "cli/print.h"

#include "base/json.h"
#include "simulate/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DELTA 1e-6

void demo_bytes(char out[24], double bytes)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    unsigned i = 0;
    for (; bytes >= 999.95 && i < 4; i++)
        bytes /= 1000;
    snprintf(out, 24, i == 0 ? "%.0f %s" : "%.1f %s", isfinite(bytes) ? bytes : 0, units[i]);
}

/* Clients for as little noise in the average, z * clip / clients a value, as this run had. */
static double as_here(const demo_scene *s, const plan_need *n)
{
    return ceil(n->z / strtod(s->task->z, NULL) * s->clients);
}

typedef struct totals {
    double up, down, ahead_bytes, open_bytes, collect_s, ahead_s, open_s, release_s, after, epsilon;
    uint64_t released;
} totals;

static double known(double v)
{
    return isnan(v) ? 0 : v;
}

static totals add_up(const demo_scene *s)
{
    totals t = { .after = NAN, .epsilon = NAN };
    for (size_t i = 0; i < s->rounds->n; i++) {
        const run_line *r = &s->rounds->at[i];
        t.collect_s += known(r->seconds) - known(r->open_seconds) - known(r->release_seconds);
        t.up += known(r->up_bytes);
        t.ahead_bytes += known(r->ahead_bytes), t.open_bytes += known(r->open_bytes);
        t.ahead_s += known(r->ahead_seconds), t.open_s += known(r->open_seconds);
        t.release_s += known(r->release_seconds);
        t.released += !r->skipped && !r->blocked;
        if (!isnan(r->perplexity))
            t.after = r->perplexity;
        if (!isnan(r->epsilon_server))
            t.epsilon = r->epsilon_server;
    }
    return t;
}

static void model_path(char out[64], const demo_scene *s)
{
    uint64_t last = 0;
    for (size_t i = 0; i < s->rounds->n; i++)
        if (!s->rounds->at[i].skipped && !s->rounds->at[i].blocked)
            last = s->rounds->at[i].round;
    snprintf(out, 64, "federation/aggregator/models/round-%" PRIu64 ".safetensors", last);
}

/* Every model goes to every client that begins a round; those that were away fetch nothing. */
static double model_bytes(const demo_scene *s)
{
    char path[4096];
    struct stat sb;
    snprintf(path, sizeof path, "%s/federation/public/init.safetensors", s->out);
    return stat(path, &sb) == 0 ? (double)sb.st_size : NAN;
}

static void print_perplexity(const demo_result *r, const demo_scene *s, const totals *t)
{
    char after[40];
    snprintf(after, sizeof after, "after %" PRIu64 " secure rounds", t->released);
    printf("\nperplexity on the public validation text\n"
           "  before                  %8.1f\n"
           "  %-23s %8.1f   clipped, encrypted, noisy; %" PRIu32 " of %" PRIu32
           " clients lost in round %" PRIu64 "\n"
           "  plain FedAvg            %8.1f   same text and training, all clients, no protection\n"
           "  best possible           %8.1f   the generator's own, exactly\n",
           r->before, after, t->after, s->lost, s->clients, s->lost_round, r->plain, r->best);
}

static void print_privacy(const demo_scene *s, const totals *t, const plan_need *n)
{
    char need[PLAN_NEED_TEXT];
    plan_need_text(need, n);
    printf("\nprivacy\n");
    if (isnan(t->epsilon))
        printf("  epsilon spent           none claimed: z = %s is noise, but too little for any "
               "claim\n",
               s->task->z);
    else
        printf("  epsilon spent           %.1f at delta %g against a server%s\n", t->epsilon,
               s->task->delta, t->epsilon > 10 ? ": that protects nobody" : "");
    printf("  epsilon %g               %s\n"
           "                          at delta %g: %.0f for as little noise as here, %" PRIu64
           " for noise\n"
           "                          no larger than the update; here are %" PRIu32 "\n",
           n->epsilon, need, n->delta, as_here(s, n), n->no_larger, s->clients);
}

static void print_cost(const demo_result *r, const demo_scene *s, const totals *t)
{
    char up[24], down[24], one[24], ahead[24], open[24], model[24];
    double size = model_bytes(s);
    demo_bytes(up, t->up);
    demo_bytes(one, (double)r->update_bytes);
    demo_bytes(model, size);
    demo_bytes(down, t->up / (double)r->update_bytes * size);
    demo_bytes(ahead, t->ahead_bytes);
    demo_bytes(open, t->open_bytes);
    printf("\npart (all rounds)                     seconds       bytes\n"
           "  keys, text, task                    %7.1f\n"
           "  clients train, encrypt, upload      %7.1f   %9s   up; %s an update\n"
           "  clients fetch the model             %7s   %9s   down; %s a model\n"
           "  AS and CSP, ahead of the data       %7.1f   %9s   while clients train\n"
           "  AS and CSP open the noisy sum       %7.1f   %9s\n"
           "  release and validation              %7.1f\n"
           "  plain FedAvg, for comparison        %7.1f\n"
           "  all                                 %7.1f\n",
           r->provision_seconds, t->collect_s, up, one, "", down, model, t->ahead_s, ahead,
           t->open_s, open, t->release_s, r->plain_seconds, r->seconds);
}

static void print_rest(const demo_scene *s)
{
    char model[64];
    const char *o = s->out;
    model_path(model, s);
    printf("\nWho could see what: AS saw who took part, encrypted updates and the noisy sums; CSP "
           "saw\n%s sums under a mask that only AS knows; neither saw an update, a plain sum or\n"
           "the noise, unless both work together. (Here one folder holds all keys: for trials "
           "only.)\n",
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

static sefl_status say_json(const demo_result *r, const demo_scene *s, const totals *t,
                            const plan_need *n)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char model[64], path[4200];
    json j = json_into(&b);
    model_path(model, s);
    snprintf(path, sizeof path, "%s/%s", s->out, model);
    json_open(&j, '{');
    json_key(&j, "folder"), json_str(&j, s->out);
    json_key(&j, "model"), json_str(&j, path);
    json_key(&j, "clients"), json_u64(&j, s->clients);
    json_key(&j, "rounds"), json_u64(&j, s->rounds->n);
    json_key(&j, "released"), json_u64(&j, t->released);
    json_key(&j, "lost_clients"), json_u64(&j, s->lost);
    json_key(&j, "lost_round"), json_u64(&j, s->lost_round);
    json_key(&j, "perplexity"), json_open(&j, '{');
    json_key(&j, "before"), json_real(&j, r->before);
    json_key(&j, "after"), json_real(&j, t->after);
    json_key(&j, "plain"), json_real(&j, r->plain);
    json_key(&j, "best"), json_real(&j, r->best);
    json_close(&j, '}');
    json_key(&j, "claim"), json_str(&j, isnan(t->epsilon) ? "none" : "dp");
    json_key(&j, "epsilon"), json_real(&j, t->epsilon); /* null where nothing is claimed */
    json_key(&j, "epsilon_8"), json_open(&j, '{');
    json_key(&j, "z"), json_real(&j, n->z);
    json_key(&j, "delta"), json_real(&j, n->delta);
    json_key(&j, "clients"), json_u64(&j, n->clients);
    json_key(&j, "clients_as_here"), json_real(&j, as_here(s, n));
    json_key(&j, "clients_noise_no_larger"), json_u64(&j, n->no_larger);
    json_close(&j, '}');
    json_key(&j, "seconds"), json_open(&j, '{');
    json_key(&j, "provision"), json_real(&j, r->provision_seconds);
    json_key(&j, "clients"), json_real(&j, t->collect_s);
    json_key(&j, "ahead"), json_real(&j, t->ahead_s);
    json_key(&j, "open"), json_real(&j, t->open_s);
    json_key(&j, "release"), json_real(&j, t->release_s);
    json_key(&j, "plain"), json_real(&j, r->plain_seconds);
    json_key(&j, "all"), json_real(&j, r->seconds);
    json_close(&j, '}');
    json_key(&j, "bytes"), json_open(&j, '{');
    json_key(&j, "update"), json_u64(&j, r->update_bytes);
    json_key(&j, "up"), json_real(&j, t->up);
    json_key(&j, "ahead"), json_real(&j, t->ahead_bytes);
    json_key(&j, "open"), json_real(&j, t->open_bytes);
    json_close(&j, '}');
    json_close(&j, '}');
    SEFL_TRY(print_json(&j));
done:
    buf_clear(&b);
    return st;
}

sefl_status demo_table(const demo_result *r, const demo_scene *s)
{
    sefl_status st = SEFL_OK;
    totals t = add_up(s);
    plan_need n;
    SEFL_TRY(plan_need_of(&n, s->task, PLAN_EPSILON, DELTA));
    if (s->json)
        return say_json(r, s, &t, &n);
    print_perplexity(r, s, &t);
    print_privacy(s, &t, &n);
    print_cost(r, s, &t);
    print_rest(s);
done:
    return st;
}

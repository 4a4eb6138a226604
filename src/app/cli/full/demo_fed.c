/* The demo can compare with plain FedAvg only because the provisioned folder holds the text of all
 * clients. */
#include "cli/full/demo_fed.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/full/demo_table.h"
#include "cli/full/fed_run.h"
#include "crypto/seal/seal.h"
#include "operator/provision.h"
#include "privacy/accountant/accountant.h"
#include "protocol/modes/mode.h"
#include "protocol/task_make.h"
#include "protocol/task_profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DELTA 1e-6

typedef struct fed_demo {
    const demo *d;
    fed_run run;
    provision_report made;
    task t;
    uint64_t lost_round; /* round in which clients are killed */
    uint32_t lost;       /* number of clients to kill: the last ones */
    bool killed, returned;
    demo_result result;
} fed_demo;

/* All clients train at once on the available cores; a slow machine extends the round. */
static uint64_t deadline_ms(const demo *d)
{
    return 4000 + (uint64_t)d->words * d->clients / 4;
}

/* ---- keys, text, task ------------------------------------------------------------------------ */

/* Claims differential privacy if the noise allows it; the target is the true epsilon of all
 * rounds. */
static sefl_status set_privacy(settings *s, const demo *d)
{
    const dp_event ev = { .noise = task_settings_mode(s)->source->law,
                          .z = strtod(d->noise, NULL),
                          .rate = 1,
                          .count = d->rounds,
                          .dim = UINT64_C(1) << 20,
                          .sigma_steps = DP_SIGMA_STEPS };
    dp_claim c;
    SEFL_PASS(settings_setf(s, "demo", "privacy.z=%s", d->noise));
    if (ev.z < dp_law_of(ev.noise)->z_min)
        return settings_set(s, "privacy.claim=none", "demo");
    SEFL_PASS(dp_epsilon(&c, &ev, 1, &(dp_question){ .delta = DELTA }));
    SEFL_NEED(c.claimed, SEFL_EINVAL, "noise %s: %s", d->noise, c.why_not);
    SEFL_PASS(settings_set(s, "privacy.claim=dp", "demo"));
    SEFL_PASS(settings_setf(s, "demo", "privacy.delta=%g", DELTA));
    return settings_setf(s, "demo", "privacy.epsilon=%.6f", c.epsilon * 1.0001 + 1e-6);
}

static sefl_status make_federation(fed_demo *s, const sefl_progress *p)
{
    sefl_status st = SEFL_OK;
    const demo *d = s->d;
    settings terms;
    sefl_buf document = { 0 };
    settings_init(&terms, task_schema);
    SEFL_TRY(task_profile_fill(&terms, TASK_OF_DEMO));
    SEFL_TRY(settings_setf(&terms, "demo", "crypto.scheme=%s", d->scheme));
    SEFL_TRY(settings_setf(&terms, "demo", "rounds.count=%" PRIu32, d->rounds));
    SEFL_TRY(settings_setf(&terms, "demo", "rounds.deadline_ms=%" PRIu64, deadline_ms(d)));
    SEFL_TRY(set_privacy(&terms, d));
    SEFL_TRY(
        provision_make(&s->made,
                       &(provision_config){ .folder = dir_in(&s->run.at, "federation"),
                                            .clients = d->clients,
                                            .key_bits = strcmp(d->scheme, "pad") == 0 ? 0 : d->bits,
                                            .words = d->words,
                                            .seed = 1,
                                            .task = &terms },
                       p));
    SEFL_TRY(
        file_read(&document, dir_in(&s->run.at, "federation/public/task.json"), TASK_BYTES_MAX));
    SEFL_TRY(task_read(&s->t, buf_span(&document)));
done:
    buf_clear(&document);
    settings_clear(&terms);
    return st;
}

/* Kills the last clients with kill -9 while they train for the round. */
static void lose_clients(fed_demo *s)
{
    char name[PROCESSES_NAME_MAX];
    uint32_t from = s->d->clients - s->lost;
    meter_stop(&s->run.line);
    for (uint32_t i = from; i < s->d->clients; i++) {
        fed_run_client_name(name, i);
        processes_kill(&s->run.parties, name);
    }
    s->killed = true;
    fed_run_talk(&s->run,
                 "             client-%02" PRIu32 " to client-%02" PRIu32
                 ": kill -9 in round %" PRIu64 "; the round continues without them\n",
                 from + 1, s->d->clients, s->lost_round);
}

static sefl_status return_clients(fed_demo *s)
{
    for (uint32_t i = s->d->clients - s->lost; i < s->d->clients; i++)
        SEFL_PASS(fed_run_start_client(&s->run, i));
    s->returned = true;
    fed_run_talk(&s->run, "             the %" PRIu32 " clients are started again and continue\n",
                 s->lost);
    return SEFL_OK;
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* Kills and restarts clients when it is time. */
static sefl_status lose_and_return(void *ctx)
{
    fed_demo *s = ctx;
    const size_t shown = s->run.shown;
    if (s->lost > 0 && !s->killed && shown + 1 == s->lost_round)
        lose_clients(s);
    return s->killed && !s->returned && shown >= s->lost_round && shown < s->d->rounds
               ? return_clients(s)
               : SEFL_OK;
}

static sefl_status compare(fed_demo *s, const sefl_progress *p)
{
    uint64_t began = clock_now_ns();
    SEFL_PASS(fedavg_run(&s->result.plain,
                         &(fedavg_config){ .folder = dir_in(&s->run.at, "federation"),
                                           .task = &s->t,
                                           .clients = s->d->clients },
                         p));
    s->result.plain_seconds = clock_since(began);
    return SEFL_OK;
}

static void tell_made(const fed_demo *s)
{
    const demo *d = s->d;
    char key[48];
    if (s->t.pub)
        snprintf(key, sizeof key, "Paillier %u bits", d->bits);
    else
        snprintf(key, sizeof key, "seeds sealed with %s", s->t.seal->name);
    fed_run_talk(&s->run,
                 "keys      two CAs, %" PRIu32
                 " certificates, %s; the task signed by both servers; %.1f s\n"
                 "text      generated, %" PRIu64
                 " tokens per client, each with its own topics; %" PRIu32 " public words\n"
                 "model     LSTM, block-Hankel l = 8, %zu values; %s encryption, noise z = %s\n",
                 d->clients + 2, key, s->result.provision_seconds, s->made.tokens_most,
                 s->made.words, s->made.values, d->scheme, d->noise);
}

static sefl_status run_demo(fed_demo *s)
{
    const demo *d = s->d;
    SEFL_PASS(fed_run_open(
        &s->run,
        &(fed_run_config){ .out = d->out, .kind = "demo", .quiet = d->json, .page = d->open }));
    s->run.clients = d->clients, s->run.rounds = d->rounds, s->run.deadline_ms = deadline_ms(d);
    s->run.step = lose_and_return, s->run.step_ctx = s;
    fed_run_talk(&s->run, "sefl demo: a whole federation on this machine, in %s\n", s->run.at.root);
    sefl_progress p = meter_start(&s->run.line, "creating keys, text and task");
    SEFL_PASS(make_federation(s, &p));
    meter_stop(&s->run.line);
    s->result.provision_seconds = clock_since(s->run.began_ns);
    tell_made(s);
    SEFL_PASS(fed_run_start(&s->run));
    SEFL_PASS(fed_run_watch(&s->run));
    p = meter_start(&s->run.line, "plain FedAvg, for comparison");
    SEFL_PASS(compare(s, &p));
    meter_stop(&s->run.line);
    SEFL_PASS(fed_run_end(&s->run));
    s->result.seconds = clock_since(s->run.began_ns);
    s->result.best = s->made.best_perplexity;
    s->result.update_bytes = s->made.update_bytes;
    SEFL_PASS(fed_run_report(&s->run, &(fed_run_baselines){ .first = s->result.plain.before,
                                                            .plain = s->result.plain.after,
                                                            .best = s->result.best }));
    return demo_table(&s->result, &(demo_facts){ .out = s->run.at.root,
                                                 .task = &s->t,
                                                 .clients = d->clients,
                                                 .lost = s->lost,
                                                 .lost_round = s->lost_round,
                                                 .rounds = &s->run.log,
                                                 .json = d->json });
}

sefl_status demo_fed_run(const demo *d)
{
    fed_demo *s = NULL;
    SEFL_PASS(sefl_new(&s, 1, sizeof *s));
    s->d = d;
    s->lost = (d->clients * 3 + 7) / 8; /* three of eight, rounded up */
    s->lost_round = d->rounds / 2 + 1;
    sefl_status st = run_demo(s);
    fed_run_close(&s->run);
    task_clear(&s->t);
    sefl_free(s);
    return st;
}

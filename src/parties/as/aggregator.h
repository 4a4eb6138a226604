/* aggregator: the aggregation server (AS) as a process. It serves clients over HTTPS, talks to CSP
 * over a TLS stream, and keeps a journal, uploaded updates, a ledger and models on disk.
 *
 *     settings_init(&s, aggregator_schema);
 *     SEFL_TRY(yaml_read(&s, "aggregator.yml"));                  // then options: settings_set
 *     SEFL_TRY(aggregator_settings_make(&cfg, &s));
 *     SEFL_TRY(aggregator_new(&a, &(aggregator_options){ .settings = &cfg, .log = &lg }));
 *     st = aggregator_run(a);         // until the task is over, or aggregator_stop
 *     aggregator_free(a);
 *
 * Its parts, in reading order (roles/aggregator/):
 *     body      checks the bytes of an update
 *     ingest    receives an update, makes it durable and acknowledges it
 *     collect   keeps the running sum
 *     step      computes the next model from released integers; release keeps models as files
 *     rounds    executes what sum/agg.h decides; owns the link to CSP
 *     http      serves the interface of docs/PROTOCOL.md, "AS over HTTPS"
 *     queue     serves one task after the other (setting `tasks`)
 *     share     makes several processes one AS (setting `store`)
 *
 * After kill -9 at any moment, a restart continues the task (rounds.h). Once the task is over, AS
 * answers clients for `linger` more seconds, so that they learn that it has ended. Each request for
 * the final model begins this time anew, at most to ten times `linger`, or twice `linger` while
 * another task waits. With the setting `tasks`, AS then begins the next task of that folder
 * (roles/task_queue.h, as_queue.c), and while there is none it tells clients to wait;
 * aggregator_run ends only after aggregator_stop.
 *
 * as_settings.c describes the settings; `sefl init aggregator.yml` writes a commented file.
 * state/counters.json counts every refusal by its reason (tally.h), /metrics does so too
 * (roles/monitor.h). state/metrics.jsonl gets one line per round, with public numbers only.
 *
 * The aggregator checks the trust list (roles/ca.h, trust/trust.h) every second: it disconnects a
 * revoked client and admits an enrolled one. Sites enrol at POST /v1/enroll (aggregator/as_enrol.c)
 * while the link to CSP is up. If `ca` is not set, it accepts every client of a CA in tls.peers and
 * cannot revoke any. Threads: one owner; any may call aggregator_stop and aggregator_reload.
 * Secrets: the signing key and the masks. */
#ifndef ROLES_AGGREGATOR_H
#define ROLES_AGGREGATOR_H

#include "base/coins.h"
#include "base/log.h"
#include "config/address.h"
#include "config/settings.h"
#include "net/https_server.h"
#include "page/page.h"
#include "protocol/task.h"
#include "roles/aggregator/release.h"
#include "roles/waiting.h"
#include "sum/round_report.h"

extern const setting_def aggregator_schema[];

/* The contents of aggregator.yml. The `settings` object that filled it owns the strings; NULL: not
 * given. */
typedef struct aggregator_settings {
    host_port listen, csp, health; /* health.host "": no health page (roles/health.h) */
    host_port page, page_tls;      /* host "": no page there (page/page.h) */
    const char *page_viewers;
    const char *cert, *tls_key, *peers, *csp_peers;
    const char *ca; /* the operator's folder (roles/ca.h); NULL: tls.peers decides who connects */
    const char *sign_key, *task, *state, *ledger;
    const char *tasks;  /* folder of tasks (roles/task_queue.h); NULL: only `task` */
    const char *store;  /* URL of a database that several aggregators share (share.h); or NULL */
    const char *shared; /* folder that they share; NULL without a store */
    const char *ready_file, *user;
    release_files files;
    https_limits limits;
    unsigned threads, linger_s, link_silence_s, lanes, lease_s;
    uint64_t audit;
} aggregator_settings;

/* Fills *out; SEFL_EINVAL if a setting is missing or wrong. s must outlive *out. */
sefl_status aggregator_settings_make(aggregator_settings *out, const settings *s) SEFL_MUST_CHECK;

typedef struct aggregator aggregator;

typedef struct aggregator_options {
    const aggregator_settings *settings; /* borrowed */
    sefl_log *log;                       /* NULL: silent */
    const sefl_coins *coins;             /* NULL: the system's; the program passes NULL */
    void *ctx;
    /* Called when the port is bound and no file is open yet, to drop privileges; may be NULL. */
    sefl_status (*bound)(void *ctx);
    /* Called after each round to print it; the task has `of` rounds; may be NULL. */
    void (*round)(void *ctx, const rounds_report *r, uint64_t of);
    page_sampler *sample; /* generates the page's samples of text; NULL: none */
    /* Called about once a second while a round is open. If NULL, the log shows what it waits for
     * (waiting.h). */
    void (*waiting)(void *ctx, const waiting_view *v);
    /* Asked while it waits for its database, also during aggregator_new, which then returns
     * SEFL_ECANCELLED; borrowed. NULL: only aggregator_stop counts. */
    const sefl_progress *going;
} aggregator_options;

/* Reads the task, keys and identity, resumes from the journal and ledger, and listens. */
sefl_status aggregator_new(aggregator **out, const aggregator_options *o) SEFL_MUST_CHECK;
void aggregator_free(aggregator *a);

/* Writes the ready file ("host:port" and a newline) and serves. SEFL_OK when the task is over
 * (`tasks`: never), or after aggregator_stop. */
sefl_status aggregator_run(aggregator *a) SEFL_MUST_CHECK;

void aggregator_stop(aggregator *a);
/* Reloads the certificates; keeps the old ones if a file is wrong. */
void aggregator_reload(aggregator *a);

uint16_t aggregator_port(const aggregator *a);

#endif

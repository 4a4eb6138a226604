/* aggregator: the aggregation server as a process: HTTPS for clients, a TLS stream to CSP, a
 * journal, spooled updates, a ledger and models on disk.
 *
 *     settings_init(&s, aggregator_schema);
 *     SEFL_TRY(yaml_read(&s, "aggregator.yml"));                  // flags may follow: settings_set
 *     SEFL_TRY(aggregator_settings_make(&cfg, &s));
 *     SEFL_TRY(aggregator_new(&a, &(aggregator_options){ .settings = &cfg, .log = &lg }));
 *     st = aggregator_run(a);         // until the task is over, or somebody calls aggregator_stop
 *     aggregator_free(a);
 *
 * Its parts, in reading order (roles/aggregator/):
 *     body      are these the bytes of an update?
 *     ingest    an update arrives, is made durable and acknowledged
 *     collect   the running sum
 *     step      from released integers to the next model;  release: models as files
 *     rounds    carries out what sum/agg.h decides; owns the link to CSP
 *     http      the interface of docs/PROTOCOL.md, "AS over HTTPS"
 *
 * kill -9 at any moment, start again: it goes on (rounds.h). When the task is over it answers
 * clients for `linger` more seconds, so that they learn it, and ends with SEFL_OK.
 *
 * Its settings, with their meanings: settings.c, or `sefl init aggregator.yml`. state/counters.json
 * counts every refusal by its reason (tally.h). state/metrics.jsonl gets one line per round, with
 * public numbers only.
 *
 * The aggregator reads the trust list (roles/ca.h, trust/trust.h) every second: it disconnects a
 * revoked client and admits an enrolled one. Sites enrol at POST /v1/enroll (aggregator/enrol.c)
 * while the link to CSP is up. Without `ca` every client certificate of tls.peers is accepted and
 * none can be revoked. Threads: one owner; aggregator_stop and aggregator_reload from any thread.
 * Secrets: the signing key, masks and what rounds.h names. */
#ifndef ROLES_AGGREGATOR_H
#define ROLES_AGGREGATOR_H

#include "base/coins.h"
#include "base/log.h"
#include "config/address.h"
#include "config/settings.h"
#include "protocol/task.h"
#include "sum/round_report.h"

extern const setting_def aggregator_schema[];

/* What aggregator.yml says. The texts belong to the settings that filled it; NULL: not given. */
typedef struct aggregator_settings {
    host_port listen, csp, health; /* health.host "": no such page (roles/health.h) */
    const char *cert, *tls_key, *peers, *csp_peers;
    const char *ca; /* the operator's folder (roles/ca.h); NULL: tls.peers says who gets in */
    const char *sign_key, *task, *vocab, *init, *state, *models, *ledger;
    const char *valid, *ready_file, *user;
    uint64_t models_keep, models_every;
    unsigned threads, connections, linger_s;
    unsigned per_address, per_client, per_issuer, connection_rate, request_rate, idle_s, rate_min;
    unsigned link_silence_s;
    unsigned lanes;
    uint64_t audit;
} aggregator_settings;

/* SEFL_EINVAL names what is missing or wrong. s must outlive *out. */
sefl_status aggregator_settings_make(aggregator_settings *out, const settings *s) SEFL_MUST_CHECK;

typedef struct aggregator aggregator;

typedef struct aggregator_options {
    const aggregator_settings *settings; /* borrowed */
    sefl_log *log;                       /* NULL: silent */
    const sefl_coins *coins;             /* NULL: the system's, and nothing else in the program */
    void *ctx;
    sefl_status (*bound)(void *ctx); /* the port is bound, no file is open yet: the moment to drop
                                      * privileges; may be NULL */
    void (*round)(void *ctx, const rounds_report *r, uint64_t of); /* for people; may be NULL */
} aggregator_options;

/* Reads task, keys and identity, opens journal and ledger, takes up where they stand, listens. */
sefl_status aggregator_new(aggregator **out, const aggregator_options *o) SEFL_MUST_CHECK;
void aggregator_free(aggregator *a);

/* Writes the ready file ("host:port", a line) and serves. SEFL_OK when the task is over, or after
 * aggregator_stop. */
sefl_status aggregator_run(aggregator *a) SEFL_MUST_CHECK;

void aggregator_stop(aggregator *a);
/* Certificates are read again; a file that is wrong keeps the old ones. */
void aggregator_reload(aggregator *a);

uint16_t aggregator_port(const aggregator *a);
const task *aggregator_task(const aggregator *a);

#endif

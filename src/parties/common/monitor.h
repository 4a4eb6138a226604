/* monitor: the metrics of both servers for Prometheus, served at /metrics beside /healthz (setting
 * `health`).
 *
 *     monitor_init(&m, &wall);
 *     monitor_task(&m, account, &task);                 // the epsilon that was spent before
 *     monitor_step(&m, MONITOR_STEP_REVEAL, ns);        // while rounds run
 *     prom p = prom_into(body);
 *     monitor_common(&p, &m, &view);                    // what both servers have
 *     monitor_count(&p, MONITOR_NEEDED, t->threshold);  // then a server's own
 *
 * MONITOR_LIST is the only list of the metrics: `scripts/metrics-table` makes the table of
 * docs/OPERATING.md from it. Any user of the machine may read the page. So it shows what is public
 * and counts over all clients; no label ever names a client or depends on a client's data. A task
 * that does not publish participation (task.publish_count) shows no metric of the kind COUNTS, from
 * which a reader could tell how many clients took part in a round; nor do the steps and bytes that
 * depend on that number. The server shows none of them until its next start, because they include
 * that task.
 *
 * Threads: any thread may add; the page's thread reads. Counts and histograms of rounds start with
 * the process, those of requests and uploads with the task.   Secrets: none. */
#ifndef ROLES_MONITOR_H
#define ROLES_MONITOR_H

#include "base/clock.h"
#include "base/prom.h"
#include "mpc/noise/shares_pool.h"
#include "net/x509.h"
#include "roles/health.h"
#include "sum/account.h"

/* X(id, name, type, labels, servers, kind, help). servers: AS, CSP or BOTH. kind: PUBLIC, or COUNTS
 * (above). */
#define MONITOR_LIST(X)                                                                           \
    X(BUILD, "sefl_build_info", GAUGE, "role, version", BOTH, PUBLIC,                             \
      "Always 1; the labels give the server and its version.")                                    \
    X(START, "process_start_time_seconds", GAUGE, "", BOTH, PUBLIC,                               \
      "Time when the server started, in seconds since 1970.")                                     \
    X(CPU, "process_cpu_seconds_total", COUNTER, "", BOTH, PUBLIC,                                \
      "CPU time that the server has used.")                                                       \
    X(MEMORY, "process_resident_memory_bytes", GAUGE, "", BOTH, PUBLIC,                           \
      "Memory of the server that is in RAM.")                                                     \
    X(CERTIFICATE, "sefl_certificate_expiry_timestamp_seconds", GAUGE, "", BOTH, PUBLIC,          \
      "Time when the server's own TLS certificate expires, in seconds since 1970.")               \
    X(HEALTHY, "sefl_healthy", GAUGE, "", BOTH, PUBLIC, "1 if /healthz answers 200, 0 if 503.")   \
    X(DATABASE, "sefl_database_away_seconds", GAUGE, "", BOTH, PUBLIC,                            \
      "Time since the server's database last answered; 0 if it answers, or if there is none.")    \
    X(PEER, "sefl_peer_connected", GAUGE, "peer", BOTH, PUBLIC,                                   \
      "1 if the other server is connected.")                                                      \
    X(PHASE, "sefl_phase", GAUGE, "phase", BOTH, PUBLIC,                                          \
      "Always 1; the label gives the phase of the round, as in /healthz.")                        \
    X(TASK, "sefl_task_info", GAUGE, "task, name, noise, z, unit", BOTH, PUBLIC,                  \
      "Always 1; the labels describe the current task. Absent while there is none.")              \
    X(TASKS_WAITING, "sefl_tasks_waiting", GAUGE, "", BOTH, PUBLIC,                               \
      "Tasks in the folder of tasks, without the current one.")                                   \
    X(ROUND, "sefl_round", GAUGE, "", BOTH, PUBLIC, "Number of the current round; 0 before it.")  \
    X(ROUNDS_OF, "sefl_task_rounds", GAUGE, "", BOTH, PUBLIC, "Rounds that the task may have.")   \
    X(ROUNDS, "sefl_rounds_total", COUNTER, "outcome", BOTH, PUBLIC,                              \
      "Rounds that ended, by outcome: AS released, skipped, blocked; CSP revealed, skipped.")     \
    X(STEPS, "sefl_round_step_seconds", HISTOGRAM, "step", BOTH, PUBLIC,                          \
      "Duration of each step of a round at this server.")                                         \
    X(EPSILON, "sefl_epsilon_spent", GAUGE, "against", BOTH, PUBLIC,                              \
      "Epsilon that the population has spent, against a server and against others.")              \
    X(TARGET, "sefl_epsilon_target", GAUGE, "", BOTH, PUBLIC,                                     \
      "Epsilon against a server at which the task must end.")                                     \
    X(DELTA, "sefl_delta", GAUGE, "", BOTH, PUBLIC, "Delta of the task's claim.")                 \
    X(SHARES, "sefl_noise_shares_ready", GAUGE, "", BOTH, PUBLIC,                                 \
      "Values for which noise shares are ready.")                                                 \
    X(SHARES_ROUND, "sefl_noise_shares_per_round", GAUGE, "", BOTH, PUBLIC,                       \
      "Values for which one round needs noise shares.")                                           \
    X(CERTIFICATES, "sefl_certificates_refused_total", COUNTER, "reason", BOTH, PUBLIC,           \
      "Refused certificates of clients and servers, by reason.")                                  \
    X(ENROLMENTS, "sefl_enrolments_total", COUNTER, "outcome", BOTH, PUBLIC,                      \
      "Requests of sites to enrol, by outcome.")                                                  \
    X(TRUST, "sefl_trust_list_failures_total", COUNTER, "reason", BOTH, PUBLIC,                   \
      "Reloads of the trust list that failed, or found an older list.")                           \
    X(BYTES, "sefl_traffic_bytes_total", COUNTER, "part", BOTH, PUBLIC,                           \
      "Bytes by part: noise shares, reveal, clients' uploads and answers to them.")               \
    X(CHECKS, "sefl_noise_checks_failed_total", COUNTER, "", CSP, PUBLIC,                         \
      "Failed checks of noise shares; AS or a thief of its key deviates.")                        \
    X(PERPLEXITY, "sefl_perplexity", GAUGE, "", AS, PUBLIC,                                       \
      "Perplexity of the latest model on the public validation text.")                            \
    X(CLIP, "sefl_clip", GAUGE, "", AS, PUBLIC,                                                   \
      "Clip of the next round, if the task finds it (privacy.clip_quantile); absent otherwise.")  \
    X(ENROLLED, "sefl_clients_enrolled", GAUGE, "", AS, PUBLIC,                                   \
      "Clients of the population, from the task.")                                                \
    X(NEEDED, "sefl_updates_needed", GAUGE, "", AS, PUBLIC,                                       \
      "Updates without which a round is skipped, from the task.")                                 \
    X(DEADLINE, "sefl_round_left_seconds", GAUGE, "", AS, PUBLIC,                                 \
      "Time until the deadline of the open round; absent while no round is open.")                \
    X(REFUSED, "sefl_requests_refused_total", COUNTER, "reason", AS, PUBLIC,                      \
      "Refused or closed connections and requests, by reason.")                                   \
    X(ARRIVED, "sefl_updates_arrived", GAUGE, "", AS, COUNTS,                                     \
      "Updates of the open round that have arrived.")                                             \
    X(COUNTED, "sefl_updates_counted_total", COUNTER, "", AS, COUNTS,                             \
      "Updates in the sums of finished rounds.")                                                  \
    X(BY_CSP, "sefl_updates_refused_total", COUNTER, "", AS, COUNTS,                              \
      "Updates that CSP refused to count.")                                                       \
    X(UPLOADS, "sefl_uploads_total", COUNTER, "outcome", AS, COUNTS, "Uploads, by outcome.")      \
    X(UPLOAD_TIME, "sefl_upload_seconds", HISTOGRAM, "", AS, COUNTS,                              \
      "Duration of an upload, from its first byte to its answer.")                                \
    X(UPLOADS_OPEN, "sefl_uploads_open", GAUGE, "", AS, COUNTS, "Uploads that are arriving now.") \
    X(UNSUMMED, "sefl_updates_unsummed", GAUGE, "", AS, COUNTS,                                   \
      "Updates that wait to be added to the running sum.")                                        \
    X(ROOMS, "sefl_body_rooms_used", GAUGE, "", AS, COUNTS,                                       \
      "Places for updates in memory that are in use; uploads without one go through the disk.")   \
    X(ROOMS_MOST, "sefl_body_rooms", GAUGE, "", AS, COUNTS, "Places for updates in memory.")      \
    X(REQUESTS_WAITING, "sefl_csp_requests_waiting", GAUGE, "", AS, COUNTS,                       \
      "Enrolments and vouchers that wait for CSP.")                                               \
    X(VOUCHERS, "sefl_vouchers_total", COUNTER, "outcome", AS, COUNTS,                            \
      "Vouchers for upload keys, by outcome.")                                                    \
    X(CONNECTIONS, "sefl_connections_total", COUNTER, "", AS, COUNTS, "Accepted connections.")    \
    X(REQUESTS, "sefl_requests_total", COUNTER, "", AS, COUNTS, "Requests with a whole header.")  \
    X(OLDER, "sefl_requests_older_version_total", COUNTER, "", AS, COUNTS,                        \
      "Requests of clients with an older minor version.")

typedef enum monitor_id {
#define MONITOR_ENUM(id, name, type, labels, servers, kind, help) MONITOR_##id,
    MONITOR_LIST(MONITOR_ENUM)
#undef MONITOR_ENUM
        MONITORS
} monitor_id;

/* The steps of a round: X(name, label, kind). */
#define MONITOR_STEP_LIST(X)                                                                \
    X(ROUND, "round", PUBLIC)     /* AS: from the round's opening to its end */             \
    X(COLLECT, "collect", PUBLIC) /* AS: ... to its close */                                \
    X(FREEZE, "freeze", COUNTS)   /* AS: storing the set */                                 \
    X(SET, "set", COUNTS)         /* AS: CSP's verdict on the set */                        \
    X(SUM, "sum", COUNTS)         /* AS: waiting for the running sum */                     \
    X(CHARGE, "charge", PUBLIC)   /* both: charging the ledger */                           \
    X(REVEAL, "reveal", PUBLIC)   /* AS: the noisy sum, with CSP */                         \
    X(STORE, "store", PUBLIC)     /* AS: storing the integers; CSP: storing its output */   \
    X(RELEASE, "release", PUBLIC) /* AS: making the next model */                           \
    X(EVAL, "eval", PUBLIC)       /* AS: validating it */                                   \
    X(NOISE, "noise", PUBLIC)     /* AS: shares on all lanes per round; CSP: per session */ \
    X(RECEIVE, "receive", PUBLIC) /* CSP: waiting for the masked sum */                     \
    X(DECRYPT, "decrypt", PUBLIC) /* CSP: decrypting it */                                  \
    X(COMPUTE, "compute", PUBLIC) /* CSP: its reply */                                      \
    X(SEND, "send", PUBLIC)       /* CSP: sending the reply */

typedef enum monitor_step_id {
#define MONITOR_ENUM(id, label, kind) MONITOR_STEP_##id,
    MONITOR_STEP_LIST(MONITOR_ENUM)
#undef MONITOR_ENUM
        MONITOR_STEPS_N
} monitor_step_id;

/* X(name, label) */
#define MONITOR_OUTCOME_LIST(X) \
    X(RELEASED, "released") X(REVEALED, "revealed") X(SKIPPED, "skipped") X(BLOCKED, "blocked")

typedef enum monitor_outcome {
#define MONITOR_ENUM(id, label) MONITOR_##id,
    MONITOR_OUTCOME_LIST(MONITOR_ENUM)
#undef MONITOR_ENUM
        MONITOR_OUTCOMES_N
} monitor_outcome;

typedef struct monitor {
    uint64_t started_ms;       /* by the wall clock */
    _Atomic int64_t cert_ends; /* expiry of the server's certificate; 0: not known yet */
    _Atomic uint64_t rounds[MONITOR_OUTCOMES_N];
    prom_histogram step[MONITOR_STEPS_N];
    _Atomic double epsilon_server, epsilon_others, perplexity, clip; /* NAN: none */
    _Atomic uint64_t noise_bytes, reveal_bytes;
    _Atomic uint64_t counted, by_csp; /* AS: updates, only of tasks that publish participation */
} monitor;

void monitor_init(monitor *m, const sefl_clock *wall);
/* The server begins this task. The caller owns the account. */
void monitor_task(monitor *m, account *a, const task *t);
/* Reads what the task's population has spent, after a charge. */
void monitor_spent(monitor *m, account *a, const task *t);

void monitor_round(monitor *m, monitor_outcome o);
void monitor_step(monitor *m, monitor_step_id s, uint64_t ns);

/* ---- the page -------------------------------------------------------------------------------- */

#define MONITOR_PATH "/metrics"

/* Begins a family. */
void monitor_family(prom *p, monitor_id id);
/* Writes a family with one sample without labels. */
void monitor_one(prom *p, monitor_id id, double v);
void monitor_count(prom *p, monitor_id id, uint64_t v);
/* Writes the family of refused certificates. */
void monitor_peers(prom *p, const _Atomic uint64_t certificates[X509_VERDICTS]);
/* Writes a sample whose only label has this value; spaces become underscores. */
void monitor_sample(prom *p, const char *label, const char *value, uint64_t v);

/* What both servers have, from BUILD to SHARES_ROUND. */
typedef struct monitor_view {
    const server_view *server;
    const monitor_outcome *outcomes; /* of this server */
    size_t outcomes_n;
    const monitor_step_id *steps;
    size_t steps_n;
    shares_pool *shares; /* NULL: none */
} monitor_view;

void monitor_common(prom *p, const monitor *m, const monitor_view *v);

#endif

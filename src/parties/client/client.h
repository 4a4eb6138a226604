/* client: takes part in a federation: fetches the task, trains on its text and uploads updates.
 *
 *     SEFL_TRY(client_new(&c, &(client_options){ .config = &cfg, .log = &lg }));
 *     st = client_run(c);          // until the task is over, or client_stop
 *     client_free(c);
 *
 * It makes only outgoing connections, to one host and port (net/https_client.h), and trusts only
 * documents that both pinned servers signed. It executes the orders of protocol/participant.h:
 *
 *     task      verifies both signatures, then the owner's policy (policy_check; a refusal names
 *               the rule); checks in the ledger that the first round would not exceed the total
 *     words     fetches the public word list, by the hash in the task; then reads the text, unless
 *               the owner's command (hook.h) or the caller trains
 *     round     verifies its header, signed by both; draws the sampling coin once and stores it
 *     model     fetches the model by the hash in the header, resuming a partial download
 *     voucher   sealed tasks: its certificate vouches for its upload key (proof.h)
 *     training  train_job.h, client_update.h: the finished body is on disk and marked before its
 *               first byte leaves
 *     charge    charges its own ledger, durably, before the first byte of the body leaves
 *     upload    resumes by content hash; verifies the receipt (AS's signature, task, round, this
 *               client, these bytes) and keeps it; deletes the body
 *     counted   sealed tasks: once a later round begins, requests, verifies and keeps CSP's signed
 *               proof that the update was counted (proof.h)
 *
 *     models    once the task is over, fetches the final model by the hash in AS's statement about
 *               the end, and keeps it for the owner (models.h)
 *
 * Nothing else leaves the client: no loss, count or norm. Logs and messages contain rounds,
 * bytes, hashes and file names, never words or values; with eval: own, also the perplexity on the
 * owner's text, and a warning if more than a tenth of the text's words are unknown. If the task
 * claims no differential privacy, the log line of every round mentions that.
 *
 * A client uploads when its training is done, so the time of an upload shows how long the client
 * trained (docs/THREATS.md).
 *
 * After kill -9 at any moment, the next client_run continues (store.h). client_stop ends waits and
 * transfers at once, and training after the current step; client_run then returns SEFL_OK, unless
 * AS refused this client.
 *
 * When AS serves another task, the client starts that task with the same ledger. With `stay` it
 * also waits for the next task when a task is over, or when its policy, its ledger or its settings
 * refuse the task. While AS has no task (503), every client waits.
 *
 * Failures. The client retries after every failure that may be temporary, with pauses that double
 * up to a minute. Examples are no network, no DNS name, an invalid server certificate, and a server
 * that answers with errors, refuses this client (a wrong clock, a revocation that is undone) or
 * serves a malformed task. It ends only when
 *     AS has signed that the task is over, or this client took part as often
 *         as the task allows and keeps no models                          SEFL_OK
 *     the task is over, but its final model could not be fetched          SEFL_EIO
 *     both servers signed a task that the owner's policy refuses, or that
 *         this program cannot read                                        SEFL_EINVAL, SEFL_EPROTO
 *     its own ledger allows no further round of the task                  SEFL_EBUDGET
 *     AS requires another version of this program (status 426)            SEFL_EUNSUPPORTED
 *     three consecutive updates were not counted, despite receipts        SEFL_EAUTH
 *     for CLIENT_PATIENCE_MS, a day, AS has refused every request, or has
 *         had no task that both pinned servers signed; or client_stop was
 *         called while it did                                             SEFL_EAUTH
 *     its own machine fails (disk, memory, text, state)                   the failure's own status
 *
 * Memory: client_update.h. Threads: one owner; any thread may call client_stop and client_reload.
 * Secrets: the text and the secrets that client_update.h names. */
#ifndef ROLES_CLIENT_H
#define ROLES_CLIENT_H

#include "base/clock.h"
#include "base/coins.h"
#include "base/log.h"
#include "roles/client/client_config.h"
#include "roles/client/client_update.h"
#include "roles/client/models.h"

typedef struct client client;

enum { CLIENT_PATIENCE_MS = 24 * 3600 * 1000 };

#define CLIENT_ROUND_DONE "done"      /* the client has a receipt */
#define CLIENT_OVER       "task over" /* in status.json: it exits */

/* The state that the program shows as one line on a terminal. */
typedef struct client_view {
    const char *doing;    /* "waiting", "training", ... */
    uint64_t round;       /* 0: none yet */
    uint64_t rounds;      /* rounds of the task; 0: no task yet */
    uint64_t done, total; /* progress of the current work; 0, 0: unknown */
    uint64_t bytes, ms;   /* CLIENT_ROUND_DONE: upload size; time since the round opened */
    bool no_claim;        /* the task claims no differential privacy */
} client_view;

/* How a round ended for this client. */
typedef struct client_end {
    uint64_t round;
    const client_body *body; /* what AS has and signed a receipt for; NULL: no receipt */
    uint64_t ms;             /* time since the round opened */
    const char *why;         /* without a receipt: the reason */
} client_end;

typedef struct client_options {
    const client_config *config; /* borrowed */
    sefl_log *log;               /* NULL: silent */
    bool once;                   /* stops after one round */
    const sefl_coins *coins;     /* NULL: the system's; the program passes NULL */
    void (*show)(void *ctx, const client_view *v);
    /* Called when a round in which this client trained ends for it; may be NULL. */
    void (*ended)(void *ctx, const client_end *e);
    /* Called when a model was kept for the owner or evaluated (models.h); may be NULL. */
    void (*model)(void *ctx, const client_model *m);
    void *show_ctx;           /* of all three */
    uint64_t patience_ms;     /* 0: CLIENT_PATIENCE_MS */
    client_observer *observe; /* for test programs only */
    void *observe_ctx;
} client_options;

/* Reads the policy and identity; makes no connection yet. */
sefl_status client_new(client **out, const client_options *o) SEFL_MUST_CHECK;
void client_free(client *c);

/* Trains with this port, which must outlive the client, instead of the configured one. Call it
 * before client_run. */
void client_use_port(client *c, const train_port *port);

/* Runs until the task is over or client_stop is called (SEFL_OK, but see above). After a failure,
 * the error message explains why the client cannot continue. */
sefl_status client_run(client *c) SEFL_MUST_CHECK;

/* Returns why the task was over when client_run returned SEFL_OK; "" after client_stop. */
const char *client_over(const client *c);

/* Any thread may call it, any number of times, but not after client_free has begun. */
void client_stop(client *c);
/* Reloads the policy and certificates before the next step. */
void client_reload(client *c);

#endif

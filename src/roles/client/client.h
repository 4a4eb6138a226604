/* client: one participant of a federation: fetches the task, trains on its text, uploads, sleeps.
 *
 *     SEFL_TRY(client_new(&c, &(client_options){ .config = &cfg, .log = &lg }));
 *     st = client_run(c);          // until the task is over, or somebody calls client_stop
 *     client_free(c);
 *
 * It dials out only, to one host and port (net/https_client.h), and trusts what both pinned servers
 * signed. What protocol/participant.h decides is done here:
 *
 *     task      both signatures, then the owner's policy (policy_check; a refusal names the rule), then the
 *               ledger: a task whose first round would pass the owner's total is refused
 *     words     the public list, by the hash in the task; then the text is read
 *     round     its header, signed by both; the coin of sampling is thrown once and written down
 *     model     resumed where it broke off, by the hash in the header
 *     voucher   sealed tasks: its certificate vouches for its upload key (client_proof.h)
 *     training  client_update: the finished body is on disk and marked before its first byte leaves
 *     charge    the client's own ledger, durably, before the first byte of the body leaves
 *     upload    resumed by content hash; the receipt is checked (AS's signature, task, round, this
 *               client, these bytes) and kept; the body is deleted
 *     counted   sealed tasks: once a later round is there, CSP's signed proof that the update was counted
 *               is asked for, checked and kept (client_proof.h)
 *
 * Nothing else leaves: no loss, count, norm or time. Logs and sentences carry rounds, bytes, hashes
 * and file names, never words or values. The line of every round says so if the task claims no
 * differential privacy.
 *
 * Hidden sampling. Every client uploads in every round; one that was not drawn encrypts zeros. So
 * that the time of an upload does not tell who trained, all wait until a random moment in the third
 * quarter of the time that was left when the round was announced (docs/THREATS.md says what
 * remains).
 *
 * kill -9 at any moment: the next client_run goes on (client_store.h). client_stop ends waits and
 * transfers at once and training at the next step; client_run then returns SEFL_OK.
 *
 * When AS serves another task, the client starts over with it, on the same ledger.
 *
 * Failures. The client retries whatever may pass, after pauses that double up to minutes: no
 * network, no DNS name, an invalid server certificate, a server that answers with errors, refuses
 * this client (a wrong clock, a revocation that is taken back) or serves garbled bytes as the task.
 * It ends only when
 *     the task is over, or this client took part as often as the task allows    SEFL_OK
 *     both servers signed a task that the owner's policy refuses, or that
 *         this program cannot read                                        SEFL_EINVAL, SEFL_EPROTO, ...
 *     its own ledger allows no round of the task any more                 SEFL_EBUDGET
 *     AS needs another version of this program (status 426)               SEFL_EUNSUPPORTED
 *     three updates in a row were not counted, in spite of receipts       SEFL_EAUTH
 *     for CLIENT_PATIENCE_MS, a day, AS has refused every request, or has
 *         had no task that both pinned servers signed                     SEFL_EAUTH
 *     its own machine fails: disk, memory, text, state
 *
 * Memory: client_update.h. Threads: one owner; client_stop and client_reload from any thread.
 * Secrets: the text and what client_update.h names. */
#ifndef ROLES_CLIENT_H
#define ROLES_CLIENT_H

#include "base/clock.h"
#include "base/coins.h"
#include "base/log.h"
#include "roles/client/config.h"
#include "roles/client/update.h"

typedef struct client client;

enum { CLIENT_PATIENCE_MS = 24 * 3600 * 1000 };

#define CLIENT_ROUND_DONE "done" /* a receipt is there */

/* For one line on a terminal. */
typedef struct client_view {
    const char *doing;    /* "waiting", "training", ... */
    uint64_t round;       /* 0: none yet */
    uint64_t rounds;      /* of the task; 0: no task yet */
    uint64_t done, total; /* of what it is doing; 0, 0: not known */
    uint64_t bytes, ms;   /* CLIENT_ROUND_DONE: of the upload, since the round was announced */
    bool no_claim;        /* the task claims no differential privacy */
} client_view;

typedef struct client_options {
    const client_config *config; /* borrowed */
    sefl_log *log;               /* NULL: silent */
    bool once;                   /* stop after one round */
    const sefl_coins *coins;     /* NULL: the system's, and nothing else in the program */
    void (*show)(void *ctx, const client_view *v);
    void *show_ctx;           /* of both */
    uint64_t patience_ms;     /* 0: CLIENT_PATIENCE_MS */
    client_observer *observe; /* test programs only */
    void *observe_ctx;
} client_options;

/* Reads policy and identity; nothing is dialled yet. */
sefl_status client_new(client **out, const client_options *o) SEFL_MUST_CHECK;
void client_free(client *c);

/* SEFL_OK: the task is over, or it was stopped. Otherwise the sentence says why it cannot go on. */
sefl_status client_run(client *c) SEFL_MUST_CHECK;

/* Any thread, any number of times, but not after client_free has begun. */
void client_stop(client *c);
/* Policy and certificates are read again before the next step. */
void client_reload(client *c);

#endif

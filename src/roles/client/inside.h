/* Inside of client.h: one client's parts; client.c makes them, client_round.c works through a
 * round. */
#ifndef ROLES_CLIENT_INSIDE_H
#define ROLES_CLIENT_INSIDE_H

#include "roles/client/client.h"
#include "roles/client/net.h"
#include "roles/client/store.h"
#include "roles/client/upload_key.h"
#include "roles/own_cert.h"
#include "store/text_ledger.h"

#include <pthread.h>
#include <stdatomic.h>

#define CLIENT_NO_CLAIM "no differential privacy claimed"

struct client {
    client_options o;
    const client_config *cfg;
    sefl_coins coins;
    sefl_clock clock; /* monotonic */
    pool *pool;
    tls_id *id;
    https_client *net; /* replaced under lock */
    uint8_t me[32];    /* fingerprint of its certificate's key */
    policy rules;
    own_cert own;
    uint64_t refused_ms; /* since when the server lets us not in, or has no good task; 0: it does */

    /* of the task */
    task t;
    bool has_task;
    ledger *book;
    ledger_terms terms;
    client_store *store;
    upload_key upload; /* sealed tasks */
    bool vouched;      /* AS has the voucher for it */
    unsigned unproven; /* rounds in a row in whose news AS gave no answer about a proof */
    uint64_t asked_in; /* the last round that the client asked for proofs in */
    vocab *words;
    corpus text;
    client_update *update;
    participant *m;
    sefl_rng jitter;
    sefl_buf news; /* what the latest round_news looks into */

    /* of the round */
    round_header header;
    uint64_t upload_at_ms;          /* hidden sampling: not before */
    uint64_t moment_round;          /* the round that this process chose a moment for */
    uint64_t began_ms, deadline_ms; /* as we heard last; then AS is asked again */
    bool recheck;                   /* a header or round was not good: is it another task? */
    uint64_t rounds_seen;           /* rounds that ended for this client in this run */

    pthread_mutex_t lock;
    pthread_cond_t wake;
    _Atomic bool stop, reload;
    client_view view;
};

uint64_t client_now(const client *c);
log_field client_privacy(const client *c); /* the claim of the task */
bool client_stopped(const client *c);
/* Until then, or until somebody stops it. */
void client_wait(client *c, uint64_t until_ms);
void client_show_doing(client *c, const char *doing);
/* Shows how far it is, and ends the work when somebody stops the client. */
sefl_progress client_progress(client *c);

/* After an answer that is no success: SEFL_OK to try again later, else why the client ends
 * (client.h). */
sefl_status client_goes_on(client *c, const client_reply *a) SEFL_MUST_CHECK;

/* Would this round fit? SEFL_EBUDGET, "policy: epsilon_total: ..." where it is the owner's rule. */
sefl_status client_budget(client *c, uint64_t round) SEFL_MUST_CHECK;

/* Carries out one order and tells the participant what came of it. *new_task: AS has another
 * one. */
sefl_status client_obey(client *c, const participant_order *order, bool *new_task) SEFL_MUST_CHECK;

#endif

/* client_inside: the state that client.c (sets up and runs a client), client_records.c and
 * client_round.c (executes a round) share. */
#ifndef ROLES_CLIENT_CLIENT_INSIDE_H
#define ROLES_CLIENT_CLIENT_INSIDE_H

#include "fed/hook.h"
#include "roles/client/builtin.h"
#include "roles/client/client.h"
#include "roles/client/models.h"
#include "roles/client/net.h"
#include "roles/client/store.h"
#include "roles/client/upload_key.h"
#include "roles/control.h"
#include "roles/own_cert.h"
#include "store/record_list.h"
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
    https_client *net; /* replaced only under `lock` */
    uint8_t me[32];    /* fingerprint of this client's certificate key */
    policy rules;
    own_cert own;
    bool asked;          /* at least one request has ended */
    bool clock_said;     /* the log has said that this clock is wrong */
    uint64_t refused_ms; /* since when AS has refused us or had no valid task; 0: it has not */
    char refused[256];   /* its latest refusal */
    char waits[320];     /* why the client waits after a failure, for the screen; "": it does not */

    /* state of the task */
    task t;
    bool has_task;
    ledger *book;
    ledger_terms terms;
    client_store *store;
    upload_key upload; /* sealed tasks */
    bool vouched;      /* AS has the voucher for it */
    unsigned unproven; /* consecutive rounds in which AS did not answer a request for a proof */
    uint64_t asked_in; /* the last round in which a request for proofs got no answer */
    vocab *words;
    corpus text, held;            /* held: eval: own, not trained on */
    record_list list;             /* the places of the records, if the task limits their turns */
    uint8_t judged[SHA256_BYTES]; /* the model that was evaluated last ... */
    double perplexity;            /* ... and its result */
    round_end end;                /* round 0: the task is not over, or has no final model */
    const train_port *port;       /* the caller's; NULL: the configured one */
    hook hook;                    /* cfg->trainer */
    builtin *builtin;             /* no cfg->trainer */
    client_update *update;
    participant *m;
    sefl_rng jitter;
    sefl_buf news; /* storage of the latest round_news */

    /* state of the round */
    round_header header;
    uint64_t began_ms, deadline_ms; /* last known deadline, after which the client asks AS again */
    bool paused;                    /* AS's latest news: an operator has paused the task */
    bool recheck;         /* a header or round was invalid, or AS was gone: another task? */
    uint64_t rounds_seen; /* number of rounds that ended for this client in this run */

    control control; /* its status.json: nobody orders a client anything */

    pthread_mutex_t lock;
    pthread_cond_t wake;
    _Atomic bool stop, reload;
    client_view view;
    char over[128];          /* why the task ended */
    uint8_t passed[TASK_ID]; /* `stay`: the last task that is over or refused here; or zeros */
    bool idle;               /* `stay`: the log has said that the client waits for a task */
};

/* True if a message of a server is malformed, or not signed as it must be. */
static inline bool client_is_bad(sefl_status st)
{
    return st == SEFL_EAUTH || st == SEFL_EPROTO;
}

uint64_t client_now(const client *c);
log_field client_privacy(const client *c); /* the task's privacy claim */
bool client_stopped(const client *c);
/* Waits until until_ms, or until client_stop is called. */
void client_wait(client *c, uint64_t until_ms);
void client_show_doing(client *c, const char *doing);
/* Reports the end of the current round to the caller. */
void client_end_round(client *c, const client_body *body, const char *why);
/* Returns a progress that displays the work done, and ends the work after client_stop. */
sefl_progress client_progress(client *c);

/* Decides what to do after an answer other than ANSWER_OK. SEFL_OK: try again later; otherwise the
 * reason why the client ends (client.h). */
sefl_status client_goes_on(client *c, const client_reply *a) SEFL_MUST_CHECK;
/* After any request: if a wrong clock of ours explains the answer, a->why says so. */
void client_explain(client *c, client_reply *a);
/* Puts the reason for a pause after such an answer into c->waits. */
void client_waits_for(client *c, const client_reply *a);
/* AS has given a good answer: it does not refuse this client. */
void client_is_welcome(client *c);

/* Makes attempts until one succeeds, the client is stopped or client_goes_on gives up; with tries
 * above 0, SEFL_EIO after that many failures. */
sefl_status client_fetch(client *c, sefl_status (*attempt)(client *c, client_reply *a),
                         const char *doing, unsigned tries) SEFL_MUST_CHECK;
/* Asks AS whether it still serves our task; *same is valid if a->word is ANSWER_OK. */
sefl_status client_same_task(client *c, client_reply *a, bool *same) SEFL_MUST_CHECK;
/* Returns the largest possible size of a file with a model of the task. */
uint64_t client_model_max(const client *c);

/* SEFL_EBUDGET if this round would exceed a budget; the message begins "policy: epsilon_total: " if
 * the owner set that budget. */
sefl_status client_budget(client *c, uint64_t round) SEFL_MUST_CHECK;
/* True if this client may take part in the round by rounds.separation: it is its turn, and its own
 * ledger has no round that is too near. */
bool client_is_turn(const client *c, uint64_t round);

/* Gives the records of the text their places (store/record_list.h), drops a finished update that
 * was made under another list, and warns the owner if the text has too many or too few of them for
 * the task's turns. */
sefl_status client_open_records(client *c) SEFL_MUST_CHECK;

/* Executes one order and reports the result to the participant. *new_task: AS has a new task. */
sefl_status client_obey(client *c, const participant_order *order, bool *new_task) SEFL_MUST_CHECK;

#endif

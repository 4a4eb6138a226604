/* rounds_inside: the state shared by rounds.c (the driver's callbacks, clients' questions),
 * rounds_requests.c (requests to CSP) and rounds_counted.c (proofs that an update was counted). */
#ifndef ROLES_AGGREGATOR_ROUNDS_INSIDE_H
#define ROLES_AGGREGATOR_ROUNDS_INSIDE_H

#include "net/buckets.h"
#include "protocol/counted.h"
#include "roles/aggregator/rounds.h"
#include "roles/aggregator/share.h"

struct rounds {
    rounds_config c;
    body_pool *body_pool;
    collect *collect;
    ingest *ingest; /* may be NULL (tests) */
    as_rounds *driver;
    pthread_mutex_t *lock;     /* the driver's; guards `ingest` and `requests` */
    csp_request *requests;     /* not sent yet */
    share *share;              /* several processes are one AS (share.h); NULL: this one is alone */
    sefl_progress lease_going; /* ends the driver's run when this process no longer leads */
    csp_request *away;         /* for the process that leads, not answered yet */
    uint64_t commanded;        /* the operator's latest order that went to the process that leads */
    uint64_t blocked;          /* blocked round whose suspects are not logged yet; 0: none */
    bool blocked_told;         /* a log line reported that the suspects could not be read */

    pthread_mutex_t tree_lock; /* guards the members below; take it before the journal's lock */
    counted_tree *tree;        /* for the round that clients asked about last; or NULL */
    uint64_t tree_round, tree_newest; /* round of `tree`; newest round that ever had a tree */
    sefl_buf tree_envelope;
    buckets *tree_rate; /* limits the trees of older rounds that a client may ask for */
};

/* as_rounds_config.between: sends the queued requests to CSP; they fail if the link is unusable. */
void rounds_run_requests(void *ctx, as_link *link);

/* Several processes. rounds_request_from takes a request of another process; rounds_request_look
 * looks for the answers to ours. */
void rounds_request_from(rounds *r, uint64_t id, unsigned kind, sefl_span bytes);
void rounds_request_look(rounds *r);
/* Sends an order of the operator to the process that leads. */
void rounds_command_away(rounds *r, const as_command *c);

/* Two entries of the driver's port to uploads. */
sefl_status rounds_read_head(const rounds *r, const char *path, uint8_t *out) SEFL_MUST_CHECK;
void rounds_upload_refused(void *ctx, uint64_t round, const char *when, const head_refusal *why,
                           const uint8_t client[32], bool named);

/* Returns the acknowledged uploads of a round, sorted by client, in a new array (sefl_free), except
 * those that the verdict `without` refused; NULL: all of them. */
sefl_status rounds_uploads(rounds *r, uint64_t round, const as_verdict *without, round_entry **out,
                           uint32_t *n) SEFL_MUST_CHECK;

#endif

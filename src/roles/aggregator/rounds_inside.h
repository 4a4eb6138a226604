/* rounds_inside: the state of rounds.c (ports, questions), rounds_requests.c (clients' requests
 * to CSP) and rounds_counted.c (proofs of being counted). */
#ifndef ROLES_AGGREGATOR_ROUNDS_INSIDE_H
#define ROLES_AGGREGATOR_ROUNDS_INSIDE_H

#include "net/buckets.h"
#include "protocol/counted.h"
#include "roles/aggregator/rounds.h"

struct rounds {
    rounds_config c;
    body_pool *body_pool;
    collect *collect;
    ingest *ingest; /* may be NULL (tests) */
    as_rounds *driver;
    pthread_mutex_t *lock; /* the driver's; guards `ingest` and what follows */
    csp_request *requests; /* that wait */
    uint64_t blocked;      /* blocked round whose suspects are still to be logged; 0: none */
    bool blocked_told;     /* the log says that they could not be read */

    pthread_mutex_t tree_lock;        /* guards what follows; inside it the journal's alone */
    counted_tree *tree;               /* of the round that clients asked about last; NULL: none */
    uint64_t tree_round, tree_newest; /* of `tree`; the latest one that a tree was made of */
    sefl_buf tree_envelope;
    buckets *tree_rate; /* trees that a client may have made anew */
};

/* as_rounds_config.between: asks CSP what waits; without a usable link the requests fail. */
void rounds_run_requests(void *ctx, as_link *link);

/* The acknowledged uploads of a round, by rising client, into a new array (sefl_free). without:
 * leaves out those that this verdict refused; NULL: all of them. */
sefl_status rounds_uploads(rounds *r, uint64_t round, const as_verdict *without, round_entry **out,
                           uint32_t *n) SEFL_MUST_CHECK;

#endif

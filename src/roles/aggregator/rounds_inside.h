/* rounds_inside: the driver's state, shared by rounds.c (loop, link, questions) and
 * rounds_orders.c (what each order does). */
#ifndef ROLES_AGGREGATOR_ROUNDS_INSIDE_H
#define ROLES_AGGREGATOR_ROUNDS_INSIDE_H

#include "net/buckets.h"
#include "protocol/counted.h"
#include "roles/aggregator/rounds.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum errand_state { ERRAND_WAITS, ERRAND_ASKED, ERRAND_DONE } errand_state;

struct rounds_errand { /* under the lock */
    rounds_errand *next;
    errand_state state;
    bool left;        /* nobody wants the answer any more */
    sefl_buf voucher; /* or, empty, an enrolment: */
    enrol_claim claim;
    enrol_proof proof;
    sefl_status st;
    uint8_t sig[SIGN_BYTES];
};

struct rounds {
    rounds_config c;
    body_pool *body_pool;
    collect *collect;
    ingest *ingest; /* may be NULL (tests) */

    pthread_mutex_t lock; /* guards what follows, down to `stop` */
    pthread_cond_t event; /* an update came, or stop */
    agg *a;
    agg_memory stored;      /* what the journal has of the machine */
    uint64_t noted;         /* its step that is noted beside the ledger */
    journal_round row;      /* and of the present round */
    release_from model;     /* the latest release */
    sefl_buf header;        /* of the present round, once it is signed */
    uint64_t events;        /* updates and the like since the start */
    rounds_errand *errands; /* that wait */
    atomic_bool stop;       /* set under the lock, looked at without */

    /* the driver thread's own */
    as_link *link;
    uint64_t ping_at_ms;  /* monotonic */
    uint64_t seen;        /* `events` when the latest order was given */
    unsigned refused;     /* openings of this round that CSP refused in a row */
    uint64_t early_round; /* sealed tasks: whose heads went to CSP over this link; 0: none's */
    uint32_t early;       /* so many of them, in the order of arrival */
    uint64_t early_at_ms; /* monotonic: the next ones */
    uint64_t open_ns;     /* what the opening took */
    as_times times;       /* and its parts */
    release_signals signals;

    pthread_mutex_t tree_lock;        /* guards what follows; inside it the journal's alone */
    counted_tree *tree;               /* of the round that clients asked about last; NULL: none */
    uint64_t tree_round, tree_newest; /* of `tree`; the latest one that a tree was made of */
    sefl_buf tree_envelope;
    buckets *tree_rate; /* trees that a client may have made anew */
};

uint64_t rounds_wall_ms(const rounds *r);

/* The machine's memory and the round's row, durable together, with the fact of the latest model.
 * With the lock. */
sefl_status rounds_remember(rounds *r) SEFL_MUST_CHECK;

/* Tells the machine, then the journal, under the lock. */
sefl_status rounds_tell(rounds *r, const agg_event *e) SEFL_MUST_CHECK;

/* The round takes updates from now on, into an empty sum; or no round does. With the lock. */
void rounds_accept_uploads(rounds *r, uint64_t round);
void rounds_close_uploads(rounds *r);
/* Gives the acknowledged bodies of the present round to the running sum. */
sefl_status rounds_refill(rounds *r, uint64_t round) SEFL_MUST_CHECK;

/* Frees the link and tells the machine; the sentence of the failure is logged under `what`. */
sefl_status rounds_link_down(rounds *r, const char *what) SEFL_MUST_CHECK;
bool rounds_stopping(const rounds *r);
/* Waits so long, or until rounds_stop. */
void rounds_pause(rounds *r, unsigned ms);

/* Carries errands that wait to CSP; without a link they are told so. */
sefl_status rounds_run_errands(rounds *r) SEFL_MUST_CHECK;

/* ---- sealed tasks (rounds_sealed.c) ---- */

/* Sends heads of updates that have arrived since, if it is time. *wait_ms: when to come again; 0: something
 * was sent. */
sefl_status rounds_early(rounds *r, uint64_t *wait_ms) SEFL_MUST_CHECK;
/* Drawn once a round, and durable. */
sefl_status rounds_tree_seed(rounds *r, uint64_t round, uint8_t seed[COUNTED_SEED]) SEFL_MUST_CHECK;
/* CSP's verdict as it was stored; SEFL_ENOTFOUND: there is none yet. */
sefl_status rounds_verdict(rounds *r, uint64_t round, as_verdict *out) SEFL_MUST_CHECK;
/* SET and VERDICT over this link: stored, refused bodies off the sum; open gets count and root. few: CSP
 * keeps fewer than the threshold. lost: a head cannot be read any more. */
sefl_status rounds_set(rounds *r, uint64_t round, as_reveal *open, bool *few,
                       bool *lost) SEFL_MUST_CHECK;
/* Clients in the sum of a closed round, and how many CSP refused. */
uint32_t rounds_kept(rounds *r, uint64_t round, uint32_t *refused);

/* One order each; a failure ends rounds_run. */
sefl_status order_dial(rounds *r) SEFL_MUST_CHECK;
sefl_status order_sign(rounds *r, const agg_order *o) SEFL_MUST_CHECK;
sefl_status order_freeze(rounds *r, const agg_order *o) SEFL_MUST_CHECK;
sefl_status order_reveal(rounds *r, const agg_order *o) SEFL_MUST_CHECK;
sefl_status order_release(rounds *r, const agg_order *o) SEFL_MUST_CHECK;
sefl_status order_skip(rounds *r, const agg_order *o) SEFL_MUST_CHECK;
sefl_status order_finish(rounds *r, const agg_order *o) SEFL_MUST_CHECK;

#endif

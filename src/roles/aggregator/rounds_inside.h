/* rounds_inside: the driver's state, shared by rounds.c (loop, link, questions) and
 * rounds_orders.c (what each order does). */
#ifndef ROLES_AGGREGATOR_ROUNDS_INSIDE_H
#define ROLES_AGGREGATOR_ROUNDS_INSIDE_H

#include "roles/aggregator/rounds.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum enrolment_state { ENROL_WAITS, ENROL_ASKED, ENROL_DONE } enrolment_state;

struct rounds_enrolment { /* under the lock */
    rounds_enrolment *next;
    enrolment_state state;
    bool left; /* nobody wants the answer any more */
    enrol_claim claim;
    enrol_proof proof;
    sefl_status st;
    uint8_t sig[SIGN_BYTES];
};

struct rounds {
    rounds_config c;
    rooms *rooms;
    collect *collect;
    ingest *ingest; /* may be NULL (tests) */

    pthread_mutex_t lock; /* guards what follows, down to `stop` */
    pthread_cond_t event; /* an update came, or stop */
    agg *a;
    agg_memory stored;            /* what the journal has of the machine */
    uint64_t noted;               /* its step that is noted beside the ledger */
    journal_round row;            /* and of the present round */
    release_from model;           /* the latest release */
    sefl_buf header;              /* of the present round, once it is signed */
    uint64_t events;              /* updates and the like since the start */
    rounds_enrolment *enrolments; /* that wait */
    atomic_bool stop;             /* set under the lock, looked at without */

    /* the driver thread's own */
    as_link *link;
    uint64_t ping_at_ms; /* monotonic */
    uint64_t seen;       /* `events` when the latest order was given */
    unsigned refused;    /* openings of this round that CSP refused in a row */
    uint64_t open_ns;    /* what the opening took */
    as_times times;      /* and its parts */
    release_signals signals;
};

uint64_t rounds_wall_ms(const rounds *r);

/* The machine's memory and the round's row, durable together, with the fact of the latest model.
 * With the lock. */
sefl_status rounds_remember(rounds *r) SEFL_MUST_CHECK;

/* Tells the machine, then the journal, under the lock. */
sefl_status rounds_tell(rounds *r, const agg_event *e) SEFL_MUST_CHECK;

/* The round takes updates from now on, into an empty sum; or no round does. With the lock. */
void rounds_open_gate(rounds *r, uint64_t round);
void rounds_close_gate(rounds *r);
/* Gives the acknowledged bodies of the present round to the running sum. */
sefl_status rounds_refill(rounds *r, uint64_t round) SEFL_MUST_CHECK;

/* Frees the link and tells the machine; the sentence of the failure is logged under `what`. */
sefl_status rounds_link_down(rounds *r, const char *what) SEFL_MUST_CHECK;
bool rounds_stopping(const rounds *r);
/* Waits so long, or until rounds_stop. */
void rounds_pause(rounds *r, unsigned ms);

/* Carries enrolments that wait to CSP; without a link they are told so. */
sefl_status rounds_carry_enrolments(rounds *r) SEFL_MUST_CHECK;

/* One order each; a failure ends rounds_run. */
sefl_status order_dial(rounds *r) SEFL_MUST_CHECK;
sefl_status order_sign(rounds *r, const agg_order *o) SEFL_MUST_CHECK;
sefl_status order_freeze(rounds *r, const agg_order *o) SEFL_MUST_CHECK;
sefl_status order_open(rounds *r, const agg_order *o) SEFL_MUST_CHECK;
sefl_status order_release(rounds *r, const agg_order *o) SEFL_MUST_CHECK;
sefl_status order_skip(rounds *r, const agg_order *o) SEFL_MUST_CHECK;
sefl_status order_finish(rounds *r, const agg_order *o) SEFL_MUST_CHECK;

#endif

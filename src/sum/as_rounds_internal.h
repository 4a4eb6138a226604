/* as_rounds_internal: the driver's state, shared by as_rounds.c (loop), as_orders.c (orders) and
 * as_heads.c (sealed tasks); nobody else includes it. */
#ifndef SUM_AS_ROUNDS_INTERNAL_H
#define SUM_AS_ROUNDS_INTERNAL_H

#include "sum/as_rounds.h"

#include <stdatomic.h>

struct as_rounds {
    as_rounds_config c;
    const as_store *store;
    const task *t;

    pthread_mutex_t lock; /* guards what follows, down to `stop` */
    pthread_cond_t event; /* an upload came, or stop */
    agg *a;
    agg_memory stored;  /* what the store has of the machine */
    uint64_t noted;     /* its step that is noted beside the ledger */
    journal_round row;  /* of the present round */
    release_from model; /* the latest release */
    sefl_buf header;    /* of the present round, once it is signed */
    uint64_t events;    /* uploads and the like since the start */
    atomic_bool stop;   /* set under the lock, looked at without */

    /* of the thread that runs */
    as_link *link;
    uint64_t ping_at_ms;  /* monotonic */
    uint64_t seen;        /* `events` when the loop last looked */
    unsigned refused;     /* reveals of this round that CSP refused in a row */
    uint64_t early_round; /* sealed tasks: whose heads went to CSP over this link; 0: none's */
    uint32_t early;       /* how many uploads of it, in the order of arrival */
    uint64_t early_at_ms; /* monotonic: the next ones */
    uint64_t reveal_ns;   /* what the reveal took */
    as_times times;       /* and its parts */
    round_parts parts;
    release_signals signals;
};

uint64_t as_rounds_wall_ms(const as_rounds *r);
/* The next ping is due a whole interval from now. */
void as_rounds_linked_now(as_rounds *r);
/* The machine's memory, the round's row and the latest model in one step. With the lock. */
sefl_status as_rounds_remember(as_rounds *r) SEFL_MUST_CHECK;
/* Tells the machine, then the store. */
sefl_status as_rounds_tell(as_rounds *r, const agg_event *e) SEFL_MUST_CHECK;
sefl_status as_rounds_say(as_rounds *r, agg_event_kind kind, uint64_t round) SEFL_MUST_CHECK;
void as_rounds_changed(as_rounds *r);
/* Waits that long, or until as_rounds_stop. */
void as_rounds_pause(as_rounds *r, unsigned ms);

/* Frees the link and tells the machine; logs the failure's sentence under `what`. */
sefl_status as_rounds_link_down(as_rounds *r, const char *what) SEFL_MUST_CHECK;
void as_rounds_hang_up(as_rounds *r);

/* Executes one order; a failure ends as_rounds_run. */
sefl_status as_rounds_execute(as_rounds *r, const agg_order *o) SEFL_MUST_CHECK;
/* Nothing to do until `until_ms` or an event. */
sefl_status as_rounds_idle(as_rounds *r, uint64_t until_ms) SEFL_MUST_CHECK;

/* Sealed tasks: EARLY, if it is time. *wait_ms: when to come again; 0: something was sent. */
sefl_status as_rounds_early(as_rounds *r, uint64_t *wait_ms) SEFL_MUST_CHECK;
/* Sealed tasks: SET and VERDICT over this link: stored, refused uploads off the sum; `o` gets
 * count and root. few: CSP keeps fewer than the threshold. lost: a head cannot be read any more. */
sefl_status as_rounds_set(as_rounds *r, as_reveal *o, bool *few, bool *lost) SEFL_MUST_CHECK;

#endif

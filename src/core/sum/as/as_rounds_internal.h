/* as_rounds_internal: the driver's state, shared by as_rounds.c (loop), as_orders.c (orders) and
 * as_heads.c (sealed tasks). */
#ifndef SUM_AS_ROUNDS_INTERNAL_H
#define SUM_AS_ROUNDS_INTERNAL_H

#include "sum/as_rounds.h"

#include <stdatomic.h>

struct as_rounds {
    as_rounds_config c;
    const as_store *store;
    const task *t;

    pthread_mutex_t lock; /* guards the members from here to `stop` */
    pthread_cond_t event; /* an upload arrived, or as_rounds_stop */
    agg *a;
    agg_memory stored;  /* the machine's memory as stored */
    uint64_t noted;     /* the step noted beside the ledger */
    as_row row;         /* row of the current round */
    release_from model; /* the latest release */
    sefl_buf header;    /* header of the current round, once it is signed */
    uint64_t events;    /* number of calls to as_rounds_wake */
    as_command command; /* the operator's, not obeyed yet; id 0: none */
    uint64_t commanded; /* id of the latest one obeyed */
    char trouble[AS_TROUBLE];
    atomic_bool stop; /* written under the lock, read without it */

    /* owned by the thread of as_rounds_run */
    as_link *link;
    uint64_t ping_at_ms;  /* monotonic */
    uint64_t seen;        /* value of `events` when the loop last checked it */
    unsigned refused;     /* number of reveals of this round that CSP refused in a row */
    uint64_t early_round; /* sealed tasks: round whose heads were sent on this link; 0: none */
    uint32_t early;       /* number of that round's heads sent, in the order of arrival */
    uint64_t early_at_ms; /* monotonic: when the next EARLY is due */
    int64_t *released;    /* integers of the latest reveal until their release */
    uint64_t released_in; /* round of these integers; 0: none */
    history_fresh fresh;  /* correlated noise, of the latest reveal */
    noise_ahead ahead;    /* mode own: AS's noise of the current round */
    uint64_t reveal_ns;   /* duration of the reveal */
    as_times times;       /* durations of the reveal's parts */
    round_parts parts;
    release_signals signals;
};

uint64_t as_rounds_wall_ms(const as_rounds *r);
/* Schedules the next ping one interval from now. */
void as_rounds_linked_now(as_rounds *r);
/* Stores the machine's memory, the row and the latest model in one step. Call it with the lock. */
sefl_status as_rounds_remember(as_rounds *r) SEFL_MUST_CHECK;
/* Passes an event to the machine, then stores the machine's memory if it changed. */
sefl_status as_rounds_tell(as_rounds *r, const agg_event *e) SEFL_MUST_CHECK;
sefl_status as_rounds_say(as_rounds *r, agg_event_kind kind, uint64_t round) SEFL_MUST_CHECK;
void as_rounds_changed(as_rounds *r);
/* Waits for `ms` milliseconds, or until as_rounds_stop. */
void as_rounds_pause(as_rounds *r, unsigned ms);

/* Sets what as_rounds_trouble returns. */
void as_rounds_note(as_rounds *r, const char *why);
/* Frees the link, reports LINK_DOWN to the machine, and logs the error message with `what`. */
sefl_status as_rounds_link_down(as_rounds *r, const char *what) SEFL_MUST_CHECK;
void as_rounds_hang_up(as_rounds *r);
/* Erases the integers of the latest reveal from memory. */
void as_rounds_drop_released(as_rounds *r);

/* Executes one order; a failure ends as_rounds_run. */
sefl_status as_rounds_execute(as_rounds *r, const agg_order *o) SEFL_MUST_CHECK;
/* Waits until `until_ms` or an event; meanwhile pings CSP and sends heads. */
sefl_status as_rounds_idle(as_rounds *r, uint64_t until_ms) SEFL_MUST_CHECK;

/* Sealed tasks: sends EARLY if it is due. Sets *wait_ms to the time until the next call, or to 0 if
 * heads were sent. */
sefl_status as_rounds_early(as_rounds *r, uint64_t *wait_ms) SEFL_MUST_CHECK;
/* Sealed tasks: sends SET, stores the VERDICT and subtracts refused uploads from the sum; sets the
 * count and root in `o`. After a failure, *outcome is what it means for the round. */
sefl_status as_rounds_set(as_rounds *r, as_reveal *o, as_outcome *outcome) SEFL_MUST_CHECK;

#endif

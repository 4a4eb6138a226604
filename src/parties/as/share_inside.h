/* share_inside: the state that share.c (following and leading) and share_sum.c (partial sums, the
 * driver's port to uploads) share. */
#ifndef ROLES_AGGREGATOR_SHARE_INSIDE_H
#define ROLES_AGGREGATOR_SHARE_INSIDE_H

#include "roles/aggregator/rounds_inside.h"
#include "roles/pulse.h"
#include "store/journal/lease.h"
#include "store/journal/shared.h"

#include <stdatomic.h>

enum { POLL_MS = 100, RETRY_MS = 500 };

typedef struct arrival {
    round_entry m; /* first: round_entry_order */
    uint64_t holder;
} arrival;

typedef struct arrivals {
    uint64_t round; /* 0: none */
    arrival *at;
    size_t n, room;
} arrivals;

typedef struct holding {
    uint64_t holder, uploads, seen;
} holding;

struct share {
    share_config c;
    rounds *r;
    uint64_t me;
    char bodies[32], holder[LEASE_NAME_MAX + 1];
    pthread_t keeper, worker;
    bool has_keeper, has_worker;
    atomic_bool stop, leads, lost;
    atomic_bool led;           /* some process leads */
    pulse pulse;               /* of the store */
    _Atomic uint64_t still_ms; /* monotonic: when share_still began to ask last, with success */

    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t wake;
    lease l;
    uint64_t renew_ms, until_ms; /* monotonic: when to renew the lease, and when it may be over */
    arrivals early;              /* in the order of arrival, for EARLY */
    size_t early_at;             /* the entry that share_uploads.arrived returned last */
    uint64_t term;               /* how often this process has led */
    uint64_t asked;              /* the latest request of another process in this term */

    /* the keeper's */
    uint64_t held_term; /* the term that `held` is about */
    holding *held;
    size_t held_n, held_room;
    uint32_t counted; /* the number of uploads that the machine knows */

    /* the thread of share_run */
    arrivals set; /* the frozen set, sorted by client */
    ahe_sum *sum;
    uint64_t sum_round;
    collect *reader; /* reads bodies of any process; NULL: not made yet */
    bool silent;     /* it is logged that the store does not answer */

    /* the worker's */
    collect *spare; /* sums the uploads of another process; NULL: not made yet */
    uint64_t spare_holder;
    shared_part part;
    uint64_t part_renew_ms;
};

uint64_t share_mono_ms(const share *s);
sefl_log *share_log(const share *s);
/* Waits, at most until share_stop. */
void share_pause_ms(share *s, unsigned ms);
/* Returns the phase of the machine, and its round. */
agg_phase share_phase(share *s, uint64_t *round);

/* A shared_upload_fn; ctx is an arrivals. */
sefl_status share_add_arrival(void *ctx, uint64_t holder, const uint8_t client[32],
                              const uint8_t body[32]) SEFL_MUST_CHECK;
void share_arrivals_clear(arrivals *a);

/* The worker's thread. */
void *share_work(void *arg);
/* With the driver's lock: accepts uploads of this round, or of none (0). */
void share_only_round(share *s, uint64_t round);
/* Frees the leader's sum. */
void share_drop_sum(share *s);

#endif

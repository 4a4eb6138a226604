/* as_rounds: drives AS's rounds. It executes the orders of sum/agg.h durably, one at a time: dial,
 * sign, freeze, reveal, release, skip and finish. The aggregator, the simulator, `sefl sum` and
 * `sefl bench round` all use this driver and differ only in its ports.
 *
 *     port        what it hides                  aggregator            simulator, demo
 *     store       durable state (as_store.h)     as_disk               as_memory
 *     channel     the stream to CSP              TLS, lanes            a pair of ends in memory
 *     uploads     where clients' uploads are     files, running sum    as_memory
 *     model       the next model                 files                 files, or none
 *     clear       CSP's part, without a CSP      none                  crypto clear, none, cdp
 *     wait        how time passes                a condition           virtual time
 *
 *     static const as_uploads uploads = { .accept = ..., .set = ..., ... };
 *     SEFL_TRY(as_rounds_new(&r, &(as_rounds_config){ .task = &t, .store = &s, .ctx = me,
 *                                                     .uploads = &uploads, ... }));
 *     SEFL_TRY(as_rounds_run(r));              // until the task is over
 *
 * The driver guarantees, even if a process or machine crashes at any time:
 *   1. The machine's memory is in the store before the driver executes an order, so no attempt
 *      number is used twice.
 *   2. An order's result is in the store before the machine receives it. If the driver executes an
 *      order twice, the second result equals the first or replaces it completely.
 *   3. A full or broken disk, here or at CSP, or missing memory never costs a round whose uploads
 *      are acknowledged: the attempt to reveal it failed, and the driver tries again, at intervals
 *      of up to 64 s, until CSP's key expires. (Before the set is frozen, after the reveal, and
 *      after another failure of AS itself, the run ends; the next one continues.) It skips a round
 *      only if CSP keeps too few clients, an upload or the key is lost, CSP has skipped it, or
 *      refuses five attempts or answers them wrongly; and it logs why.
 *   4. The charge is in AS's ledger before the masked sum leaves. The integers are in the store
 *      before AS publishes any part of them, and the model before AS wipes the round's secrets.
 *
 * Several processes may share one store (`shared`). One of them leads: it calls as_rounds_run, and
 * its store refuses a write once another process leads. The others call as_rounds_follow, so that
 * their machine shows the state in the store: they admit uploads and answer questions, and execute
 * no order.
 *
 * Threads: one thread calls as_rounds_run, which calls the ports without the lock unless stated
 * otherwise; any thread may call as_rounds_stop and as_rounds_wake.
 * Secrets: the integers between reveal and release. */
#ifndef SUM_AS_ROUNDS_H
#define SUM_AS_ROUNDS_H

#include "sum/account.h"
#include "sum/agg.h"
#include "sum/as_link.h"
#include "sum/as_store.h"
#include "sum/round_report.h"

#include <pthread.h>

typedef struct as_rounds as_rounds;

/* The stream to CSP. Entries after hang_up may be NULL. */
typedef struct as_channel {
    sefl_status (*dial)(void *ctx, channel **out);
    void (*hang_up)(void *ctx);                 /* does nothing if there is no stream */
    void (*up)(void *ctx, const as_peer *peer); /* both servers agree on the task */
    void (*revealing)(void *ctx, bool on);      /* while on, no noise shares are made */
    bool (*ended)(void *ctx);                   /* true: failed share checks ended the task */
    sefl_status (*shares_wait)(void *ctx, uint64_t round, uint64_t attempt, uint64_t count);
} as_channel;

/* Access to the uploads. An entry whose comment begins with * is optional and may be NULL. */
typedef struct as_uploads {
    /* Starts accepting uploads of this round into an empty sum. both is the header that both
     * servers signed, valid until the next round. Called with the lock. */
    sefl_status (*accept)(void *ctx, const round_header *h, sefl_span both);
    /* Stops accepting uploads. Called with or without the lock, any number of times. */
    void (*close)(void *ctx);
    /* *After a restart: adds a round's acknowledged uploads to the sum again and counts them. */
    sefl_status (*restore)(void *ctx, uint64_t round, uint32_t *clients);
    /* The round has closed: every acknowledged upload is in the sum or about to be added. */
    sefl_status (*freeze)(void *ctx, uint64_t round);
    /* Returns the frozen set, sorted by client, in a new array (free it with sefl_free); every call
     * returns the same set. *set is NULL if there is no CSP (as_clear). */
    sefl_status (*set)(void *ctx, uint64_t round, round_entry **set, uint32_t *n);
    /* *Sealed tasks: loads the i-th upload in order of arrival; false: it has not arrived yet. */
    bool (*arrived)(void *ctx, uint64_t round, uint32_t i, round_entry *out);
    /* *Sealed tasks: writes the head of an upload, head_bytes(task.seal). SEFL_ECRYPTO,
     * ENOTFOUND: it is gone for good, and the round is lost. After another failure (the disk does
     * not answer, memory is short) the attempt has failed. */
    sefl_status (*head)(void *ctx, uint64_t round, const round_entry *e, uint8_t *out);
    /* *Sealed tasks: CSP refused this client's head. If named is true, log the client's name. */
    void (*refused)(void *ctx, uint64_t round, const char *when, const head_refusal *r,
                    const uint8_t client[32], bool named);
    /* *Sealed tasks: subtracts a refused upload from the sum; SEFL_ENOTFOUND: it is not there. If
     * NULL, a refused upload is a permanent failure. */
    sefl_status (*take_off)(void *ctx, uint64_t round, const uint8_t client[32]);
    /* *Returns the closed sum of the set. If it fails with SEFL_ECRYPTO, EPROTO or ERANGE, the sum
     * is lost; SEFL_EIO means that the disk or the store does not answer now. */
    sefl_status (*sum)(void *ctx, uint64_t round, ahe_sum **out);
    /* Deletes the uploads of a round that is durably over. */
    sefl_status (*forget)(void *ctx, uint64_t round);
} as_uploads;

typedef struct as_model {
    /* Makes the next model durable, unless the release check blocks it (out->blocked).
     * numbers.bound is 0 if there was no check. A second call after a crash writes the same
     * bytes. */
    sefl_status (*release)(void *ctx, const release_from *from, uint64_t round, const int64_t *w,
                           uint32_t clients, release_made *out);
    void (*settle)(void *ctx, uint64_t latest); /* round `latest`'s model is durable; may be NULL */
} as_model;

/* Replaces CSP in a federation without one. */
typedef struct as_clear {
    sefl_status (*sign)(void *ctx, sefl_buf *both, round_header *h);
    sefl_status (*reveal)(void *ctx, uint64_t round, uint64_t attempt, int64_t *w);
} as_clear;

typedef struct as_rounds_config {
    const task *task;
    sefl_span envelope; /* the signed task */
    const sign_key *key;
    const sefl_coins *coins; /* purposes: "mask", "tree" */
    const as_store *store;
    account *account; /* AS's ledger */
    void *ctx;        /* first argument of every port */
    const as_channel *channel;
    const as_uploads *uploads;
    const as_model *model;
    const as_clear *clear; /* NULL: there is a CSP; otherwise channel may be NULL */
    /* Waits until `until_ms` or an event. If NULL, the driver itself waits and pings CSP. */
    sefl_status (*wait)(void *ctx, uint64_t until_ms);
    /* Called before every order, with the link (NULL: there is none), so that the caller can ask
     * CSP other questions. May be NULL. */
    void (*between)(void *ctx, as_link *link);
    void (*changed)(void *ctx);                        /* the phase has changed; may be NULL */
    void (*report)(void *ctx, const rounds_report *r); /* a round is over; may be NULL */
    bool strict;               /* both servers run in this process: a failed link ends the run */
    bool shared;               /* other processes may have written the store since the last run */
    const sefl_progress *stop; /* checked before every order; may be NULL */
    shares_pool *shares;       /* joint noise: AS's pool */
    pool *pool;
    const sefl_clock *wall, *mono;
    sefl_log *log;
    unsigned ping_ms; /* 0: 10 s */
} as_rounds_config;

/* Continues from the state in the store; with `shared`, as_rounds_run does that. */
sefl_status as_rounds_new(as_rounds **out, const as_rounds_config *c) SEFL_MUST_CHECK;
void as_rounds_free(as_rounds *r);

/* Runs until the task is over (SEFL_OK), as_rounds_stop or config.stop (SEFL_ECANCELLED), or a
 * permanent failure: a store that cannot be written, ledgers that disagree. */
sefl_status as_rounds_run(as_rounds *r) SEFL_MUST_CHECK;
/* `shared`, while no thread is in as_rounds_run: loads the state that the leader has stored, and
 * writes nothing. clients is the number of uploads that the open round has. */
sefl_status as_rounds_follow(as_rounds *r, uint32_t clients) SEFL_MUST_CHECK;
void as_rounds_stop(as_rounds *r);
bool as_rounds_stopping(const as_rounds *r);
/* Tells as_rounds_run that an event has happened. Call it while holding the lock. */
void as_rounds_wake(as_rounds *r);

/* An operator's order; no other order replaces AGG_STOP. as_rounds_run obeys it before its next
 * order, and as_rounds_commanded returns its id once the result is durable. Any thread may call
 * both. */
typedef struct as_command {
    uint64_t id;          /* not 0 */
    agg_event_kind event; /* AGG_PAUSE, AGG_RESUME, AGG_STOP or AGG_CLOSE */
    uint64_t round;       /* AGG_CLOSE: which one */
    bool now;
} as_command;
void as_rounds_command(as_rounds *r, const as_command *c);
uint64_t as_rounds_commanded(as_rounds *r); /* 0: none */

/* Why the link is down, or the latest attempt to reveal the round failed; "": neither. Any
 * thread. */
enum { AS_TROUBLE = 160 };
void as_rounds_trouble(as_rounds *r, char out[AS_TROUBLE]);

/* Sealed tasks, on the thread of as_rounds_run: sends CSP the heads of uploads that have arrived
 * since the last call (EARLY). The driver does this while it waits. */
sefl_status as_rounds_send_heads(as_rounds *r) SEFL_MUST_CHECK;

/* Correlated noise, on the thread of as_rounds_run: stores the record of the latest released round,
 * unless it is stored. The driver does this while it waits. */
sefl_status as_rounds_keep_history(as_rounds *r) SEFL_MUST_CHECK;

/* The lock guards the machine. Results of the next calls are valid while the caller holds it. */
pthread_mutex_t *as_rounds_lock(as_rounds *r);
agg *as_rounds_agg(as_rounds *r);
sefl_span as_rounds_header(const as_rounds *r);   /* header of this round; empty until signed */
release_from as_rounds_model(const as_rounds *r); /* the latest release */

/* Sets *kept to the number of clients in the sum of a closed round; in sealed tasks *refused is the
 * number of clients that CSP refused. */
sefl_status as_rounds_kept(as_rounds *r, uint64_t round, uint32_t *kept,
                           uint32_t *refused) SEFL_MUST_CHECK;
/* Returns the link, or NULL if there is none. Call it on the thread of as_rounds_run. */
as_link *as_rounds_link(as_rounds *r);

#endif

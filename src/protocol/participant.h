/* participant: decides what a client does: which task it accepts, when it trains, uploads and
 * stops. No socket, clock, disk or key: events come in with the time, orders go out, as in agg.h.
 *
 *     POLL -> header checked -> [own coin] -> FETCH_MODEL -> TRAIN -> UPLOAD -> receipt checked ->
 *     POLL for the next round ... -> STOP
 *
 *     order         the driver                                       and reports
 *     POLL          asks for rounds after `round`                    GOT_NEWS
 *     FETCH_MODEL   gets the model, compares its hash                GOT_MODEL
 *     TRAIN         trains, encrypts (zeros: encrypts zeros),        TRAINED
 *                   writes the finished body durably
 *     UPLOAD        sends it, or the rest of it; checks the receipt   GOT_RECEIPT, or REFUSED
 *     SLEEP         waits until until_ms                             (nothing)
 *     STOP          ends: `why`                                      (nothing)
 * and FAILED for what may work later. participant_next gives the same order until an event came.
 *
 * The finished ciphertext of a round is written before its first byte leaves (TRAINED); after a
 * restart participant_restore continues with UPLOAD of those bytes and never encrypts that round
 * again: the driver restores the highest round of which it has a body, whether or not it has the
 * receipt. A deadline that has passed before that drops the round's work; if AS extended the round,
 * it begins again. Failures are retried after 1 s, doubled up to 256 s, of which the first half is
 * fixed and the other one drawn (the jitter's coins come in as an argument). Threads: one
 * owner.   Secrets: none here. */
#ifndef PROTOCOL_PARTICIPANT_H
#define PROTOCOL_PARTICIPANT_H

#include "base/random.h"
#include "protocol/round.h"
#include "protocol/task.h"

/* The owner's policy: a task outside it is refused with the rule's name. 0 / empty: no rule, but
 * for claim_none: a task that claims nothing is refused unless it is allowed. */
typedef struct policy {
    double epsilon_task;    /* epsilon_per_task: largest target of a task */
    double epsilon_total;   /* epsilon_total: largest sum over all tasks, checked with the ledger */
    double delta_max;       /* delta_max: largest delta of a task that claims an epsilon */
    uint32_t threshold_min; /* clients_min: smallest L */
    uint32_t noise_modes;   /* a bit per task_noise; 0: no rule */
    bool allow_no_claim;    /* claim_none */
    uint64_t rounds_max;    /* rounds_max: most rounds that a task may ask of this client */
    pinned servers;         /* allowed_servers */
} policy;

/* SEFL_EAUTH / SEFL_EINVAL with "policy: <rule>: ...": what the task has, what is allowed, what
 * would accept it. broken (may be NULL): set to the rule's name then. epsilon_total is held against
 * the task's own target here; with what was spent before only the client's ledger can
 * compare it. */
sefl_status policy_check(const policy *p, const task *t, const char **broken) SEFL_MUST_CHECK;

typedef enum participant_order_kind {
    PARTICIPANT_POLL,
    PARTICIPANT_FETCH_MODEL,
    PARTICIPANT_TRAIN,
    PARTICIPANT_UPLOAD,
    PARTICIPANT_SLEEP,
    PARTICIPANT_STOP
} participant_order_kind;

typedef struct participant_order {
    participant_order_kind kind;
    uint64_t round;    /* POLL: the highest round that is dealt with */
    uint64_t until_ms; /* SLEEP */
    const char *why;   /* STOP */
    bool zeros;        /* TRAIN: hidden sampling, not drawn: encrypt zeros */
} participant_order;

/* What AS says about the present round (its answer to a poll, JSON: docs/PROTOCOL.md): the members,
 * all of them always there. */
#define ROUND_NEWS_FIELDS(X) X(state) X(round) X(left_ms) X(header) X(why)

typedef enum round_word { ROUND_WAITING, ROUND_OPEN, ROUND_CLOSED, ROUND_OVER } round_word;
typedef struct round_news {
    round_word state;
    uint64_t round;
    uint64_t left_ms; /* OPEN: until the deadline */
    sefl_span header; /* OPEN: envelope with both signatures */
    char why[128];    /* OVER */
} round_news;
/* header looks into scratch, which is the caller's. SEFL_EPROTO for anything else than the one
 * form. */
sefl_status round_news_read(round_news *out, sefl_buf *scratch, sefl_span json) SEFL_MUST_CHECK;
sefl_status round_news_write(sefl_buf *out, const round_news *n) SEFL_MUST_CHECK;

typedef enum participant_event_kind {
    PARTICIPANT_GOT_NEWS,
    PARTICIPANT_GOT_MODEL,
    PARTICIPANT_TRAINED,
    PARTICIPANT_GOT_RECEIPT,
    PARTICIPANT_REFUSED, /* this round: late, full, limit: wait for the next */
    PARTICIPANT_FAILED,  /* network or server trouble: back off, try again */
} participant_event_kind;

typedef struct participant_event {
    participant_event_kind kind;
    const round_news *news; /* GOT_NEWS */
    bool drawn;             /* GOT_NEWS with an open round: this client's own coin (always true
                             * without sampling); only the first one of a round counts */
} participant_event;

typedef struct participant participant;

/* The task is checked (task_open, policy_check) before participant_new. rounds_done: rounds of this
 * task that this client is in already (its ledger), without one that still waits for its receipt.
 * The task must outlive it. */
sefl_status participant_new(participant **out, const task *t, uint64_t rounds_done,
                            const sefl_rng *jitter) SEFL_MUST_CHECK;
void participant_free(participant *m);
/* A finished body of this round is on disk. */
void participant_restore(participant *m, uint64_t round, bool receipt);

/* Checks a header: both signatures, this task, the round that was announced, the task's step, and
 * that CSP's key of the round is of the task's suite (round_header_read has looked at its
 * length). */
sefl_status participant_header_check(const task *t, round_header *out, sefl_span envelope,
                                     uint64_t round) SEFL_MUST_CHECK;

sefl_status participant_on(participant *m, const participant_event *e,
                           uint64_t now_ms) SEFL_MUST_CHECK;
participant_order participant_next(participant *m, uint64_t now_ms);

#endif

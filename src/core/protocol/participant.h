/* participant: makes a client's decisions: which task it accepts, and when it trains, uploads and
 * stops. The state machine owns no socket, clock, disk or key; as in agg.h, it receives events with
 * the current time and returns orders.
 *
 *     POLL -> header checked -> [own coin] -> FETCH_MODEL -> TRAIN -> UPLOAD -> receipt checked ->
 *     POLL for the next round ... -> STOP
 *
 *     order         the driver                                       and reports
 *     POLL          asks AS for a round after `round`                GOT_NEWS
 *     FETCH_MODEL   gets the model, compares its hash                GOT_MODEL
 *     TRAIN         trains, encrypts, writes the complete body       TRAINED
 *                   durably
 *     UPLOAD        sends it, or the rest of it; checks the receipt   GOT_RECEIPT, or REFUSED
 *     SLEEP         waits until until_ms                             (nothing)
 *     STOP          ends: `why`                                      (nothing)
 * After an error that may be temporary, the driver reports FAILED instead. participant_next repeats
 * an order until an event arrives.
 *
 * The complete ciphertext of a round is durable before its first byte leaves (TRAINED). After a
 * restart, participant_restore continues with UPLOAD of those bytes and never encrypts that round
 * again: the driver restores the highest round whose body it has, with or without a receipt. If the
 * deadline passes before TRAINED, the client drops its work; if AS then extends the round, the
 * client starts over. The client retries a failure after 1 s, doubled up to 256 s; half of each
 * pause is fixed and half random, drawn from the caller's `jitter`.
 * Threads: one owner.   Secrets: none. */
#ifndef PROTOCOL_PARTICIPANT_H
#define PROTOCOL_PARTICIPANT_H

#include "base/random.h"
#include "protocol/round.h"
#include "protocol/task.h"

/* The owner's policy. The client refuses a task that breaks a rule, and names the rule. A member
 * that is 0 or empty sets no rule, except that a task without a claim needs allow_no_claim. */
typedef struct policy {
    double epsilon_task;    /* epsilon_per_task: maximum epsilon of a task */
    double epsilon_total;   /* epsilon_total: maximum epsilon of all tasks together */
    double delta_max;       /* delta_max: maximum delta of a task that claims an epsilon */
    uint32_t threshold_min; /* clients_min: minimum threshold L of a task */
    uint32_t noise_modes;   /* one bit per task_noise; 0: no rule */
    bool allow_no_claim;    /* claim_none: tasks without a claim are allowed */
    uint64_t rounds_max;    /* rounds_max: maximum number of rounds of this client in a task */
    pinned servers;         /* allowed_servers */
} policy;

/* SEFL_EAUTH or SEFL_EINVAL if the task breaks a rule. The message, "policy: <rule>: ...", names
 * the task's value, the allowed value, and the change that would allow the task; *broken (may be
 * NULL) becomes the rule's name. This function compares epsilon_total with the task's own target;
 * the client's ledger adds earlier spending. */
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
    uint64_t round;    /* POLL: the highest completed round */
    uint64_t until_ms; /* SLEEP */
    const char *why;   /* STOP */
} participant_order;

/* The members of AS's answer to a poll about the current round (JSON: docs/PROTOCOL.md); all are
 * always present. */
#define ROUND_NEWS_FIELDS(X) X(state) X(round) X(left_ms) X(header) X(why)

typedef enum round_word {
    ROUND_WAITING,
    ROUND_OPEN,
    ROUND_CLOSED,
    ROUND_PAUSED, /* an operator has to resume the task */
    ROUND_OVER
} round_word;
typedef struct round_news {
    round_word state;
    uint64_t round;
    uint64_t left_ms; /* OPEN: time until the deadline */
    sefl_span header; /* OPEN: envelope of the header, signed by both; OVER: envelope of the end,
                       * signed by AS */
    char why[128];    /* OVER: why the task ended */
} round_news;
/* out->header points into scratch, which the caller owns. SEFL_EPROTO if the format is wrong. */
sefl_status round_news_read(round_news *out, sefl_buf *scratch, sefl_span json) SEFL_MUST_CHECK;
sefl_status round_news_write(sefl_buf *out, const round_news *n) SEFL_MUST_CHECK;

typedef enum participant_event_kind {
    PARTICIPANT_GOT_NEWS,
    PARTICIPANT_GOT_MODEL,
    PARTICIPANT_TRAINED,
    PARTICIPANT_GOT_RECEIPT,
    PARTICIPANT_REFUSED, /* AS refuses the upload (late, full, limit): wait for the next round */
    PARTICIPANT_FAILED,  /* network or server error: back off, try again */
} participant_event_kind;

typedef struct participant_event {
    participant_event_kind kind;
    const round_news *news; /* GOT_NEWS */
    bool drawn;             /* GOT_NEWS of an open round: sampling selected this client, or it is
                             * its turn (rounds.separation: task_is_turn, and its own ledger has no
                             * round too near); always true without either. Only a round's first
                             * value counts */
    bool charged;           /* REFUSED: this client's ledger has charged the round, so bytes of the
                             * update may have left: the round counts against max_per_client */
    bool checked;           /* GOT_NEWS: participant_header_check has accepted this header, or
                             * participant_end_check this end. For a driver that has checked it */
} participant_event;

typedef struct participant participant;

/* The caller has checked the task (task_open, policy_check). rounds_done is the number of this
 * task's rounds in the client's ledger, not counting one whose receipt is still missing. The task
 * must outlive the participant. */
sefl_status participant_new(participant **out, const task *t, uint64_t rounds_done,
                            const sefl_rng *jitter) SEFL_MUST_CHECK;
void participant_free(participant *m);
/* After as many rounds as the task allows this client, POLL goes on until the task is over, for its
 * final model, instead of STOP. */
void participant_stay(participant *m);
/* True if the client has taken part in as many rounds as the task allows. */
bool participant_is_spent(const participant *m);
/* Continues with this round, whose body is complete on disk. receipt is true if its receipt is
 * too. */
void participant_restore(participant *m, uint64_t round, bool receipt);

/* Reads a header and checks both signatures, the task, the announced round, the task's step, and
 * that CSP's round key has the task's suite (round_header_read checks its length). */
sefl_status participant_header_check(const task *t, round_header *out, sefl_span envelope,
                                     uint64_t round) SEFL_MUST_CHECK;

/* Reads AS's statement about the end of the task, and checks its signature, the task and the
 * round. Round 0: no round was released. */
sefl_status participant_end_check(const task *t, round_end *out,
                                  sefl_span envelope) SEFL_MUST_CHECK;

/* SEFL_EAUTH or SEFL_EPROTO for news of an open round or of the end whose envelope is not accepted:
 * the participant backs off and asks again. Only a signed end ends it. */
sefl_status participant_on(participant *m, const participant_event *e,
                           uint64_t now_ms) SEFL_MUST_CHECK;
participant_order participant_next(participant *m, uint64_t now_ms);

#endif

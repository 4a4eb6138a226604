/* csp_internal: declarations shared by csp.c (the machine), csp_key.c and csp_set.c (sealed tasks),
 * and csp_reveal.c.
 *
 * A handler ends in one of four ways:
 *     SEFL_OK                     it queued its replies with csp_reply
 *     csp_no                      it refuses the question: it queued NO, the stream continues
 *     a failure through csp_own   CSP's own fault: csp_on queues NO FAULT, the stream ends
 *     any other failure           AS broke the format, or the stream failed: the stream ends */
#ifndef SUM_CSP_INTERNAL_H
#define SUM_CSP_INTERNAL_H

#include "sum/ahead.h"
#include "sum/csp.h"
#include "sum/history.h"

#include <stdatomic.h>

/* The phase of a stream. */
typedef enum csp_phase {
    CSP_START,   /* before HELLO */
    CSP_GREETED, /* CSP has answered HELLO */
    CSP_READY,   /* CSP has answered TASK */
    CSP_HEADS,   /* SET received; HEADS follow */
    CSP_SUM,     /* GO sent; SUM follows */
    CSP_BYE,     /* AS has sent BYE */
} csp_phase;

typedef struct csp_gather csp_gather;
typedef struct csp_reading csp_reading;
typedef struct csp_revealing csp_revealing;
typedef struct csp_announced csp_announced;

struct csp {
    csp_config c;
    envelope own; /* points into c.envelope */
    csp_phase phase;
    uint32_t asked;       /* kind of the current message */
    uint32_t index;       /* index of the current message */
    csp_replies *out;     /* replies to the current message */
    bool refused;         /* CSP answered NO */
    bool fault;           /* CSP itself failed */
    csp_gather *gather;   /* sealed tasks: a round's heads on this stream (csp_set.h); NULL: none */
    csp_reading *reading; /* phase HEADS: the SET */
    csp_revealing *revealing;    /* phase SUM */
    csp_announced *announced;    /* the output that ACK asks for, until any other message */
    uint64_t live;               /* sealed tasks: the signed round in progress; 0: none */
    _Atomic int64_t compared_ms; /* for csp_compared_ms */
    _Atomic uint64_t live_ms;    /* expiry of the live round's key, for csp_expires_ms; 0: no key */
    struct {
        _Atomic uint64_t base_ms; /* key time less boot time */
        uint64_t expected_ms;     /* unsure: what the wall clock should show, less boot time */
        uint64_t kept_ms;         /* boot time of the last CSP_CLOCK */
        atomic_bool unsure, confirmed;
    } clock; /* csp_clock.c */
    bool over;
    uint64_t streams;  /* number of streams that sent HELLO since csp_new */
    sefl_span binding; /* of the stream; empty: it has none */
    csp_times times;
    bool revealed;       /* a round is revealed, and round_over does not know it yet */
    history_fresh fresh; /* correlated noise, of the latest reveal */
    noise_ahead ahead;   /* mode own: CSP's noise of the live round */
};

/* Queues a new reply and returns its body. */
sefl_buf *csp_reply(csp *c, uint32_t kind);
/* Queues a reply that consists of CSP's ledger head and `more`. */
sefl_status csp_reply_head(csp *c, uint32_t kind, sefl_span more) SEFL_MUST_CHECK;
sefl_status csp_reply_yes(csp *c) SEFL_MUST_CHECK;

/* Queues NO with this sentence (NULL: the code's message) in place of other replies, and logs it.
 * Never returns SEFL_OK. */
sefl_status csp_no(csp *c, link_no code, const char *sentence) SEFL_MUST_CHECK;
/* CSP's message when it refuses a question about an unknown round. */
#define CSP_NEVER_SIGNED "a round whose header was never signed"
/* Queues NO LEDGER with a message that gives both lengths and names the older ledger. */
sefl_status csp_no_ledger(csp *c, const ledger_head *theirs) SEFL_MUST_CHECK;

/* Marks a failure as CSP's own (its store or memory failed). Returns st. */
sefl_status csp_own(csp *c, sefl_status st) SEFL_MUST_CHECK;

/* The result of a charge, or of the question whether it is possible: NO if the budget forbids it;
 * any other failure is CSP's own. */
sefl_status csp_charged(csp *c, sefl_status st) SEFL_MUST_CHECK;

/* Queues NO unless this round's header is signed and the round is not skipped. On success
 * now->state is CSP_SIGNED or CSP_REVEALED. */
sefl_status csp_must_have(csp *c, uint64_t round, csp_round *now) SEFL_MUST_CHECK;
/* Queues NO unless this round is the next to sign, and the operator lets a round begin. */
sefl_status csp_in_turn(csp *c, uint64_t round) SEFL_MUST_CHECK;
/* Queues NO unless AS signed the envelope for this task. */
sefl_status csp_from_as(csp *c, const envelope *env, sign_kind kind) SEFL_MUST_CHECK;

/* Compares the ledgers. A failure to read CSP's own ledger is a FAULT, no disagreement. */
sefl_status csp_compare(csp *c, const ledger_head *peer, ledger_order *out) SEFL_MUST_CHECK;

/* Sets the live round, which can be revealed until `until_ms`; 0, 0: no round is live. */
void csp_set_live(csp *c, uint64_t round, uint64_t until_ms);
/* Logs that the store is an old copy, and that this round is skipped for it. */
void csp_log_old_state(const csp *c, uint64_t round);
/* Calls csp_config.round_over. */
void csp_tell_over(csp *c, csp_round_state state);
/* Skips a signed round for good. */
sefl_status csp_skip(csp *c, uint64_t round, unsigned reason) SEFL_MUST_CHECK;
/* Ends a round at CSP: wipes its heads, its noise and its key. */
sefl_status csp_round_over(csp *c, uint64_t round) SEFL_MUST_CHECK;

uint64_t csp_now(const csp *c);

/* Defined in csp_clock.c. */
/* A header is about to be signed: key time begins, durably. */
sefl_status csp_clock_begin(csp *c) SEFL_MUST_CHECK;
/* The process started in the middle of this round. */
sefl_status csp_clock_restore(csp *c, const csp_round *live) SEFL_MUST_CHECK;
/* Stores the clock once a minute, while there is a key. Ignores a failure. */
void csp_clock_look(csp *c);
/* HELLO has AS's clock. NO if CSP is unsure, and the clocks differ, or CSP's is behind its own
 * record. */
sefl_status csp_clock_compare(csp *c, uint64_t as_ms) SEFL_MUST_CHECK;

/* Defined in csp_reveal.c. */
sefl_status csp_on_reveal(csp *c, rd *r) SEFL_MUST_CHECK;
sefl_status csp_on_sum(csp *c, rd *r) SEFL_MUST_CHECK;
sefl_status csp_on_ack(csp *c, rd *r) SEFL_MUST_CHECK;
void csp_announced_drop(csp *c);
void csp_revealing_drop(csp *c);
/* Correlated noise, after the replies to a message have left, while AS works: computes what the
 * round takes back, and stores the record of the latest reveal, unless it is stored. If that
 * fails, the next round uses the record in memory, once. */
void csp_keep_history(csp *c);
/* Correlated noise: destroys what no later round takes back. Ignores a failure: the next round
 * tries again. */
void csp_forget_history(csp *c, history_range keep);

#endif

/* csp_internal: what csp.c (the machine), csp_key.c and csp_set.c (sealed tasks) and csp_reveal.c
 * share.
 *
 * How a handler ends:
 *     SEFL_OK                     it queued its replies with csp_reply
 *     csp_no                      it refuses the question: NO is queued, the stream goes on
 *     a failure through csp_own   CSP's own fault: csp_on queues NO FAULT, the stream ends
 *     any other failure           AS broke the format, or the stream is broken: it ends */
#ifndef SUM_CSP_INTERNAL_H
#define SUM_CSP_INTERNAL_H

#include "sum/csp.h"

#include <stdatomic.h>

/* Of a stream. */
typedef enum csp_phase {
    CSP_START,   /* before HELLO */
    CSP_GREETED, /* HELLO answered */
    CSP_READY,   /* TASK answered */
    CSP_HEADS,   /* SET came; HEADS are coming */
    CSP_SUM,     /* GO answered; SUM is coming */
    CSP_BYE,     /* AS is done */
} csp_phase;

typedef struct csp_gather csp_gather;
typedef struct csp_reading csp_reading;
typedef struct csp_revealing csp_revealing;

struct csp {
    csp_config c;
    envelope own; /* looks into c.envelope */
    csp_phase phase;
    uint32_t asked;     /* kind of the message at hand */
    uint32_t index;     /* its index */
    csp_replies *out;   /* to it */
    bool refused;       /* it got NO */
    bool fault;         /* it failed at CSP */
    csp_gather *gather; /* sealed tasks: heads of a round on this stream (csp_set.h); NULL: none */
    csp_reading *reading;     /* phase HEADS: the SET */
    csp_revealing *revealing; /* phase SUM */
    uint64_t live; /* sealed tasks: the round that is signed and still to reveal; 0: none */
    _Atomic uint64_t live_ms; /* when its key expires; 0: there is none. csp_expires_ms reads it */
    bool over;
    uint64_t streams; /* that said hello since csp_new */
    csp_times times;
};

/* The body of a new reply. */
sefl_buf *csp_reply(csp *c, uint32_t kind);
/* A reply of CSP's ledger head and `more`. */
sefl_status csp_reply_head(csp *c, uint32_t kind, sefl_span more) SEFL_MUST_CHECK;
sefl_status csp_reply_yes(csp *c) SEFL_MUST_CHECK;

/* Queues NO with the sentence (NULL: the code's), in place of other replies, and logs it. Never
 * SEFL_OK. */
sefl_status csp_no(csp *c, link_no code, const char *sentence) SEFL_MUST_CHECK;
/* Why CSP refuses what is asked about a round that it does not know. */
#define CSP_NEVER_SIGNED "a round whose header was never signed"
/* NO LEDGER, with both lengths and which one is older. */
sefl_status csp_no_ledger(csp *c, const ledger_head *theirs) SEFL_MUST_CHECK;

/* Marks a failure as CSP's own: of the store, of memory. Returns st. */
sefl_status csp_own(csp *c, sefl_status st) SEFL_MUST_CHECK;

/* NO unless this round's header is signed and the round is not skipped: *now is SIGNED or
 * REVEALED. */
sefl_status csp_must_have(csp *c, uint64_t round, csp_round *now) SEFL_MUST_CHECK;
/* NO unless it is this round's turn to be signed. */
sefl_status csp_in_turn(csp *c, uint64_t round) SEFL_MUST_CHECK;
/* NO unless the envelope is AS's and about this task. */
sefl_status csp_from_as(csp *c, const envelope *env, sign_kind kind) SEFL_MUST_CHECK;

/* Both ledgers' heads are equal. */
bool csp_ledgers_equal(csp *c, const ledger_head *peer);

/* `round` is signed and can be revealed until `until_ms`; 0, 0: none is. */
void csp_set_live(csp *c, uint64_t round, uint64_t until_ms);
/* The round is over, here at least: wipes its heads and its key. */
sefl_status csp_round_over(csp *c, uint64_t round) SEFL_MUST_CHECK;

uint64_t csp_now(const csp *c);

/* csp_reveal.c. */
sefl_status csp_on_reveal(csp *c, rd *r) SEFL_MUST_CHECK;
sefl_status csp_on_sum(csp *c, rd *r) SEFL_MUST_CHECK;
void csp_revealing_drop(csp *c);

#endif

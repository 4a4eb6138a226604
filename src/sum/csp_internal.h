/* csp_internal: what csp.c (questions), csp_set.c (heads) and csp_open.c (the opening) share; nobody else
 * includes it. */
#ifndef PROTOCOL_CSP_INTERNAL_H
#define PROTOCOL_CSP_INTERNAL_H

#include "sum/csp.h"

#include <stdatomic.h>

/* Of a stream. */
typedef enum csp_phase {
    CSP_START,   /* nothing said yet */
    CSP_GREETED, /* HELLO answered */
    CSP_READY,   /* TASK answered */
    CSP_BYE,     /* AS is done */
} csp_phase;

typedef struct csp_gather csp_gather;

struct csp {
    csp_config c;
    envelope own; /* looks into c.envelope */
    csp_phase phase;
    csp_gather
        *gather; /* sealed tasks: the heads of a round on this stream (csp_set.h); NULL: none */
    uint64_t
        live; /* sealed tasks: the round that is signed and neither opened nor skipped; 0: none */
    _Atomic uint64_t live_ms; /* when its key expires; 0: there is none. csp_expires_ms reads it */
    link_msg m;
    sefl_buf out;
    bool over;
    uint64_t streams; /* that said hello in this life */
    csp_times times;
};

/* NO, with the present sentence of `sentence`; logged. Its own failure ends the stream. */
sefl_status csp_no(csp *c, channel *ch, link_no code, const char *sentence) SEFL_MUST_CHECK;

/* A failure of ours (`st`, with its sentence in sefl_last_error): logged, NO FAULT without details,
 * and the stream ends with st. */
sefl_status csp_fault(csp *c, channel *ch, sefl_status st, const char *what) SEFL_MUST_CHECK;

/* NO LEDGER, with both lengths and which one is older. */
sefl_status csp_no_ledger(csp *c, channel *ch, const ledger_head *theirs) SEFL_MUST_CHECK;

/* Why a round was skipped for CSP_SKIP_OLD_STATE. */
#define CSP_OLD_STATE_TEXT                                                                   \
    "CSP's ledger has charged it, and CSP's journal, an old copy, does not know whether it " \
    "was opened"

/* Why a round was skipped for CSP_SKIP_EXPIRED. */
#define CSP_EXPIRED_TEXT                                                                          \
    "AS neither opened nor skipped it within a day of its last possible deadline, so its key is " \
    "wiped"

/* Why a round was skipped for CSP_SKIP_FEW. */
#define CSP_FEW_TEXT "fewer heads of its set than the threshold were good"

/* NO SKIPPED, with the reason if it was ours. */
sefl_status csp_no_skipped(csp *c, channel *ch, const csp_round *r) SEFL_MUST_CHECK;

/* Both ledgers' heads are equal. */
bool csp_ledgers_equal(csp *c, const ledger_head *peer);

/* Equal, or AS has charged the round that is still to open (or that we skipped by ourselves). */
sefl_status csp_ledgers_fit(csp *c, const ledger_head *peer, bool *fit) SEFL_MUST_CHECK;

/* Would they be equal once we have charged this round? Writes nothing. */
sefl_status csp_ledgers_after(csp *c, const ledger_head *peer, uint64_t round,
                              bool *equal) SEFL_MUST_CHECK;

/* Is it this round's turn to be signed? NO is answered if not (*ok false). */
sefl_status csp_in_turn(csp *c, channel *ch, uint64_t round, bool *ok) SEFL_MUST_CHECK;

/* Sends our ledger's head and `more`. */
sefl_status csp_answer_mark(csp *c, channel *ch, uint32_t kind, sefl_span more) SEFL_MUST_CHECK;

/* Is the envelope one of AS, and about this task? Answers NO if not (*ok false). */
sefl_status csp_from_as(csp *c, channel *ch, const envelope *env, sign_kind kind,
                        bool *ok) SEFL_MUST_CHECK;

/* This round is signed and can be opened until `until_ms`; 0, 0: none is. */
void csp_set_live(csp *c, uint64_t round, uint64_t until_ms);

/* The round is over, here at least: nothing of its heads and its key stays. */
sefl_status csp_round_over(csp *c, uint64_t round) SEFL_MUST_CHECK;

uint64_t csp_now(const csp *c);

sefl_status csp_on_reveal(csp *c, channel *ch, rd *r) SEFL_MUST_CHECK;

#endif

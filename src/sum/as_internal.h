/* as_internal: declarations shared by as_link.c (questions, the reveal) and as_set.c (heads of
 * sealed rounds). */
#ifndef PROTOCOL_AS_INTERNAL_H
#define PROTOCOL_AS_INTERNAL_H

#include "sum/as_link.h"
#include "sum/client_table.h"

#define LINK_FAILED "the link to CSP has already failed"

struct as_link {
    as_link_config c;
    channel *ch;
    bool dead, ended;
    as_peer peer;
    unsigned no;        /* code of the latest NO */
    client_table early; /* sealed tasks: this round's heads that CSP got with EARLY */
    uint64_t early_round;
    link_msg m;
    sefl_buf out;
    as_times times;
};

/* Marks the stream as failed if st is a failure. Returns st. */
sefl_status as_alive(as_link *l, sefl_status st);

/* Sends a question and waits for an answer of kind `want` or `or`; `r` then reads its body. NO
 * becomes a status and leaves the link usable. */
sefl_status as_ask(as_link *l, uint32_t question, sefl_span body, uint32_t want, uint32_t or,
                   rd *r) SEFL_MUST_CHECK;
/* Waits for the answer to a question that was already sent. */
sefl_status as_answer(as_link *l, uint32_t question, uint32_t want, uint32_t or,
                      rd *r) SEFL_MUST_CHECK;
/* Asks a question whose answer (YES, PONG) has no body. */
sefl_status as_ask_simple(as_link *l, uint32_t question, sefl_span body,
                          uint32_t want) SEFL_MUST_CHECK;

/* Forgets which heads CSP got with EARLY. */
void as_forget_early(as_link *l);

/* Sealed tasks: receives COUNTED. If root is NULL, discards it. Otherwise checks CSP's signature,
 * the task, the round, the root and, if id is not NULL, the reveal's id; then appends the message
 * to `out`, unless that is NULL. */
sefl_status as_receive_counted(as_link *l, uint64_t round, const uint8_t *root, const uint8_t *id,
                               sefl_buf *out) SEFL_MUST_CHECK;

#endif

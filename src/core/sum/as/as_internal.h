/* as_internal: declarations shared by as_link.c (the machine), as_set.c (heads of sealed rounds)
 * and as_reveal.c.
 *
 * The call that asks writes the question's body to l->out and ends with as_ask. The handler of an
 * answer ends in one of four ways:
 *     SEFL_OK                      the question is answered
 *     SEFL_OK after as_queue       another question follows
 *     SEFL_OK after setting phase  AS sends pieces, or waits for another message
 *     a failure                    the question has failed; the stream too, unless l->in_step */
#ifndef SUM_AS_INTERNAL_H
#define SUM_AS_INTERNAL_H

#include "sum/as_link.h"
#include "sum/client_table.h"
#include "sum/history.h"

typedef enum as_phase {
    AS_IDLE,    /* no question is in progress */
    AS_ASK,     /* the question in l->out must be sent */
    AS_HEADS,   /* SET is sent; HEADS follow */
    AS_SHARING, /* REVEAL is sent; AS stores its shares */
    AS_SUM,     /* CSP answered GO; SUM follows */
    AS_WAIT,    /* for CSP's answer to l->asked */
} as_phase;

/* EARLY in progress. */
typedef struct as_heading {
    sefl_span heads;
    size_t at, n; /* the heads of the current EARLY: its first one, their number */
    head_refusal *refused;
    size_t *refused_n;
} as_heading;

/* SET in progress. */
typedef struct as_setting {
    const as_set *s;
    uint32_t next; /* leaf */
    as_verdict *out;
} as_setting;

/* REVEAL in progress, up to the output. */
typedef struct as_revealing {
    const as_reveal *o; /* NULL: none */
    bool *kept;
    int64_t *w;
    bool again;  /* CSP has revealed the round before */
    bool shares; /* the attempt needs noise shares */
    int tries;
    shares_slice slice;
    as_mask m;
    bool first;   /* the round has no mask yet */
    bool safe;    /* x is stored, or there is none */
    sefl_buf x;   /* joint: SHARES (sum/as_store.h), noise_share_bytes each after the slice */
    history past; /* correlated noise */
    uint8_t id[NOISE_ID];
    uint8_t digest[SHA256_BYTES]; /* of CSP's output */
    size_t unit;                  /* next unit of SUM */
    uint64_t since;               /* start of the part that as_times measures */
    sefl_status st;               /* why the output is unusable; COUNTED follows */
    char why[200];
} as_revealing;

struct as_link {
    as_link_config c;
    channel *ch; /* NULL: the caller carries the messages */
    bool dead;
    as_phase phase;
    uint32_t asked;     /* question in progress; SUM, ACK, COUNTED: the parts of a reveal */
    uint32_t got;       /* kind of CSP's message */
    as_outcome outcome; /* of the latest question; AS_GOT: its status tells it */
    bool in_step;       /* the stream stays usable although the question has failed */
    link_msg out;       /* to CSP */
    link_msg in;        /* from CSP, if there is a channel */
    client_table early; /* sealed tasks: this round's heads that CSP got with EARLY */
    uint64_t early_round;
    as_peer peer;
    as_times times;
    /* The question in progress; what its pointers refer to is the caller's. */
    round_header *header; /* KEY */
    sefl_buf *both;       /* HEADER */
    uint8_t sent[HEADER_MAX];
    size_t sent_n;
    uint8_t *signature; /* ENROL */
    const enrol_claim *claim;
    as_heading heading;
    as_setting setting;
    as_revealing revealing;
};

/* Begins a question: empties l->out. SEFL_ECLOSED after a failed stream; SEFL_ESTATE if another
 * question is in progress. */
sefl_status as_begin(as_link *l) SEFL_MUST_CHECK;
/* Sends the question in l->out next. */
void as_queue(as_link *l, uint32_t question);
/* Queues the question; if there is a channel, drives it and returns with the answer. */
sefl_status as_ask(as_link *l, uint32_t question) SEFL_MUST_CHECK;
/* Ends the question in progress. Returns st. */
sefl_status as_end(as_link *l, sefl_status st);

/* Appends our ledger's head to l->out. */
sefl_status as_put_mark(as_link *l) SEFL_MUST_CHECK;
/* Reads CSP's ledger head. It must equal ours or, unless `equal`, lack our last charge. */
sefl_status as_check_mark(as_link *l, rd *r, bool equal) SEFL_MUST_CHECK;
uint64_t as_now(const as_link *l);

/* Defined in as_set.c. */
sefl_status as_on_key(as_link *l, rd *r) SEFL_MUST_CHECK;
sefl_status as_on_early(as_link *l, rd *r) SEFL_MUST_CHECK;
sefl_status as_on_verdict(as_link *l, rd *r) SEFL_MUST_CHECK;
/* Sets *out to the next HEADS; if there are no more, the phase to AS_WAIT. */
sefl_status as_next_heads(as_link *l, const link_msg **out) SEFL_MUST_CHECK;
/* Forgets which heads CSP got with EARLY. */
void as_forget_early(as_link *l);

/* Defined in as_reveal.c. */
sefl_status as_on_reveal(as_link *l, rd *r) SEFL_MUST_CHECK;
sefl_status as_on_digest(as_link *l, rd *r) SEFL_MUST_CHECK;
sefl_status as_on_output(as_link *l, rd *r) SEFL_MUST_CHECK;
sefl_status as_on_counted(as_link *l, rd *r) SEFL_MUST_CHECK;
/* CSP does not have the named shares (it lost them, or never got them), st: names others. */
sefl_status as_other_shares(as_link *l, sefl_status st) SEFL_MUST_CHECK;
/* Stores the shares of the reveal, unless they are stored. */
sefl_status as_keep_shares(as_link *l) SEFL_MUST_CHECK;
/* Sets *out to the next SUM; if there are no more, the phase to AS_WAIT. */
sefl_status as_next_sum(as_link *l, const link_msg **out) SEFL_MUST_CHECK;
/* The kind and the length of the message with CSP's output. */
sefl_status as_output_form(const as_link *l, uint32_t *kind, size_t *bytes) SEFL_MUST_CHECK;
/* Wipes the mask, the shares, what v->past still has, and after a failure w. */
void as_reveal_end(as_link *l, sefl_status st);

#endif

/* as_link: the aggregation server's end of the link (protocol/link.h), as a state machine without a
 * socket, clock or disk of its own.
 *
 * Each call below asks CSP one question. A link with a channel drives the question over it, and the
 * call returns with the answer:
 *
 *     SEFL_TRY(as_link_new(&l, ch, &cfg));                    // HELLO, TASK; compares the ledgers
 *     SEFL_TRY(as_link_key(l, &header));                      // sealed: CSP's round key
 *     SEFL_TRY(as_link_header(l, &env, &header));             // signed by both servers
 *     SEFL_TRY(as_link_early(l, round, heads, refused, &n));  // sealed: as uploads arrive
 *     SEFL_TRY(as_link_set(l, &set, &verdict, &few));         // sealed: which uploads count
 *     SEFL_TRY(as_link_reveal(l, &reveal, &kept, w));         // w: task.values integers
 *
 * Without a channel (ch is NULL), a call only begins its question, and the caller carries the
 * messages; the pointers that it passed stay valid until the question ends:
 *
 *     SEFL_TRY(as_link_ping(l));
 *     while (!as_link_is_idle(l)) {
 *         SEFL_TRY(as_link_next(l, &out));
 *         if (out) { ...send *out...; continue; }             // NULL: AS waits for CSP
 *         ...receive `in`...
 *         SEFL_TRY(as_link_on(l, &in));                       // fails as the call would
 *     }
 *
 * There is one object per connection. After a failed stream, free it and dial again; a later
 * attempt uses nothing from the failed one. A table in as_link.c lists the answers to each
 * question.
 *
 * as_link_reveal returns the released integers w. The release mode defines their real values:
 *     joint   value = (w + 0.5) * h            own, none   value = w * q         (task.ahe.pack)
 *
 * AS compares the ledgers as link.h specifies. Before it sends REVEAL, which names the noise
 * shares, AS takes them from the pool; no other attempt uses them. After CSP's GO, AS draws two
 * seeds for the attempt: one of the mask, one of its coins. Seeds and shares are durable before the
 * first byte of the masked sum leaves; the digest of CSP's reply is durable before CSP sends the
 * reply. The result depends only on seeds, shares and reply, so a KEPT answer after a crash gives
 * the same result. AS refuses a different second reply, and makes no other attempt.
 *
 * Threads: one owner.   Secrets: mask, labels, w until it is released. */
#ifndef SUM_AS_LINK_H
#define SUM_AS_LINK_H

#include "base/coins.h"
#include "base/log.h"
#include "mpc/noise/shares_pool.h"
#include "protocol/enrol.h"
#include "protocol/link.h"
#include "store/ledger_port.h"
#include "sum/ahead.h"
#include "sum/as_store.h"
#include "sum/history.h"

typedef struct as_link_config {
    const task *task;
    sefl_span envelope;
    const sign_key *key;
    const sefl_coins *coins; /* purpose "mask" */
    ledger_port ledger;      /* AS's own ledger; only head and compare are used */
    pool *pool;
    sefl_log *log;
    const sefl_clock *clock; /* monotonic, for as_times; NULL: times are not measured */
    const sefl_clock *wall;  /* for HELLO; NULL: a CSP without a clock does not read it */
    /* Joint noise: the pool of shares that lanes fill (noise/shares_pool.h), and a function that
     * waits until it has `count` shares for this attempt, or fails; NULL: nothing fills the
     * pool. */
    shares_pool *shares;
    sefl_status (*shares_wait)(void *ctx, uint64_t round, uint64_t attempt, uint64_t count);
    void *shares_ctx;
} as_link_config;

typedef struct as_link as_link;

/* Greets CSP and sends the task. SEFL_ESTATE if the ledgers do not agree. The channel must outlive
 * the link; NULL: the caller carries the messages. */
sefl_status as_link_new(as_link **out, channel *ch, const as_link_config *c) SEFL_MUST_CHECK;
/* Ends the question in progress, too. */
void as_link_free(as_link *l);

/* ---- without a channel ----------------------------------------------------------------------- */

/* Sets *out to the next message for CSP, which is valid until the next call on this link. NULL:
 * there is none; if a question is in progress, it waits for CSP's message. After a failure, which
 * also ends the question, the stream is out of step. */
sefl_status as_link_next(as_link *l, const link_msg **out) SEFL_MUST_CHECK;
/* Handles CSP's message; call it after as_link_next has set *out to NULL. A failure ends the
 * question with the status that its call documents. */
sefl_status as_link_on(as_link *l, const link_msg *in) SEFL_MUST_CHECK;
/* True if no question is in progress. */
bool as_link_is_idle(const as_link *l);

/* ---- outcomes -------------------------------------------------------------------------------- */

/* What a question came to: it decides what AS does next. */
typedef enum as_outcome {
    AS_GOT,     /* the answer */
    AS_AGAIN,   /* no answer now: a disk, memory, the stream or CSP's clock fails */
    AS_REFUSED, /* CSP refuses, or answers wrongly: perhaps every time */
    AS_APART,   /* the same, and perhaps one of the two servers is an old copy */
    AS_LOST,    /* no attempt can succeed: skip the round */
    AS_BUDGET,  /* the privacy budget does not allow the round */
    AS_PAUSED,  /* CSP's operator has paused the task */
    AS_ENDED,   /* CSP's operator has ended it */
    AS_SPOILED, /* CSP has ended it: too many checks of noise shares failed */
    AS_FATAL,   /* AS itself has failed, or must stop */
} as_outcome;

/* The outcome of the latest question, which returned (or ended with) st. */
as_outcome as_link_outcome(const as_link *l, sefl_status st);
/* The outcome of anything else that AS does for a round. */
as_outcome as_outcome_of(sefl_status st);

/* ---- questions ------------------------------------------------------------------------------- */

/* CSP's WELCOME: the highest rounds that CSP signed, revealed and skipped. */
typedef struct as_peer {
    uint64_t signed_, revealed, skipped;
    bool behind; /* CSP's ledger was one charge behind AS's */
    uint8_t pair[LINK_PAIR];
} as_peer;
const as_peer *as_link_peer(const as_link *l);

/* Sealed tasks, before the header: fills in the suite and key of h, whose round the caller has set.
 * Works only for the next round and always returns the same key for it. AS_LOST if CSP has lost the
 * key of a signed round, or skipped the round because the key expired. */
sefl_status as_link_key(as_link *l, round_header *h) SEFL_MUST_CHECK;
sefl_status as_link_header(as_link *l, sefl_buf *envelope_both,
                           const round_header *h) SEFL_MUST_CHECK;
/* Sealed tasks: sends CSP the bytes of a client's voucher. SEFL_EAUTH: CSP refuses it. */
sefl_status as_link_vouch(as_link *l, sefl_span bytes) SEFL_MUST_CHECK;

/* Sealed tasks: sends a sequence of whole heads, of updates that have arrived. CSP opens them while
 * other clients upload; as_link_set then sends only short forms. refused has room for one entry per
 * head; the call fills in the first *refused_n, sorted by index. A client's later head replaces its
 * earlier one. CSP forgets these heads when the link ends. */
sefl_status as_link_early(as_link *l, uint64_t round, sefl_span heads, head_refusal *refused,
                          size_t *refused_n) SEFL_MUST_CHECK;

/* Sealed tasks: the frozen set. */
typedef struct as_set {
    uint64_t round;
    uint32_t clients;
    const round_entry *leaves; /* sorted by client, each client once */
    const uint8_t *tree_seed;  /* COUNTED_SEED bytes, drawn once for this set */
    const uint8_t *replied;    /* digest of the output that AS has acknowledged; NULL: none */
    /* Writes the whole head of leaf i, head_bytes(task.seal). Called only for heads that CSP did
     * not get with EARLY. */
    sefl_status (*head)(void *ctx, uint32_t i, uint8_t *out);
    void *ctx;
} as_set;

/* Gets CSP's verdict on the set. It is final for this round: the same set gets the same verdict
 * again, on this link or a later one. Call it on each link before as_link_reveal, whose statement
 * names the verdict's root (as its set) and its number of kept clients.
 *   AS_LOST    CSP has lost the round key or skipped the round; or fewer clients than the threshold
 *              are left, and CSP has skipped the round without a charge
 *   AS_APART   CSP has decided another set of this round */
sefl_status as_link_set(as_link *l, const as_set *s, as_verdict *out) SEFL_MUST_CHECK;

sefl_status as_link_ping(as_link *l) SEFL_MUST_CHECK;
/* Gets CSP's signature on a site's enrolment claim and verifies it. SEFL_EAUTH: CSP refuses. */
sefl_status as_link_enrol(as_link *l, uint8_t sig[SIGN_BYTES], const enrol_claim *c,
                          const enrol_proof *p) SEFL_MUST_CHECK;
sefl_status as_link_skip(as_link *l, uint64_t round, unsigned reason) SEFL_MUST_CHECK;
/* Ends the stream. over means that the task has ended and its last release is durable, so CSP may
 * erase its output; SEFL_OK means that CSP has recorded the end durably. */
sefl_status as_link_bye(as_link *l, bool over) SEFL_MUST_CHECK;

/* Durations of the parts of a reveal, in nanoseconds, and the bytes it moved. */
typedef struct as_times {
    uint64_t ask;            /* waiting for shares, then for the answer to REVEAL: CSP charges, and
                                AS stores its shares */
    uint64_t mask;           /* as_store_mask; in a later attempt also storing the shares */
    uint64_t write, send;    /* computing the masked sum; sending it (limited by CSP) */
    uint64_t wait;           /* until CSP's digest arrives: CSP decrypts, computes, stores */
    uint64_t note;           /* as_store_replied */
    uint64_t ack;            /* from ACK until CSP's output has arrived: one round trip */
    uint64_t finish;         /* computing w from the output */
    uint64_t sent, received; /* bytes on the stream */
} as_times;

typedef struct as_reveal {
    uint64_t round, attempt;
    uint32_t clients;
    uint8_t set[32];
    ahe_sum *sum; /* closed; NULL to fetch an output that CSP kept */
    const as_store *store;
    sefl_buf *counted; /* sealed tasks: CSP's checked COUNTED envelope; NULL: not wanted */
    /* Correlated noise: the record of the round before, if stored; on success the record of this
     * round, which the caller stores after the release. NULL: none, and not wanted. */
    history_fresh *fresh;
    const noise_ahead *ahead; /* mode own: AS's noise of the round, with its seed; NULL: none */
} as_reveal;

/* Reveals the round, or fetches the reply that CSP kept (*kept true). The caller has charged the
 * round in AS's ledger. The attempt must be larger than that of any mask in the store; the call
 * checks that. Calls shares_wait if shares are missing. w has task.values integers, all zero on
 * failure; the caller makes them durable before it publishes anything. AS_LOST: CSP kept an attempt
 * whose mask or shares are lost, sent a different reply than before, does not know of a reply that
 * AS has acknowledged (an old copy of CSP's state), or has erased or skipped the round: the charge
 * stands. Another attempt needs a new number. */
sefl_status as_link_reveal(as_link *l, const as_reveal *o, bool *kept, int64_t *w) SEFL_MUST_CHECK;

/* True if the stream has failed: free the link, close the stream, dial again. */
bool as_link_dead(const as_link *l);
const as_times *as_link_times(const as_link *l);

#endif

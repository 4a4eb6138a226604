/* as_link: the aggregation server's questions to CSP (protocol/link.h). Each is a call that
 * returns with the answer. One object per connection. A failed stream makes it useless: free it
 * and dial again; nothing of a broken attempt is used again.
 *
 *     SEFL_TRY(as_link_new(&l, ch, &cfg));                    // HELLO, TASK; compares the ledgers
 *     SEFL_TRY(as_link_key(l, &header));                      // sealed: CSP's key of the round
 *     SEFL_TRY(as_link_header(l, &env, &header));             // signed by both
 *     SEFL_TRY(as_link_early(l, round, heads, refused, &n));  // sealed: as uploads arrive
 *     SEFL_TRY(as_link_set(l, &set, &verdict, &few));         // sealed: which uploads count
 *     SEFL_TRY(as_link_reveal(l, &reveal, &kept, w));         // w: task.values integers
 *
 * as_link_reveal gives the released integers w. The task's release mode says which value each
 * stands for:
 *     joint   value = (w + 0.5) * h            own, none   value = w * q         (task.ahe.pack)
 *
 * Every question compares the ledgers as link.h says. AS takes noise shares from the pool before
 * REVEAL, which names them; they serve this attempt alone. AS draws the seeds of mask and coins
 * after CSP's GO, fresh for every attempt. They and the shares are durable before the first byte
 * of the masked sum leaves; the digest of CSP's reply is durable before AS uses it. The result is
 * a function of those and the reply, so after a crash a KEPT answer gives the same result. AS
 * refuses a second reply to one attempt.
 *
 * Threads: one owner.   Secrets: mask, labels, w before it is released. */
#ifndef SUM_AS_LINK_H
#define SUM_AS_LINK_H

#include "base/coins.h"
#include "base/log.h"
#include "mpc/noise/pool.h"
#include "protocol/link.h"
#include "sum/as_store.h"
#include "sum/csp.h"

typedef struct as_link_config {
    const task *task;
    sefl_span envelope;
    const sign_key *key;
    const sefl_coins *coins; /* purpose "mask" */
    ledger_port ledger;      /* AS's own; head and compare are used */
    pool *pool;
    sefl_log *log;
    const sefl_clock *clock; /* monotonic, for as_times; NULL: no times */
    /* Joint noise: shares that lanes make (noise/pool.h), and a function that returns when the
     * pool has `count` of them for this attempt, or gives up; NULL: what is in the pool is all. */
    shares_pool *shares;
    sefl_status (*shares_wait)(void *ctx, uint64_t round, uint64_t attempt, uint64_t count);
    void *shares_ctx;
} as_link_config;

typedef struct as_link as_link;

/* SEFL_ESTATE if the ledgers fork; SEFL_EAUTH, SEFL_EPROTO as they come. */
sefl_status as_link_new(as_link **out, channel *ch, const as_link_config *c) SEFL_MUST_CHECK;
void as_link_free(as_link *l);

/* CSP's WELCOME: the highest rounds whose header it signed, that it revealed, that it skipped. */
typedef struct as_peer {
    uint64_t signed_, revealed, skipped;
    bool behind; /* its ledger was one charge behind ours */
    uint8_t pair[LINK_PAIR];
} as_peer;
const as_peer *as_link_peer(const as_link *l);

/* Sealed tasks, before the header: fills suite and key of h, whose round is set. The next round
 * in turn only; the same key each time. SEFL_ECRYPTO: the key of a round that is signed is gone
 * (skip it). */
sefl_status as_link_key(as_link *l, round_header *h) SEFL_MUST_CHECK;
sefl_status as_link_header(as_link *l, sefl_buf *envelope_both,
                           const round_header *h) SEFL_MUST_CHECK;
/* Sealed tasks: a client's voucher (its bytes) for CSP. SEFL_EAUTH: CSP refuses it. */
sefl_status as_link_vouch(as_link *l, sefl_span bytes) SEFL_MUST_CHECK;

/* Sealed tasks: whole heads, one after the other, of updates that have arrived, any number. CSP
 * opens them while clients still upload; as_link_set then sends only their names. refused: room
 * for one entry a head; the first *refused_n are filled, by rising index. A client's later head
 * replaces its earlier one. What EARLY brought is forgotten with the link. */
sefl_status as_link_early(as_link *l, uint64_t round, sefl_span heads, head_refusal *refused,
                          size_t *refused_n) SEFL_MUST_CHECK;

/* Sealed tasks: the frozen set. */
typedef struct as_set {
    uint64_t round;
    uint32_t clients;
    const round_entry *leaves; /* by rising client, none twice */
    const uint8_t *tree_seed;  /* COUNTED_SEED, drawn once for this set */
    /* Writes the whole head of leaf i, head_bytes(task.seal). Asked for those alone that CSP does
     * not have from EARLY. */
    sefl_status (*head)(void *ctx, uint32_t i, uint8_t *out);
    void *ctx;
} as_set;

/* CSP's decision, final for this round: the same set gets the same one again, on this link or a
 * later one; another set is refused (SEFL_ESTATE). Must precede as_link_reveal on each link,
 * whose statement names root (as its set) and kept. SEFL_ESTATE too: fewer than the threshold are
 * left; CSP has skipped the round, nothing is charged (*few true; few may be NULL). SEFL_ECRYPTO:
 * CSP's key of the round is gone, or CSP has skipped it: skip it. */
sefl_status as_link_set(as_link *l, const as_set *s, as_verdict *out, bool *few) SEFL_MUST_CHECK;

sefl_status as_link_ping(as_link *l) SEFL_MUST_CHECK;
/* CSP's signature on the claim of a site that enrols, checked. SEFL_EAUTH: CSP refuses it. */
sefl_status as_link_enrol(as_link *l, uint8_t sig[SIGN_BYTES], const enrol_claim *c,
                          const enrol_proof *p) SEFL_MUST_CHECK;
sefl_status as_link_skip(as_link *l, uint64_t round, unsigned reason) SEFL_MUST_CHECK;
/* over: the task has ended and its last release is durable; CSP erases what it kept. SEFL_OK: CSP
 * knows it, durably. The link is of no use after it in any case. */
sefl_status as_link_bye(as_link *l, bool over) SEFL_MUST_CHECK;

/* How long the parts of a reveal took, in nanoseconds. */
typedef struct as_times {
    uint64_t ask;            /* shares, then REVEAL to its answer: CSP charges */
    uint64_t mask;           /* as_store_mask */
    uint64_t write, send;    /* the masked sum: computing it; sending (waits for CSP) */
    uint64_t wait;           /* until CSP's reply has come: CSP decrypts, computes, stores */
    uint64_t finish;         /* as_store_replied, and w from the reply */
    uint64_t sent, received; /* bytes on the stream */
} as_times;

typedef struct as_reveal {
    uint64_t round, attempt;
    uint32_t clients;
    uint8_t set[32];
    ahe_sum *sum; /* closed; NULL only to fetch what CSP kept */
    const as_store *store;
    sefl_buf *counted; /* sealed tasks: CSP's checked COUNTED envelope; NULL: not wanted */
} as_reveal;

/* Reveals the round, or fetches the reply that CSP kept of it; *kept tells which. The caller has
 * charged the round in our ledger. attempt is larger than that of any mask in the store
 * (checked). Calls shares_wait if shares are missing. w: task.values integers, zeros on failure.
 * The caller makes them durable before it publishes anything. Failures:
 *   SEFL_ECRYPTO   CSP kept an attempt whose mask is lost, sends another reply than before, or has
 *                  erased or skipped the round: it must be skipped, the charge stands
 *   SEFL_EBUDGET, SEFL_ESTATE   CSP refuses, with its reason; the link stays usable unless
 *                  as_link_dead says otherwise
 *   others         the stream failed: a new connection and a new attempt may try again */
sefl_status as_link_reveal(as_link *l, const as_reveal *o, bool *kept, int64_t *w) SEFL_MUST_CHECK;

/* The stream has failed: free the link, close the stream, dial again. */
bool as_link_dead(const as_link *l);
/* CSP has ended the task: too many checks of noise shares have failed. */
bool as_link_ended(const as_link *l);
const as_times *as_link_times(const as_link *l);

#endif

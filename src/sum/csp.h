/* csp: the cryptography service provider's side of a round, as a machine: no socket, clock or disk.
 *
 * AS's message comes in, CSP's answers go out. A table in csp.c says which message each phase of a
 * stream allows. The store (csp_store.h) keeps what must survive. Roles, simulator, tests and
 * fuzzers drive the same machine, most of them through csp_serve, the loop over a channel:
 *
 *     csp *c;
 *     SEFL_TRY(csp_new(&c, &(csp_config){ .task = &t, .envelope = env, .root = root, .key = key,
 *                                         .store = s, .coins = &coins, .pool = pool, .log = lg }));
 *     while (accept) SEFL_TRY(csp_serve(c, channel));      // SEFL_ECLOSED, ...: next one
 *
 * These rules hold whatever AS says:
 *   - CSP signs the header of the next round (the one before is revealed or skipped, the budget has
 *     room, the task has that many rounds), or repeats its signature on the same header; never two
 *     of one round.
 *   - CSP reveals a (task, round) once: the charge is durable (csp_store.charge), then output and
 *     mark (csp_store.reveal), then the first byte leaves. After the mark it sends only those
 *     bytes, for ever.
 *   - CSP reveals only a set that AS signed for, of at least the threshold and at most the largest
 *     number of clients, in a round whose header it signed.
 *   - Sealed tasks (task.h): CSP reveals only the sum over clients that its operator approved and
 *     that each signed a head for this task and round, each once. It takes exactly those clients'
 *     pads off what AS sends. It decides one set per round, once. It wipes the round's key with the
 *     mark, and a day after the round's last possible deadline at the latest.
 *   - Other tasks: the set has no more clients than this operator approved, where CSP has a list;
 *     below that CSP takes AS's word for the count and records it with the output.
 *   - CSP never passes the rounds or the budget, and does nothing while the ledgers disagree
 *     (link.h).
 *   - CSP writes nothing before it has checked AS's signature and both ledgers.
 *   - A broken attempt leaves nothing that another one uses.
 *
 * Threads: one owner.   Secrets: keys, seeds (locked), pads, plain units, noise; wiped.
 * Memory: the masked plain units (k + t bits per value), the shares and the reply (k or k + t bits
 * each); sealed tasks: the sum of pads (8 bytes per value) and about 200 bytes per client. */
#ifndef SUM_CSP_H
#define SUM_CSP_H

#include "base/clock.h"
#include "base/coins.h"
#include "base/log.h"
#include "mpc/noise/pool.h"
#include "protocol/enrol.h"
#include "protocol/task.h"
#include "protocol/voucher.h"
#include "sum/csp_store.h"

enum { CSP_CHECKS_MAX = 3 };

typedef struct csp_config {
    const task *task;
    sefl_span envelope;  /* the signed task, as stored */
    const ahe_sec *sec;  /* NULL for sealed tasks */
    const uint8_t *root; /* sealed tasks: CSP_KEY_BYTES secret bytes of the key file; else NULL */
    const sign_key *key;
    const csp_store *store;
    const sefl_coins *coins; /* purposes: "kem", "pair", "reply" */
    pool *pool;
    const sefl_progress *stop; /* asked for every unit that CSP decrypts; false ends the stream */
    sefl_log *log;
    shares_pool *shares;     /* joint noise: shares that lanes made (noise/pool.h) */
    const sefl_clock *clock; /* monotonic, for csp_times and the log; NULL: no times */
    const sefl_clock *wall;  /* sealed tasks: expiry of round keys; NULL: they never expire */
    /* Is this site's token one of ours? The machine has checked the proof. If so the function uses
     * up the token and records the member, durably. SEFL_EAUTH: no, with the reason for the log.
     * NULL: CSP enrols no sites. */
    sefl_status (*enrol)(void *ctx, const enrol_claim *c, const enrol_proof *p);
    void *enrol_ctx; /* of members, vouch and member too */
    /* The largest number of clients that this round can have; UINT64_MAX: unknown. The machine asks
     * when it signs the header (begins) and before it reveals the sum: every client approved at any
     * time in between counts. NULL: always unknown. */
    sefl_status (*members)(void *ctx, uint64_t round, bool begins, uint64_t *most);
    /* Sealed tasks. Is the voucher's SPKI a member of CSP's own list (or its chain one of a CA that
     * the list trusts for clients), and does its signature hold? SEFL_EAUTH: no, with the reason
     * for the log. */
    sefl_status (*vouch)(void *ctx, const voucher *v);
    /* Is this client still approved? Asked for every head in EARLY and SET. */
    bool (*member)(void *ctx, const uint8_t client[32]);
    /* A stream said hello, and `pair` binds its lanes to it. On the thread of csp_serve. May be
     * NULL. */
    void (*paired)(void *ctx, const uint8_t pair[LINK_PAIR]);
    /* The number of failed checks of noise shares in this task; the role that runs the lanes counts
     * them durably. At CSP_CHECKS_MAX CSP signs and reveals nothing more. NULL: there are no
     * lanes. */
    unsigned (*checks)(void *ctx);
    void *lanes_ctx; /* of both */
} csp_config;

/* Duration of the parts of the latest reveal, in nanoseconds. */
typedef struct csp_times {
    uint64_t charge;
    uint64_t receive, decrypt; /* waiting for pieces of the sum; decrypting them */
    uint64_t compute;          /* the reply */
    uint64_t store;            /* csp_store.reveal */
    uint64_t output;           /* sending it */
} csp_times;

typedef struct csp csp;

/* SEFL_EINVAL if task, key or secret key do not belong together. */
sefl_status csp_new(csp **out, const csp_config *c) SEFL_MUST_CHECK;
void csp_free(csp *c);

/* CSP's answers to one message, in order. */
enum { CSP_REPLIES_MAX = 3 };
typedef struct csp_replies {
    link_msg m[CSP_REPLIES_MAX];
    unsigned n;
} csp_replies;

/* A new stream begins; drops everything of an attempt under way. */
void csp_restart(csp *c);
/* One message of AS. Replaces what `out` held. SEFL_OK: send the replies (none, after a piece of a
 * longer message) and go on until csp_is_done. Otherwise send them too, if there are any, and end
 * the stream. */
sefl_status csp_on(csp *c, const link_msg *in, csp_replies *out) SEFL_MUST_CHECK;
/* BYE was answered: the stream is over. */
bool csp_is_done(const csp *c);
/* Wipes and frees the replies. */
void csp_replies_clear(csp_replies *r);

/* The loop over a channel. SEFL_OK after BYE. Any failure leaves the machine fit for the next
 * stream, and nothing of the attempt that was under way. */
sefl_status csp_serve(csp *c, channel *ch) SEFL_MUST_CHECK;

/* Skips a round whose key is too old, and wipes the key. It expires 24 hours after the longest time
 * that the round can take from its header on. csp_on checks before each question; a role calls it
 * while it has no stream. */
sefl_status csp_expire(csp *c) SEFL_MUST_CHECK;

/* When the key of the current round expires, by CSP's wall clock; 0: there is none. From any
 * thread: a role disconnects a peer then that sends a byte now and then, since csp_serve waits for
 * its message. */
uint64_t csp_expires_ms(const csp *c);

/* AS ended the task. */
bool csp_is_over(const csp *c);
const csp_times *csp_get_times(const csp *c);

#endif

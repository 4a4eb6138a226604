/* csp: the cryptography service provider's side of a round, as a state machine without a socket,
 * clock or disk of its own.
 *
 * It receives AS's messages and returns CSP's answers. A table in csp.c lists which messages each
 * phase of a stream accepts. The store (csp_store.h) keeps the durable state. The role, the
 * simulator, tests and fuzzers drive the same machine, mostly through csp_serve, the loop over a
 * channel:
 *
 *     csp *c;
 *     SEFL_TRY(csp_new(&c, &(csp_config){ .task = &t, .envelope = env, .root = root, .key = key,
 *                                         .store = s, .coins = &coins, .pool = pool, .log = lg }));
 *     while (accept) st = csp_serve(c, channel);           // after a failure: the next stream
 *
 * These rules hold whatever AS sends:
 *   - CSP signs the header of the next round only if the previous round is revealed or skipped, the
 *     budget allows a charge and the task has that many rounds. It may sign the same header again,
 *     but never signs two headers of one round.
 *   - CSP reveals a (task, round) once: first the charge becomes durable (csp_store_charge), then
 *     the output and the mark (csp_store_reveal), then at AS the output's digest, then the first
 *     byte leaves. After the mark CSP sends only those bytes. If AS knows the digest of an output
 *     that CSP's store does not have, the store is an old copy: CSP skips the round.
 *   - CSP reveals only a set that AS has signed, with at least threshold and at most clients_max
 *     clients, in a round whose header CSP signed.
 *   - Sealed tasks (task.h): CSP reveals only a sum over clients that its operator approved. Each
 *     of them signed a head for this task and round and counts once. It removes exactly those
 *     clients' pads from the sum that AS sends. It decides on one set per round. It wipes the round
 *     key once the mark is durable, at the latest a day after the round's last possible deadline,
 *     whatever its wall clock shows (csp_clock.c).
 *   - Other tasks: if CSP has a client list, the set has no more clients than its operator
 *     approved. Within that limit CSP trusts AS's count and records it with the output.
 *   - CSP reveals no more rounds than the task has and never exceeds the budget. It changes nothing
 *     while the two servers' ledgers disagree (link.h).
 *   - CSP writes nothing before it has verified AS's signature and compared both ledgers.
 *   - No attempt uses state from a failed one.
 *
 * Threads: one owner.   Secrets: keys, seeds (locked), pads, plain units, noise; wiped.
 * Memory: the masked plain units (k + t bits per value), the shares and the reply (k or k + t bits
 * each); in sealed tasks also the sum of pads (8 bytes per value) and 200 bytes per client. */
#ifndef SUM_CSP_H
#define SUM_CSP_H

#include "base/clock.h"
#include "base/coins.h"
#include "base/log.h"
#include "mpc/noise/shares_pool.h"
#include "protocol/enrol.h"
#include "protocol/task.h"
#include "protocol/voucher.h"
#include "sum/csp_store.h"

enum { CSP_CHECKS_MAX = 3 };

typedef enum csp_hold { CSP_GOES_ON, CSP_PAUSED, CSP_ENDED } csp_hold;
/* Duration of the parts of the latest reveal, in nanoseconds. */
typedef struct csp_times {
    uint64_t charge;
    uint64_t receive, decrypt; /* waiting for pieces of the sum; decrypting them */
    uint64_t compute;          /* computing the reply */
    uint64_t store;            /* csp_store_reveal */
    uint64_t output;           /* sending the output, after AS's ACK */
} csp_times;

typedef struct csp_config {
    const task *task;
    sefl_span envelope;  /* the signed task, as stored */
    const ahe_sec *sec;  /* NULL for sealed tasks */
    const uint8_t *root; /* sealed tasks: CSP_KEY_BYTES secret bytes from the key file; else NULL */
    const sign_key *key;
    const csp_store *store;
    const sefl_coins *coins; /* purposes: "kem", "pair", "reply" */
    pool *pool;
    const sefl_progress *stop; /* reports each decrypted unit; false ends the stream */
    sefl_log *log;
    shares_pool *shares; /* joint noise: the pool of shares that lanes fill (noise/shares_pool.h) */
    const sefl_clock *clock; /* monotonic, for csp_times and the log; NULL: nothing is timed */
    /* Sealed tasks: the age of round keys, by boot time (base/clock.h); NULL, both: keys never
     * expire. boot_id: zeros if it is unknown. */
    const sefl_clock *wall, *boot;
    uint8_t boot_id[CLOCK_BOOT_ID];
    /* Enrols a site whose token this operator issued: durably invalidates the token and records the
     * member. The machine has verified the proof. SEFL_EAUTH if it refuses, with the reason for the
     * log. If NULL, CSP enrols no sites. */
    sefl_status (*enrol)(void *ctx, const enrol_claim *c, const enrol_proof *p);
    void *enrol_ctx; /* also for members, vouch, member and hold */
    /* Whether this server's operator lets another round begin. A round whose header is signed goes
     * on in any case. If NULL, every round may begin. */
    csp_hold (*hold)(void *ctx);
    /* Sets *most to the largest number of clients that this round can have; UINT64_MAX: unknown.
     * The machine calls it when it signs the header (begins) and before it reveals the sum: every
     * client approved at any time between the two calls counts. If NULL, the number is unknown. */
    sefl_status (*members)(void *ctx, uint64_t round, bool begins, uint64_t *most);
    /* Sealed tasks. Verifies the voucher's signature, and checks that CSP's own list contains its
     * SPKI or trusts the CA of its chain for clients. SEFL_EAUTH if it refuses, with the reason for
     * the log. */
    sefl_status (*vouch)(void *ctx, const voucher *v);
    /* True if this client is still approved. Called for every head in EARLY and SET. */
    bool (*member)(void *ctx, const uint8_t client[32]);
    /* Called on csp_serve's thread after HELLO; `pair` binds lanes to this stream. May be NULL. */
    void (*paired)(void *ctx, const uint8_t pair[LINK_PAIR]);
    /* Returns the number of failed checks of noise shares in this task; the role that runs the
     * lanes counts them durably. From CSP_CHECKS_MAX on, CSP signs and reveals nothing. If NULL,
     * there are no lanes. */
    unsigned (*checks)(void *ctx);
    void *lanes_ctx; /* for paired, checks and round_over */
    /* Called once per round: CSP_REVEALED after csp_serve has sent the output, with its times (or
     * when it cannot send it on this stream), or CSP_SKIPPED. On the thread that drives the
     * machine. May be NULL. */
    void (*round_over)(void *ctx, csp_round_state state, const csp_times *times);
} csp_config;

typedef struct csp csp;

/* SEFL_EINVAL if the task, the signing key and the secret key do not belong together. */
sefl_status csp_new(csp **out, const csp_config *c) SEFL_MUST_CHECK;
void csp_free(csp *c);

/* What HELLO (protocol/link.h) says. */
typedef struct csp_hello {
    uint16_t version; /* 0: no common version; `why` has the reason, and the rest is empty */
    char why[VERSION_SENTENCE];
    ledger_head head; /* AS's */
    uint8_t task[TASK_ID];
    uint64_t wall_ms; /* AS's clock */
    sefl_span said;   /* what the signature covers, before the binding; points into the message */
    uint8_t signature[SIGN_BYTES];
} csp_hello;

/* SEFL_EPROTO if the message is malformed. */
sefl_status csp_hello_read(csp_hello *out, sefl_span body) SEFL_MUST_CHECK;
/* SEFL_EAUTH unless the AS of this task signed it for the stream with this binding (channel.h). */
sefl_status csp_hello_check(const csp_hello *h, const task *t, sefl_span binding) SEFL_MUST_CHECK;

/* CSP's answers to one message, in order. */
enum { CSP_REPLIES_MAX = 2 };
typedef struct csp_replies {
    link_msg m[CSP_REPLIES_MAX];
    unsigned n;
} csp_replies;

/* Prepares for a new stream and drops all state of an attempt in progress. */
void csp_restart(csp *c);
/* Handles one message from AS and replaces the contents of `out`. Send the replies even after a
 * failure (a piece gets none, except the last). After SEFL_OK, continue until csp_is_done;
 * otherwise end the stream. */
sefl_status csp_on(csp *c, const link_msg *in, csp_replies *out) SEFL_MUST_CHECK;
/* True once CSP has answered BYE: the stream is over. */
bool csp_is_done(const csp *c);
/* Wipes and frees the replies. */
void csp_replies_clear(csp_replies *r);

/* Serves a stream until BYE (SEFL_OK). After any failure the machine is ready for the next stream
 * and keeps no state of the attempt in progress. */
sefl_status csp_serve(csp *c, channel *ch) SEFL_MUST_CHECK;
/* The same for a stream whose first message the caller has received; takes the message over. */
sefl_status csp_serve_from(csp *c, channel *ch, link_msg *first) SEFL_MUST_CHECK;

/* Skips a round whose key has expired, and wipes the key. A key expires 24 hours after the latest
 * time at which its round can close. csp_on calls this before each question; a role calls it while
 * it has no stream. */
sefl_status csp_expire(csp *c) SEFL_MUST_CHECK;

/* Returns when the current round key expires, in key time; 0: there is no key. Key time begins with
 * the wall clock's time at the header, and then only boot time moves it. At that time a role
 * disconnects a peer that is still sending, since csp_serve would otherwise wait for the rest of
 * the message. Any thread may call these two. */
uint64_t csp_expires_ms(const csp *c);
uint64_t csp_key_time_ms(const csp *c);
/* True if the machine restarted in the middle of a round (or another one took over), and AS's clock
 * has not agreed with CSP's since: CSP then refuses HELLO and expires the key only once its age is
 * certain. It goes on when the clocks agree within a minute, or after csp_confirm_clock: the
 * operator has checked CSP's clock. Any thread. */
bool csp_is_unsure(const csp *c);
void csp_confirm_clock(csp *c);
/* Returns when CSP last compared AS's ledger head with its own: positive (wall clock) if they
 * agreed, negative if not; 0: not since the start. Any thread. */
int64_t csp_compared_ms(const csp *c);

/* True if AS has ended the task. */
bool csp_is_over(const csp *c);
const csp_times *csp_get_times(const csp *c);

#endif

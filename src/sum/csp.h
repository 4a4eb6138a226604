/* csp: the cryptography service provider's side of a round, without socket, clock or disk.
 *
 * A journal (a table of functions: roles/ has the real one) keeps what must survive. When one of
 * its functions returns SEFL_OK, what it was given is durable. csp_serve answers one stream until it
 * ends; state and message meet in a table (csp.c). The rules that hold whatever AS says:
 *   - a header: the next round (the one before is opened or skipped, the budget has room, the task has
 *     so many rounds), or the very one signed before; never two of one round
 *   - one opening a (task, round): charge durable, then output and mark durable, then the first byte
 *     leaves; after the mark only those bytes, for ever
 *   - only for a set that AS signed for, of at least the threshold and at most the most clients, in a
 *     round whose header was signed
 *   - sealed tasks (task.h): only the sum over clients that CSP's operator has approved and that each signed
 *     a head for this task and round, each once: CSP takes the pads of exactly those off what AS sends.
 *     One set a round, decided once. The round's key is wiped with the mark, and a day after the round's
 *     last possible deadline at the latest
 *   - other tasks: of no more clients than this operator has approved, where it keeps a list; below that
 *     the count is AS's word: it is recorded with the output
 *   - never past the rounds or past the budget; never while the ledgers disagree (link.h)
 *   - nothing is written before AS's signature and both ledgers are checked
 *   - a broken attempt leaves nothing that another one uses
 *
 *     csp *c;
 *     SEFL_TRY(csp_new(&c, &(csp_config){ .task = &t, .envelope = env, .root = root, .key = key,
 *                                         .journal = j, .coins = &coins, .pool = pool, .log = lg }));
 *     while (accept) SEFL_TRY(csp_serve(c, channel));      // SEFL_ECLOSED, SEFL_EPROTO, ...: next one
 *
 * Threads: one owner.   Secrets: keys, seeds (locked), pads, plain units, noise; wiped.
 * Memory: the masked plain units (k + t bits a value), the shares and the reply (k or k + t bits each);
 * sealed tasks: the sum of pads (8 bytes a value) and some 200 bytes a client. */
#ifndef PROTOCOL_CSP_H
#define PROTOCOL_CSP_H

#include "base/clock.h"
#include "base/coins.h"
#include "base/log.h"
#include "mpc/noise/pool.h"
#include "protocol/counted.h"
#include "protocol/enrol.h"
#include "protocol/link.h"
#include "protocol/round.h"
#include "protocol/task.h"
#include "protocol/voucher.h"
#include "store/ledger_port.h"

enum { CSP_KEY_BYTES = 32 };

typedef enum csp_round_state {
    CSP_NEW = 0,
    CSP_SIGNED = 1,   /* header signed */
    CSP_REVEALED = 2, /* charged, output stored; for ever */
    CSP_SKIPPED = 3,  /* never opened */
} csp_round_state;

typedef struct csp_round {
    uint64_t round;
    csp_round_state state;
    unsigned skip;      /* why it was skipped: AS's reason, 0 to 255, or a CSP_SKIP_ */
    uint64_t signed_ms; /* CSP's wall clock when it signed the header */
    round_header header;
} csp_round;

/* CSP's own reasons: an old copy of its journal was put back, and the round may have been opened; the
 * round was neither opened nor skipped long after its last possible deadline; fewer heads of its SET than the
 * threshold were good. */
enum { CSP_SKIP_OLD_STATE = 256, CSP_SKIP_EXPIRED = 257, CSP_SKIP_FEW = 258 };

/* What CSP decided about a SET. Final. */
typedef struct csp_set {
    uint8_t digest[SHA256_BYTES]; /* of the whole SET: a repetition must be the same */
    uint8_t root[SHA256_BYTES];   /* counted_root of the kept ones */
    uint32_t clients;             /* in the SET: kept and refused */
    uint32_t kept_n, refused_n;
    counted_leaf *kept;    /* by rising client; owned */
    head_refusal *refused; /* by rising index; owned */
} csp_set;

void csp_set_clear(csp_set *s);

enum { CSP_CHECKS_MAX = 3 };

typedef struct csp_store {
    void *ctx;
    /* SEFL_OK with state CSP_NEW if there is nothing of this round. */
    sefl_status (*get)(void *ctx, uint64_t round, csp_round *out);
    sefl_status (*highest)(void *ctx, uint64_t *signed_, uint64_t *opened, uint64_t *skipped);
    sefl_status (*sign)(void *ctx, const csp_round *r); /* durable before the answer */
    /* CSP's charge becomes durable here: SEFL_OK, and not before. A round charged before is SEFL_OK and
     * writes nothing; SEFL_EBUDGET refuses. */
    sefl_status (*charge)(void *ctx, uint64_t round);
    /* The same ledger, for looking: head, compare and head_after. Charges go through `charge` above. */
    ledger_port ledger;
    /* statement, id of the opening (link.h) and output bytes, then the mark: all durable, or none of
     * it. Once a round: a second call is SEFL_ESTATE. */
    sefl_status (*open)(void *ctx, uint64_t round, sefl_span statement_envelope,
                        const uint8_t id[NOISE_ID], sefl_span output,
                        const uint8_t digest[SHA256_BYTES]);
    /* The way back. SEFL_ENOTFOUND once forgotten. */
    sefl_status (*kept)(void *ctx, uint64_t round, uint8_t id[NOISE_ID], sefl_buf *output,
                        uint8_t digest[SHA256_BYTES]);
    sefl_status (*skip)(void *ctx, uint64_t round, unsigned reason);
    /* AS has the next header, or the task is over: the release of `round` is out, its stored output
     * can go. The mark stays. */
    sefl_status (*forget)(void *ctx, uint64_t round);
    /* AS said that the task is over: durable before the answer; and whether it was ever said. Both may
     * be NULL: then only this object knows. */
    sefl_status (*end)(void *ctx);
    sefl_status (*ended)(void *ctx, bool *out);

    /* ---- sealed tasks only ---- */
    /* The 32 random bytes of a round's key: durable; replaced only while no header of the round is
     * signed (SEFL_ESTATE). */
    sefl_status (*key_make)(void *ctx, uint64_t round, const uint8_t bytes[CSP_KEY_BYTES]);
    /* SEFL_ENOTFOUND: never made, or wiped. */
    sefl_status (*key_get)(void *ctx, uint64_t round, uint8_t bytes[CSP_KEY_BYTES]);
    /* Overwritten, synced, unlinked; nothing there is fine. */
    sefl_status (*key_wipe)(void *ctx, uint64_t round);
    /* Once a round: a second call is SEFL_ESTATE. Durable. */
    sefl_status (*set_put)(void *ctx, uint64_t round, const csp_set *s);
    /* SEFL_ENOTFOUND: none yet. The caller clears it. */
    sefl_status (*set_get)(void *ctx, uint64_t round, csp_set *out);
    /* In how many charged rounds of this task the client was kept. */
    sefl_status (*taken)(void *ctx, const uint8_t client[32], uint64_t *rounds);
    /* The client's upload key; SEFL_ENOTFOUND: no voucher. */
    sefl_status (*voucher_get)(void *ctx, const uint8_t client[32], uint64_t *serial,
                               uint8_t key[SIGN_PUB_BYTES]);
    /* Outlives the task. The same serial with the same key again is SEFL_OK; SEFL_ESTATE: the serial
     * does not grow, or another client has that key. */
    sefl_status (*voucher_put)(void *ctx, const uint8_t client[32], uint64_t serial,
                               const uint8_t key[SIGN_PUB_BYTES]);
} csp_store;

typedef struct csp_config {
    const task *task;
    sefl_span envelope;  /* the signed task, as stored */
    const ahe_sec *sec;  /* NULL for sealed tasks */
    const uint8_t *root; /* sealed tasks: CSP_KEY_BYTES secret bytes of the key file; else NULL */
    const sign_key *key;
    const csp_store *journal;
    const sefl_coins *coins; /* purposes: "kem", "pair", "reply" */
    pool *pool;
    const sefl_progress *stop; /* asked in every unit that is decrypted; false ends the stream */
    sefl_log *log;
    shares_pool *shares;     /* joint noise: shares that lanes made (noise/pool.h) */
    const sefl_clock *clock; /* monotonic, for csp_times and the log; NULL: no times */
    const sefl_clock
        *wall; /* sealed tasks: for the expiry of round keys; NULL: they never expire */
    /* Is this site's token one of ours (the proof holds already)? It is then used, and the member
     * noted, durably. SEFL_EAUTH: no, with the reason for the log. NULL: nobody is enrolled here. */
    sefl_status (*enrol)(void *ctx, const enrol_claim *c, const enrol_proof *p);
    void *enrol_ctx; /* of members, vouch and member too */
    /* The most clients that may be in this round, UINT64_MAX: not known. Asked when its header is signed
     * (begins) and before it is opened: whoever was approved at some time in between counts. NULL: never
     * known. */
    sefl_status (*members)(void *ctx, uint64_t round, bool begins, uint64_t *most);
    /* Sealed tasks. Is the voucher's SPKI a member of our own list (or its chain one of a CA that we
     * trust for clients), and does its signature hold? SEFL_EAUTH: no, with the reason for the log. */
    sefl_status (*vouch)(void *ctx, const voucher *v);
    /* Is this client one still? Asked for every head in EARLY and SET. */
    bool (*member)(void *ctx, const uint8_t client[32]);
    /* A stream has said hello, and `pair` binds its lanes to it. On the thread of csp_serve. May be
     * NULL. */
    void (*paired)(void *ctx, const uint8_t pair[LINK_PAIR]);
    /* How many checks of noise shares have failed in this task, durably counted by the role that runs
     * the lanes. At CSP_CHECKS_MAX nothing more is signed or opened. NULL: there are no lanes. */
    unsigned (*checks)(void *ctx);
    void *lanes_ctx; /* of both */
} csp_config;

/* How long the parts of the latest opening took, in nanoseconds. */
typedef struct csp_times {
    uint64_t charge;
    uint64_t receive, decrypt; /* waiting for pieces of the sum; decrypting them */
    uint64_t compute;          /* the reply */
    uint64_t store;            /* journal->open */
    uint64_t output;           /* sending it */
} csp_times;

typedef struct csp csp;

/* SEFL_EINVAL if task, key or secret key do not belong together. */
sefl_status csp_new(csp **out, const csp_config *c) SEFL_MUST_CHECK;
void csp_free(csp *c);

/* Answers until the stream ends. SEFL_OK after BYE. Any failure leaves the object fit for the next
 * stream, and nothing of the attempt that was under way. */
sefl_status csp_serve(csp *c, channel *ch) SEFL_MUST_CHECK;

/* Skips a round whose key is too old and wipes the key (header signed + its longest possible time + 24
 * hours). csp_serve looks at it before each question; a role calls it when no stream is there. */
sefl_status csp_expire(csp *c) SEFL_MUST_CHECK;

/* When the key of the round at hand expires, by CSP's wall clock; 0: there is none. From any thread: a peer
 * that sends a byte now and then must be put out then, since csp_serve waits for its message. */
uint64_t csp_expires_ms(const csp *c);

/* AS said that the task is over. */
bool csp_is_over(const csp *c);
const csp_times *csp_get_times(const csp *c);

#endif

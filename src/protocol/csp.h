/* csp: the cryptography service provider's side of a round, without socket, clock or disk.
 *
 * A journal (a table of functions: store/ has the real one) keeps what must survive. When one of
 * its functions returns SEFL_OK, what it was given is durable. csp_serve answers one stream until it
 * ends; state and message meet in a table (csp.c). The rules that hold whatever AS says:
 *   - a header: the next round, or the very one signed before; never two of one round
 *   - one opening a (task, round): charge durable, then output and mark durable, then the first byte
 *     leaves; after the mark only those bytes, for ever
 *   - never below the threshold, above the most, past the rounds or past the budget
 *   - a broken attempt leaves nothing that another one uses
 *
 *     csp *c;
 *     SEFL_TRY(csp_new(&c, &(csp_config){ .task = &t, .envelope = env, .sec = sec, .key = key,
 *                                         .journal = j, .coins = &coins, .pool = pool, .log = lg }));
 *     while (accept) SEFL_TRY(csp_serve(c, channel));      // SEFL_ECLOSED, SEFL_EPROTO, ...: next one
 *
 * Threads: one owner.   Secrets: the key, plain units, noise; wiped. */
#ifndef PROTOCOL_CSP_H
#define PROTOCOL_CSP_H

#include "base/coins.h"
#include "base/log.h"
#include "protocol/link.h"
#include "protocol/round.h"
#include "protocol/task.h"

typedef enum csp_round_state {
    CSP_NEW = 0,
    CSP_SIGNED = 1,  /* header signed */
    CSP_OPENED = 2,  /* charged, output stored; for ever */
    CSP_SKIPPED = 3, /* never opened */
} csp_round_state;

typedef struct csp_round {
    uint64_t round;
    csp_round_state state;
    round_header header;
} csp_round;

typedef struct ledger_mark { /* a ledger's head as it travels */
    uint64_t records;
    uint8_t hash[32];
} ledger_mark;

typedef enum ledger_verdict {
    LEDGERS_AGREE,
    LEDGERS_PEER_BEHIND,
    LEDGERS_PEER_AHEAD,
    LEDGERS_FORKED
} ledger_verdict;

typedef struct csp_journal {
    void *ctx;
    /* SEFL_OK with state CSP_NEW if there is nothing of this round. */
    sefl_status (*get)(void *ctx, uint64_t round, csp_round *out);
    sefl_status (*highest)(void *ctx, uint64_t *signed_, uint64_t *opened, uint64_t *skipped);
    sefl_status (*sign)(void *ctx, const csp_round *r);   /* durable before the answer */
    sefl_status (*charge)(void *ctx, uint64_t round);     /* the ledger; SEFL_EBUDGET refuses */
    sefl_status (*may_charge)(void *ctx, uint64_t round); /* would it? writes nothing */
    /* statement, attempt id and output bytes, then the mark: all durable, or none of it. */
    sefl_status (*open)(void *ctx, uint64_t round, sefl_span statement_envelope,
                        const uint8_t id[NOISE_ID], sefl_span output,
                        const uint8_t digest[SHA256_BYTES]);
    sefl_status (*kept)(void *ctx, uint64_t round, uint8_t id[NOISE_ID], sefl_buf *output,
                        uint8_t digest[SHA256_BYTES]);
    sefl_status (*skip)(void *ctx, uint64_t round, unsigned reason);
    /* AS has the next header: the release of `round` is out, its stored output can go. */
    sefl_status (*forget)(void *ctx, uint64_t round);
    sefl_status (*ledger)(void *ctx, ledger_mark *out);
    ledger_verdict (*compare)(void *ctx, const ledger_mark *peer);
} csp_journal;

typedef struct csp_config {
    const task *task;
    sefl_span envelope; /* the signed task, as stored */
    const ahe_sec *sec;
    const sign_key *key;
    const csp_journal *journal;
    const sefl_coins *coins; /* purposes: "noise", "own" */
    pool *pool;
    sefl_log *log;
    const char *store_dir; /* of the offline material (noise/store.h) */
} csp_config;

typedef struct csp csp;

sefl_status csp_new(csp **out, const csp_config *c) SEFL_MUST_CHECK;
void csp_free(csp *c);

/* Answers until the stream ends. SEFL_OK after BYE. */
sefl_status csp_serve(csp *c, channel *ch) SEFL_MUST_CHECK;

#endif

/* csp_store: the port to CSP's durable state.
 *
 * The machine (csp.h) writes each fact to the store before anything depends on it. A store keeps
 * named records and one row per round but does not interpret them: this module defines their
 * contents and checks the rules, for every store. CSP signs only a new round, and reveals or skips
 * only a signed one; any other call is SEFL_ESTATE and writes nothing. Two stores exist:
 * store/disk/csp_disk.h (CSP's journal) and csp_memory.h (simulator, demo, tests).
 *
 *     record      round   bytes
 *     OVER        0       AS ended the task
 *     CLOCK       0       sealed tasks: both clocks, for the age of the round key (csp_clock.c)
 *     HEADER      N       the header that CSP signs; the row, written next, marks it as signed
 *     CHARGING    N       CSP is about to charge this round
 *     SET         N       sealed tasks: digest 32, root 32, clients, kept, refused u32, then the
 *                         refused heads: index u32, reason u8
 *     REVEAL      N       id 32 of the reveal (link.h), digest 32 of the output, AS's statement
 *     SKIP        N       the reason, u32; the row, written next, marks the round as skipped
 *     KEY         N       secret, sealed tasks: the 32 random bytes of the round key
 *     OUTPUT      N       secret: the output
 *     HISTORY     N       secret, correlated noise: what CSP keeps of its noise (sum/history.h)
 *
 * To reveal, call csp_store_resume, then, if the round is still signed, csp_store_charge and
 * csp_store_reveal; only then may the first byte of the output leave.
 * Threads: one owner.   Secrets: KEY, OUTPUT and HISTORY; wipe and history_keep
 * destroy them. */
#ifndef SUM_CSP_STORE_H
#define SUM_CSP_STORE_H

#include "mpc/noise/online.h"
#include "protocol/counted.h"
#include "protocol/link.h"
#include "protocol/round.h"
#include "store/ledger_port.h"

enum { CSP_KEY_BYTES = 32 };

typedef enum csp_round_state {
    CSP_NEW = 0,
    CSP_SIGNED = 1,   /* its header is signed */
    CSP_REVEALED = 2, /* charged, and its output stored; permanent */
    CSP_SKIPPED = 3,  /* never revealed */
} csp_round_state;

typedef struct csp_round {
    uint64_t round;
    csp_round_state state;
    unsigned skip;      /* why the round was skipped: AS's reason, 0 to 255, or a CSP_SKIP_ */
    uint64_t signed_ms; /* CSP's wall clock when it signed the header; then key time (csp.h) */
    round_header header;
} csp_round;

/* CSP's own reasons to skip a round. */
enum {
    CSP_SKIP_OLD_STATE = 256, /* CSP's store is an old copy: the round may have been revealed */
    CSP_SKIP_EXPIRED = 257,   /* AS neither revealed nor skipped the round in time */
    CSP_SKIP_FEW = 258,       /* fewer valid heads in the SET than the threshold */
};

/* The highest round in each state; 0: none. */
typedef struct csp_highest {
    uint64_t header; /* its header was signed; it may be revealed or skipped by now */
    uint64_t revealed, skipped;
} csp_highest;

/* CSP's verdict on a SET, which is final. */
typedef struct csp_set {
    uint8_t digest[SHA256_BYTES]; /* hash of the whole SET; a repeated SET must match */
    uint8_t root[SHA256_BYTES];   /* counted_root of the kept clients */
    uint32_t clients;             /* number of clients in the SET, kept or refused */
    uint32_t kept_n, refused_n;
    round_entry *kept;     /* sorted by client; owned */
    head_refusal *refused; /* sorted by index; owned */
} csp_set;

typedef enum csp_record {
    CSP_OVER,
    CSP_HEADER,
    CSP_CHARGING,
    CSP_SET,
    CSP_REVEAL,
    CSP_SKIP,
    CSP_KEY,
    CSP_OUTPUT,
    CSP_HISTORY,
    CSP_CLOCK,
    CSP_RECORDS
} csp_record;

/* The row of a round. */
typedef struct csp_row {
    uint64_t round;
    unsigned state; /* csp_round_state, not CSP_NEW */
    uint64_t signed_ms;
    bool charged;                /* skipped after its charge: `taken` counts the round */
    uint8_t model[SHA256_BYTES]; /* the model in the header */
} csp_row;

typedef struct csp_store {
    void *ctx;
    ledger_port ledger; /* the machine only reads it; csp_store_charge writes */
    /* Inserts or replaces a record durably. */
    sefl_status (*put)(void *ctx, csp_record what, uint64_t round, sefl_span bytes);
    /* Appends the record to out; SEFL_ENOTFOUND if there is none. */
    sefl_status (*get)(void *ctx, csp_record what, uint64_t round, sefl_buf *out);
    /* Overwrites, syncs and unlinks KEY or OUTPUT. Does nothing if there is none. */
    sefl_status (*wipe)(void *ctx, csp_record what, uint64_t round);
    /* Destroys HISTORY of all rounds but from .. to (from > to: of all). */
    sefl_status (*history_keep)(void *ctx, uint64_t from, uint64_t to);
    sefl_status (*row_put)(void *ctx, const csp_row *row);
    sefl_status (*row_get)(void *ctx, uint64_t round, csp_row *out);
    /* Sets *out to the highest round in this state; 0: none. */
    sefl_status (*highest)(void *ctx, csp_round_state state, uint64_t *out);
    /* Records a reveal outside the store, to detect an old copy of the store. May be NULL. */
    sefl_status (*note)(void *ctx, uint64_t round, const uint8_t digest[SHA256_BYTES]);

    /* ---- sealed tasks only ---- */
    /* Writes SET and the kept clients: all or none. */
    sefl_status (*set_put)(void *ctx, uint64_t round, sefl_span set, const round_entry *kept,
                           uint32_t n);
    /* Loads the n kept clients, sorted by client. */
    sefl_status (*set_kept)(void *ctx, uint64_t round, round_entry *out, uint32_t n);
    /* Counts the rounds of this task in which the client was kept, except rounds skipped without a
     * charge. *last becomes the last of them, 0 if there is none. */
    sefl_status (*taken)(void *ctx, const uint8_t client[32], uint64_t *rounds, uint64_t *last);
    /* Loads the client's upload key; SEFL_ENOTFOUND if the client has no voucher. */
    sefl_status (*voucher_get)(void *ctx, const uint8_t client[32], uint64_t *serial,
                               uint8_t key[SIGN_PUB_BYTES]);
    /* Stores a voucher, which outlives the task. Repeating the latest one is SEFL_OK and writes
     * nothing. SEFL_ESTATE: the serial does not increase, or another client has that key. */
    sefl_status (*voucher_put)(void *ctx, const uint8_t client[32], uint64_t serial,
                               const uint8_t key[SIGN_PUB_BYTES]);
} csp_store;

/* Initialises all entries except `note`, for a file that defines functions with these names. */
#define CSP_STORE_CALLS                                                                         \
    .put = put, .get = get, .wipe = wipe, .row_put = row_put, .row_get = row_get,               \
    .history_keep = history_keep, .highest = highest, .set_put = set_put, .set_kept = set_kept, \
    .taken = taken, .voucher_get = voucher_get, .voucher_put = voucher_put

/* Loads a round; its state is CSP_NEW if the store has no row for it. */
sefl_status csp_store_get(const csp_store *s, uint64_t round, csp_round *out) SEFL_MUST_CHECK;
sefl_status csp_store_highest(const csp_store *s, csp_highest *out) SEFL_MUST_CHECK;
sefl_status csp_store_sign(const csp_store *s, const csp_round *r) SEFL_MUST_CHECK;
/* Makes CSP's charge durable. SEFL_OK if the round is already charged; SEFL_EBUDGET if refused.
 * Writes CHARGING in any case, so it fails in a process that has lost its lease: without this write
 * such a process could answer GO (proofs/lease.pml, BUG_GO_WITHOUT_WRITE). */
sefl_status csp_store_charge(const csp_store *s, uint64_t round) SEFL_MUST_CHECK;
/* Writes OUTPUT and REVEAL, the note, then the mark CSP_REVEALED. Call it once per round, after the
 * charge. */
sefl_status csp_store_reveal(const csp_store *s, uint64_t round, sefl_span statement_envelope,
                             const uint8_t id[NOISE_ID], sefl_span output,
                             const uint8_t digest[SHA256_BYTES]) SEFL_MUST_CHECK;
/* Loads the stored reveal into an empty *output. SEFL_ENOTFOUND after csp_store_forget, or if the
 * output is damaged. */
sefl_status csp_store_kept(const csp_store *s, uint64_t round, uint8_t id[NOISE_ID],
                           sefl_buf *output, uint8_t digest[SHA256_BYTES]) SEFL_MUST_CHECK;
/* Sets *whole to whether REVEAL and its output are there and undamaged; then sets digest. */
sefl_status csp_store_whole(const csp_store *s, uint64_t round, uint8_t digest[SHA256_BYTES],
                            bool *whole) SEFL_MUST_CHECK;
/* Writes the mark CSP_REVEALED for a round whose REVEAL, OUTPUT and note are durable. */
sefl_status csp_store_mark(const csp_store *s, csp_round *now) SEFL_MUST_CHECK;
/* Completes a csp_store_reveal that failed after its REVEAL. Call it before another attempt, whose
 * output would replace the one that the note names. */
sefl_status csp_store_resume(const csp_store *s, csp_round *now) SEFL_MUST_CHECK;
sefl_status csp_store_skip(const csp_store *s, uint64_t round, unsigned reason) SEFL_MUST_CHECK;
/* Erases the output of a round that AS has released. The mark stays. */
sefl_status csp_store_forget(const csp_store *s, uint64_t round) SEFL_MUST_CHECK;
/* Sets *out to whether the store has this record. */
sefl_status csp_store_has(const csp_store *s, csp_record what, uint64_t round,
                          bool *out) SEFL_MUST_CHECK;

/* Stores or replaces the round key's bytes. SEFL_ESTATE unless the round is still CSP_NEW. */
sefl_status csp_store_key_make(const csp_store *s, uint64_t round,
                               const uint8_t bytes[CSP_KEY_BYTES]) SEFL_MUST_CHECK;
/* SEFL_ENOTFOUND if the bytes were never stored or are wiped. */
sefl_status csp_store_key_get(const csp_store *s, uint64_t round,
                              uint8_t bytes[CSP_KEY_BYTES]) SEFL_MUST_CHECK;
sefl_status csp_store_key_wipe(const csp_store *s, uint64_t round) SEFL_MUST_CHECK;
/* Stores CSP's verdict on a SET, once per round. */
sefl_status csp_store_set_put(const csp_store *s, uint64_t round, const csp_set *v) SEFL_MUST_CHECK;
/* SEFL_ENOTFOUND if there is no verdict yet. The caller clears *out. */
sefl_status csp_store_set_get(const csp_store *s, uint64_t round, csp_set *out) SEFL_MUST_CHECK;

/* Returns "new", "signed", "revealed" or "skipped"; "?" for any other number. */
const char *csp_state_name(unsigned state);
/* Describes a CSP_SKIP_ reason; NULL for a reason from AS. */
const char *csp_skip_text(unsigned reason);

void csp_set_clear(csp_set *s);

#endif

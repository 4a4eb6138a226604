/* csp_store: what CSP must remember, as a port.
 *
 * The machine (csp.h) calls these functions and knows no disk. There are two stores: csp_disk.h, a
 * role's, and csp_memory.h, of simulator, benches and tests. Another one fills the same table.
 *
 * When a function returns SEFL_OK, what it was given is durable. A store checks the order of things
 * once more, with csp_round_must_be: it signs only a new round, and reveals or skips only a signed
 * one; any other call is SEFL_ESTATE and writes nothing.
 *
 * A reveal is: charge, reveal, and only then the first byte of the output leaves.
 * Threads: one owner.   Secrets: round keys and outputs. */
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
    CSP_SIGNED = 1,   /* header signed */
    CSP_REVEALED = 2, /* charged, output stored; for ever */
    CSP_SKIPPED = 3,  /* never revealed */
} csp_round_state;

typedef struct csp_round {
    uint64_t round;
    csp_round_state state;
    unsigned skip;      /* why it was skipped: AS's reason, 0 to 255, or a CSP_SKIP_ */
    uint64_t signed_ms; /* CSP's wall clock when it signed the header */
    round_header header;
} csp_round;

/* CSP's own reasons to skip a round. */
enum {
    CSP_SKIP_OLD_STATE = 256, /* an old copy of its store was put back: perhaps it was revealed */
    CSP_SKIP_EXPIRED = 257,   /* AS neither revealed nor skipped it in time */
    CSP_SKIP_FEW = 258,       /* fewer good heads in its SET than the threshold */
};

/* The highest rounds of each state; 0: none. */
typedef struct csp_highest {
    uint64_t header; /* signed, whatever came of it */
    uint64_t revealed, skipped;
} csp_highest;

/* What CSP decided about a SET. Final. */
typedef struct csp_set {
    uint8_t digest[SHA256_BYTES]; /* of the whole SET: a repetition must be the same */
    uint8_t root[SHA256_BYTES];   /* counted_root of the kept clients */
    uint32_t clients;             /* in the SET: kept and refused */
    uint32_t kept_n, refused_n;
    counted_leaf *kept;    /* by rising client; owned */
    head_refusal *refused; /* by rising index; owned */
} csp_set;

typedef struct csp_store {
    void *ctx;
    /* SEFL_OK with state CSP_NEW if the store has nothing of this round. */
    sefl_status (*get)(void *ctx, uint64_t round, csp_round *out);
    sefl_status (*highest)(void *ctx, csp_highest *out);
    sefl_status (*sign)(void *ctx, const csp_round *r);
    /* CSP's charge becomes durable here. A round that is charged already is SEFL_OK and writes
     * nothing; SEFL_EBUDGET refuses. */
    sefl_status (*charge)(void *ctx, uint64_t round);
    /* The same ledger, for looking: head, compare and head_after. Charges go through `charge`. */
    ledger_port ledger;
    /* Statement, id of the reveal (link.h) and output, then the mark CSP_REVEALED: all durable, or
     * none of it. Once per round. */
    sefl_status (*reveal)(void *ctx, uint64_t round, sefl_span statement_envelope,
                          const uint8_t id[NOISE_ID], sefl_span output,
                          const uint8_t digest[SHA256_BYTES]);
    /* Reads what `reveal` stored; appends to *output. SEFL_ENOTFOUND once it is forgotten. */
    sefl_status (*kept)(void *ctx, uint64_t round, uint8_t id[NOISE_ID], sefl_buf *output,
                        uint8_t digest[SHA256_BYTES]);
    sefl_status (*skip)(void *ctx, uint64_t round, unsigned reason);
    /* AS has released this round: erases its output. The mark stays. */
    sefl_status (*forget)(void *ctx, uint64_t round);
    /* AS ended the task; and did it ever? Both may be NULL: then only the machine knows. */
    sefl_status (*end)(void *ctx);
    sefl_status (*ended)(void *ctx, bool *out);

    /* ---- sealed tasks only ---- */
    /* The 32 random bytes of a round's key; replaced only while no header of the round is
     * signed. */
    sefl_status (*key_make)(void *ctx, uint64_t round, const uint8_t bytes[CSP_KEY_BYTES]);
    /* SEFL_ENOTFOUND: never made, or wiped. */
    sefl_status (*key_get)(void *ctx, uint64_t round, uint8_t bytes[CSP_KEY_BYTES]);
    /* Overwrites, syncs, unlinks. A round without a key is fine. */
    sefl_status (*key_wipe)(void *ctx, uint64_t round);
    /* Once per round. */
    sefl_status (*set_put)(void *ctx, uint64_t round, const csp_set *s);
    /* SEFL_ENOTFOUND: none yet. The caller clears it. */
    sefl_status (*set_get)(void *ctx, uint64_t round, csp_set *out);
    /* The number of charged rounds of this task in which the client was kept. */
    sefl_status (*taken)(void *ctx, const uint8_t client[32], uint64_t *rounds);
    /* The client's upload key; SEFL_ENOTFOUND: no voucher. */
    sefl_status (*voucher_get)(void *ctx, const uint8_t client[32], uint64_t *serial,
                               uint8_t key[SIGN_PUB_BYTES]);
    /* Outlives the task. The same serial with the same key again is SEFL_OK; SEFL_ESTATE: the
     * serial does not grow, or another client has that key. */
    sefl_status (*voucher_put)(void *ctx, const uint8_t client[32], uint64_t serial,
                               const uint8_t key[SIGN_PUB_BYTES]);
} csp_store;

/* The rules that every store checks. SEFL_ESTATE unless the round is in this state. */
sefl_status csp_round_must_be(const csp_round *r, csp_round_state want) SEFL_MUST_CHECK;
/* "new", "signed", "revealed", "skipped"; "?" for a number that is no state. */
const char *csp_state_name(unsigned state);
/* CSP's own reason in a sentence; NULL for a reason of AS's. */
const char *csp_skip_text(unsigned reason);

void csp_set_clear(csp_set *s);

#endif

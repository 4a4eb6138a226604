/* ingest: receives updates, makes them durable and acknowledges them.
 *
 * A body (protocol/update.h) arrives in pieces on one of the server's threads. In a sealed task its
 * head comes first (protocol/head.h): before AS accepts a unit, the head must name this client and
 * this update and be signed with the upload key that the client has vouched for
 * (store/disk/upload_keys.h). Salt and units follow. AS checks the units one by one (body.h),
 * hashes each piece and writes it (store/journal/spool.h). When the body is complete and its hash
 * is the update's name, AS makes it durable and signs its receipt. Then, under
 * the role's lock, it asks whether the round still accepts the update and writes its row to the
 * journal. Only then does AS send the receipt and add the body to the running sum (collect.h). A
 * client that dies during an upload leaves only its own partial upload (a part).
 *
 *     ingest_begin(in, &u, &ask, &reply)         u: send it the bytes; NULL: answer with reply
 *     upload_bytes(u, piece)                     after a failure, answer with upload_end's reply
 *     upload_end(u, &reply)                      200 and the receipt, or the reason
 *     upload_free(u)                             always; keeps what has arrived, to resume later
 *
 * AS identifies a client only by the fingerprint of its certificate's key, never by the upload.
 * Bodies are stored in round-N/bodies/CLIENT/NAME (bodies-ME if several processes share the round's
 * folder: a client that continues there moves its part to the new process), so no client can
 * resume another's part or get the receipt for another's body. AS refuses a body that another
 * client has sent in this round, or that any client sent in an earlier round (honest bodies are
 * never equal: their salts differ). A client has one part per round: another body, or the same one
 * on a new connection, ends the previous upload. parts.h limits the number of parts from a CA
 * whose members are not listed.
 *
 * Threads: any number of uploads at once, each with one owner.   Secrets: none (ciphertexts).
 * Memory: a head and 8 units per upload of any size, and a room (body_pool.h) if one is free. */
#ifndef ROLES_AGGREGATOR_INGEST_H
#define ROLES_AGGREGATOR_INGEST_H

#include "base/clock.h"
#include "base/log.h"
#include "base/prom.h"
#include "crypto/seal/seal.h"
#include "crypto/sign.h"
#include "roles/aggregator/body.h"
#include "roles/aggregator/body_pool.h"
#include "roles/aggregator/parts.h"
#include "store/journal/journal.h"
#include "sum/agg.h"

#include <pthread.h>

/* How an upload ended: X(name, counter's name). */
#define INGEST_END_LIST(X)                                                          \
    X(TAKEN, "taken")           /* acknowledged */                                  \
    X(AGAIN, "again")           /* already stored: the receipt is sent again */     \
    X(OTHER, "other_body")      /* this client sent another body in this round */   \
    X(COPIED, "copied")         /* a body from another client or round */           \
    X(LATE, "late")             /* the round is closed, or the task is over */      \
    X(EARLY, "early")           /* the round is not open yet */                     \
    X(SIZE, "size")             /* the size is not that of an update */             \
    X(OFFSET, "offset")         /* does not continue where the stored part ends */  \
    X(LIMIT, "limit")           /* rounds.max_per_client or rounds.separation */    \
    X(FULL, "full")             /* the round has clients_max updates */             \
    X(PARTS, "parts")           /* its CA's clients have too many parts */          \
    X(VOUCHER, "no_voucher")    /* there is no voucher for its upload key */        \
    X(HEAD, "head")             /* the head is not this client's for these units */ \
    X(NOT_CIPHER, "not_cipher") /* a unit is not a valid ciphertext */              \
    X(HASH, "hash")             /* the bytes do not match the announced hash */     \
    X(REPLACED, "replaced")     /* replaced by the client's newer connection */     \
    X(CUT, "cut")               /* interrupted; the part stays */                   \
    X(DISK, "disk")             /* AS could not write it */

typedef enum ingest_end {
#define INGEST_END_ENUM(name, text) INGEST_##name,
    INGEST_END_LIST(INGEST_END_ENUM)
#undef INGEST_END_ENUM
        INGEST_ENDS
} ingest_end;

const char *ingest_end_name(ingest_end e);

typedef struct ingest ingest;
typedef struct upload upload;

/* The role's callbacks, called with `lock` held. */
typedef struct ingest_admission {
    void *ctx;
    pthread_mutex_t *lock;
    body_pool *body_pool; /* NULL: none */
    agg_verdict (*admit)(void *ctx, const agg_upload *u);
    /* True if another client sent this body in this round, or any client in another round. */
    bool (*has_body)(void *ctx, const round_entry *m);
    /* Called once the update is durable. body is its room, which the role gives back, or NULL. */
    void (*took)(void *ctx, uint64_t round, const round_entry *m, body_room *body);
    /* Several processes (share.h); NULL: this process alone uses the journal. ingest calls these
     * two and `took` without the lock, and has_body not at all. `know` fills u and, if u->have,
     * had; *copied as has_body. `put` inserts the row, or says why not: SEFL_EEXIST, SEFL_ESTATE
     * (the round is closed) or SEFL_ERANGE (it is full). */
    sefl_status (*know)(void *ctx, const round_entry *m, agg_upload *u, journal_update *had,
                        bool *copied);
    sefl_status (*put)(void *ctx, const journal_update *u);
} ingest_admission;

typedef struct ingest_config {
    const uint8_t *task;    /* id, 32 bytes */
    const seal_suite *seal; /* suite of the heads (protocol/head.h); NULL: no heads */
    const ahe_params *ahe;
    const ahe_pub *pub;
    journal *journal;
    const char
        *bodies; /* folder of a round's bodies; NULL: "bodies", and no other process has any */
    const sign_key *key;
    ingest_admission admission;
    unsigned parts_most; /* maximum unfinished bodies per issuer (parts.h); 0: no limit */
    const sefl_clock *wall;
    sefl_log *log;
} ingest_config;

/* A client's request. */
typedef struct ingest_ask {
    uint64_t round;
    const uint8_t *client;  /* fingerprint, from its certificate */
    const uint8_t *issuer;  /* its CA, if only the CA vouches for it; NULL: listed, or no list */
    const char *name;       /* common name, for log lines */
    uint8_t body[32];       /* the update's name (crypto/update_name.h) */
    uint64_t offset, total; /* the request sends bytes [offset, total) */
    uint64_t length;        /* Content-Length */
} ingest_ask;

/* The answer: a status, and a one-line message or a receipt. */
typedef struct ingest_reply {
    ingest_end end; /* outcome, for the counters; not set for a HEAD with status 200 */
    unsigned status;
    char text[256];
    uint64_t offset;  /* header Sefl-Offset; UINT64_MAX: none */
    unsigned retry_s; /* header Retry-After; 0: none */
    sefl_buf receipt; /* the caller clears it */
} ingest_reply;

sefl_status ingest_new(ingest **out, const ingest_config *c) SEFL_MUST_CHECK;
void ingest_free(ingest *in);

/* Begins an upload; *out is NULL if the reply is the whole answer. */
void ingest_begin(ingest *in, upload **out, const ingest_ask *ask, ingest_reply *r);
sefl_status upload_bytes(upload *u, sefl_span piece) SEFL_MUST_CHECK;
void upload_end(upload *u, ingest_reply *r);
void upload_free(upload *u);

/* Deletes the unfinished uploads of clients that may no longer connect; called once a second. */
void ingest_sweep(ingest *in, parts_still *still, void *ctx);

/* Replies with the number of bytes of this body that are already stored (HEAD). */
void ingest_offset(ingest *in, const ingest_ask *ask, ingest_reply *r);

#define INGEST_BODIES "bodies"
/* Appends the path of an acknowledged body and a NUL, which out->n does not count. */
sefl_status ingest_body_path(journal *j, sefl_buf *out, uint64_t round,
                             const round_entry *m) SEFL_MUST_CHECK;
/* The same, in another folder of bodies. */
sefl_status ingest_body_in(journal *j, sefl_buf *out, uint64_t round, const char *bodies,
                           const round_entry *m) SEFL_MUST_CHECK;

/* Ends every upload for any other round at its next byte; round 0: every upload. */
void ingest_only_round(ingest *in, uint64_t round);

uint64_t ingest_count(const ingest *in, ingest_end e);
/* Returns the number of body bytes received since the start. */
uint64_t ingest_bytes(const ingest *in);
/* Returns the number of uploads in progress; and how long each took, from begin to its end. */
uint64_t ingest_open(ingest *in);
const prom_histogram *ingest_times(const ingest *in);

#endif

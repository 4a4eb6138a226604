/* ingest: how an update's bytes become an acknowledged update.
 *
 * A body arrives in pieces on some thread of the server. In a sealed task its head comes first
 * (protocol/head.h): it must be of this client, for these units, and signed with the upload key
 * that the client has vouched for (sum/upload_keys.h), before a unit is taken. Each piece is
 * checked unit by unit (body.h), hashed and written (store/journal/spool.h). When it is complete
 * and its hash is right it is made durable, then its receipt is signed and its row written to the
 * journal, in one step under the role's lock with the question whether the round still takes it;
 * only then the receipt leaves and the body goes to the running sum (collect.h). A client that
 * dies in mid-upload leaves a part of its own and nothing else.
 *
 *     ingest_begin(in, &u, &ask, &reply)        u: take the bytes; NULL: answer with reply
 *     upload_bytes(u, piece)                     a failure: answer with upload_end's reply
 *     upload_end(u, &reply)                      200 and the receipt, or why not
 *     upload_free(u)                             always; what has arrived stays for a resumption
 *
 * The fingerprint of its certificate's key identifies a client, nothing that it sends. Bodies lie
 * in round-N/bodies/CLIENT/HASH: no client can resume another's part or get the receipt for
 * another's body. A body that another client has in this round, or that any client had in an
 * earlier round, is refused (honest bodies never coincide: their coins differ). A client has one
 * part per round: another body, or the same one on a new connection, ends the previous upload.
 * parts.h limits the parts of a CA whose members are not listed.
 *
 * Threads: any number of uploads at once; one owner each.   Secrets: none (ciphertexts). Memory: a
 * head and 8 units an upload, whatever its size, and a room (body_pool.h) where one is free; 112
 * bytes for each update of the open round. */
#ifndef ROLES_AGGREGATOR_INGEST_H
#define ROLES_AGGREGATOR_INGEST_H

#include "base/clock.h"
#include "base/log.h"
#include "crypto/seal/seal.h"
#include "crypto/sign.h"
#include "roles/aggregator/body.h"
#include "roles/aggregator/body_pool.h"
#include "roles/aggregator/parts.h"
#include "store/journal/journal.h"
#include "sum/agg.h"

#include <pthread.h>

/* How an upload ended: name, counter's name. */
#define INGEST_END_LIST(X)                                                        \
    X(TAKEN, "taken")           /* acknowledged */                                \
    X(AGAIN, "again")           /* already here: the receipt is sent again */     \
    X(OTHER, "other_body")      /* this client has another one in this round */   \
    X(COPIED, "copied")         /* another client's, or another round's, body */  \
    X(LATE, "late")             /* round closed, or the task over */              \
    X(EARLY, "early")           /* no such round yet */                           \
    X(SIZE, "size")             /* not the size of an update */                   \
    X(OFFSET, "offset")         /* does not go on where we are */                 \
    X(LIMIT, "limit")           /* max_rounds_per_client */                       \
    X(FULL, "full")             /* clients_max are in */                          \
    X(PARTS, "parts")           /* its CA's clients have too many parts */        \
    X(VOUCHER, "no_voucher")    /* none for its upload key */                     \
    X(HEAD, "head")             /* no head of this client for these units */      \
    X(NOT_CIPHER, "not_cipher") /* a unit that is no ciphertext */                \
    X(HASH, "hash")             /* other bytes than the hash says */              \
    X(REPLACED, "replaced")     /* the client came again on another connection */ \
    X(CUT, "cut")               /* broke off; the part stays */                   \
    X(DISK, "disk")             /* could not be written here */

typedef enum ingest_end {
#define INGEST_END_ENUM(name, text) INGEST_##name,
    INGEST_END_LIST(INGEST_END_ENUM)
#undef INGEST_END_ENUM
        INGEST_ENDS
} ingest_end;

const char *ingest_end_name(ingest_end e);

typedef struct ingest ingest;
typedef struct upload upload;

/* The role's side. All three are called with `lock` held. */
typedef struct ingest_admission {
    void *ctx;
    pthread_mutex_t *lock;
    body_pool *body_pool; /* NULL: none */
    agg_verdict (*admit)(void *ctx, const agg_upload *u);
    /* Does another client have this body in this round, or was it in another round? */
    bool (*has_body)(void *ctx, const round_entry *m);
    /* Durable and acknowledged from now on. body: all of its bytes, to be given back; or NULL. */
    void (*took)(void *ctx, uint64_t round, const round_entry *m, body_room *body);
} ingest_admission;

typedef struct ingest_config {
    const uint8_t *task;    /* id, 32 bytes */
    const seal_suite *seal; /* of the heads (protocol/head.h); NULL: bodies have none */
    const ahe_params *ahe;
    const ahe_pub *pub;
    journal *journal;
    const sign_key *key;
    ingest_admission admission;
    unsigned parts_most; /* unfinished bodies of one issuer's clients (parts.h); 0: no limit */
    const sefl_clock *wall;
    sefl_log *log;
} ingest_config;

/* A client's request. */
typedef struct ingest_ask {
    uint64_t round;
    const uint8_t *client; /* fingerprint, from its certificate */
    const uint8_t
        *issuer;      /* the CA that alone vouches for it; NULL: a list has it, or none is there */
    const char *name; /* common name, for people */
    uint8_t body[32]; /* BLAKE3 of the units */
    uint64_t offset, total; /* bytes [offset, total) follow ... */
    uint64_t length;        /* ... and this many were announced */
} ingest_ask;

/* The answer: status, a line of text, or a receipt. */
typedef struct ingest_reply {
    ingest_end end; /* as it was counted; with status 200 of a HEAD: none */
    unsigned status;
    char text[256];
    uint64_t offset;  /* header Sefl-Offset; UINT64_MAX: none */
    unsigned retry_s; /* header Retry-After; 0: none */
    sefl_buf receipt; /* the caller clears it */
} ingest_reply;

sefl_status ingest_new(ingest **out, const ingest_config *c) SEFL_MUST_CHECK;
void ingest_free(ingest *in);

/* *out is NULL where the reply is the whole answer. */
void ingest_begin(ingest *in, upload **out, const ingest_ask *ask, ingest_reply *r);
sefl_status upload_bytes(upload *u, sefl_span piece) SEFL_MUST_CHECK;
void upload_end(upload *u, ingest_reply *r);
void upload_free(upload *u);

/* Deletes the unfinished uploads of clients that may no longer connect; called once a second. */
void ingest_sweep(ingest *in, parts_still *still, void *ctx);

/* Bytes of this body that are here already (HEAD). */
void ingest_offset(ingest *in, const ingest_ask *ask, ingest_reply *r);

/* The path of an acknowledged body. */
sefl_status ingest_body_path(journal *j, sefl_buf *out, uint64_t round,
                             const round_entry *m) SEFL_MUST_CHECK;

/* Ends every upload of another round than this at its next byte; 0: of all. */
void ingest_only_round(ingest *in, uint64_t round);

uint64_t ingest_count(const ingest *in, ingest_end e);
/* Bytes of bodies received since the start. */
uint64_t ingest_bytes(const ingest *in);

#endif

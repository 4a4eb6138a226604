/* client_update: from a client's text and the model of a round to the finished ciphertext file.
 *
 *     SEFL_TRY(client_update_new(&u, &(client_update_config){ .task = t, .words = v, .text = &c,
 *                                                             .client = id, .coins = &coins }));
 *     SEFL_TRY(client_update_make(u, &body, &(client_job){ .header = &header, .model = "model",
 *                                                          .body = "round-3.body" }));
 *     ...upload the file; body.hash and body.bytes name it...
 *
 * What happens, in this order; nothing of it leaves the process but the file:
 *   1. the model file is hashed and compared with the signed header, then read and compared with the
 *      task; the words were compared with the task's vocabulary when `u` was made
 *   2. unit client: local_epochs or local_steps of training; v = theta_local - theta_global
 *      unit record: one step for each record by itself (roles/client/train.h)
 *   3. clip and stochastic rounding to integers X: dp_quantise on the task's grid with coins "round"
 *      (weights: with the slot; records: each by itself, then added; no noise: dp_quantise_plain)
 *      zeros (hidden sampling, not drawn): X is zero, nothing is trained, the rest is the same
 *      training diverged (unit client): X is zero, the weight slot too, the rest is the same: a client
 *      that fell silent would tell all who count uploads something about its text
 *   4. encryption with coins "encrypt", unit by unit, into a file beside `body`; of a sealed task then the
 *      head (protocol/head.h), in front of the units: the seed, sealed to CSP's key of the round, signed
 *      with the upload key. The file is synced and only then gets its name: one of that name is always
 *      whole
 *
 * A body is made once: where the file is there already nothing is encrypted (SEFL_EEXIST). An
 * attempt that broke off leaves nothing that was sent; the next one takes another attempt number,
 * and with it other coins.
 *
 * Memory, for d values of the model: while training what the engine takes (engine_facts: on the
 * processor lm_memory, 4d bytes and a copy of the text) and 4d bytes,
 * after it 12d (records: 24d) bytes and 1 MiB; between rounds only the key's tables (Paillier: at
 * most 96 MiB, kept) and what the caller holds: 4 bytes a word of text. Secret: text, v, X, coins,
 * seed, upload key; wiped where we hold them. Not constant-time (the owner's own machine). Threads:
 * one owner; works on the pool. */
#ifndef ROLES_CLIENT_UPDATE_H
#define ROLES_CLIENT_UPDATE_H

#include "base/blake3.h"
#include "base/coins.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/progress.h"
#include "model/corpus/corpus.h"
#include "protocol/head.h"
#include "protocol/round.h"
#include "protocol/task.h"

/* A test program's eye on the integers that are encrypted. The program never sets it. */
typedef void client_observer(void *ctx, uint64_t round, const int64_t *X, size_t n);

typedef struct client_update_config {
    const task *task;
    const vocab *words;
    const corpus *text;
    const uint8_t *client;      /* 32 bytes: fingerprint of its certificate */
    const sign_key *upload_key; /* of a sealed task; else NULL */
    const sefl_coins *coins;
    pool *pool;                     /* NULL: the caller alone */
    const char *device, *precision; /* model/engine/engine.h; records train on the processor */
    sefl_log *log;                  /* NULL: silent */
    client_observer *observe;
    void *observe_ctx;
} client_update_config;

typedef struct client_job {
    const round_header *header; /* checked (protocol/participant.h): round, model, CSP's key */
    uint64_t attempt;
    bool zeros;
    const char *model;             /* file that the round starts from */
    const char *body;              /* file to make */
    const sefl_progress *progress; /* training steps, then units; may stop it (SEFL_ECANCELLED) */
} client_job;

typedef struct client_body {
    uint8_t hash[BLAKE3_BYTES]; /* of the units: by which the update is called */
    uint8_t head[SHA256_BYTES]; /* SHA-256 of what stands before them; of nothing without a seal */
    uint64_t bytes;             /* of both */
} client_body;

typedef struct client_update client_update;

/* Borrows all that the config points at. SEFL_EAUTH if the words are not those of the task,
 * SEFL_EINVAL for a text that is too short to learn from. */
sefl_status client_update_new(client_update **out, const client_update_config *c) SEFL_MUST_CHECK;
void client_update_free(client_update *u);

/* SEFL_EAUTH: the model is not the one that was signed. SEFL_EEXIST: the body was made before. */
sefl_status client_update_make(client_update *u, client_body *out,
                               const client_job *job) SEFL_MUST_CHECK;

/* In the latest client_update_make training diverged, so that all of X (unit record: some records)
 * is zeros. For the owner's log alone. */
bool client_update_diverged(const client_update *u);

/* Hashes and size of a body as it lies there; head_bytes: head_bytes(task.seal). SEFL_EPROTO for a
 * file that is shorter. */
sefl_status client_body_of(client_body *out, const char *path, size_t head_bytes) SEFL_MUST_CHECK;
bool client_body_same(const client_body *a, const client_body *b);

#endif

/* client_update: trains on a client's text in a round and writes the finished ciphertext file.
 *
 *     SEFL_TRY(client_update_new(&u, &(client_update_config){ .task = t, .words = v, .text = &c,
 *                                                             .client = id, .coins = &coins }));
 *     SEFL_TRY(client_update_make(u, &body, &(client_job){ .header = &header, .model = "model",
 *                                                          .body = "round-3.body" }));
 *     ...upload the file; body.hash and body.bytes name it...
 *
 * client_update_make works in four steps; only the file leaves the process:
 *   1. It checks the model file's hash against the signed header, then the model against the task.
 *      (client_update_new has checked the words against the task's vocabulary.)
 *   2. Unit client: it trains for local_epochs or local_steps; v = theta_local - theta_global. Unit
 *      record: it makes one separate step for each record (roles/client/train.h).
 *   3. It clips v and quantises it stochastically to integers X, with coins "round" (train.h).
 *      If hidden sampling did not draw the client, it does not train, and X is zero. If training
 *      diverged (unit client), X is zero, even the weight slot, because a missing upload would
 *      reveal something about its text to everyone who counts uploads.
 *   4. It encrypts X unit by unit, with coins "encrypt", into a temporary file. In a sealed task
 *      the head precedes the units (protocol/head.h). It syncs the file, then renames it to `body`,
 *      so a file of that name is always complete.
 *
 * A body is made only once: if the file exists, nothing is encrypted (SEFL_EEXIST). An interrupted
 * attempt has sent nothing; the next one has a new attempt number and so new coins.
 *
 * Memory, for a model of d values: during training 4d bytes and what the engine needs
 * (engine_facts; on the CPU lm_memory, 4d bytes and a copy of the text); afterwards 12d (records:
 * 24d) bytes and 1 MiB; between rounds only the key's tables (Paillier: at most 96 MiB) and the
 * caller's text (4 bytes per word). Secret: text, v, X, coins, seed, upload key; our copies are
 * wiped. Not constant-time (it runs on the owner's machine). Threads: one owner; uses the pool. */
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

/* Shows a test program the integers before encryption. The sefl program never sets it. */
typedef void client_observer(void *ctx, uint64_t round, const int64_t *X, size_t n);

typedef struct client_update_config {
    const task *task;
    const vocab *words;
    const corpus *text;
    const uint8_t *client;      /* 32 bytes: fingerprint of its certificate */
    const sign_key *upload_key; /* sealed tasks; otherwise NULL */
    const sefl_coins *coins;
    pool *pool;                     /* NULL: only the calling thread */
    const char *device, *precision; /* as in model/engine/engine.h; records train on the CPU */
    sefl_log *log;                  /* NULL: silent */
    client_observer *observe;
    void *observe_ctx;
} client_update_config;

typedef struct client_job {
    const round_header *header; /* verified (protocol/participant.h): round, model, CSP's key */
    uint64_t attempt;
    bool zeros;
    const char *model;             /* file that the round starts from */
    const char *body;              /* file to create */
    const sefl_progress *progress; /* training steps, then units; may stop the job */
} client_job;

typedef struct client_body {
    uint8_t hash[BLAKE3_BYTES]; /* hash of the units, which names the update */
    uint8_t head[SHA256_BYTES]; /* SHA-256 of the head, which is empty unless the task is sealed */
    uint64_t bytes;             /* size of the head and the units */
} client_body;

typedef struct client_update client_update;

/* Everything that the config points to must outlive the result. SEFL_EAUTH if the words are not the
 * task's, SEFL_EINVAL for a text that is too short to train on. */
sefl_status client_update_new(client_update **out, const client_update_config *c) SEFL_MUST_CHECK;
void client_update_free(client_update *u);

/* SEFL_EAUTH: the model is not the signed one. SEFL_EEXIST: the body exists already. */
sefl_status client_update_make(client_update *u, client_body *out,
                               const client_job *job) SEFL_MUST_CHECK;

/* True if training diverged in the latest client_update_make, so that all of X (unit record: some
 * records) is zeros. Only for the owner's log. */
bool client_update_diverged(const client_update *u);

/* Computes the hashes and size of a body file; head_bytes: head_bytes(task.seal). SEFL_EPROTO if
 * the file is shorter than the head. */
sefl_status client_body_of(client_body *out, const char *path, size_t head_bytes) SEFL_MUST_CHECK;
bool client_body_same(const client_body *a, const client_body *b);

#endif

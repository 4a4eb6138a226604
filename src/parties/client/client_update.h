/* client_update: has a client's update in a round trained and writes the finished ciphertext file.
 *
 *     SEFL_TRY(client_update_new(&u, &(client_update_config){ .task = t, .port = port,
 *                                                             .coins = &coins }));
 *     SEFL_TRY(client_update_make(u, &body, "round-3.body", &header,
 *                                 &(train_job){ .task = t, .round = 3, .attempt = 1,
 *                                               .client = id, .model = "model" }));
 *     ...upload the file; body.hash and body.bytes name it...
 *
 * client_update_make works in four steps; only the file leaves the process:
 *   1. It checks the model file's hash against the signed header, then the model against the task.
 *   2. The port trains (train_job.h). Unit client: v = theta_local - theta_global. Unit record:
 *      it makes one separate step for each record and quantises it.
 *   3. Unit client: it clips v and quantises it stochastically to integers X, with coins "round"
 *      (fed_train.h). If training has no usable update (SEFL_ERANGE), X is zero, even the weight
 *      slot.
 *   4. It encrypts X unit by unit, with coins "encrypt", into a temporary file. In a sealed task
 *      the head comes first (protocol/head.h), then the salt, with coins "salt", then the units. It
 *      syncs the file, then renames it to `path`, so a file of that name is always complete.
 *
 * A body is made only once: if the file exists, nothing is encrypted (SEFL_EEXIST), and a retry
 * sends the same bytes. Any other body has another attempt number, and so a new seed and salt.
 *
 * Memory, for a model of d values: during training 4d bytes (records: 12d) and what training needs;
 * afterwards 12d bytes and 1 MiB; between rounds only the key's tables (Paillier: at most 96 MiB).
 * Secret: v, X, coins, seed, upload key; our copies are wiped. Not constant-time (it runs on the
 * owner's machine). Threads: one owner; uses the pool. */
#ifndef ROLES_CLIENT_CLIENT_UPDATE_H
#define ROLES_CLIENT_CLIENT_UPDATE_H

#include "base/blake3.h"
#include "base/coins.h"
#include "base/pool.h"
#include "base/progress.h"
#include "fed/train_job.h"
#include "protocol/head.h"
#include "protocol/round.h"

/* Shows a test program the integers before encryption. The sefl program never sets it. */
typedef void client_observer(void *ctx, uint64_t round, const int64_t *X, size_t n);

typedef struct client_update_config {
    const task *task;
    train_port port;
    const sign_key *upload_key; /* sealed tasks; otherwise NULL */
    const sefl_coins *coins;
    pool *pool; /* NULL: only the calling thread */
    client_observer *observe;
    void *observe_ctx;
} client_update_config;

typedef struct client_body {
    uint8_t hash[BLAKE3_BYTES]; /* the update's name (crypto/update_name.h) */
    uint8_t head[SHA256_BYTES]; /* SHA-256 of the head, which is empty unless the task is sealed */
    uint64_t bytes;             /* of the file */
} client_body;

typedef struct client_update client_update;

/* Everything that the config points to must outlive the result. SEFL_EINVAL if the port does not
 * fit the task. */
sefl_status client_update_new(client_update **out, const client_update_config *c) SEFL_MUST_CHECK;
void client_update_free(client_update *u);

/* Creates the file `path`. The header is verified (protocol/participant.h). job is complete but for
 * theta, which is read from job->model; its progress counts training steps, then units, and may
 * stop the work. SEFL_EAUTH: the model is not the signed one. SEFL_EEXIST: there is a body
 * already. */
sefl_status client_update_make(client_update *u, client_body *out, const char *path,
                               const round_header *header, const train_job *job) SEFL_MUST_CHECK;

/* True if training had no usable update in the latest client_update_make, so that all of X (unit
 * record: some records) is zeros. Only for the owner's log; client_update_why is the reason, ""
 * for records. */
bool client_update_diverged(const client_update *u);
const char *client_update_why(const client_update *u);

/* Computes the hashes and size of a body file; head_bytes: head_bytes(task.seal). SEFL_EPROTO if
 * the file is shorter than the head. */
sefl_status client_body_of(client_body *out, const char *path, size_t head_bytes) SEFL_MUST_CHECK;
bool client_body_same(const client_body *a, const client_body *b);

#endif

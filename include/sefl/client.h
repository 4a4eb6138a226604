/* client: takes part in a federation with your own training code.
 *
 *     sefl_client *c = NULL;
 *     sefl_round round = { .size = sizeof round };
 *     sefl_status st = sefl_client_open(&c, "client.yml", NULL);
 *     while (st == SEFL_OK && (st = sefl_client_wait(c, &round)) == SEFL_OK && round.number > 0) {
 *         train(mine, round.values, round.count);            // your code: mine = new values
 *         st = sefl_client_submit(c, mine, round.count, 0, NULL);
 *         if (st == SEFL_ETIMEOUT)                           // the round closed without us
 *             st = SEFL_OK;
 *     }
 *     if (st != SEFL_OK)
 *         fprintf(stderr, "%s\n", sefl_last_error());
 *     sefl_client_close(c);
 *
 * The library does everything around the training, as the program `sefl client` does: it fetches
 * the task and checks both servers' signatures and the owner's policy, keeps the owner's privacy
 * ledger, downloads and verifies each round's model, clips, quantises, encrypts, signs and uploads
 * your update, and keeps the receipts. When the task is over, it keeps the final model as a file
 * (settings models and models_keep). Only the encrypted update leaves the process. After a crash
 * at any moment, a new process continues from the state folder of client.yml; `sefl enroll` and
 * `sefl provision` write that file.
 *
 * Values. A model is one vector of float32: all tensors of the task, one after the other, each
 * dense and row-major (round.tensors has names, shapes and offsets). You submit the trained values,
 * not their difference. Values of tensors that the task does not train are ignored. Tensors that
 * the task compresses (block-Hankel) are expanded for you, and their update is projected back.
 *
 * Sampling. If the task samples clients, sefl_client_wait returns only for rounds in which this
 * client was drawn.
 *
 * Deadlines. A round has a deadline. If it passes before your update is complete, submit returns
 * SEFL_ETIMEOUT, and the next sefl_client_wait returns a later round. To learn about it while you
 * train, call sefl_client_wanted. A round may close early, when it has enough updates; the client
 * asks the server only at the deadline, so until then such a round still looks open.
 *
 * Threads. A client has one owner: one thread at a time may call its functions. Any thread may call
 * sefl_client_stop, sefl_client_reload and sefl_client_wanted, but not after sefl_client_close has
 * begun. A process may have any number of clients, each with its own state folder. The library runs
 * its own threads: it opens none of your files and handles no signals. Callbacks run on the
 * library's threads, one at a time per client; they must return quickly and may call only
 * sefl_client_stop. Do not fork a process that has an open client, unless the child calls exec at
 * once. Ignore SIGPIPE.
 *
 * Errors. A function that fails leaves its message in sefl_last_error of the calling thread, also
 * when the failure happened on a thread of the library. Messages contain no values and no secrets.
 * Secrets: your values; the library wipes its copies. */
#ifndef SEFL_CLIENT_H
#define SEFL_CLIENT_H

#include "sefl/log.h"
#include "sefl/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sefl_client sefl_client;

/* What the client does now. It is not private: show it to the owner of the data. */
typedef struct sefl_client_progress {
    const char *doing;    /* "waiting", "training", "uploading", ...; "done": got a receipt */
    uint64_t round;       /* 0: none yet */
    uint64_t rounds;      /* rounds of the task; 0: no task yet */
    uint64_t done, total; /* of the current work; 0, 0: unknown */
    uint64_t bytes, ms;   /* "done": size of the upload; time since the round opened */
    int claims_privacy;   /* 0: the task claims no differential privacy */
} sefl_client_progress;

/* A model that the client kept for the owner of the data (settings models, models_keep), verified
 * by its hash, or evaluated on the owner's own text (setting eval). Show it to the owner only. */
typedef struct sefl_client_model {
    uint64_t round;         /* that released it; 0: the initial model */
    int final;              /* 1: the task is over, and this is its result */
    const char *path;       /* safetensors file; NULL: not kept */
    const char *vocabulary; /* built-in models: the word list beside it; otherwise NULL */
    double perplexity;      /* on the owner's held-out text; NAN: not evaluated */
    uint64_t own_words;     /* number of words of that text */
} sefl_client_model;

/* Options; zero is the default of each. Set size to sizeof(sefl_client_options). */
typedef struct sefl_client_options {
    size_t size;
    void *ctx; /* passed to the callbacks */
    /* Gets each log event as one JSON object without a newline; see log.h. */
    void (*log)(void *ctx, sefl_log_level level, const char *json);
    int log_fd;            /* without `log`: descriptor for the log (log.h); 0: no log */
    const char *log_level; /* minimum level unless the file has `log`; NULL: "info" */
    void (*progress)(void *ctx, const sefl_client_progress *p);
    /* Settings that override the file: "key=value" strings ("state=/tmp/s"), then NULL. Paths are
     * relative to the working folder. */
    const char *const *settings;
    int once; /* ends after one round */
    void (*model)(void *ctx, const sefl_client_model *m);
} sefl_client_options;

/* A tensor of the model. */
typedef struct sefl_tensor {
    const char *name;
    uint64_t dims; /* 0 (one number) to 4 */
    uint64_t shape[4];
    uint64_t offset, count; /* its place in the flat vector: count is the product of the shape */
    uint64_t trained;       /* 0: the task does not train it; your values are ignored */
} sefl_tensor;

/* A round to train in. Pointers stay valid until the round ends: until sefl_client_submit succeeds
 * or fails with anything but SEFL_EINVAL, sefl_client_skip, the next sefl_client_wait, or
 * sefl_client_close. */
typedef struct sefl_round {
    size_t size;         /* you set it: sizeof(sefl_round) */
    uint64_t number;     /* from 1; 0: the task is over, and `why` says why */
    uint64_t rounds;     /* rounds of the task */
    const float *values; /* the global model */
    size_t count;
    const sefl_tensor *tensors;
    size_t tensor_count;
    const char *task;       /* the task's name */
    const char *vocabulary; /* built-in models: path of the task's word list; otherwise NULL */
    uint64_t left_ms;       /* time until the deadline, when the round was returned */
    uint64_t weight_cap; /* number of items with the full weight; 0: all clients weigh the same */
    int claims_privacy;  /* 0: the task claims no differential privacy */
    const char *why;     /* number 0: why the task ended; otherwise NULL */
} sefl_round;

/* AS's receipt for an upload: the library verified its signature and keeps it in the state
 * folder. */
typedef struct sefl_receipt {
    size_t size; /* you set it: sizeof(sefl_receipt) */
    uint64_t round;
    uint64_t bytes;   /* size of the upload */
    uint64_t ms;      /* time since the round opened */
    uint8_t hash[32]; /* salted hash of the encrypted update: its name in AS's records */
} sefl_receipt;

/* Reads the configuration, the owner's policy and the identity; connects to nothing yet. options:
 * NULL for the defaults. *out is NULL on failure. */
SEFL_API sefl_status sefl_client_open(sefl_client **out, const char *path,
                                      const sefl_client_options *options);

/* Ends everything and frees the client; NULL is fine. Waits until the library's threads have ended.
 * A round in progress is given up. */
SEFL_API void sefl_client_close(sefl_client *c);

/* Blocks until this client should train, and fills *round. number 0: the task is over; or, with
 * models_keep: none, this client took part as often as the task allows. Call it again after every
 * round. A round that you neither submitted nor skipped is skipped. SEFL_ECANCELLED after
 * sefl_client_stop; any other failure ends the client, and its message says what its owner can do:
 *     SEFL_EINVAL, SEFL_EPROTO   the owner's policy refuses the task, or the library cannot read it
 *     SEFL_EBUDGET               the owner's ledger allows no further round
 *     SEFL_EUNSUPPORTED          AS needs another version of this library
 *     SEFL_EAUTH                 AS has refused this client for a day, or does not count it
 *     SEFL_EIO                   the task is over, but its final model could not be fetched or kept
 * The library retries by itself after failures that may be temporary (no network, a restart of the
 * server). */
SEFL_API sefl_status sefl_client_wait(sefl_client *c, sefl_round *round);
/* The same, for at most timeout_ms milliseconds; then SEFL_ETIMEOUT. */
SEFL_API sefl_status sefl_client_wait_ms(sefl_client *c, sefl_round *round, uint64_t timeout_ms);

/* Submits the trained values of the round that sefl_client_wait returned, and blocks until AS's
 * receipt was verified and kept. The library copies the values. weight is the number of items
 * (examples, words) that you trained on; the task caps it, 0 means the cap, and tasks with equal
 * weights ignore it. receipt may be NULL.
 * If a value is not finite, the client uploads zeros, as sefl_client_skip does, and its log names
 * the tensor: a text on which training diverges must not show in who uploads.
 *     SEFL_EINVAL      count is wrong: submit again or skip
 *     SEFL_ETIMEOUT    the round closed without this update
 *     SEFL_ESTATE      there is no round to submit to
 *     SEFL_ECANCELLED  sefl_client_stop was called; a finished update is sent by the next process
 * Any other failure ends the client, as in sefl_client_wait. */
SEFL_API sefl_status sefl_client_submit(sefl_client *c, const float *values, size_t count,
                                        uint64_t weight, sefl_receipt *receipt);

/* A tensor to submit; the values are dense, row-major. */
typedef struct sefl_named_tensor {
    const char *name;
    uint64_t dims;
    uint64_t shape[4];
    const float *values;
} sefl_named_tensor;

/* The same with named tensors in any order. SEFL_EINVAL, with the name, for an unknown tensor,
 * another shape, a tensor given twice, and a trained tensor that is missing. Tensors that the task
 * does not train may be missing. */
SEFL_API sefl_status sefl_client_submit_tensors(sefl_client *c, const sefl_named_tensor *tensors,
                                                size_t tensor_count, uint64_t weight,
                                                sefl_receipt *receipt);

/* Ends the round without an update. The client uploads zeros, so nobody sees that you skip. */
SEFL_API sefl_status sefl_client_skip(sefl_client *c);

/* Returns 1 while the round that sefl_client_wait returned still needs its update, 0 once its
 * deadline has passed and it has closed, or sefl_client_stop was called. Cheap: call it after each
 * training step. */
SEFL_API int sefl_client_wanted(sefl_client *c);

/* Runs the client with the trainer of its configuration: the built-in models on the text of `text`,
 * or the command `trainer`. This is the program `sefl client`. Returns SEFL_OK when the task is
 * over or sefl_client_stop was called; SEFL_EAUTH if the server refused this client at the stop. A
 * client either runs or waits: SEFL_ESTATE otherwise. */
SEFL_API sefl_status sefl_client_run(sefl_client *c);

/* Ends waits, transfers and built-in training soon; the owner's blocked call returns. Any thread
 * may call it, any number of times, but not from a signal handler. */
SEFL_API void sefl_client_stop(sefl_client *c);

/* Reloads the policy, the certificates and the log level before the next step. */
SEFL_API void sefl_client_reload(sefl_client *c);

#ifdef __cplusplus
}
#endif
#endif

/* federation: creates the inputs of a simulated federation: all texts, the initial model, keys and
 * the task.
 *
 *     SEFL_TRY(federation_new(&f, &(federation_config){ .experiment = &e, .settings = &s }));
 *     f->text[3], f->client[3]                          // text and fingerprint of client 3
 *     f->task, f->envelope, f->theta                    // the task, its envelope, initial values
 *
 * The experiment determines everything: the same settings give the same bytes on every machine. The
 * keys derive from the public seed, so they protect nothing; they never leave the process.
 *
 * Generated text (model/corpus/synth.h): each client mixes topics with shares drawn from
 * Dirichlet(alpha). The validation text is a tenth as long and comes from the same sources; so does
 * the test text. data.partition splits the training text of data.path among the clients. Its
 * vocabulary is data.vocab, or the words of the training text if the task claims nothing or the
 * text is public (experiment.h checks that).
 *
 * The initial model is random, or the file model.init if it has the experiment's shape and
 * vocabulary.
 *
 * Each rank (ranks.h) has the texts of its own clients only, and everything else.
 * Generated validation text comes from at most 10,000 of the clients.
 *
 * Memory: 4 bytes per token and 8 per line of this rank's clients, and about 500 bytes for each of
 * them; 130 bytes per client of any rank. Threads: read-only once created.   Secrets: none. */
#ifndef SIMULATE_FEDERATION_H
#define SIMULATE_FEDERATION_H

#include "crypto/keyfile.h"
#include "model/corpus/corpus.h"
#include "model/file/model_file.h"
#include "protocol/round.h"
#include "protocol/task.h"
#include "simulate/experiment.h"
#include "simulate/ranks.h"

typedef struct federation {
    const experiment *e;
    vocab *words;
    uint32_t clients;
    const ranks *ranks;     /* NULL: one process */
    corpus *text;           /* one per client; none is empty, unless the model is external or the
                             * client belongs to another rank */
    uint8_t (*client)[32];  /* fingerprints */
    corpus valid;           /* has 0 tokens if there is no validation text */
    corpus test;            /* has 0 tokens if there is no test text */
    double best_perplexity; /* of the text generator itself on the validation text; 0: unknown */
    uint64_t tokens;        /* number of tokens of all clients together, of all ranks */
    uint64_t longest;       /* tokens of the largest client */
    uint64_t digest;        /* of all texts, whatever the number of ranks; never 0 */
    float *theta;           /* the initial model: task.params values */
    uint8_t root[KEYFILE_ROOT_BYTES]; /* root of CSP's round keys; all zero for scheme paillier */
    ahe_sec *sec;                     /* key pair for scheme paillier, otherwise NULL */
    bool own_sec;
    sign_key *as_key, *csp_key;
    sefl_buf envelope; /* the signed task */
    task task;
} federation;

/* A Paillier key pair, shared by runs that have the same seed; all zero until one is created. */
typedef struct federation_key {
    uint64_t seed;
    unsigned bits;
    ahe_sec *sec;
} federation_key;
void federation_key_clear(federation_key *k);

/* Returns a hash of every client's text, the validation text and the test text, for records of
 * results; never 0. Needs one process. */
uint64_t federation_text(const federation *s);

typedef struct federation_config {
    const experiment *experiment; /* both outlive the federation */
    const settings *settings;
    uint32_t some;                 /* > 0: create text for only this many clients (sefl plan) */
    const ranks *ranks;            /* NULL: one process */
    federation_key *key;           /* used, or created if empty; NULL: creates its own */
    const sefl_progress *progress; /* counts clients' texts */
    const sefl_progress *stop;     /* as in simulate.h; called during key generation; or NULL */
} federation_config;

/* Creates the key with which a client signs its sealed uploads; the caller frees it. */
sefl_status federation_upload_key(sign_key **out, const federation *s,
                                  uint32_t client) SEFL_MUST_CHECK;

/* Sealed tasks in the clear: sets the header's suite and a valid key for it. Nobody seals with the
 * key, but clients check the suite and the key. */
sefl_status federation_round_key(const federation *s, round_header *h) SEFL_MUST_CHECK;

/* Creates the texts, the model, the keys and the task. */
sefl_status federation_new(federation **out, const federation_config *c) SEFL_MUST_CHECK;
void federation_free(federation *s);

#endif

/* federation: creates the inputs of a simulated federation: all texts, the initial model, keys and
 * the task.
 *
 *     SEFL_TRY(federation_new(&f, &(federation_config){ .experiment = &e, .settings = &s }));
 *     f->text[3], f->client[3]                          // text and fingerprint of client 3
 *     f->task, f->envelope, f->theta                    // the task, its envelope, initial values
 *
 * The experiment determines all of it: the same settings give the same bytes on every machine.
 * Keys come from the public seed: they protect nothing and never leave the process.
 *
 * Generated text (model/corpus/synth.h): each client mixes topics with shares drawn from
 * Dirichlet(alpha). The validation text is a tenth as long and comes from the same sources. Text
 * from data.path is split by data.partition. Its vocabulary is data.vocab or, if nothing is claimed
 * or the text is public, the words of the training text (experiment.h checks that).
 *
 * Memory: 4 bytes per token, 16 per line. Threads: read-only once made.   Secrets: none. */
#ifndef SIMULATE_FEDERATION_H
#define SIMULATE_FEDERATION_H

#include "crypto/keyfile.h"
#include "model/corpus/corpus.h"
#include "model/file/model_file.h"
#include "protocol/round.h"
#include "protocol/task.h"
#include "simulate/experiment.h"

typedef struct federation {
    const experiment *e;
    vocab *words;
    uint32_t clients;
    corpus *text;           /* one per client; none is empty */
    uint8_t (*client)[32];  /* fingerprints */
    corpus valid;           /* has 0 tokens if there is no validation text */
    double best_perplexity; /* the text generator's own, on the validation text; 0: unknown */
    uint64_t tokens;        /* number of tokens of all clients together */
    model_meta meta;
    float *theta;                     /* the initial model: task.params values */
    uint8_t root[KEYFILE_ROOT_BYTES]; /* root of CSP's round keys; all zero in scheme paillier */
    ahe_sec *sec;                     /* key pair in scheme paillier, otherwise NULL */
    bool own_sec;
    sign_key *as_key, *csp_key;
    sefl_buf envelope; /* the signed task */
    task task;
} federation;

/* A Paillier key pair that runs with the same seed share. All zero: there is none yet. */
typedef struct federation_key {
    uint64_t seed;
    unsigned bits;
    ahe_sec *sec;
} federation_key;
void federation_key_clear(federation_key *k);

/* Returns a hash of every client's text and the validation text; never 0. */
uint64_t federation_text(const federation *s);

typedef struct federation_config {
    const experiment *experiment; /* both outlive the federation */
    const settings *settings;
    uint32_t some;                 /* > 0: create text for only this many clients (sefl plan) */
    federation_key *key;           /* used, or filled in; NULL: the federation creates its own */
    const sefl_progress *progress; /* counts clients' texts */
    const sefl_progress *stop;     /* as in simulate.h; asked during key generation; or NULL */
} federation_config;

/* Creates the key with which a client signs its sealed uploads; the caller frees it. */
sefl_status federation_upload_key(sign_key **out, const federation *s,
                                  uint32_t client) SEFL_MUST_CHECK;

/* Sealed tasks: sets the header's suite and a valid key for it, because clients check both. For
 * runs in the clear, where nobody seals anything. */
sefl_status federation_round_key(const federation *s, round_header *h) SEFL_MUST_CHECK;

/* Creates the texts, the model, the keys and the task. */
sefl_status federation_new(federation **out, const federation_config *c) SEFL_MUST_CHECK;
void federation_free(federation *s);

#endif

/* federation: what a simulated federation starts from: all texts, the initial model, keys and task.
 *
 *     SEFL_TRY(federation_new(&f, &(federation_config){ .experiment = &e, .settings = &s }));
 *     f->text[3], f->client[3]                          // text and fingerprint of client 3
 *     f->task, f->envelope, f->theta                    // signed by both; the initial values
 *
 * All of it follows from the experiment: the same settings give the same bytes on every machine.
 * Keys are drawn from the public seed: they protect nothing and never leave the process.
 *
 * Generated text (model/corpus/synth.h): each client mixes topics with shares drawn from
 * Dirichlet(alpha). The validation text is a tenth as long and comes from the same sources. Text of
 * data.path is split by data.partition. Its vocabulary is data.vocab, or the words of the training
 * text where nothing is claimed or the text is public (experiment.h checks that).
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
    corpus *text;           /* clients of them; none is empty */
    uint8_t (*client)[32];  /* fingerprints */
    corpus valid;           /* tokens 0: there is none */
    double best_perplexity; /* of the source itself on the validation text; 0: not known */
    uint64_t tokens;        /* of all clients */
    model_meta meta;
    float *theta;                     /* task.params */
    uint8_t root[KEYFILE_ROOT_BYTES]; /* of CSP's round keys; zeros with a key pair */
    ahe_sec *sec;                     /* a key pair of scheme paillier, or NULL */
    bool own_sec;
    sign_key *as_key, *csp_key;
    sefl_buf envelope; /* the signed task */
    task task;
} federation;

/* A Paillier key pair that outlives its federation: runs of one seed share it. Zero: none. */
typedef struct federation_key {
    uint64_t seed;
    unsigned bits;
    ahe_sec *sec;
} federation_key;
void federation_key_clear(federation_key *k);

/* Names all text of a federation, every client's and the validation text; never 0. */
uint64_t federation_text(const federation *s);

typedef struct federation_config {
    const experiment *experiment; /* both outlive the federation */
    const settings *settings;
    uint32_t some;                 /* > 0: text of this many clients only (sefl plan) */
    federation_key *key;           /* filled or used; NULL: the federation's own */
    const sefl_progress *progress; /* clients' texts */
    const sefl_progress *stop;     /* as in simulate.h, or NULL: while a key is made */
} federation_config;

/* The key that a client signs its sealed uploads with; the caller frees it. */
sefl_status federation_upload_key(sign_key **out, const federation *s,
                                  uint32_t client) SEFL_MUST_CHECK;

/* Sealed tasks: fills in the header's suite and a key of that kind, which clients check for. For
 * runs in the clear, where nobody seals anything. */
sefl_status federation_round_key(const federation *s, round_header *h) SEFL_MUST_CHECK;

sefl_status federation_new(federation **out, const federation_config *c) SEFL_MUST_CHECK;
void federation_free(federation *s);

#endif

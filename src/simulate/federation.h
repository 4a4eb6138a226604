/* federation: what a simulated federation stands on: everybody's text, the public beginnings, keys and task.
 *
 *     SEFL_TRY(federation_new(&sc, &(federation_config){ .experiment = &e, .settings = &s }));
 *     sc->text[3], sc->client[3]                        // client 3's own text and fingerprint
 *     sc->task, sc->envelope, sc->theta                 // signed by both; the initial values
 *
 * All of it follows from the experiment: same settings, same bytes, on every machine. Keys are drawn from
 * the seed, which everybody may know: they protect nothing and never leave the process.
 *
 * Generated text (model/corpus/synth.h): client i has topics of its own, shares drawn from
 * Dirichlet(alpha); validation text is a tenth of everybody's, from the same sources. Text of
 * data.path is dealt out by data.partition; its vocabulary is data.vocab, or the training text's where
 * nothing is claimed or the text is public (experiment.h checks that).
 *
 * Memory: 4 bytes a token, 16 a line. Threads: read-only once made.   Secrets: none worth the name. */
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

/* A Paillier pair that outlives its federation: runs of one seed have the same. Zero is an empty one. */
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

/* Sealed tasks: fills the header's suite and key with one that is as good as any. For runs in the clear,
 * where nobody seals anything, but clients look for a key of the task's kind. */
sefl_status federation_round_key(const federation *s, round_header *h) SEFL_MUST_CHECK;

sefl_status federation_new(federation **out, const federation_config *c) SEFL_MUST_CHECK;
void federation_free(federation *s);

#endif

/* models: gives the owner of a client the models that the federation trains, and their perplexity
 * on the owner's own text.
 *
 *     FOLDER/NAME-TASK/round-N.safetensors   the model that round N released
 *     FOLDER/NAME-TASK/vocab.txt             the task's word list; not for an external model
 *     STATE/eval.jsonl                       eval: own: one line per evaluated model, mode 0600
 *
 * NAME is the task's name, TASK the first 16 digits of its id, FOLDER the setting `models`. A file
 * appears only if it has the hash that the round's header states (both servers signed it), or, for
 * the final model, AS's statement about the end of the task (round.h). The client does not accept
 * that statement if a round after the final release started from another model. It never replaces a
 * kept file: if round-N.safetensors has another hash, it logs an error and names the new file
 * round-N-HASH.safetensors, with the first 16 digits of its hash. After a kill at any moment the
 * next client_run continues the download. `sefl model generate` reads the two files.
 *
 * models_keep: final keeps the final model; each also keeps the models that the client receives in
 * its rounds: the model that round N starts from is round-(N-1), even if that round was skipped.
 *
 * eval: own. The client holds a share of its text out of the training, or reads a separate text,
 * and evaluates each model that it receives before it trains with it, and the final one. A document
 * (a record, a text under a heading, a line) is held out if its hash says so, so a document stays
 * on its side, and so do its copies, when other text is added. The result goes to eval.jsonl, to
 * the client's own log and to the callback; nothing of it leaves over the network, except that
 * the client takes longer.
 *
 * Threads: one owner.   Secrets: the text, and its perplexity. */
#ifndef ROLES_CLIENT_MODELS_H
#define ROLES_CLIENT_MODELS_H

#include "model/corpus/corpus.h"

#include <stdbool.h>
#include <stdint.h>

struct client;

/* A model that the client kept or evaluated. */
typedef struct client_model {
    uint64_t round;     /* that released it; 0: the initial model */
    bool final;         /* the task is over */
    const char *path;   /* NULL: not kept */
    const char *words;  /* the word list beside it; NULL: not kept, or the model is external */
    uint8_t hash[32];   /* SHA-256 of the file */
    double perplexity;  /* NAN: not evaluated */
    uint64_t own_words; /* number of words that the perplexity is about */
} client_model;

/* True if the client needs the models of rounds, or the final model, for more than training. */
bool client_wants_models(const struct client *c);

/* Moves a share of the documents (of a single document: of its lines) from text to held. Depends on
 * the documents alone. SEFL_EINVAL if one of the two would be too short. */
sefl_status client_hold_out(corpus *text, corpus *held, double share) SEFL_MUST_CHECK;

/* The model of this round was fetched, and training has not begun. A failure to keep or to evaluate
 * it is logged; only a stop is a failure. */
sefl_status client_models_round(struct client *c, uint64_t round) SEFL_MUST_CHECK;

/* The task is over: fetches the final model, with some retries, but none once AS serves another
 * task. */
sefl_status client_models_final(struct client *c) SEFL_MUST_CHECK;

#endif

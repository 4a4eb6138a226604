/* synth: generates English-like text whose best possible perplexity is known exactly.
 *
 *     offshore , the tired sailor near the harbour mends a net and follows two seals . <eos>
 *
 *     synth *s = NULL;
 *     SEFL_TRY(synth_new(&s));                           // six topics, all equally likely
 *     SEFL_TRY(synth_mix(s, shares));                    // or in a client's shares
 *     SEFL_TRY(synth_line(s, NULL, &text, &tokens, &gen)); // one line, with its line feed
 *     best = exp(synth_entropy(s));                      // best perplexity of any model
 *
 * The source is a finite automaton: each state has a list of words with probabilities, and the
 * state and the word determine the next state. So the previous words determine the state (the
 * source is "unifilar"), and the entropy rate is the weighted mean of the states' entropies:
 *
 *     h = sum_s v(s) H(s) / sum_s v(s)      v(s): expected visits to state s in one line
 *
 * Every line begins in the start state and ends with <eos>. So lines are independent, and it makes
 * no difference whether a model carries its state from line to line. The first word of a line
 * reveals the topic. A model must remember the topic, the subject's number (the verb agrees with it
 * across a phrase, and again after "and"), and the kind of object that the verb takes. Only the
 * first word's probabilities depend on the shares of the topics. Topics differ in their words, not
 * in the shape of sentences, so line lengths have the same distribution for all topics. Equal
 * amounts of text from several clients, shuffled, follow the mean of their shares.
 *
 * <eos> counts as a token; the text never contains <unk>.
 *
 * Threads: any may read a source once its shares are set.   Cost: about 0.1 us per word. */
#ifndef MODEL_CORPUS_SYNTH_H
#define MODEL_CORPUS_SYNTH_H

#include "base/buf.h"
#include "base/progress.h"

#include <stdbool.h>

/* Callers of synth_line include seeded/seeded.h. Roles, which cannot link it, call only
 * synth_write. */
struct seeded;

enum { SYNTH_TOPICS = 6 };

typedef struct synth synth;

typedef struct synth_arc {
    uint32_t word, next; /* after <eos>, next is 0, the start state */
    double p;
} synth_arc;

extern const char *const synth_topic_names[SYNTH_TOPICS];

sefl_status synth_new(synth **out) SEFL_MUST_CHECK;
void synth_free(synth *s);

/* Sets the shares of the topics, which are not negative and add up to 1 within 1e-9. */
sefl_status synth_mix(synth *s, const double shares[SYNTH_TOPICS]) SEFL_MUST_CHECK;

/* Returns the entropy rate in nats per token, <eos> included. */
double synth_entropy(const synth *s);

/* Returns the expected number of tokens in a line, <eos> included. */
double synth_line_tokens(const synth *s);

/* Appends one line with its line feed to out and adds its tokens, <eos> included, to *tokens. If
 * shares is NULL, uses those of synth_mix. */
sefl_status synth_line(const synth *s, const double *shares, sefl_buf *out, uint64_t *tokens,
                       struct seeded *gen) SEFL_MUST_CHECK;

/* Adds the line's negative log-likelihood under the source to *nats, and its tokens to *tokens. The
 * line has no line feed. SEFL_EPROTO if the source cannot produce it. */
sefl_status synth_score(const synth *s, sefl_span line, double *nats,
                        uint64_t *tokens) SEFL_MUST_CHECK;

/* Access to the automaton, for tests and for the vocabulary. */
uint32_t synth_words(const synth *s); /* including <eos> */
const char *synth_word(const synth *s, uint32_t word);
uint32_t synth_states(const synth *s);
const synth_arc *synth_arcs(const synth *s, uint32_t state, uint32_t *count);

/* ---- a corpus on disk ---------------------------------------------------------------------- */

enum { SYNTH_CLIENTS_MAX = 10000 };
#define SYNTH_TOKENS_MAX 10000000000u

typedef struct synth_settings {
    uint32_t clients;
    uint64_t tokens; /* training tokens of all clients; valid and test have a tenth each */
    double alpha;    /* clients draw their shares from Dirichlet(alpha, ...); 0: 0.5 */
    uint64_t seed;
} synth_settings;

typedef struct synth_report {
    uint32_t words; /* size of the vocabulary, <unk> and <eos> included */
    double entropy, best_perplexity;
    uint64_t tokens[3], lines[3]; /* in train, valid and test, over all clients */
    double perplexity[3];         /* perplexity of these texts under the source itself */
} synth_report;

/* Writes these files to dir, which it creates if needed:
 *   train.txt valid.txt test.txt              the text of all clients, lines in random order
 *   client-000/{train,valid,test}.txt, ...    each client's share of those lines
 *   vocab.txt                                 one word per line, <unk> and <eos> first
 *   meta.json                                 settings, shares, entropy rates, best perplexities
 * The same settings give the same bytes. progress counts tokens. */
sefl_status synth_write(const char *dir, const synth_settings *settings, synth_report *report,
                        const sefl_progress *progress) SEFL_MUST_CHECK;

#endif

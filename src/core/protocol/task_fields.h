/* task_fields: the list of members of a task document. The reader, the writer, the settings of
 * `sefl task new`, the tests and docs/PROTOCOL.md follow this list and its order.
 *
 *     TASK_FIELDS(SETTABLE, FIXED, OTHER)
 *
 * calls SETTABLE(path, kind, member, fallback, min, max, words, help) for members that a person
 * sets, FIXED(...) with the same arguments for members that the program fills in, and OTHER(...)
 * for settings of `sefl task new` that determine a member but are not members themselves (no
 * `member`). A setting whose fallback is NULL is required. A number must lie between min and max,
 * inclusive. A document must contain every member that applies to its model (task_field_applies).
 *
 *     kind      JSON      in the draft
 *     TEXT      string    char[TASK_NAME_MAX + 1]: printable ASCII, not empty
 *     CHOICE    string    unsigned or an enum: the index in `words`
 *     BOOL      boolean   bool
 *     U64       integer   uint32_t or uint64_t
 *     DECIMAL   string    char[24]: digits with at most one point, exact (pack_decimal)
 *     NANO      string    uint64_t: a decimal as above, in billionths
 *     REAL      string    double: digits[.digits][e[+-]digits], the nearest double
 *     HASH      string    uint8_t[32]: 64 hex digits, lower case
 *     KEY       string    the public key's canonical bytes in base64, or empty
 *     TENSORS   array     layout: objects with name, shape (integers) and block, in this order
 *     NAMES     array     char *, owned: strings, joined with commas
 *     FILTER    array     dp_filter: up to four integers
 *
 * Internal to protocol/task*.c and their tests. */
#ifndef PROTOCOL_TASK_FIELDS_H
#define PROTOCOL_TASK_FIELDS_H

#include "model/lm_settings.h"
#include "protocol/task.h"

#define TASK_VERSION   5
#define TASK_BODIES    (&(LM_BODIES(KIND_WORD) " external")[1])
#define TASK_NO_VALID  "0000000000000000000000000000000000000000000000000000000000000000"
#define TASK_COUNT_MAX (UINT64_C(1) << 53) /* the limit for exact integers in JSON */

/* A former setting and a former word of privacy.sampling, and the sentence that refuses them. */
#define TASK_DRAWS "privacy.record_rate hidden"
#define TASK_NO_DRAWS                                                                             \
    "no claim rests on a secret draw any more, because the time of an upload can reveal it; use " \
    "privacy.record_turns for records, and privacy.sampling all or open for clients"

/* clang-format off */
#define TASK_FIELDS(S, F, O)                                                                       \
    F("sefl_task", U64, version, NULL, TASK_VERSION, TASK_VERSION, NULL,                           \
      "version of the task document")                                                              \
    S("name", TEXT, t.name, "task", 0, 0, NULL, "name of the task")                                \
    S("population", TEXT, t.population, NULL, 0, 0, NULL,                                          \
      "population whose privacy the task spends; its ledger has the same name")                    \
    MODEL_BODY(S, CHOICE, body, TASK_BODIES)                                                       \
    S("model.tensors", TENSORS, t.layout, "", 0, 0, NULL,                                          \
      "tensors of an external model, which the clients' own programs train: name: shape, as "      \
      "fc.weight: 10x784, or 10x784/32 for blocks of 32; if empty, those of the initial model's "  \
      "file", .map = true)                                                                         \
    S("model.vocab", U64, t.model.vocab, NULL, 2, VOCAB_WORDS_MAX, NULL,                           \
      "number of words in the vocabulary; --vocab sets it")                                        \
    MODEL_SETTINGS(S, t.model)                                                                     \
    VOCAB_KIND(S, t.kind)                                                                          \
    VOCAB_ORDER(S, t.order)                                                                        \
    S("vocab.sha256", HASH, t.vocab_hash, NULL, 0, 0, NULL,                                        \
      "SHA-256 hash of the public vocabulary file; --vocab sets it")                               \
    S("init.sha256", HASH, t.init_hash, NULL, 0, 0, NULL,                                          \
      "SHA-256 hash of the initial model's file; --init sets it")                                  \
    S("valid.sha256", HASH, t.valid_hash, TASK_NO_VALID, 0, 0, NULL,                               \
      "SHA-256 hash of the public validation text; --valid sets it; zeros if there is none")       \
    S("training.only", NAMES, t.only, "", 0, 0, NULL,                                              \
      "names of the tensors that are trained; a name that ends with * stands for all names with "  \
      "that beginning; if empty, all tensors are trained")                                         \
    TRAINING_RATE(S, t)                                                                            \
    S("training.lr_last", REAL, t.lr_last, "0", 0, 1000000, NULL,                                  \
      "learning rate of the last round, for schedules linear and cosine")                          \
    S("training.warmup", U64, t.warmup, "0", 0, UINT32_MAX, NULL,                                  \
      "number of warm-up rounds, in which the learning rate increases to lr")                      \
    TRAINING_OPTIMISER(S, t)                                                                       \
    TRAINING_EPOCHS(S, t, t.local_epochs, "1", 0)                                                  \
    S("training.steps", U64, t.local_steps, "0", 0, 1000000, NULL,                                 \
      "number of batches per round; 0 if training.epochs is set")                                  \
    S("privacy.clip", DECIMAL, t.clip, "1", 0, 0, NULL,                                            \
      "maximum L2 norm of an update (of one record's part, if privacy.unit is record)")            \
    S("privacy.clip_quantile", NANO, clip_quantile, "0", 0, 1, NULL,                               \
      "share of the clients whose updates the clip leaves unchanged: AS finds such a clip "        \
      "privately, round by round, starting from privacy.clip; 0 keeps privacy.clip")               \
    S("privacy.noise", CHOICE, t.noise, "joint", 0, 0, RELEASE_MODE_WORDS, RELEASE_MODE_HELP)      \
    S("privacy.z", DECIMAL, t.z, "0", 0, 0, NULL,                                                  \
      "noise multiplier: the noise's standard deviation divided by the sensitivity; 0 means the "  \
      "smallest with which all rounds keep privacy.epsilon (1 if claim is none)")                  \
    O("privacy.classic_epsilon", REAL, , "0", 0, 0, NULL,                                          \
      "sets z from the classic formula for this epsilon of one round, at delta; 0 means unused")   \
    S("privacy.claim", CHOICE, claim, "dp", 0, 0, "none dp",                                       \
      "dp claims (epsilon, delta)-differential privacy; none makes no claim")                      \
    S("privacy.epsilon", REAL, t.epsilon, "8", 0, 0, NULL, "maximum epsilon; 0 if claim is none")  \
    S("privacy.delta", REAL, t.delta, "1e-6", 0, 1, NULL, "delta of the claim; 0 if claim is none")\
    O("privacy.early_end", BOOL, , "false", 0, 0, NULL,                                            \
      "accept a z with which privacy.epsilon allows fewer rounds than rounds.count: the ledgers "  \
      "then end the task early")                                                                   \
    S("privacy.filter", FILTER, t.filter, "", 0, 0, NULL,                                          \
      "correlated noise: up to four numbers of 0 to 4096. Each round subtracts part of the noise " \
      "of the rounds before it; the j-th number, divided by 4096, is that part for the j-th "      \
      "round before. If empty, the noise of each round is independent; auto chooses the numbers "  \
      "for clients that take turns")                                                               \
    S("privacy.unit", CHOICE, t.unit, "client", 0, 0, KIND_WORDS(TASK_UNITS),                      \
      "what the claim protects: all text of a client, or a single record")                         \
    S("privacy.records_max", U64, t.records_max, "0", 0, 1 << 20, NULL,                            \
      "maximum number of records per client and round, if privacy.unit is record")                 \
    S("privacy.record_turns", U64, t.record_turns, "0", 0, UINT32_MAX, NULL,                       \
      "maximum number of rounds that use one record, if privacy.unit is record: the records take " \
      "turns, and are charged for their turns; 0 means rounds.count, that is, no limit")           \
    S("privacy.record_words", U64, t.record_words, "0", 0, 1 << 24, NULL,                          \
      "maximum number of words of a record that a client uses, if privacy.unit is record: it "     \
      "leaves out the rest of a longer one; 0 means 4096")                                         \
    S("privacy.sampling", CHOICE, t.sampling, "all", 0, 0, KIND_WORDS(TASK_SAMPLINGS),             \
      "which clients take part: all, or a sample (open): each client flips its own coin, and AS "  \
      "sees who takes part", .gone = TASK_DRAWS, .instead = TASK_NO_DRAWS)                         \
    S("privacy.rate", NANO, rate, "1", 0, 1, NULL, "probability that a client is sampled")         \
    S("privacy.weights", CHOICE, t.weights, "equal", 0, 0, KIND_WORDS(TASK_WEIGHTINGS),            \
      "weight of a client: equal for all clients, or its number of words (with a trainer: "        \
      "examples) up to weight_cap")                                                                \
    S("privacy.weight_cap", U64, t.weight_cap, "0", 0, TASK_COUNT_MAX, NULL,                       \
      "number of words or examples that gives a client the full weight, if privacy.weights is "    \
      "capped; 0, in an experiment, means the words of the largest client")                        \
    S("rounds.count", U64, t.rounds, "100", 1, UINT32_MAX, NULL, "number of rounds")               \
    S("rounds.enrolled", U64, t.enrolled, NULL, 2, 1 << 24, NULL,                                  \
      "number of clients in the population")                                                       \
    S("rounds.clients_max", U64, t.clients_max, "0", 0, 1 << 24, NULL,                             \
      "maximum number of clients in a sum; 0 means all enrolled clients")                          \
    S("rounds.threshold", U64, t.threshold, "0", 0, 1 << 24, NULL,                                 \
      "minimum number of clients in a sum; 0 means half of the enrolled clients (a quarter of "    \
      "them in an experiment)")                                                                    \
    S("rounds.enough", U64, t.enough, "0", 0, 1 << 24, NULL,                                       \
      "number of updates that closes a round early; 0 means that it never closes early")           \
    S("rounds.deadline_ms", U64, t.deadline_ms, "600000", 1, TASK_MS_MAX, NULL,                    \
      "milliseconds after which a round closes")                                                   \
    S("rounds.extend_ms", U64, t.extend_ms, "300000", 1, TASK_MS_MAX, NULL,                        \
      "milliseconds by which a round below the threshold is extended")                             \
    S("rounds.extensions", U64, t.extensions, "2", 0, 1000, NULL,                                  \
      "number of times a round below the threshold is extended before it is skipped")              \
    S("rounds.max_per_client", U64, t.max_rounds_per_client, "0", 0, UINT32_MAX, NULL,             \
      "maximum number of rounds in which a client takes part; 0 means no limit")                   \
    S("rounds.separation", U64, t.separation, "1", 1, UINT32_MAX, NULL,                            \
      "a client takes part again only this many rounds later, or more; 1 means that it may take "  \
      "part in every round. Clients take turns: each belongs to one of this many groups, and "     \
      "each round is the turn of one group")                                                       \
    S("rounds.patience", U64, t.patience, "0", 0, 1000000, NULL,                                   \
      "end the task after this many rounds without improvement; 0 means never")                    \
    S("server.step", CHOICE, t.server, "average", 0, 0, KIND_WORDS(TASK_SERVERS),                  \
      "optimiser that the aggregation server uses")                                                \
    S("server.lr", NANO, t.step_nano, "1", 0, 1000000, NULL,                                       \
      "learning rate of the aggregation server")                                                   \
    OPTIMISER_SETTINGS(S, "server.", t.server_optim, " at the server", "0.99", "1e-3")             \
    S("crypto.scheme", CHOICE, scheme, "pad", 0, 0, AHE_SCHEMES, "encryption scheme")              \
    S("crypto.seal", CHOICE, seal, "xwing", 0, 0, "none x25519 xwing",                             \
      "how a client seals its pad's seed to CSP; must be none if the scheme is paillier")          \
    F("crypto.key", KEY, key, NULL, 0, 0, NULL, "CSP's Paillier key; \"\" if the scheme is pad")   \
    F("servers.aggregator", HASH, t.servers.as, NULL, 0, 0, NULL, "AS's public signing key")       \
    F("servers.csp", HASH, t.servers.csp, NULL, 0, 0, NULL, "CSP's public signing key")
/* clang-format on */

#define TASK_MS_MAX (UINT64_C(366) * 24 * 3600 * 1000)

typedef enum task_kind {
    TASK_KIND_TEXT,
    TASK_KIND_CHOICE,
    TASK_KIND_BOOL,
    TASK_KIND_U64,
    TASK_KIND_DECIMAL,
    TASK_KIND_NANO,
    TASK_KIND_REAL,
    TASK_KIND_HASH,
    TASK_KIND_KEY,
    TASK_KIND_TENSORS,
    TASK_KIND_NAMES,
    TASK_KIND_FILTER,
} task_kind;

enum { TASK_BODY_EXTERNAL = LM_BODY_KINDS }; /* task_draft.body, after the lm_body_kinds */

/* The values in a document, from which task_read derives others. */
typedef struct task_draft {
    task t;
    uint32_t version;
    unsigned body, claim, scheme, seal;
    pack_nano rate, clip_quantile;
    struct {
        ahe_pub *pub;
    } key;
} task_draft;

typedef struct task_field {
    const char *path;
    task_kind kind;
    size_t offset, size; /* in a task_draft */
    uint64_t min, max;
    const char *words;
    bool settable;
} task_field;

extern const task_field task_fields[];
extern const size_t task_field_count;

/* True if a document whose model.body is external, or is not, has the member (or setting) with this
 * path. */
bool task_field_applies(const char *path, bool external);

/* Reads a document into a draft; the caller owns d->key.pub, and what d->t owns, also after a
 * failure. Checks each member separately. */
sefl_status task_draft_read(task_draft *d, sefl_span document) SEFL_MUST_CHECK;

#endif

/* task: reads the document that all parties of a federation agree on, and derives values from it.
 *
 * The document is JSON in UTF-8 without floating-point numbers: decimals and 64-bit
 * values are strings, counts up to 2^53 are integers. Members must be known and occur exactly once.
 * A task either trains a built-in model on text, or has model.body external: then it lists the
 * model's tensors and has no members about words, text or local training, which is the business of
 * each client's own program.
 * Both servers sign the exact bytes; their SHA-256 is the task's id. A changed task is a new task,
 * on the same ledger.
 *
 *     SEFL_TRY(task_read(&t, bytes));                       // parses and checks everything
 *     SEFL_TRY(task_open(&t, envelope bytes, &pinned));      // verifies both signatures first
 *     t.ahe, t.grid, t.values                                // derived; every party gets the same
 *
 * Threads: read-only after task_read.   Secrets: none. */
#ifndef PROTOCOL_TASK_H
#define PROTOCOL_TASK_H

#include "base/sha256.h"
#include "crypto/ahe/params.h"
#include "model/layout.h"
#include "model/lm_config.h"
#include "privacy/dp_filter.h"
#include "privacy/dp_grid.h"
#include "privacy/record_turns.h"
#include "protocol/modes/names.h"
#include "protocol/signed.h"

struct dp_event;     /* privacy/accountant/law.h */
struct noise_params; /* mpc/noise/online.h */
struct seal_suite;   /* crypto/seal/seal.h */

enum { TASK_ID = 32, TASK_NAME_MAX = 64, TASK_BYTES_MAX = 1 << 20 };

/* The choices of a task: each list defines an enum, the words of a setting, and their order. A
 * server's step is one of the optimisers (model/kinds.h). */
/* clang-format off */
#define TASK_SAMPLINGS(C)  C(ALL, all) C(OPEN, open)
#define TASK_WEIGHTINGS(C) C(EQUAL, equal) C(CAPPED, capped)
#define TASK_UNITS(C)      C(UNIT_CLIENT, client) C(UNIT_RECORD, record)
#define TASK_SERVERS(C)    C(AVERAGE, average, SGD) C(MOMENTUM, momentum, MOMENTUM)              \
                           C(ADAM, adam, ADAM) SCRATCH_SERVER(C)
#define TASK_CHOICE(NAME, name, ...) TASK_##NAME,
typedef enum task_sampling { TASK_SAMPLINGS(TASK_CHOICE) } task_sampling;
typedef enum task_weights { TASK_WEIGHTINGS(TASK_CHOICE) } task_weights;
typedef enum task_unit { TASK_UNITS(TASK_CHOICE) } task_unit;
typedef enum task_schedule { SCHEDULES(TASK_CHOICE) } task_schedule;
typedef enum task_server { TASK_SERVERS(TASK_CHOICE) } task_server;
/* clang-format on */
extern const optim_kind task_server_optims[]; /* by task_server */
const char *task_unit_name(task_unit unit);   /* "client", "record" */

typedef struct task {
    uint8_t id[TASK_ID]; /* SHA-256 of the document's bytes */
    char name[TASK_NAME_MAX + 1];
    char population[TASK_NAME_MAX + 1]; /* population whose ledger is charged */

    bool external;   /* the clients' own programs train the model; members about text are zero */
    lm_config model; /* includes model.batch and model.steps; external: only body */
    layout layout;   /* the model's tensors; owned */
    char *only;      /* training.only as a list (layout_only); owned */
    vocab_kind kind;
    vocab_order order;
    uint8_t vocab_hash[SHA256_BYTES]; /* public vocabulary file, in its final order */
    uint8_t init_hash[SHA256_BYTES];  /* file of the initial model */
    uint8_t valid_hash[SHA256_BYTES]; /* file of the public validation text */
    bool has_valid;                   /* there is a validation text: valid_hash is not zero */

    /* local training */
    optim_config optim;
    double lr, gradient_clip, dropout;
    task_schedule schedule;             /* task_lr */
    double lr_last;                     /* 0 for TASK_CONSTANT */
    uint64_t warmup;                    /* rounds; below `rounds` */
    uint32_t local_epochs, local_steps; /* exactly one of them is > 0 */

    /* numbers and privacy */
    char clip[24], z[24];  /* decimals as in the document */
    double clip_quantile;  /* 0: the clip is fixed; else AS finds it (task_next_clip) */
    task_noise noise;      /* task_mode(t) is the mode's table */
    bool claim;            /* false: "claim": "none", the task claims no privacy */
    double epsilon, delta; /* the claim's target; 0 if there is no claim */
    dp_filter filter;      /* correlated noise; b = 0: the noise of each round is independent */
    task_unit unit;
    uint32_t records_max; /* unit record: maximum records of a client per round; else 0 */
    uint64_t
        record_turns; /* unit record: maximum rounds that use one record, 1 to `rounds`; else 0 */
    uint32_t record_words; /* unit record: a client uses this many words of a record; else 0 */
    task_sampling sampling;
    double rate; /* 1 for TASK_ALL */
    task_weights weights;
    uint64_t weight_cap; /* capped: number of words (external: of the items that the client's
                          * program counts) that earns the full weight; else 0 */

    /* rounds */
    uint64_t rounds;
    uint32_t clients_max; /* maximum clients in one sum */
    uint32_t enrolled;    /* number of clients in the population */
    uint32_t threshold;   /* L: minimum clients in a revealed sum */
    uint32_t enough; /* over-selection: close after this many updates; 0: only at the deadline */
    uint64_t deadline_ms, extend_ms;
    uint32_t extensions;
    uint64_t max_rounds_per_client; /* 0: no limit */
    uint64_t separation;            /* rounds from one upload of a client to its next; 1 or more */
    uint32_t patience;              /* stop after this many rounds without improvement; 0: never */

    /* server step: theta += server_lr * average, or momentum or Adam with that average as the
     * (negative) gradient */
    task_server server;
    double server_lr;
    uint64_t step_nano; /* server_lr in billionths, as in the round header */
    optim_config server_optim;

    /* keys */
    ahe_pub *pub;                  /* owned; NULL if the scheme has no public key */
    const struct seal_suite *seal; /* seals the seeds of uploads; NULL: uploads are not sealed */
    pinned servers;

    /* derived */
    size_t params;        /* number of values in the model: layout.count */
    size_t values;        /* number of values in an update: layout.trained, plus 1 with a slot */
    uint64_t clip_nano;   /* clip in billionths */
    ahe_params ahe;       /* with unit record, its value_max is records_max times the grid's */
    dp_grid grid;         /* steps and bounds for dp_quantise, as in ahe; all zero without noise */
    unsigned filter_bits; /* with a filter: bits below the coarse step of the noise that a server
                           * keeps (F); else 0 */
    double sigma_steps;   /* own: standard deviation of each server's noise in fine steps; else 0 */
    bool amplified; /* the claim against all but the servers uses the open sampling of clients */
    bool publish_count; /* the number of participants is public: not amplified */
} task;

/* Parses and checks a document and derives members. SEFL_EPROTO for a malformed document;
 * SEFL_EINVAL or SEFL_ERANGE for values that do not fit together (threshold above clients_max,
 * over-selection with an amplified claim, a claim with joint noise below z = 0.25, a sum that could
 * overflow, ...); the message names the member. On failure *out is zeroed. */
sefl_status task_read(task *out, sefl_span document) SEFL_MUST_CHECK;
void task_clear(task *t);

/* Calls envelope_check for SIGN_TASK, then task_read: nothing is parsed before both signatures are
 * verified. The document must name the pinned keys. */
sefl_status task_open(task *out, sefl_span envelope, const pinned *p) SEFL_MUST_CHECK;

/* Returns the number of slots after the values: 1 with capped weights or a norm bit, else 0. */
static inline size_t task_slots(const task *t)
{
    return t->weights == TASK_CAPPED || t->clip_quantile > 0;
}

/* Returns the number of values in an update without the slot, which comes after them. */
static inline size_t task_trained(const task *t)
{
    return t->values - task_slots(t);
}

/* A clip that is found privately (docs/PRIVACY.md, section 12). Integers do not change with the
 * clip: a client multiplies its update by privacy.clip / clip before it clips and quantises it on
 * the task's grid, and AS divides by that factor. The clip of a round is in the model file that the
 * round's signed header names (protocol/task_model.h). It stays within a factor of TASK_CLIP_RANGE
 * of privacy.clip. */
#define TASK_CLIP_RANGE UINT64_C(1024)
#define TASK_CLIP_RATE  0.2 /* eta of the geometric update [ATMR21] */
bool task_clip_fits(const task *t, uint64_t clip);
/* Returns privacy.clip / clip; 1 if the clip is fixed. */
double task_clip_scale(const task *t, uint64_t clip);
/* Returns the clip of the round after one with this clip, from its released integers:
 * clip * exp(-eta (share - quantile)), where share is the noisy share of the norm bits. 0 if the
 * clip is fixed. */
uint64_t task_next_clip(const task *t, uint64_t clip, const int64_t *w, uint32_t clients);

/* True if each upload carries a seed that its client sealed to CSP and signed (protocol/head.h).
 * Then CSP knows a sum's clients and reveals no other sum; otherwise AS must follow the
 * protocol. */
bool task_is_sealed(const task *t);

/* Writes the AHE context of a round: SHA-256("sefl context 1", task id, round u64). */
void task_context(uint8_t out[AHE_CONTEXT_BYTES], const task *t, uint64_t round);
/* Writes the AHE context of one upload: SHA-256("sefl pad 1", task id, round u64, client) in a
 * sealed task, otherwise the round's context. */
void task_upload_context(uint8_t out[AHE_CONTEXT_BYTES], const task *t, uint64_t round,
                         const uint8_t client[32]);
/* Returns the size of an update's body: the signed head (if sealed) and the scheme's bytes. */
size_t task_body_bytes(const task *t);

/* Writes the task's name as the name of a file or folder: letters, digits, '-', '_' and points that
 * are not the first character. */
enum { TASK_FILE_NAME = TASK_NAME_MAX + 2 };
void task_file_name(char out[TASK_FILE_NAME], const task *t);

/* Returns the parameters of noise/online.h for this round and attempt, without the slice. The shape
 * is NULL if the mode has none. */
struct noise_params task_noise_params(const task *t, uint64_t round, uint64_t attempt);
/* Returns the bits of the noise shares that the servers make for this task: 32, or 40 for a ring of
 * more than 20 bits, so that k + 12 bits are there for a filter. */
unsigned task_share_bits(const task *t);
/* Computes the size of CSP's output: a reply (noise/online.h), or masked plain units. */
sefl_status task_output_bytes(size_t *bytes, const task *t) SEFL_MUST_CHECK;

/* Clients take turns: with rounds.separation s, it is a client's turn in the rounds that equal its
 * group modulo s. The group is SHA-256("sefl turn 1", task id, client), its first 8 bytes as a
 * number, modulo s. So a round has 1 / s of the clients, and a client that keeps to its turns keeps
 * the separation. Always true if s is 1. */
uint64_t task_group(const task *t, const uint8_t client[32]);
bool task_is_turn(const task *t, const uint8_t client[32], uint64_t round);
/* True if a client that took part in round `last` (0: none) must not take part in this round. */
bool task_is_soon(const task *t, uint64_t last, uint64_t round);

/* Returns the task's features as a set (privacy/combinations.h). */
uint32_t task_features(const task *t);

/* True if a record is used in fewer rounds than the task has (privacy.record_turns). */
static inline bool task_limits_records(const task *t)
{
    return t->unit == TASK_UNIT_RECORD && t->record_turns < t->rounds;
}

/* Returns the schedule of the records; unit record. */
static inline dp_record_turns task_record_turns(const task *t)
{
    return (dp_record_turns){ t->record_turns, t->rounds, t->records_max };
}

/* Returns S after so many rounds of a task with a filter, slack included (privacy/dp_filter.h). */
double task_filter_s(const task *t, uint64_t rounds);

/* Returns the z of independent noise that would leave as much noise in the last model as this
 * task's noise does; without a filter, its own z. */
double task_model_z(const task *t);

/* Returns the accountant's event for `count` releases of this task, against observers who do not
 * see participation: rate is 1 unless t->amplified. If records take turns, it has the uses of one
 * record in the first `count` rounds.
 * If there is no claim (noise none), all members except count are zero, as in a ledger. With a
 * filter, the first `count` rounds are one release, and the event holds against everybody. Against
 * a server the ledger's budget check (store/ledger.h) uses min(count, max_rounds_per_client), and
 * rate 1.
 * terms_of_task (sum/terms.h) builds the ledger_terms from this event and from the task's id,
 * sampling, unit, max_rounds_per_client, epsilon and delta. */
struct dp_event task_event(const task *t, uint64_t count);

/* Returns the clients' learning rate in a round. With w = warmup and T = rounds, it is
 * lr * round / (w + 1) in the first w rounds. From round w + 1 to round T it is lr (constant), or
 * changes from lr to lr_last in equal steps (linear) or along half a period of a cosine. A single
 * round after the warmup has lr. */
double task_lr(const task *t, uint64_t round);

/* Returns the divisor for a sum over `clients` clients with equal weights: `clients` if the number
 * of participants is public, otherwise the constant rate * enrolled. With a filter it is the
 * expected number of clients, enrolled / separation, in every round: a round can take back the
 * noise of an earlier one only if both are divided by the same number. NAN for capped weights,
 * whose divisor is the noisy total of the weight slot (dp_weight_total). */
double task_divisor(const task *t, uint32_t clients);

/* Explains a task to a data-protection officer: who can learn what, and with which guarantee. */
sefl_status task_explain(struct sefl_buf *out, const task *t) SEFL_MUST_CHECK;
/* Appends, in the same words, how long a round lasts and what a missing site costs; every line
 * begins with two spaces. */
sefl_status task_explain_deadline(struct sefl_buf *out, const task *t) SEFL_MUST_CHECK;
/* Likewise the mode and its price, and what the other mode with noise would cost. */
sefl_status task_explain_mode(struct sefl_buf *out, const task *t) SEFL_MUST_CHECK;

#endif

/* release_check: checks whether honest clients and the noise could have produced a sum.
 *
 * No party sees a single update, so one client with a valid ciphertext can still ruin the sum.
 * Before AS applies a sum, it compares the sum with the bounds that honest clients keep. R is the
 * released vector in real units, d its length (including the weight slot), D the sensitivity, C the
 * clip:
 *
 *     joint   |R| <= m D + z D sqrt((sqrt(d) + 7.5)^2 + 20000)      false alarm below 2^-38
 *     own     |R| <= m D + sqrt(2) z D (sqrt(d) + 7.5)              below 2^-40
 *     none    |R| <= m (C + q sqrt(d))                              never
 *
 * With a filter (correlated noise) a round also contains the noise that it takes back: (sqrt(d) +
 * 7.5) is multiplied by |B| = sqrt(1 + sum c_j^2) and sqrt(20000) by 1 + sum |c_j|, where c_j =
 * gamma_j / 4096. A round that takes back less has less noise. The false alarms of up to five
 * rounds' noise add up: below 2^-35 (joint) and 2^-37 (own).
 *
 * m is the number of clients, or clients_max if that number is not public (everybody sees whether a
 * round was blocked). With unit record, m is multiplied by records_max. 20000 allows for the rare
 * jumps of joint noise. The weight slot must be in [0, m] clients, plus or minus ten standard
 * deviations of the noise (joint: sixty, for the jumps; false alarm below 2^-40). With a weight
 * slot, m D is at most W C + m q sqrt(d), where W is the slot's total plus those deviations: a
 * client that reduces the divisor also reduces the bound. AS also blocks a model whose validation
 * loss is above RELEASE_LOSS_MAX or not finite.
 *
 *     st = release_check_sum(&n, &task, w, clients);      // SEFL_ERANGE: block; n: the numbers
 *     st = release_check_loss(loss);
 *
 * The check detects garbage, but not a hostile vector of norm m D (docs/THREATS.md).
 * Threads: any.   Secrets: none; the result depends only on released numbers. */
#ifndef PROTOCOL_RELEASE_CHECK_H
#define PROTOCOL_RELEASE_CHECK_H

#include "protocol/task.h"

#define RELEASE_LOSS_MAX 50.0 /* nats per token */

enum { RELEASE_SIGNALS = 10 };

typedef struct release_numbers {
    double norm, bound; /* |R| and its upper bound */
    double largest;     /* the largest |R_i| */
    double signal;      /* estimate of |R| without its noise: sqrt(max(0, |R|^2 - var d)) */
    double weight, weight_least,
        weight_most; /* capped weights: the slot, in clients, and its bounds */
} release_numbers;

typedef struct release_from {
    uint64_t round; /* the round that released the model; 0: the initial model */
    uint8_t hash[SHA256_BYTES];
} release_from;

typedef struct release_made {
    release_numbers numbers; /* the numbers of the release check */
    bool blocked;            /* no new model, for the reason in `why`; other members are empty */
    char why[200];
    uint8_t hash[SHA256_BYTES];      /* hash of the new model's file */
    uint64_t bytes;                  /* size of that file */
    bool has_perplexity;             /* there is a public validation text */
    double perplexity;               /* per token */
    double word_perplexity;          /* per word; 0: unless vocab.kind is bpe */
    uint8_t integers[SHA256_BYTES];  /* hash of the file of integers; zeros: not kept */
    uint8_t optimiser[SHA256_BYTES]; /* hash of the file of the optimiser's state; zeros: none */
    double eval_seconds;             /* of the validation */
    double clip;                     /* found for the next round; 0: the task fixes it */
} release_made;

/* w has the task.values released integers. SEFL_ERANGE if AS must not apply the sum; the message
 * shows the number and its bound. Fills *out in either case. */
sefl_status release_check_sum(release_numbers *out, const task *t, const int64_t *w,
                              uint32_t clients) SEFL_MUST_CHECK;
sefl_status release_check_loss(double loss) SEFL_MUST_CHECK;

/* The signals of the latest released rounds, oldest first. */
typedef struct release_signals {
    uint64_t round[RELEASE_SIGNALS];
    double signal[RELEASE_SIGNALS];
    uint32_t n;
} release_signals;

/* Adds a round's signal, unless s already contains it. Returns true if the signal deserves a
 * warning: it exceeds four times the median of at least three earlier signals, and four times the
 * signal that noise alone would give. */
bool release_signals_add(release_signals *s, const task *t, uint64_t round, double signal,
                         double *median);

#endif

/* release_check: can honest clients and the noise have made this sum?
 *
 * Nobody sees a single update, so one client with a valid ciphertext can spoil the whole sum.
 * Before AS applies a sum it compares it with what honest clients can reach at most. R is the
 * released vector in real units, d its length (the weight slot included), D the sensitivity, C
 * the clip:
 *
 *     joint   |R| <= m D + z D sqrt((sqrt(d) + 7.5)^2 + 20000)      false alarm below 2^-38
 *     own     |R| <= m D + sqrt(2) z D (sqrt(d) + 7.5)              below 2^-40
 *     none    |R| <= m (C + q sqrt(d))                              never
 *
 * m is the number of clients (unit record: times records_max), or clients_max where that number
 * may not be told: everybody sees whether a round was blocked. 20000 is for joint noise's rare
 * jumps. The weight slot must lie within [0, m] clients and ten deviations of the noise (joint:
 * sixty, for the jumps; a false alarm below 2^-40). With it m D is at most W C + m q sqrt(d),
 * where W is the slot's total and those deviations: who makes the divisor small makes the bound
 * small. A model whose validation loss is above RELEASE_LOSS_MAX, or not finite, is blocked too.
 *
 *     st = release_check_sum(&n, &task, w, clients);      // SEFL_ERANGE: block; n has the numbers
 *     st = release_check_loss(loss);
 *
 * The check stops garbage. It does not stop a hostile vector of norm m D (docs/THREATS.md).
 * Threads: values.   Secrets: none: what it says is computed from the released numbers. */
#ifndef PROTOCOL_RELEASE_CHECK_H
#define PROTOCOL_RELEASE_CHECK_H

#include "protocol/task.h"

#define RELEASE_LOSS_MAX 50.0 /* nats a token */

enum { RELEASE_SIGNALS = 10 };

typedef struct release_numbers {
    double norm, bound; /* |R| and the most that is let through */
    double largest;     /* |R_i| */
    double signal;      /* estimate of |R| without its noise: sqrt(max(0, |R|^2 - var d)) */
    double weight, weight_least, weight_most; /* capped weights: the slot in clients; else 0 */
} release_numbers;

typedef struct release_from {
    uint64_t round; /* whose release the model is; 0: the initial model */
    uint8_t hash[SHA256_BYTES];
} release_from;

typedef struct release_made {
    release_numbers numbers; /* what the release check saw */
    bool blocked;            /* no model was made: `why`; the rest is empty */
    char why[200];
    uint8_t hash[SHA256_BYTES]; /* of the new model's file */
    uint64_t bytes;
    bool has_perplexity; /* on the public validation text */
    double perplexity;
} release_made;

/* w: task.values released integers. SEFL_ERANGE, with both numbers in the sentence, for a sum that
 * must not be applied; *out is filled in either case. */
sefl_status release_check_sum(release_numbers *out, const task *t, const int64_t *w,
                              uint32_t clients) SEFL_MUST_CHECK;
sefl_status release_check_loss(double loss) SEFL_MUST_CHECK;

/* The signals of the latest released rounds, oldest first. */
typedef struct release_signals {
    uint64_t round[RELEASE_SIGNALS];
    double signal[RELEASE_SIGNALS];
    uint32_t n;
} release_signals;

/* Adds a round's signal, unless it is there already. True: it is above four times the median of
 * those before it (three or more), and above four times what noise alone makes of no signal:
 * worth a warning. */
bool release_signals_add(release_signals *s, const task *t, uint64_t round, double signal,
                         double *median);

#endif

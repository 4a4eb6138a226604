/* task_budget: the rounds that a task's target epsilon allows, and the noise that all of its rounds
 * need.
 *
 *     SEFL_TRY(task_budget_rounds(&rounds, &t));       // at most t.rounds
 *     SEFL_TRY(task_budget_z(&z, &t));                 // with this z, all of them
 *
 *     if (task_turns_warning(text, &t)) ...            // clients run out before the last round
 *     c = task_compare_modes(&t);                      // joint or own?
 *
 * The first two count against a server, as the ledgers do (store/ledger.h), and from an empty
 * ledger: a population that has spent epsilon in earlier tasks can afford less.
 * Threads: any.   Secrets: none. */
#ifndef PROTOCOL_TASK_BUDGET_H
#define PROTOCOL_TASK_BUDGET_H

#include "privacy/accountant/accountant.h"
#include "protocol/task.h"

/* Returns the accountant's event for `rounds` rounds against a server or anyone who sees who takes
 * part: sampling does not amplify, and a limit on rounds per client counts. */
dp_event task_event_server(const task *t, uint64_t rounds);

/* Counts the rounds that keep t->epsilon, at most t->rounds. The task must make a claim. */
sefl_status task_budget_rounds(uint64_t *rounds, const task *t) SEFL_MUST_CHECK;

/* Finds the smallest z (as dp_find_z) with which all t->rounds rounds keep t->epsilon. The task
 * must make a claim; its own z does not matter. SEFL_EBUDGET if no z suffices. */
sefl_status task_budget_z(double *z, const task *t) SEFL_MUST_CHECK;

/* Returns the mean number of clients in a round: those who have a turn or are sampled. */
double task_cohort(const task *t);
/* Returns how many clients make a sum as large as the noise: the norm of the noise in the last
 * model over the largest norm of an update. 0 without noise. */
double task_noise_clients(const task *t);

/* Noise over signal, as in docs/RUNNING.md: above the first, learning is slow, and above the second
 * the noise drowns the updates. */
#define TASK_RATIO_SLOW   (1.0 / 3)
#define TASK_RATIO_DROWNS 1.0

/* What the modes with noise would cost a task. */
typedef struct task_choice {
    double ratio[RELEASE_MODE_COUNT]; /* noise over signal in the last model; 0 without noise */
    task_noise proposed;              /* own, unless its noise harms where that of joint does not */
} task_choice;
/* Compares the modes, each with the noise that the task's target needs there. For scheme pad: with
 * paillier, own protects no better. */
task_choice task_compare_modes(const task *t);

enum { TASK_TURNS_TEXT = 400 };
/* Writes a warning and returns true if clients that take every turn have none left for the last
 * rounds: rounds.max_per_client times rounds.separation is below rounds.count. A task that draws
 * its clients has no such round. */
bool task_turns_warning(char out[TASK_TURNS_TEXT], const task *t);

#endif

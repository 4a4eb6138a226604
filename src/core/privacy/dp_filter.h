/* dp_filter: correlated noise. Each round takes back part of the noise of the rounds before it.
 *
 * A task with a filter releases R = A + B W, not A + W: A has the sums of the rounds as rows, W the
 * fresh noise, and B is lower triangular with 1 on the diagonal and c_j = -gamma_j / 2^12 at lag j,
 * 1 <= j <= b. Later noise cancels most of the earlier noise in the sum over all rounds, which is
 * what a model contains; a single round has more noise. The rounds are one release: the vector of a
 * client in round r acts through C = B^-1 on all rounds from r on, so a client's rounds together
 * shift the noise by at most S D, and epsilon is that of one release with noise z / S.
 *
 *     dp_filter f = { .b = 1, .gamma = { 3687 } };
 *     SEFL_TRY(dp_filter_check(&f));
 *     dp_turns turns = { .most = 5, .apart = 20 };           // a client: 5 rounds, 20 apart
 *     s = dp_filter_s(&f, 100, &turns);                      // S after 100 rounds
 *     s += dp_filter_slack(&f, 100, dim, z, units);
 *     dp_event all = dp_filter_event(&one_round, s, 100);    // one release with noise z / s
 *
 * Admissible: gamma_j >= 0, sum gamma_j <= 4096, and the column C_0, C_1, ... of C does not rise.
 * (From lag b on a column that has not risen cannot rise, so C_0 .. C_b decide, in exact integers.)
 * Then <column i, column j> falls with a later i and with a wider gap, so the pattern of rounds
 * 1, 1 + s, 1 + 2s, ... is the worst, and leaving out any part of the history (a skipped round, a
 * lost share) only lowers S. docs/PRIVACY.md has the proof.
 *
 * Slack. The servers keep the old noise in fixed point. A shift by 12 bits loses less than one unit
 * of the last place per coordinate and round, which two neighbouring inputs may lose differently;
 * `units` is the noise's standard deviation in such units (dp_filter_units).
 *
 * Threads: any.   Secrets: none.   Cost: O(n b) for n rounds. */
#ifndef PRIVACY_DP_FILTER_H
#define PRIVACY_DP_FILTER_H

#include "base/status.h"
#include "privacy/accountant/law.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DP_FILTER_LAGS = 4,
    DP_FILTER_BITS = 12,
    DP_FILTER_ONE = 1 << DP_FILTER_BITS,
    DP_FILTER_ROUNDS_MAX = 1 << 17, /* rounding errors of S stay below the 1e-9 added to it */
    DP_FILTER_SUM_BITS = 52,        /* joint: k + F, ring bits and bits below the coarse step */
    DP_FILTER_OWN_BITS = 21,        /* own, cdp: bits of the noise below the coarse step; a larger
                                     * variance is beyond dgauss */
};

/* gamma[j - 1] belongs to lag j. b = 0: no filter. All zeros is a valid value: no filter. */
typedef struct dp_filter {
    unsigned b;
    uint16_t gamma[DP_FILTER_LAGS];
} dp_filter;

/* The rounds in which one client may take part. */
typedef struct dp_turns {
    uint64_t most;  /* P; 0: no limit */
    uint64_t apart; /* s: the next round is this many rounds later, or more; 0 means 1 */
} dp_turns;

/* SEFL_EINVAL, with the reason, unless the filter is admissible. gamma_b must be above 0, and the
 * entries after it 0, so that one filter has one description. */
sefl_status dp_filter_check(const dp_filter *f) SEFL_MUST_CHECK;

enum { DP_FILTER_TEXT = 24 };
/* Writes "2900, 500", as in the setting privacy.filter; "" without a filter. */
const char *dp_filter_text(char out[DP_FILTER_TEXT], const dp_filter *f);

/* Writes C_0 .. C_(n-1). Without a filter: 1, 0, 0, ... */
void dp_filter_column(double *c, size_t n, const dp_filter *f);

/* Returns the largest number of rounds among the first n in which a client can take part. */
uint64_t dp_turns_in(const dp_turns *t, uint64_t n);
/* Returns the smallest separation with which clients that take part in at most `most` rounds (0: no
 * limit) at every turn of theirs have one left for each of n rounds. */
uint64_t dp_turns_apart(uint64_t most, uint64_t n);

/* Returns S(n) without slack, rounded up by 1e-9: the L2 norm of what a client with vectors of norm
 * 1 adds to the first n rounds' noise in the worst pattern of rounds. 0 for n = 0. Never falls with
 * n. Without a filter it is the square root of dp_turns_in. n <= DP_FILTER_ROUNDS_MAX. */
double dp_filter_s(const dp_filter *f, uint64_t n, const dp_turns *turns);

/* Returns the same for one pattern: `rounds` (sorted, from 1) of the first n. */
double dp_filter_s_of(const dp_filter *f, uint64_t n, const uint64_t *rounds, size_t count);

/* Returns the slack of S for n rounds of `dim` coordinates, rounded up; 0 without a filter. */
double dp_filter_slack(const dp_filter *f, uint64_t n, uint64_t dim, double z, double units);

/* Finds the smallest z for n rounds, from `one`, the z of a single release: the rounds are one
 * release with noise z / S, and S = S_0 + slack, which is proportional to z. SEFL_EBUDGET if no z
 * suffices. */
sefl_status dp_filter_z(double *z, const dp_filter *f, uint64_t n, const dp_turns *turns,
                        uint64_t dim, double units, double one) SEFL_MUST_CHECK;

/* A lower bound on the standard deviation of the noise in coarse steps, for every z up to 1000.
 * Joint noise has DP_G44_SIGMA. The variance of discrete noise is at least z^2 S2
 * (dgauss_for_grid), and S2 is rounded down (grid/grid.h): 9.43899 or more. */
#define DP_FILTER_SIGMA 9.438

/* Returns DP_FILTER_SIGMA in units of the last place of a kept value, `bits` bits below the coarse
 * step: DP_FILTER_SUM_BITS - k for joint noise, DP_FILTER_OWN_BITS for discrete noise. */
double dp_filter_units(unsigned bits);

/* The standard deviation of the noise in the models of a task, in units of the fresh noise of one
 * round: in the last model, and its root mean square over the models after each round. The server
 * takes steps of average, or with momentum (v = momentum v + average), so the noise of a round
 * stays in every later model. With a filter z is larger, by S / sqrt(turns). */
typedef struct dp_model_noise {
    double last, mean;
} dp_model_noise;

dp_model_noise dp_filter_models(const dp_filter *f, uint64_t rounds, double momentum);

/* Returns a filter that leaves little noise in the models (dp_model_noise.mean) at a given epsilon;
 * no filter if none gains anything. It is the best one with b = 1, unless more lags leave at least
 * 1.03 times less noise: each lag costs both servers 8 bytes per value. With more lags it is the
 * best that a descent finds; above 2,000 rounds it is not tried. Takes about 1,500 prices of
 * O(rounds). */
dp_filter dp_filter_best(uint64_t rounds, const dp_turns *turns, double momentum);

/* Returns the event of the first n rounds of a task: one release with noise multiplier ev->z / s,
 * which leaves out the mass that the law's proof leaves out in each of n rounds. ev describes one
 * round; s is S(n) with its slack. */
dp_event dp_filter_event(const dp_event *ev, double s, uint64_t n);

#endif

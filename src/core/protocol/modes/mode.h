/* mode: defines how a round's sum becomes public integers, and who adds which noise to it.
 *
 * Each task selects one mode with its privacy.noise setting. A const table contains everything that
 * depends on the mode, so no other code tests its name:
 *
 *     const release_mode *m = task_mode(t);
 *     client   SEFL_TRY(task_quantise(X, t, v, weight, coins));
 *     CSP      SEFL_TRY(m->reply(reply, t, &csp));           // from the masked sum
 *     AS       SEFL_TRY(m->finish(w, t, reply, &as));        // the released integers
 *              real = task_value(t, w[i]);
 *
 * To add a mode:
 *   1. Write src/core/protocol/modes/NAME.c, which defines `const release_mode mode_NAME`.
 *   2. Append `M(NAME_IN_CAPITALS, NAME, "one clause of help")` to the list in names.h.
 * Task documents, settings, help texts, client policies, `sefl task show --explain`, both servers,
 * the simulator and the accountant then support the mode. Also add the word to the row
 * privacy.noise in docs/PROTOCOL.md (e2e.doc_tables compares them).
 *
 * A table names its row of DP_SOURCES (privacy/accountant/law.h), which `sefl privacy plan --noise`
 * uses too; a mode that adds noise in a new way needs a new row. If that noise has a new
 * distribution, add a row to privacy/accountant/law.c and a proof to docs/PRIVACY.md. A table also
 * names the shape of CSP's reply: one of mpc/noise/online.h, or a const noise_shape in NAME.c.
 *
 * Threads: const tables and pure functions.
 * Secret: the vectors, shares, coins and masks that the functions receive. */
#ifndef PROTOCOL_MODES_MODE_H
#define PROTOCOL_MODES_MODE_H

#include "base/pool.h"
#include "base/random.h"
#include "base/span.h"
#include "privacy/accountant/law.h"
#include "protocol/modes/names.h"

#include <stdbool.h>
#include <stddef.h>

struct task;
struct dp_weight;
struct noise_shape;

/* CSP's inputs to a reply. */
typedef struct mode_csp {
    uint64_t round, attempt;
    const uint8_t *plain;  /* the masked sum: all plain units (ahe.h) */
    const uint8_t *slice;  /* name of the noise shares, 32 bytes */
    const uint8_t *shares; /* NULL unless the mode uses shares */
    uint8_t lags;          /* the earlier rounds whose noise both servers use (noise_params) */
    uint8_t *memory;       /* mpc/noise/noise_filter.h; NULL unless the task has a filter */
    const uint8_t *noise;  /* PRG_SEED bytes: seed of CSP's own noise in this round, the same for
                            * every attempt; NULL: drawn from rng */
    const int64_t *drawn;  /* what `draw` made of it; NULL: nothing yet */
    sefl_rng rng;          /* secret; fresh for this attempt */
    pool *pool;            /* NULL: this thread; no result depends on it */
} mode_csp;

/* AS's inputs to finish: what it stored for the attempt to which CSP replied. */
typedef struct mode_as {
    uint64_t round, attempt;
    const uint8_t *seed;  /* seed of the mask, AHE_SEED_BYTES */
    const uint8_t *coins; /* NOISE_COINS bytes; without shares the same for every attempt */
    const int64_t *drawn; /* what `draw` made of the coins; NULL: nothing yet */
    const uint8_t *slice;
    sefl_span shares; /* empty unless the mode uses shares */
    uint8_t lags;     /* as above */
    uint8_t *memory;
    pool *pool; /* NULL: this thread; no result depends on it */
} mode_as;

typedef struct release_mode {
    const char *name;
    bool noisy;  /* privacy.z must be > 0, the task has a grid, and it may make a claim */
    bool coarse; /* a released integer w represents (w + 1/2) h, not w q (crypto/ahe/pack.h) */
    bool shares; /* the servers make noise shares in advance; an attempt uses task.values of them */
    const dp_source *source;         /* the noise, as the accountant sees it; NULL unless noisy */
    const struct noise_shape *shape; /* of a reply (mpc/noise/online.h); NULL if `reply` is NULL */

    /* The size of the noise, for the checks of a release (sum/release_check.h) and for plans. */
    double norm_jumps;  /* added to the squared norm of the noise, in units of z D */
    double value_jumps; /* bound on the noise of one released value, in standard deviations */
    /* Standard deviation of a released value, in real units; with a filter, of a round that takes
     * back all it can. */
    double (*deviation)(const struct task *t);

    /* Fills the members of a task that only this mode uses; NULL: there are none. */
    sefl_status (*derive)(struct task *t);
    /* Draws a server's own noise of a round from a seed: task.values numbers, before the filter.
     * Not constant time: call it before the round closes. NULL: there is no such noise. */
    sefl_status (*draw)(int64_t *e, const struct task *t, const uint8_t *seed, pool *pool);
    /* CSP: writes task_output_bytes, in `shape`. NULL: the masked plain units are the reply. */
    sefl_status (*reply)(uint8_t *reply, const struct task *t, const mode_csp *in);
    /* AS: computes the task.values integers w from the arguments alone, so a second call after a
     * crash computes the same w. */
    sefl_status (*finish)(int64_t *w, const struct task *t, sefl_span reply, const mode_as *in);

    /* For people who choose a mode (release_mode_text). An honest server follows the protocol. */
    const char *trust; /* with scheme pad: which server must be honest */
    const char *price;

    /* sefl task show --explain */
    const char *happens;   /* who adds noise, and what AS learns */
    const char *as_never;  /* what AS never learns, after "one client's update" */
    const char *csp_never; /* what CSP never learns, after "the sum" */
} release_mode;

extern const release_mode *const release_modes[RELEASE_MODE_COUNT]; /* by task_noise */

/* Returns the mode of this name, which need not end with a NUL; NULL: unknown. */
const release_mode *release_mode_named(sefl_span name);

/* Parses a list such as "joint, own" into a set: bit i for release_modes[i]. SEFL_EINVAL for an
 * unknown name or an empty list; the message begins with `what`. */
sefl_status release_modes_parse(uint32_t *set, const char *what, const char *list) SEFL_MUST_CHECK;

enum { RELEASE_MODE_TEXT = 160 };
/* Writes what a mode asks and costs in plain words, such as "own: one honest server is enough ...;
 * the model carries ...". sealed: the task's scheme is pad. */
void release_mode_text(char out[RELEASE_MODE_TEXT], const release_mode *m, bool sealed);

const release_mode *task_mode(const struct task *t);

/* Returns the grid on which clients quantise: clip, q and value_max; s2 = 0: no bound. */
struct dp_grid task_client_grid(const struct task *t);
/* Turns task_trained(t) floats into task.values integers of that grid; weight is NULL unless
 * weights are capped. */
sefl_status task_quantise(int64_t *X, const struct task *t, const float *v,
                          const struct dp_weight *weight, const sefl_rng *coins) SEFL_MUST_CHECK;

/* Return how much more noise a round has because it takes back noise of earlier rounds: the factor
 * of the standard deviation, sqrt(1 + sum (gamma_j / 4096)^2), and of the largest value,
 * 1 + sum gamma_j / 4096. Both are 1 without a filter. */
double task_noise_gain(const struct task *t);
double task_noise_gain_most(const struct task *t);

/* Writes the real numbers that n released integers represent. */
void task_values(double *out, const struct task *t, const int64_t *w, size_t n);
double task_value(const struct task *t, int64_t w);

#endif

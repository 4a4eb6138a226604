/* step: computes the next model from the integers that a round released.
 *
 *     SEFL_TRY(step_average(avg, &task, clip, w, clients, pool));      // task_trained real numbers
 *     SEFL_TRY(step_read(&s, path, &task, round - 1));            // the optimiser's state
 *     SEFL_TRY(step_apply(&s, &task, theta, avg, pool));
 *     SEFL_TRY(step_write(&s, path2));
 *
 *     value    joint (w + 1/2) * h        own, none  w * q                (sum/as_link.h)
 *     average  value / divisor            equal weights: task_divisor
 *                                         capped: the noisy total of the weight slot, never below 1
 *     average   theta += lr * a
 *     momentum  m = mu m + a;  theta += lr * m                            (model/optim.h's form)
 *     adam      m = b1 m + (1 - b1) a;  v = b2 v + (1 - b2) a^2;
 *               theta += lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
 *
 * A step changes only the tensors that the task trains (model/layout.h). It computes in double, one
 * value after another, with correctly rounded IEEE operations only (no contraction, no power
 * function): the same integers give the same model, bit for bit, on every machine and in every
 * repetition. It rounds theta to float once, at the end.
 *
 * The optimiser's state is a separate file with the round it belongs to and a hash:
 *     "SEFLOPT1" | kind u8 | round u64 | steps u64 | n u64 | m, v as f64 | SHA-256 of all before
 * AS writes it before that round's model. After a crash between the two, AS repeats the step from
 * the previous round's file, which it deletes only once the model's round is durably released.
 * Threads: one owner.   Secrets: none (released numbers). */
#ifndef FED_STEP_H
#define FED_STEP_H

#include "base/pool.h"
#include "protocol/task.h"

typedef struct step_state {
    task_server kind;
    uint64_t round; /* the last round in the state; 0: none */
    uint64_t steps; /* number of steps so far; a skipped round makes none */
    size_t n;       /* number of trained values; 0 for TASK_AVERAGE, which has no state */
    double *m, *v;  /* v: adam only */
} step_state;

/* Sets s to the initial state of a new task. */
sefl_status step_new(step_state *s, const task *t) SEFL_MUST_CHECK;
void step_clear(step_state *s);

/* Writes task_trained(t) averages to out. SEFL_ERANGE if one would not be finite. The pool may be
 * NULL. */
sefl_status step_average(double *out, const task *t, uint64_t clip, const int64_t *w,
                         uint32_t clients, pool *workers) SEFL_MUST_CHECK;

/* Makes one step with these averages; the caller sets s->round. SEFL_ERANGE if a value is no longer
 * finite; theta and s are then unusable. */
sefl_status step_apply(step_state *s, const task *t, float *theta, const double *average,
                       pool *workers) SEFL_MUST_CHECK;

/* Writes the file atomically and durably. */
sefl_status step_write(const step_state *s, const char *path) SEFL_MUST_CHECK;
/* SEFL_EPROTO if the file is incomplete, damaged or belongs to a different model; SEFL_ESTATE if it
 * belongs to another round. */
sefl_status step_read(step_state *s, const char *path, const task *t,
                      uint64_t round) SEFL_MUST_CHECK;

#endif

/* work: computes the clients' part of a round. On the CPU, each thread works on one client at a
 * time, and one client's work is sequential. On a GPU (`device`, work_device.c) many clients train
 * at once. All sums are sums of integers or ciphertexts; floats (protection none) count as
 * multiples of 2^-58. So the result is bit-identical for any number of threads and ranks (ranks.h),
 * and on a GPU in every repetition on the same device. Only a GPU of a single process adds floats
 * as such, in the order of the clients.
 *
 *     SEFL_TRY(work_new(&w, federation, pool, NULL, &stop, NULL));       // every rank
 *     SEFL_TRY(work_join(w));
 *     SEFL_TRY(work_round(w, &got, &header, theta, set, n, &progress));  // rank 0
 *     ...got.sum (cdp, sefl in the clear), got.average (none), got.closed (sefl, crypto full)...
 *     SEFL_TRY(work_serve(w));                         // other ranks: until rank 0 frees its work
 *
 * Memory, for a model of d values: per thread an engine (engine_facts: lm_memory, 4 d bytes and a
 * client's text) and 12 d bytes, plus 8 d bytes if it adds integers and one upload body with crypto
 * full; once per rank another 24 d bytes for floats, or an upload body if there are several ranks
 * and crypto is full. Rank 0 has 1.4 kB per client if uploads are sealed. With a GPU no thread has
 * an engine; if the GPU adds the updates in the clear, a thread needs only 4 d bytes. The GPU
 * trains as many clients at a time as fit into its memory (engine_facts.memory).
 * Threads: one owner; works on the pool.   Secrets: a simulation has none. */
#ifndef SIMULATE_WORK_H
#define SIMULATE_WORK_H

#include "base/pool.h"
#include "crypto/ahe/ahe.h"
#include "protocol/update.h"
#include "simulate/population.h"

#include <time.h>

typedef struct work work;

typedef struct work_got {
    uint32_t clients;       /* clients whose update was added, zeros included */
    uint32_t diverged;      /* those whose training diverged, so that they upload zeros */
    const int64_t *sum;     /* task.values integers, or NULL */
    bool noisy;             /* cdp on a GPU: the sum contains the server's noise */
    const double *average;  /* weighted average of the updates, task_trained values, or NULL */
    ahe_sum *closed;        /* encrypted sum, closed, or NULL */
    const round_entry *set; /* crypto full: the set, sorted by client; else NULL */
    const uint8_t *heads;   /* sealed: heads of the set, head_bytes(task.seal) each; else NULL */
    double train, encrypt,
        add; /* CPU seconds of all clients together; train: GPU seconds on a GPU, or the seconds of
              * the trainer's commands */
    double elsewhere; /* CPU seconds of other ranks since the last round */
} work_got;

/* All arguments must outlive w. enc has the encryption tables; if NULL, creates them (crypto full).
 * stop, as in simulate.h, may be NULL; it is called after every training step, every unit of a
 * ciphertext and every piece of validation text. folder: where the experiment's trainer (hook.h)
 * has its files; NULL: there is none, and clients of an external model change nothing. */
sefl_status work_new(work **out, const federation *s, pool *p, const ahe_enc *enc,
                     const sefl_progress *stop, const char *folder) SEFL_MUST_CHECK;
/* At rank 0, also ends work_serve of the other ranks. */
void work_free(work *w);

/* Every rank calls this once, before the first round: checks that all ranks have the same task,
 * model and kind of device. */
sefl_status work_join(work *w) SEFL_MUST_CHECK;
/* Does this rank's part of every work_round of rank 0. */
sefl_status work_serve(work *w) SEFL_MUST_CHECK;

/* Sets the clip of the rounds that follow (task_model_read_clip). */
void work_set_clip(work *w, uint64_t clip);

/* Trains the clients of the set and adds their updates. The pointers in `got` are valid until the
 * next call. header has the round and, if sealed, the round key. progress counts clients. */
sefl_status work_round(work *w, work_got *got, const round_header *header, const float *theta,
                       const population_member *set, uint32_t n,
                       const sefl_progress *progress) SEFL_MUST_CHECK;

/* Sets *loss to the mean loss (log perplexity) on the validation text, or to NAN if the text is too
 * short. Uses the whole pool. */
sefl_status work_evaluate(work *w, double *loss, const float *theta) SEFL_MUST_CHECK;
/* Like work_evaluate, on the test text. */
sefl_status work_test(work *w, double *loss, const float *theta) SEFL_MUST_CHECK;

/* Returns "cpu", HOOK_DEVICE, or the GPU's name and precision. */
const char *work_device(const work *w);
/* Returns why `device: auto` chose the CPU, or NULL. */
const char *work_fallback(const work *w);

/* Returns the time of CLOCK_THREAD_CPUTIME_ID or CLOCK_PROCESS_CPUTIME_ID in seconds. */
double cpu_seconds(clockid_t which);

#endif

/* work: what the clients of a round compute. On the processor it is spread over threads: a thread
 * works on one client at a time, and nothing inside a client is parallel. On a GPU (`device`,
 * work_device.c) many clients train at once. Integers add exactly, and floats add in the order of
 * the clients: the result is the same, bit for bit, for any number of threads; on a GPU for every
 * repetition on that device.
 *
 *     SEFL_TRY(work_new(&w, federation, pool, NULL, &stop));
 *     SEFL_TRY(work_round(w, &got, &header, theta, set, n, &progress));
 *     ...got.sum (cdp, sefl in the clear), got.average (none), got.closed (sefl, crypto full)...
 *
 * Memory, for d values of the model: per thread an engine (engine_facts: lm_memory, 4 d bytes, a
 * client's text) and 12 d bytes, 8 d more where it adds integers, a body more with crypto full;
 * 1.4 kB per client where uploads are sealed. With a GPU no thread has an engine; in the clear the
 * GPU adds up, and a thread has 4 d bytes. On the GPU: engine_facts, for as many clients at a time
 * as fit.
 * Threads: one owner; works on the pool.   Secrets: a simulation has none. */
#ifndef SIMULATE_WORK_H
#define SIMULATE_WORK_H

#include "base/pool.h"
#include "protocol/update.h"
#include "simulate/population.h"

#include <time.h>

typedef struct work work;

typedef struct work_got {
    uint32_t clients;       /* whose update counts */
    uint32_t diverged;      /* of them: whose training diverged, they upload zeros */
    const int64_t *sum;     /* task.values integers, or NULL */
    const double *average;  /* task.params, or NULL: already divided */
    ahe_sum *closed;        /* or NULL */
    const round_entry *set; /* crypto full: the set by rising client; else NULL */
    const uint8_t *heads;   /* sealed: their heads, head_bytes(task.seal) each; else NULL */
    /* seconds of processor time, all clients together; train on a GPU: of its time */
    double train, encrypt, add;
} work_got;

/* Borrows all. enc: the encryption's tables; NULL: made here (crypto full). stop: as in simulate.h,
 * or NULL: asked after every step of training, every unit of a ciphertext, every piece of
 * validation text. */
sefl_status work_new(work **out, const federation *s, pool *p, const ahe_enc *enc,
                     const sefl_progress *stop) SEFL_MUST_CHECK;
void work_free(work *w);

/* What `got` points to is valid until the next call. header: the round, and CSP's key for sealed
 * uploads. progress counts clients. */
sefl_status work_round(work *w, work_got *got, const round_header *header, const float *theta,
                       const population_member *set, uint32_t n,
                       const sefl_progress *progress) SEFL_MUST_CHECK;

/* Perplexity's logarithm on the validation text; NAN if there is none. Works on all of the pool. */
sefl_status work_evaluate(work *w, double *loss, const float *theta) SEFL_MUST_CHECK;

/* "cpu", or the GPU's name and precision; and why `device: auto` took the processor, or NULL. */
const char *work_device(const work *w);
const char *work_fallback(const work *w);

/* Processor time: CLOCK_THREAD_CPUTIME_ID or CLOCK_PROCESS_CPUTIME_ID. */
double cpu_seconds(clockid_t which);

#endif

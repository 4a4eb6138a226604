/* pool: worker threads. The way the pool divides the work does not depend on the number of threads.
 *
 *     static sefl_status piece(void *ctx, unsigned lane, size_t begin, size_t end);
 *     SEFL_TRY(pool_new(&pool, 0));                     // 0: one thread per core
 *     SEFL_TRY(pool_run(pool, n, 64, piece, &job, NULL));
 *
 * The pool splits [0, n) into pieces of `grain` items (the last may be shorter). Idle threads take
 * pieces in ascending order, so a result that depends only on [begin, end) is the same with 1
 * thread and with 64. `lane` < pool_threads() selects scratch memory: two calls with the same lane
 * never overlap. A NULL pool runs everything in the calling thread.
 *
 * Every piece runs in the caller's floating-point mode (base/float_mode.h).
 *
 * If pieces fail, pool_run returns the status and message of the lowest failed piece and skips all
 * pieces that have not started.
 * Threads: one pool_run at a time; a piece must not call pool_run on its own pool. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/progress.h"
#include "base/status.h"

#include <stddef.h>

typedef struct pool pool;

typedef sefl_status pool_fn(void *ctx, unsigned lane, size_t begin, size_t end);

/* Returns the number of cores that this process may use, at most 256. */
unsigned pool_cores(void);

/* Creates a pool of at most 256 threads, including the caller; 0 means one thread per core that
 * this process may use. */
sefl_status pool_new(pool **out, unsigned threads) SEFL_MUST_CHECK;

void pool_free(pool *p);

/* Returns the number of threads; 1 if p is NULL. */
unsigned pool_threads(const pool *p);

/* Runs fn over [0, n). progress (may be NULL) counts items. grain >= 1. */
sefl_status pool_run(pool *p, size_t n, size_t grain, pool_fn *fn, void *ctx,
                     const sefl_progress *progress) SEFL_MUST_CHECK;

#endif

/* pool: threads that share work in pieces; where a piece begins does not depend on their number.
 *
 *     static sefl_status piece(void *ctx, unsigned lane, size_t begin, size_t end);
 *     SEFL_TRY(pool_new(&pool, 0));                     // 0: one thread per core
 *     SEFL_TRY(pool_run(pool, n, 64, piece, &job, NULL));
 *
 * [0, n) is cut into pieces of `grain` items (the last may be shorter). Free
 * threads take pieces in rising order, so a result that depends only on [begin, end) is the same
 * for 1 thread and for 64. `lane` < pool_threads() picks scratch memory: two
 * calls with the same lane never overlap. A NULL pool runs everything on the caller.
 *
 * If pieces fail, pool_run returns the failure of the lowest piece among those that ran, with its
 * sentence; pieces that had not begun are skipped.
 * Threads: one pool_run at a time; a piece must not call pool_run on its own pool. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/progress.h"
#include "base/status.h"

#include <stddef.h>

typedef struct pool pool;

typedef sefl_status pool_fn(void *ctx, unsigned lane, size_t begin, size_t end);

/* threads = 0: as many as cores this process may use. At most 256. The caller is one of them. */
sefl_status pool_new(pool **out, unsigned threads) SEFL_MUST_CHECK;

void pool_free(pool *p);

/* 1 for NULL. */
unsigned pool_threads(const pool *p);

/* Runs fn over [0, n). progress (may be NULL) counts items. grain >= 1. */
sefl_status pool_run(pool *p, size_t n, size_t grain, pool_fn *fn, void *ctx,
                     const sefl_progress *progress) SEFL_MUST_CHECK;

#endif

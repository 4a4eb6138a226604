/* ranks: the processes that run one simulation together.
 *
 *     uint64_t n = mine;
 *     SEFL_TRY(ranks_sum(r, &n, 1));                       // rank 0 has the sum of all ranks
 *     SEFL_TRY(ranks_broadcast(r, theta, bytes));          // from rank 0 to all
 *     SEFL_TRY(ranks_agree(r, st));                        // all go on, or all stop
 *
 * Rank 0 owns the run: its folder, both servers, the model and all output. Client i belongs to rank
 * i mod size, which alone has its text and trains it. Everything that ranks combine is an integer
 * or a ciphertext, so no result depends on the number of ranks.
 *
 * `ranks_one` is a single process. simulate/mpi/ranks_mpi.h has the implementation over MPI, in
 * builds with -DSEFL_MPI=ON; tests run several ranks as threads.
 *
 * Every rank makes the same calls in the same order, and calls ranks_agree after each step that may
 * fail at one rank alone. After a failure the group is over. Ranks trust each other: they belong to
 * one user's job.
 * Threads: one owner.   Secrets: a simulation has none. */
#ifndef SIMULATE_RANKS_H
#define SIMULATE_RANKS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Adds `items` items: sum += more. Must be associative and commutative. */
typedef void ranks_add(const void *ctx, void *sum, const void *more, size_t items);
/* Receives one item from another rank. */
typedef sefl_status ranks_take(void *ctx, const void *item);

/* How ranks reduce a vector. */
typedef struct ranks_how {
    size_t item_bytes;
    ranks_add *add;
    const void *ctx;
} ranks_how;

typedef struct ranks_ops {
    sefl_status (*broadcast)(void *self, void *bytes, size_t n);
    sefl_status (*reduce)(void *self, void *items, size_t n, const ranks_how *how);
    sefl_status (*collect)(void *self, const void *items, size_t n, size_t item_bytes,
                           ranks_take *take, void *ctx);
} ranks_ops;

typedef struct ranks {
    const ranks_ops *ops;
    void *self;
    unsigned rank, size;
    unsigned local, locals; /* number of this rank on its machine; ranks on this machine */
    bool *over;             /* a step has failed at some rank */
} ranks;

extern const ranks ranks_one;

/* Sends rank 0's n bytes to all ranks. */
sefl_status ranks_broadcast(const ranks *r, void *bytes, size_t n) SEFL_MUST_CHECK;
/* Rank 0's side of ranks_broadcast: its bytes do not change. */
sefl_status ranks_send(const ranks *r, const void *bytes, size_t n) SEFL_MUST_CHECK;
/* Adds n items of all ranks; rank 0 receives the sum, and the items of other ranks are undefined
 * afterwards. */
sefl_status ranks_reduce(const ranks *r, void *items, size_t n,
                         const ranks_how *how) SEFL_MUST_CHECK;
/* Like ranks_reduce, for integers modulo 2^64. */
sefl_status ranks_sum(const ranks *r, uint64_t *v, size_t n) SEFL_MUST_CHECK;
/* Sends each other rank's n items to rank 0, which calls `take` for each. n may differ per rank;
 * rank 0's items are ignored. */
sefl_status ranks_collect(const ranks *r, const void *items, size_t n, size_t item_bytes,
                          ranks_take *take, void *ctx) SEFL_MUST_CHECK;

/* Shares the outcome of a step: SEFL_OK if it is SEFL_OK at every rank. Otherwise the lowest rank
 * that failed returns its own status; the others return SEFL_ECANCELLED, and their message names
 * that rank. After a failure, later calls return at once. */
sefl_status ranks_agree(const ranks *r, sefl_status st) SEFL_MUST_CHECK;
/* SEFL_EINVAL unless these n bytes are equal at all ranks. what: the subject of the message. */
sefl_status ranks_same(const ranks *r, const void *bytes, size_t n,
                       const char *what) SEFL_MUST_CHECK;

static inline bool ranks_owns(const ranks *r, uint32_t client)
{
    return client % r->size == r->rank;
}

#endif

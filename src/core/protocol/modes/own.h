/* own: correlated noise of a server that knows its noise: mode own, and the trusted server of a
 * simulation (simulate/clear.h). docs/PRIVACY.md, section 11, has the proof.
 *
 *     SEFL_TRY(own_filter_init(&f, &law, t, memory));
 *     SEFL_TRY(dgauss_fill_vartime(&law, e, n, &rng));            // W_r, on the filter's grid
 *     own_filter_apply(&f, e, first, n);                          // keeps W_r; e: fine steps
 *
 * Without a filter the law is own_law, and own_filter_apply does nothing.
 * Secret: e, memory.   Threads: pure functions; several may apply different values at once. */
#ifndef PROTOCOL_MODES_OWN_H
#define PROTOCOL_MODES_OWN_H

#include "mpc/noise/noise_filter.h"
#include "privacy/mechanism/dgauss.h"
#include "protocol/task.h"

/* The law of a server's noise without a filter: that of the task's grid and, if slots carry into
 * each other (paillier), a variance that is larger by one OWN_RESERVE-th: the carries change what a
 * server quantises by up to 2^-g fine steps, and for orders up to OWN_ORDER_MAX this reserve is
 * more than they cost (docs/PRIVACY.md, section 5). */
enum { OWN_RESERVE = 5000, OWN_ORDER_MAX = 1024 };
sefl_status own_law(dgauss *law, const task *t) SEFL_MUST_CHECK;
/* Returns an upper bound on the share of the variance that carries cost; 0 without carries. */
double own_carries(const task *t);

typedef struct own_filter {
    uint8_t *memory; /* mpc/noise/noise_filter.h; NULL: no filter */
    unsigned bits;   /* of the grid below a fine step */
} own_filter;

/* SEFL_EINVAL if the task has a filter but memory is NULL. The task and memory must outlive f. */
sefl_status own_filter_init(own_filter *f, dgauss *law, const task *t,
                            uint8_t *memory) SEFL_MUST_CHECK;
void own_filter_apply(const own_filter *f, int64_t *e, size_t first, size_t n);

#endif

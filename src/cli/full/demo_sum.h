/* demo_sum: one secure sum, whole: clients encrypt, AS adds and masks, CSP decrypts the masked sum,
 * both add joint noise, AS alone learns the noisy sum. The servers are those of the simulator: the
 * real protocol at full key size, each on a thread of its own. The noisy sum is printed beside the
 * plain one.
 *
 * Failing the check at the end (the error must have the standard deviation that was claimed) is
 * SEFL_ECRYPTO. */
#ifndef CLI_FULL_DEMO_SUM_H
#define CLI_FULL_DEMO_SUM_H

#include "base/status.h"

#include <stddef.h>

typedef struct demo_sum {
    const char *scheme; /* "pad" or "paillier" */
    unsigned bits;      /* of the Paillier key */
    unsigned clients;
    size_t values;
    const char *noise; /* multiplier z, decimal */
} demo_sum;

sefl_status demo_sum_run(const demo_sum *d) SEFL_MUST_CHECK;

#endif

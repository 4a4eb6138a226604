/* demo_sum: one secure sum, whole: clients encrypt, AS adds and masks, CSP decrypts the masked sum,
 * both add joint noise, AS alone learns the noisy sum. The servers are those of the simulator: the
 * real protocol at full key size, each on a thread of its own. The noisy sum is printed beside the
 * plain one.
 *
 * Failing the check at the end (the error must have the standard deviation that was claimed) is
 * SEFL_ECRYPTO. */
#ifndef CLI_FULL_DEMO_SUM_H
#define CLI_FULL_DEMO_SUM_H

#include "cli/full/demo_fed.h"

sefl_status demo_sum_run(const demo *d) SEFL_MUST_CHECK;

#endif

/* demo_sum: runs one complete secure sum. Clients encrypt, AS adds and masks, CSP decrypts the
 * masked sum, both servers add joint noise, and only AS learns the noisy sum. The simulator's
 * servers run the real protocol with full-size keys, each on its own thread. The demo prints the
 * noisy sum next to the plain sum.
 *
 * SEFL_ECRYPTO if the difference of the two sums does not have the claimed standard deviation. */
#ifndef CLI_FULL_DEMO_SUM_H
#define CLI_FULL_DEMO_SUM_H

#include "cli/full/demo_fed.h"

sefl_status demo_sum_run(const demo *d) SEFL_MUST_CHECK;

#endif

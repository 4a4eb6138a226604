/* protection: defines what a simulated federation's servers see, and who adds the noise.
 *
 *     none   plain FedAvg: the server averages the clients' floats
 *     cdp    a trusted server sums quantised updates and adds the noise
 *     sefl   two servers with the task's release mode; with `crypto: full`, real cryptography
 *
 * Each protection is a row of the table in protection.c; no other code in src/simulate branches on
 * its name. Threads: any.   Secrets: none. */
#ifndef SIMULATE_PROTECTION_H
#define SIMULATE_PROTECTION_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct clear_facts;
struct engine_noise;

#define PROTECTION_WORDS "none cdp sefl"

typedef struct protection {
    const char *name;
    const char *noise; /* the task's privacy.noise; NULL: as in the experiment */
    const char *shown; /* name of the noise in `sefl compare`; NULL: as in the experiment */
    bool quantises;    /* clients upload integers */
    bool two_servers;  /* AS and CSP: uploads are encrypted, crypto: full is possible */
    /* Releases a sum in the clear, as in simulate/clear.h; NULL if no integers are released. */
    sefl_status (*release)(int64_t *out, const struct clear_facts *c, const int64_t *sum);
    /* Computes the noise that `release` adds, so that a GPU can add it to its sum; NULL: not
     * possible. */
    sefl_status (*central)(struct engine_noise *out, const struct clear_facts *c);
} protection;

/* Returns NULL if the name is not in PROTECTION_WORDS. */
const protection *protection_named(const char *name);

#endif

/* protection: what the servers of a simulated federation see, and who adds the noise.
 *
 *     none   plain FedAvg: the server averages the clients' floats
 *     cdp    a trusted server adds quantised updates and one noise
 *     sefl   two servers, the task's release mode; with `crypto: full` the real cryptography
 *
 * A protection is a row of the table in protection.c; nothing else asks which one it is.
 * Threads: const tables.   Secrets: none. */
#ifndef SIMULATE_PROTECTION_H
#define SIMULATE_PROTECTION_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct task;

#define PROTECTION_WORDS "none cdp sefl"

typedef struct protection {
    const char *name;
    const char *noise; /* the task's privacy.noise; NULL: as the experiment says */
    const char *shown; /* what `sefl compare` calls the noise; NULL: as the experiment says */
    bool quantises;    /* clients upload integers, which are released */
    bool two_servers;  /* AS and CSP: uploads are encrypted, crypto: full is possible */
    /* In the clear: the released integers of a sum, as simulate/clear.h; NULL: the sum itself. */
    sefl_status (*release)(int64_t *out, const struct task *t, uint64_t seed, uint64_t round,
                           uint64_t attempt, const int64_t *sum);
} protection;

/* NULL for a name that is not in PROTECTION_WORDS. */
const protection *protection_named(const char *name);

#endif

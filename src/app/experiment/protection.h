/* protection: defines what a simulated federation's servers see, and who adds the noise.
 *
 *     none   plain FedAvg: the server averages the clients' floats
 *     cdp    a trusted server sums quantised updates and adds the noise
 *     sefl   two servers with the task's release mode; with `crypto: full`, real cryptography
 *
 * Each protection is a row of the table in protection.c; no other code branches on its name.
 * simulate/clear.h computes the releases of the last two.
 * Threads: any.   Secrets: none. */
#ifndef SIMULATE_PROTECTION_H
#define SIMULATE_PROTECTION_H

#include <stdbool.h>

#define PROTECTION_WORDS "none cdp sefl"

typedef struct protection {
    const char *name;
    const char *noise; /* the task's privacy.noise; NULL: as in the experiment */
    const char *shown; /* name of the noise in `sefl compare`; NULL: as in the experiment */
    bool quantises;    /* clients upload integers */
    bool two_servers;  /* AS and CSP: uploads are encrypted, crypto: full is possible */
    bool central;      /* one server sees the sum of the integers and adds the noise */
} protection;

/* Returns NULL if the name is not in PROTECTION_WORDS. */
const protection *protection_named(const char *name);

#endif

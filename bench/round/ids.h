/* ids: certificates for benchmarks over TLS, in a folder of their own below /tmp.
 *
 *     ids x;
 *     SEFL_TRY(ids_make(&x));                    // in any case:
 *     ids_remove(&x);
 *
 * Threads: one owner.   Secrets: keys worth nothing. */
#ifndef BENCH_ROUND_IDS_H
#define BENCH_ROUND_IDS_H

#include "net/tls.h"

typedef struct ids {
    char folder[256];
    tls_id *as, *csp, *client;
} ids;

sefl_status ids_make(ids *x) SEFL_MUST_CHECK;
void ids_remove(ids *x);
/* folder/NAMEsuffix; ids_remove deletes "body" too. */
void ids_path(const ids *x, char out[300], const char *name, const char *suffix);

#endif

/* ids: creates certificates for benchmarks over TLS, in a new folder below /tmp.
 *
 *     ids x;
 *     SEFL_TRY(ids_make(&x));
 * done:
 *     ids_remove(&x);                            // even if ids_make failed
 *
 * Threads: one owner.   Secrets: throwaway keys. */
#ifndef BENCH_ROUND_IDS_H
#define BENCH_ROUND_IDS_H

#include "net/tls.h"

typedef struct ids {
    char folder[256];
    tls_id *as, *csp, *client;
} ids;

sefl_status ids_make(ids *x) SEFL_MUST_CHECK;
void ids_remove(ids *x);
/* Writes the path folder/NAMEsuffix to out; ids_remove also deletes "body". */
void ids_path(const ids *x, char out[300], const char *name, const char *suffix);

#endif

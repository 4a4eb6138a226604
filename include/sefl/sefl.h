/* SEFL: secure federated learning.
 *
 *     sefl/client.h      take part in a federation with your own training code
 *     sefl/server.h      run one of the two servers
 *     sefl/privacy.h     plan a privacy budget, read a ledger
 *     sefl/status.h      status codes and error messages
 *
 * Each header can be included alone. Link with `pkg-config --cflags --libs sefl`. docs/LIBRARY.md
 * is a tour. */
#ifndef SEFL_SEFL_H
#define SEFL_SEFL_H

#include "sefl/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SEFL_VERSION_MAJOR 0
#define SEFL_VERSION_MINOR 2
#define SEFL_VERSION_PATCH 0

/* Returns the version of the running library ("0.1.0"), which may differ from this header's. */
SEFL_API const char *sefl_version(void);

#ifdef __cplusplus
}
#endif
#endif

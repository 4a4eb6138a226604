/* SEFL: secure federated learning for language models.
 *
 * The public interface. For now: version and status; the client and secure-sum interfaces join it
 * as they settle. Link with `pkg-config --cflags --libs sefl`. */
#ifndef SEFL_SEFL_H
#define SEFL_SEFL_H

#include "sefl/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SEFL_VERSION_MAJOR 0
#define SEFL_VERSION_MINOR 1
#define SEFL_VERSION_PATCH 0

/* "0.1.0": the version of the library that runs, not of the header that was compiled. */
SEFL_API const char *sefl_version(void);

#ifdef __cplusplus
}
#endif
#endif

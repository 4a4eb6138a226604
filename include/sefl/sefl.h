/* SEFL: secure federated learning for language models.
 *
 * For now, the public interface is the version and the status codes. The client and secure-sum
 * interfaces will follow once they are stable. Link with `pkg-config --cflags --libs sefl`. */
#ifndef SEFL_SEFL_H
#define SEFL_SEFL_H

#include "sefl/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SEFL_VERSION_MAJOR 0
#define SEFL_VERSION_MINOR 1
#define SEFL_VERSION_PATCH 0

/* Returns the version of the running library ("0.1.0"), which may differ from this header's. */
SEFL_API const char *sefl_version(void);

#ifdef __cplusplus
}
#endif
#endif

/* own_cert: logs a warning if a role's own certificate expires within 14 days, and an error once it
 * has expired. It logs once a day, and at once for a new certificate.
 *
 *     own_cert_look(&o, tls_id_expires(id), now_s, log);        // at any interval
 *
 * A peer that refuses an expired certificate sends only a generic error, so the role must warn its
 * own operator.
 * Threads: one owner.   Secrets: none. */
#ifndef ROLES_OWN_CERT_H
#define ROLES_OWN_CERT_H

#include "base/log.h"

#include <stdbool.h>

enum { OWN_CERT_SOON_DAYS = 14 };

typedef struct own_cert { /* initialise with zeros */
    int64_t ends, said;
} own_cert;

/* Logs a line if one is due, and returns true if it did. Times are seconds since 1970. */
bool own_cert_look(own_cert *o, int64_t ends, int64_t now, sefl_log *log);

#endif

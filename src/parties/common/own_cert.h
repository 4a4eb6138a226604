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

/* How far a clock may be away from another machine's before its owner is told. */
enum { CLOCK_APART_S = 60 };

/* Writes "this machine's clock is 3 days ahead of the server's: set it (NTP)"; false: it is not
 * apart by more than CLOCK_APART_S. */
enum { CLOCK_APART_TEXT = 128 };
bool clock_apart_text(char out[CLOCK_APART_TEXT], int64_t ahead_s);

#endif

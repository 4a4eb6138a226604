/* kits: writes one archive per machine of a trial federation (operator/provision.h).
 *
 *     ROOT/kits/aggregator.tar  csp.tar  client-01.tar ...        mode 0600: each has private keys
 *
 * Each archive unpacks to one folder, sefl-trial-NAME:
 *
 *     README (five lines)   start (runs the role)   sefl-trial-NAME.service (systemd unit)
 *     aggregator/ ca/aggregator/ public/         of AS      } the party's own files, as in ROOT, so
 *     csp/ ca/csp/ public/task.signed            of CSP     } that the relative paths in their
 *     client/                                    of clients } settings hold
 *
 * A kit never contains another party's private key. It is a trial all the same, because one person
 * made all keys.
 * Threads: one call per root.   Secrets: the archives. */
#ifndef ROLES_KITS_H
#define ROLES_KITS_H

#include "config/address.h"

typedef struct kits_config {
    const char *root; /* the provisioned folder */
    host_port as, csp;
    uint32_t clients;
    unsigned width; /* number of digits in a client's number */
    bool external;  /* clients train with their owners' programs */
} kits_config;

/* Reads "AS,CSP": two host names or addresses, each with or without a port. The default ports are
 * `base` for AS and base + 1 for CSP; with base 0 both need one. SEFL_EINVAL if the text is not
 * valid, or names the same address twice. */
sefl_status kits_hosts(host_port *as, host_port *csp, const char *text,
                       unsigned base) SEFL_MUST_CHECK;

/* Creates ROOT/kits and all archives. */
sefl_status kits_write(const kits_config *c) SEFL_MUST_CHECK;

#endif

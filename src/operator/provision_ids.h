/* provision_ids: creates the identities of a trial federation as real operators and sites do: two
 * operators' folders (roles/ca.h) that trust each other's CA for one role each, two tokens for
 * every client, and each client's enrolment with them (operator/site.h).
 *
 *     ca/aggregator  ca/csp          operators' folders, without the signing keys
 *     aggregator/    csp/            cert.pem key.pem peers.pem sign.key; AS: csp_peers.pem
 *     clients/NAME/                  cert.pem key.pem peers.pem aggregator.pub csp.pub ledger
 *     public/                        aggregator.pub csp.pub
 *
 * The folders of servers and clients must exist. A client whose folder has no settings files gets
 * those of a new site.
 * Threads: one call per root.   Secrets: every key. */
#ifndef ROLES_PROVISION_IDS_H
#define ROLES_PROVISION_IDS_H

#include "base/status.h"

#include <stdint.h>

/* Names the clients client-01, ...; the number has `width` digits. */
sefl_status provision_identities(const char *root, uint32_t clients,
                                 unsigned width) SEFL_MUST_CHECK;

#endif

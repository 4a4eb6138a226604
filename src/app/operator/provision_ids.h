/* provision_ids: creates the identities of a trial federation in the same way as real operators and
 * sites: two operators' folders (roles/ca.h), each of which trusts the other's CA for one role, and
 * two tokens for every client, with which it enrols (operator/site.h).
 *
 *     ca/aggregator  ca/csp          operators' folders, without the signing keys
 *     aggregator/    csp/            cert.pem key.pem peers.pem sign.key; AS: csp_peers.pem
 *     clients/NAME/                  cert.pem key.pem peers.pem aggregator.pub csp.pub ledger
 *     public/                        aggregator.pub csp.pub
 *
 * The folders of servers and clients must exist. A client's folder without settings files gets
 * those of a new site.
 * Threads: one call per root.   Secrets: every key. */
#ifndef ROLES_PROVISION_IDS_H
#define ROLES_PROVISION_IDS_H

#include "base/status.h"

#include <stdint.h>

/* The names and addresses in a certificate for a server on this machine. */
#define PROVISION_LOOPBACK "localhost,127.0.0.1,::1"

/* Names the clients client-01, client-02 and so on, with `width` digits. as_hosts and csp_hosts are
 * the names and addresses in the servers' certificates, separated by commas. */
sefl_status provision_identities(const char *root, const char *as_hosts, const char *csp_hosts,
                                 uint32_t clients, unsigned width) SEFL_MUST_CHECK;

#endif

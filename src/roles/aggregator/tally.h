/* tally: the counters of AS as a file for people and programs: state/counters.json.
 *
 *     {"connections":812,"handshake_failed":31, ... ,"certificate.revoked":2, ... ,"upload.taken":40, ...}
 *
 * Every refusal is in it under its reason: before a request (https_server.h), certificates
 * (certificate.*), requests (http.h), uploads (upload.*: ingest.h). Numbers since the start of the
 * process; nothing in it is about one client. Written whole, about once a second where something
 * changed, and at the end. The file is no journal: it may be lost. Threads: one owner.   Secrets:
 * none. */
#ifndef ROLES_AGGREGATOR_TALLY_H
#define ROLES_AGGREGATOR_TALLY_H

#include "roles/aggregator/http.h"

/* To a file, unless that is what `last` holds already; last becomes it. */
sefl_status tally_save(const char *path, sefl_buf *last, const https_server *s,
                       const agg_http *h) SEFL_MUST_CHECK;

#endif

/* tally: writes AS's counters to a file for people and programs: state/counters.json.
 *
 *     {"connections":812,"handshake_failed":31, ... ,"certificate.revoked":2, ... ,"upload.taken":40, ...}
 *
 * It counts every refusal by its reason: before a request (https_server.h), certificates
 * (certificate.*), requests (http.h), uploads (upload.*: ingest.h). Counts start with the process;
 * none is about a single client. AS rewrites the file about once a second if something changed, and
 * at the end. The file is not a journal: it may be lost. Threads: one owner.   Secrets: none. */
#ifndef ROLES_AGGREGATOR_TALLY_H
#define ROLES_AGGREGATOR_TALLY_H

#include "roles/aggregator/http.h"

/* Writes the counters unless they equal `last`, which gets what was written. */
sefl_status tally_save(const char *path, sefl_buf *last, const https_server *s,
                       const agg_http *h) SEFL_MUST_CHECK;

#endif

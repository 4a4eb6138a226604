/* tally: writes AS's counters to the file state/counters.json, for operators and monitors.
 *
 *     {"connections":812, ... ,"certificate.revoked":2, ... ,"upload.taken":40, ...}
 *
 * It counts refused connections (https_server.h), certificates (certificate.*), requests
 * (as_http.h) and uploads (upload.*: ingest.h), each by its reason. Counts start with the task, and
 * no count concerns a single client; /metrics shows the same counts (roles/monitor.h). AS rewrites
 * the file about once a second after a change, and at the end. Nothing depends on the file.
 * Threads: one owner.   Secrets: none. */
#ifndef ROLES_AGGREGATOR_TALLY_H
#define ROLES_AGGREGATOR_TALLY_H

#include "roles/aggregator/as_http.h"

/* Writes the counters, and a copy of them to `last`, unless they equal `last`. */
sefl_status tally_save(const char *path, sefl_buf *last, const https_server *s,
                       const agg_http *h) SEFL_MUST_CHECK;

#endif

/* uploaders: simulates the clients of a provisioned federation for benchmarks: their upload keys,
 * vouchers and, in every round, a different update per client.
 *
 *     SEFL_TRY(uploaders_new(&c, "fed", 8, &task));
 *     SEFL_TRY(uploaders_vouch(c, link, journal));                 // sealed tasks
 *     SEFL_TRY(uploaders_update(c, body, units, i, &header, enc, pool));
 *     uploaders_free(c);
 *
 * Threads: one owner.   Secrets: throwaway keys. */
#ifndef BENCH_ROUND_UPLOADERS_H
#define BENCH_ROUND_UPLOADERS_H

#include "protocol/update.h"
#include "store/journal/journal.h"
#include "sum/as_link.h"

typedef struct uploaders uploaders;

/* provision_make made the folder for this number of clients. The task must outlive the result. */
sefl_status uploaders_new(uploaders **out, const char *folder, uint32_t clients,
                          const task *t) SEFL_MUST_CHECK;
void uploaders_free(uploaders *c);

/* Returns a client's fingerprint, 32 bytes; clients are sorted by fingerprint. */
const uint8_t *uploaders_client(const uploaders *c, uint32_t i);

/* Sends vouchers to CSP and stores them in AS's journal. If link or j is NULL, skips that part. */
sefl_status uploaders_vouch(uploaders *c, as_link *link, journal *j) SEFL_MUST_CHECK;

/* Makes client i's update. body has task_body_bytes bytes; units receives its hash. */
sefl_status uploaders_update(uploaders *c, uint8_t *body, uint8_t units[32], uint32_t i,
                             const round_header *h, const ahe_enc *enc, pool *p) SEFL_MUST_CHECK;
/* uploaders_total returns the sum of the updates since uploaders_begin, task.values integers. */
void uploaders_begin(uploaders *c, uint64_t round);
const int64_t *uploaders_total(const uploaders *c);

#endif

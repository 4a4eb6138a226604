/* uploaders: the clients of a provisioned federation for a benchmark: their upload keys, vouchers
 * and, round after round, updates of their own, all different.
 *
 *     SEFL_TRY(uploaders_new(&c, "fed", 8, &task));
 *     SEFL_TRY(uploaders_vouch(c, link, journal));                 // sealed tasks
 *     SEFL_TRY(uploaders_update(c, body, units, i, &header, enc, pool));
 *     uploaders_free(c);
 *
 * Threads: one owner.   Secrets: keys worth nothing. */
#ifndef BENCH_ROUND_UPLOADERS_H
#define BENCH_ROUND_UPLOADERS_H

#include "protocol/update.h"
#include "store/journal/journal.h"
#include "sum/as_link.h"

typedef struct uploaders uploaders;

/* folder: of provision_make, with so many clients; borrows the task. */
sefl_status uploaders_new(uploaders **out, const char *folder, uint32_t clients,
                          const task *t) SEFL_MUST_CHECK;
void uploaders_free(uploaders *c);

/* 32 bytes; clients stand by rising fingerprint. */
const uint8_t *uploaders_client(const uploaders *c, uint32_t i);
const sign_key *uploaders_key(const uploaders *c, uint32_t i);

/* Every voucher to CSP, and into the journal of AS (NULL: nowhere). link NULL: CSP is not asked. */
sefl_status uploaders_vouch(uploaders *c, as_link *link, journal *j) SEFL_MUST_CHECK;

/* body: task_body_bytes. units: its name. */
sefl_status uploaders_update(uploaders *c, uint8_t *body, uint8_t units[32], uint32_t i,
                             const round_header *h, const ahe_enc *enc, pool *p) SEFL_MUST_CHECK;
/* Sum of the updates since uploaders_begin, task.values integers. */
void uploaders_begin(uploaders *c, uint64_t round);
const int64_t *uploaders_total(const uploaders *c);

#endif

/* receipts: keeps a client's signed receipts, for all its tasks, in one append-only file.
 *
 *     SEFL_TRY(receipts_open(&r, "state/receipts"));
 *     SEFL_TRY(receipts_add(r, task, round, envelope));        // durable when it returns
 *     SEFL_TRY(receipts_find(r, &out, task, round));
 *     receipts_close(r);
 *
 * The file is a sequence of records, little-endian:
 *
 *     n u32 | task 32 | round u64 | envelope of n bytes (protocol/signed.h) | SHA-256 of these, 32
 *
 * receipts_open builds an index in memory, with 16 bytes and two reads per record. If a crash cut
 * the last record short, receipts_open removes it: it was never acknowledged, and the client asks
 * AS for that receipt again. Any other damage is SEFL_EPROTO with the byte offset: receipts are
 * evidence, so nothing else is ever removed. If the client died before it set its mark, it adds the
 * receipt for the last round again, which then replaces the first copy. Threads: one owner, in one
 * process (store.h holds the lock).
 * Secrets: none. */
#ifndef ROLES_RECEIPTS_H
#define ROLES_RECEIPTS_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum { RECEIPTS_TASK = 32, RECEIPTS_ENVELOPE_MAX = 4096 };

typedef struct receipts receipts;

/* Opens the file, or creates an empty one with mode 0600, whose name is durable once the caller has
 * synced the folder. */
sefl_status receipts_open(receipts **out, const char *path) SEFL_MUST_CHECK;
void receipts_close(receipts *r);

/* A failure leaves all earlier records intact, except one that the new record would replace. */
sefl_status receipts_add(receipts *r, const uint8_t task[RECEIPTS_TASK], uint64_t round,
                         sefl_span envelope) SEFL_MUST_CHECK;

size_t receipts_count(const receipts *r);
/* Appends the i-th envelope, in the order of addition, to out, and returns its task and round
 * (either may be NULL). */
sefl_status receipts_at(const receipts *r, size_t i, uint8_t task[RECEIPTS_TASK], uint64_t *round,
                        sefl_buf *out) SEFL_MUST_CHECK;
/* Reads the next record of such a file, without changing it; *more is false if it is cut short, or
 * at the end. SEFL_EPROTO if it was changed. */
sefl_status receipts_next(rd *r, sefl_span *envelope, bool *more) SEFL_MUST_CHECK;
/* Appends the latest receipt for this round to out; SEFL_ENOTFOUND if there is none. */
sefl_status receipts_find(const receipts *r, sefl_buf *out, const uint8_t task[RECEIPTS_TASK],
                          uint64_t round) SEFL_MUST_CHECK;

#endif

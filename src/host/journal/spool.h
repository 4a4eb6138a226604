/* spool: writes an upload to disk as its pieces arrive, hashes it, and can resume it later.
 *
 *     SEFL_TRY(spool_open(&s, folder, name, 0, total, NULL)); // resumes an interrupted upload
 *     spool_offset(s)                                       // the next byte
 *     SEFL_TRY(spool_write(s, bytes));
 *     SEFL_TRY(spool_finish(s));      // checks length and hash, syncs, renames to folder/NAME
 *     spool_close(s);                 // before spool_finish: keeps the part for later
 *
 * The unfinished file is called a part: folder/NAME.part. Reopening a part, or a complete body,
 * reads it once to hash it. If its salt and units do not hash to the announced name
 * (crypto/update_name.h), the file is deleted (SEFL_EAUTH). spool_sweep deletes parts that have not
 * changed for a long time; the caller limits their number and total size.
 *
 * A caller may provide room for the whole body; the spool then also copies the body there, and
 * readers use the room instead of the file. The spool then bypasses the system's cache when it
 * writes the file, if the file system allows it (O_DIRECT, 1 MiB at a time). If the process dies,
 * the client sends the unwritten bytes again.
 * Threads: one owner per spool; one spool per hash (flock; SEFL_ESTATE while another is open).
 * Secrets: none (ciphertexts).   Memory: constant. */
#ifndef STORE_JOURNAL_SPOOL_H
#define STORE_JOURNAL_SPOOL_H

#include "base/span.h"
#include "crypto/update_name.h"

#include <stdbool.h>

typedef struct spool spool;

enum { SPOOL_BLOCK = 4096 };
/* Size of the room for a body of `total` bytes (less than 2^63). */
#define SPOOL_ROOM(total) (((total) + SPOOL_BLOCK - 1) / SPOOL_BLOCK * SPOOL_BLOCK)

/* skip is the length of the head at the start of the body, which the name does not cover. room is
 * NULL, or SPOOL_ROOM(total) bytes at a multiple of SPOOL_BLOCK; the caller owns them but must not
 * touch them before spool_close. */
sefl_status spool_open(spool **out, const char *folder, const uint8_t hash[BLAKE3_BYTES],
                       uint64_t skip, uint64_t total, uint8_t *room) SEFL_MUST_CHECK;
uint64_t spool_offset(const spool *s);
sefl_status spool_write(spool *s, sefl_span bytes) SEFL_MUST_CHECK;
sefl_status spool_finish(spool *s) SEFL_MUST_CHECK;
/* True if the room contains the whole body after spool_finish; false for a resumed upload. */
bool spool_in_room(const spool *s);
void spool_close(spool *s);
/* Returns the size of the part, 0 if there is none, or `total` if the body is complete. */
uint64_t spool_have(const char *folder, const uint8_t hash[BLAKE3_BYTES], uint64_t total);
/* Deletes parts older than age_s seconds, and counts the remaining parts and their bytes. */
sefl_status spool_sweep(const char *folder, uint64_t age_s, size_t *parts,
                        uint64_t *bytes) SEFL_MUST_CHECK;

#endif

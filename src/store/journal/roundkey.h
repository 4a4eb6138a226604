/* roundkey: the key of a round, and files sealed under it. Internal to the journal.
 *
 * The key is in FOLDER/key, mode 0600, made with the first secret of the round. A sealed file:
 *
 *     bytes
 *     8     "SEFLRND1"
 *     19    random; the nonce of piece i is these bytes, i as u32 and 1 for the last piece, else 0
 *           pieces: 65,536 bytes (the last one: 0 to 65,536), each with its tag of 16 bytes
 *
 * XChaCha20-Poly1305 (libsodium) with "sefl round file 1", task, round and name as associated data:
 * a piece that was changed, moved, cut off or put under another name, round or task is
 * SEFL_ECRYPTO. (This is the STREAM construction. libsodium's own secretstream always draws its
 * header from the system; here the coins come in as an argument.)
 *
 * Secret: key, bytes. Public: names, lengths.   Threads: callers lock. */
#ifndef STORE_JOURNAL_ROUNDKEY_H
#define STORE_JOURNAL_ROUNDKEY_H

#include "base/buf.h"
#include "base/random.h"
#include "base/span.h"

#include <stdbool.h>

enum { ROUNDKEY_BYTES = 32, ROUNDKEY_PIECE = 1 << 16 };

typedef struct roundkey_place {
    const uint8_t *task; /* 32 bytes */
    uint64_t round;
    const char *name;
} roundkey_place;

/* Reads a key file; SEFL_ENOTFOUND, SEFL_ECRYPTO if it is all zeros or has another length. */
sefl_status roundkey_read(uint8_t key[ROUNDKEY_BYTES], const char *path) SEFL_MUST_CHECK;
/* Reads the key of the round's folder; SEFL_ENOTFOUND, SEFL_ECRYPTO if it was overwritten. */
sefl_status roundkey_get(uint8_t key[ROUNDKEY_BYTES], const char *folder) SEFL_MUST_CHECK;
/* The same, or makes it, durably. */
sefl_status roundkey_make(uint8_t key[ROUNDKEY_BYTES], const char *folder,
                          const sefl_rng *rng) SEFL_MUST_CHECK;
/* Overwrites the key (and an unfinished one) with zeros, durably; a folder without a key is
 * fine. */
sefl_status roundkey_wipe(const char *folder) SEFL_MUST_CHECK;
/* Zeros over one key file, durably. dir: a folder's descriptor, or AT_FDCWD. */
sefl_status roundkey_overwrite(int dir, const char *name) SEFL_MUST_CHECK;
/* A wiped key is all zeros. */
bool roundkey_is_zero(const uint8_t key[ROUNDKEY_BYTES]);
/* A wipe has begun: the key file exists and is all zeros. */
sefl_status roundkey_is_wiped(bool *out, const char *folder) SEFL_MUST_CHECK;

/* Appends the sealed file to out; out is as it was on failure. */
sefl_status roundkey_seal(sefl_buf *out, const uint8_t key[ROUNDKEY_BYTES],
                          const roundkey_place *at, sefl_span bytes,
                          const sefl_rng *rng) SEFL_MUST_CHECK;
/* Appends what was sealed; nothing unless every piece is right. */
sefl_status roundkey_open(sefl_buf *out, const uint8_t key[ROUNDKEY_BYTES],
                          const roundkey_place *at, sefl_span sealed) SEFL_MUST_CHECK;

#endif

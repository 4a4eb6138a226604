/* roundkey: the round file key, and files encrypted under it. Internal to the journal.
 *
 * The key is stored in FOLDER/key, mode 0600, which is created with the first secret of the round.
 * The format of an encrypted file is:
 *
 *     bytes
 *     8     "SEFLRND1"
 *     19    random bytes r; the nonce of piece i is r, i as u32, and 1 for the last piece, else 0
 *           pieces of 65,536 bytes (the last has 0 to 65,536), each followed by its 16-byte tag
 *
 * Each piece is encrypted with XChaCha20-Poly1305 (libsodium). The associated data are "sefl round
 * file 1", task, round and name: SEFL_ECRYPTO if a piece was changed, reordered, cut off, or moved
 * to another name, round or task. (This is the STREAM construction. libsodium's own secretstream
 * always asks the system for random bytes; this module takes them from the rng argument.)
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

/* Reads a key file. SEFL_ENOTFOUND if there is none, SEFL_ECRYPTO if it is wiped or malformed. */
sefl_status roundkey_read(uint8_t key[ROUNDKEY_BYTES], const char *path) SEFL_MUST_CHECK;
/* Reads a round's key from its folder. SEFL_ENOTFOUND if there is none, SEFL_ECRYPTO if wiped. */
sefl_status roundkey_get(uint8_t key[ROUNDKEY_BYTES], const char *folder) SEFL_MUST_CHECK;
/* Reads the key in a round's folder, or creates it durably if there is none. */
sefl_status roundkey_make(uint8_t key[ROUNDKEY_BYTES], const char *folder,
                          const sefl_rng *rng) SEFL_MUST_CHECK;
/* Overwrites the key (and an unfinished one) with zeros, durably; does nothing if there is none. */
sefl_status roundkey_wipe(const char *folder) SEFL_MUST_CHECK;
/* Overwrites one key file with zeros, durably. dir is a folder's descriptor, or AT_FDCWD. */
sefl_status roundkey_overwrite(int dir, const char *name) SEFL_MUST_CHECK;
/* True if the key is all zero, which means that it was wiped. */
bool roundkey_is_zero(const uint8_t key[ROUNDKEY_BYTES]);
/* Sets *out to whether a wipe has begun: the key file exists and is all zero. */
sefl_status roundkey_is_wiped(bool *out, const char *folder) SEFL_MUST_CHECK;

/* Encrypts bytes and appends the file's contents to out; on failure out is unchanged. */
sefl_status roundkey_seal(sefl_buf *out, const uint8_t key[ROUNDKEY_BYTES],
                          const roundkey_place *at, sefl_span bytes,
                          const sefl_rng *rng) SEFL_MUST_CHECK;
/* Decrypts a file and appends its bytes to out; appends nothing unless every piece verifies. */
sefl_status roundkey_open(sefl_buf *out, const uint8_t key[ROUNDKEY_BYTES],
                          const roundkey_place *at, sefl_span sealed) SEFL_MUST_CHECK;

#endif

/* noise/store: secrets that wait, written once, read once, in order, and gone when read.
 *
 *     SEFL_TRY(noise_store_new(&s, bytes, records, dir, rng));       // dir NULL: in memory
 *     SEFL_TRY(noise_store_put(s, record, n));                       // ... records times
 *     SEFL_TRY(noise_store_take(s, record, n));                      // the first one; erased
 *
 * On disk: a file without a name (it vanishes with the process, however that ends), encrypted with
 * AES-128-CTR. Record i has its own key; the key of record i + 1 is made from it by a one-way
 * function and the old one is wiped as the record is taken. Space is given back as records are
 * taken where the file system can. The SHA-256 of every record's ciphertext stays in memory: a
 * record that was changed on the disk, moved or swapped is SEFL_ECRYPTO and never decrypted.
 * Keys are never written by us; they lie in memory that is kept out of swap and core files
 * (crypto/secmem: a server fails where the system does not lock it, unless memory_lock is try), so
 * that after a crash, or once taken, the bytes on the disk are noise. Records while they are in use
 * can get into the swap: docs/THREATS.md.
 * In memory: blocks that are wiped and freed as they are taken; not locked.
 *
 * Secret: records. Public: sizes, order.   Threads: one owner.
 * Faults: FAULT_WRITE, FAULT_READ. */
#ifndef MPC_NOISE_STORE_H
#define MPC_NOISE_STORE_H

#include "base/random.h"
#include "base/sha256.h"

typedef struct noise_store noise_store;

/* bytes: of the largest record. */
sefl_status noise_store_new(noise_store **out, size_t bytes, size_t records, const char *dir,
                            const sefl_rng *rng) SEFL_MUST_CHECK;

/* SEFL_ESTATE after `records` of them. */
sefl_status noise_store_put(noise_store *s, const void *record, size_t n) SEFL_MUST_CHECK;

/* n must be what was put. SEFL_ESTATE if nothing is left; SEFL_ECRYPTO if the record is not the one
 * that was put (record is not touched). A take that failed may be repeated. */
sefl_status noise_store_take(noise_store *s, void *record, size_t n) SEFL_MUST_CHECK;

/* Wipes what is left. NULL is fine. */
void noise_store_free(noise_store *s);

/* For tests: the file, or -1 in memory; keys of the next record put and taken. */
int noise_store_peek(const noise_store *s, uint8_t put[SHA256_BYTES], uint8_t take[SHA256_BYTES]);

#endif

/* keyfile: stores a secret of CSP: the root of its round keys, or the key pair of a Paillier task.
 *
 * A root is 32 random bytes. CSP derives every round key from the root and 32 bytes in its journal,
 * and wipes those bytes when the round ends (docs/PROTOCOL.md, "Keys"). So a root alone decrypts
 * nothing, and one root serves any number of tasks. It has no public half.
 *
 * A Paillier key pair serves one task. Its public key is a text file, easy to mail and compare:
 *
 *     -----BEGIN SEFL PUBLIC KEY-----
 *     version: 1
 *     scheme: paillier
 *     bits: 3072
 *     fingerprint: 5c1e...                              SHA-256 of the key's bytes, in hex
 *
 *     AAwX...                                           paillier_pub_write, base64, 76 per line
 *     -----END SEFL PUBLIC KEY-----
 *
 * Each key has exactly one valid file: a file that differs in a single byte is refused. The
 * fingerprint detects damage. To detect a substituted file, compare the fingerprint over another
 * channel (docs/THREATS.md).
 *
 * A secret is a sealed file (crypto/sealed.h) with a label that anyone can read:
 *
 *     u8 kind     1 Paillier                             2 root
 *     u16 bits    of the key                             256
 *     32 bytes    fingerprint of its public half         SHA-256("sefl root 1", root)
 *     inside      paillier_sec_write                     the root
 *
 *     SEFL_TRY(keyfile_root_write(&file, root, &lock, NULL, &rng));
 *     SEFL_TRY(file_write_new(path, buf_span(&file), 0600));
 *     ...
 *     SEFL_TRY(secmem_new(&root, KEYFILE_ROOT_BYTES, NULL));
 *     SEFL_TRY(keyfile_root_read(root, buf_span(&file), &lock));
 *
 * Secret: root, sec, the lock. Public: pub, everything in an info. Threads: any. */
#ifndef CRYPTO_KEYFILE_H
#define CRYPTO_KEYFILE_H

#include "base/buf.h"
#include "base/random.h"
#include "base/span.h"
#include "crypto/ahe/paillier.h"
#include "crypto/sealed.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    KEYFILE_BYTES_MAX = 16384, /* maximum size of any of these files, for file_read */
    KEYFILE_ROOT_BYTES = 32,
};

/* Values are stable: files contain them. */
typedef enum keyfile_kind { KEYFILE_PAILLIER = 1, KEYFILE_ROOT = 2 } keyfile_kind;

typedef struct keyfile_info {
    keyfile_kind kind;
    bool secret; /* true: the file contains a secret; false: a public key */
    unsigned bits;
    uint8_t fingerprint[PAILLIER_FINGERPRINT_BYTES]; /* as in the formats above */
    sealed_by by;                                    /* secret only: kind of lock */
    sealed_cost cost;                                /* secret only */
} keyfile_info;

/* Reads a file's plaintext header. It is authenticated only when a secret file is opened.
 * SEFL_EPROTO if it is not a key file, SEFL_EUNSUPPORTED for another version. */
sefl_status keyfile_info_read(keyfile_info *out, sefl_span file) SEFL_MUST_CHECK;

/* If cost is NULL, uses the default of sealed.h. */
sefl_status keyfile_root_write(sefl_buf *out, const uint8_t root[KEYFILE_ROOT_BYTES],
                               const sealed_lock *lock, const sealed_cost *cost,
                               const sefl_rng *rng) SEFL_MUST_CHECK;
/* Decrypts a root; zeroes it on failure. SEFL_EAUTH if the lock does not open the file, SEFL_EINVAL
 * if the file contains a Paillier key. */
sefl_status keyfile_root_read(uint8_t root[KEYFILE_ROOT_BYTES], sefl_span file,
                              const sealed_lock *lock) SEFL_MUST_CHECK;

sefl_status keyfile_pub_write(sefl_buf *out, const paillier_pub *pub) SEFL_MUST_CHECK;
/* Performs all checks of paillier_pub_read: SEFL_EPROTO, with the reason, if one fails. */
sefl_status keyfile_pub_read(paillier_pub **out, sefl_span file) SEFL_MUST_CHECK;

/* If cost is NULL, uses the default of sealed.h. */
sefl_status keyfile_sec_write(sefl_buf *out, const paillier_sec *sec, const sealed_lock *lock,
                              const sealed_cost *cost, const sefl_rng *rng) SEFL_MUST_CHECK;
/* SEFL_EAUTH if the lock does not open the file, SEFL_EINVAL if it contains a root. *locked (may be
 * NULL) becomes true if the key's memory is locked; after secmem_require(true), a failure to lock
 * it is an error. */
sefl_status keyfile_sec_read(paillier_sec **out, sefl_span file, const sealed_lock *lock,
                             bool *locked) SEFL_MUST_CHECK;

/* Self-test: encrypts random and extreme plaintexts and decrypts them with and without the Chinese
 * remainder theorem. SEFL_ECRYPTO if a result differs. */
sefl_status keyfile_check(const paillier_sec *sec, const sefl_rng *rng) SEFL_MUST_CHECK;

#endif

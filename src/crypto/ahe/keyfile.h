/* keyfile: the key pair of a task on disk.
 *
 * The public key is text, to be mailed, compared and pasted:
 *
 *     -----BEGIN SEFL PUBLIC KEY-----
 *     version: 1
 *     scheme: paillier
 *     bits: 3072
 *     fingerprint: 5c1e...                              SHA-256 of the key's bytes, in hex
 *
 *     AAwX...                                           paillier_pub_write, base64, 76 a line
 *     -----END SEFL PUBLIC KEY-----
 *
 * One key has one such text: whatever differs by a byte is refused. The fingerprint finds damage;
 * against exchange of the whole file only comparing it over another path helps (system of trust:
 * docs/THREATS.md).
 *
 * The secret key is a sealed file (crypto/sealed.h) around paillier_sec_write, with a label that
 * anybody can read: u8 kind, 1 | u16 bits | 32 bytes fingerprint of its public half.
 *
 *     SEFL_TRY(keyfile_sec_write(&file, sec, &lock, NULL, &rng));
 *     SEFL_TRY(file_write_new(path, buf_span(&file), 0600));
 *     ...
 *     SEFL_TRY(keyfile_sec_read(&sec, buf_span(&file), &lock, &locked));
 *     if (!locked) warn();
 *
 * Secret: sec, the lock. Public: pub, everything in an info. Threads: any. */
#ifndef CRYPTO_AHE_KEYFILE_H
#define CRYPTO_AHE_KEYFILE_H

#include "base/buf.h"
#include "base/random.h"
#include "base/span.h"
#include "crypto/ahe/paillier.h"
#include "crypto/sealed.h"

#include <stdbool.h>
#include <stdint.h>

enum { KEYFILE_BYTES_MAX = 16384 }; /* of either file; give it to file_read */

typedef struct keyfile_info {
    bool secret; /* a secret key's file; else a public key's */
    unsigned bits;
    uint8_t fingerprint[PAILLIER_FINGERPRINT_BYTES]; /* of the public key */
    sealed_by by;                                    /* secret only: what locks it */
    sealed_cost cost;                                /* secret only */
} keyfile_info;

/* What a file says about itself, without a passphrase. A secret file's words are proven only when
 * it is opened. SEFL_EPROTO if it is neither kind, SEFL_EUNSUPPORTED for another version. */
sefl_status keyfile_info_read(keyfile_info *out, sefl_span file) SEFL_MUST_CHECK;

sefl_status keyfile_pub_write(sefl_buf *out, const paillier_pub *pub) SEFL_MUST_CHECK;
/* All checks of paillier_pub_read; SEFL_EPROTO with the reason. */
sefl_status keyfile_pub_read(paillier_pub **out, sefl_span file) SEFL_MUST_CHECK;

/* cost NULL: the default of sealed.h. */
sefl_status keyfile_sec_write(sefl_buf *out, const paillier_sec *sec, const sealed_lock *lock,
                              const sealed_cost *cost, const sefl_rng *rng) SEFL_MUST_CHECK;
/* SEFL_EAUTH if the lock does not open it. *locked (may be NULL) tells whether the system keeps
 * the key out of swap (secmem.h: a process can make that an error). */
sefl_status keyfile_sec_read(paillier_sec **out, sefl_span file, const sealed_lock *lock,
                             bool *locked) SEFL_MUST_CHECK;

/* A trial: random and extreme plaintexts, encrypted, decrypted with the Chinese remainder theorem
 * and without, come back. SEFL_ECRYPTO if not. */
sefl_status keyfile_check(const paillier_sec *sec, const sefl_rng *rng) SEFL_MUST_CHECK;

/* 64 hex digits and a terminator. */
void keyfile_fingerprint_hex(char out[2 * PAILLIER_FINGERPRINT_BYTES + 1],
                             const uint8_t fingerprint[PAILLIER_FINGERPRINT_BYTES]);

#endif

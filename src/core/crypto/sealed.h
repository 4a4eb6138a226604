/* sealed: encrypts bytes at rest with a passphrase or a key file (Argon2id, XChaCha20-Poly1305).
 *
 *     sealed_lock lock = { SEALED_BY_PASSPHRASE, pass };
 *     SEFL_TRY(sealed_write(&file, label, secret, &lock, NULL, &rng));
 *     ...
 *     SEFL_TRY(sealed_peek(&info, file));             // reads the public header
 *     SEFL_TRY(secmem_new(&secret, info.bytes, NULL));
 *     SEFL_TRY(sealed_open(secret, &info, &lock));    // SEFL_EAUTH: wrong passphrase, or changed
 *
 *     bytes
 *     8     "SEFLSEAL"
 *     2     version, 1
 *     1     kind of lock: 1 passphrase, 2 key file
 *     1     key derivation: 1 Argon2id 1.3, one lane
 *     4     its passes, 1 to 16
 *     4     its memory in KiB, 1 MiB to 512 MiB, so that no file makes a reader allocate more
 *     16    salt
 *     24    nonce
 *     1     length of the label, at most 64
 *           the label: names the content; anyone can read it
 *     4     length of what follows, 16 to 1 MiB + 16
 *           ciphertext and its tag
 * Everything before the ciphertext is authenticated together with it.
 *
 * Secret: the passphrase or key, the sealed bytes. Public: the label, all lengths, and whether a
 * file opened. Constant-time except for Argon2id, whose second half reads memory at addresses that
 * depend on the passphrase (by design: docs/THREATS.md). Threads: any. */
#ifndef CRYPTO_SEALED_H
#define CRYPTO_SEALED_H

#include "base/buf.h"
#include "base/random.h"
#include "base/span.h"

#include <stdint.h>

enum {
    SEALED_BYTES_MAX = 1 << 20,
    SEALED_LABEL_MAX = 64,
    SEALED_LOCK_MAX = 1 << 16, /* maximum bytes of a passphrase or key file */
    SEALED_TAG_BYTES = 16,
    SEALED_PASSES_MAX = 16,
    SEALED_KIB_MIN = 1024,
    SEALED_KIB_MAX = 512 * 1024,
};

typedef enum sealed_by { SEALED_BY_PASSPHRASE = 1, SEALED_BY_KEY_FILE = 2 } sealed_by;

typedef struct sealed_lock {
    sealed_by by;
    sefl_span secret; /* the passphrase, or the key file's bytes; not empty */
} sealed_lock;

typedef struct sealed_cost {
    uint32_t passes; /* passes of Argon2id */
    uint32_t kib;    /* memory of Argon2id, in KiB */
} sealed_cost;

/* 3 passes over 256 MiB take about a second. */
extern const sealed_cost sealed_cost_default;

typedef struct sealed_info {
    sealed_by by;
    sealed_cost cost;
    sefl_span label; /* not authenticated until sealed_open succeeds */
    size_t bytes;    /* length of the secret */

    /* views of the file, for sealed_open */
    sefl_span header, salt, nonce, body;
} sealed_info;

/* Appends the sealed file to out. If cost is NULL, uses the default. SEFL_EINVAL if the lock is
 * empty or the cost is out of range. */
sefl_status sealed_write(sefl_buf *out, sefl_span label, sefl_span secret, const sealed_lock *lock,
                         const sealed_cost *cost, const sefl_rng *rng) SEFL_MUST_CHECK;

/* Reads the header, without a key derivation. SEFL_EPROTO if it is not a sealed file,
 * SEFL_EUNSUPPORTED for another version. The spans in info point into `file`. */
sefl_status sealed_peek(sealed_info *info, sefl_span file) SEFL_MUST_CHECK;

/* Writes info->bytes bytes to out, zeroed on failure. SEFL_EINVAL if the file has the other kind of
 * lock, SEFL_EAUTH if the lock is wrong or the file was changed. */
sefl_status sealed_open(uint8_t *out, const sealed_info *info,
                        const sealed_lock *lock) SEFL_MUST_CHECK;

/* For tests: like sealed_open, with the derived key instead of the expensive key derivation. */
sefl_status sealed_open_derived(uint8_t *out, const sealed_info *info,
                                const uint8_t key[32]) SEFL_MUST_CHECK;

#endif

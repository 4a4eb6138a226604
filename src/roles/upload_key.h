/* upload_key: the Ed25519 key with which a client signs its uploads (protocol/head.h), and its serial.
 *
 *     SEFL_TRY(upload_key_open(&k, "state/upload.key", unix_ms, &rng));     // made at first use
 *     SEFL_TRY(vouch_make(&voucher, cert, key, sign_key_pub(k.key), &servers, k.serial));
 *     upload_key_clear(&k);
 *
 * The file, mode 0600, durable before the key is used:
 *
 *     "SEFLUPK1" | serial u64 | seed 32 | SHA-256 of all that, 32
 *
 * The serial is the time at which the key was made, in milliseconds since 1970. Servers take the voucher
 * (protocol/voucher.h) with the higher serial: a client whose file was lost makes a new key, and the old
 * one is worth nothing from then on. It is not sealed: it signs, it opens nothing.
 * Threads: one owner; one process (client_store.h has the lock).   Secrets: the seed and the key. */
#ifndef ROLES_UPLOAD_KEY_H
#define ROLES_UPLOAD_KEY_H

#include "crypto/sign.h"

typedef struct upload_key {
    sign_key *key;
    uint64_t serial;
} upload_key;

/* SEFL_EPROTO for a file that was changed: its owner may delete it, and a new key is made. */
sefl_status upload_key_open(upload_key *out, const char *path, uint64_t unix_ms,
                            const sefl_rng *rng) SEFL_MUST_CHECK;
void upload_key_clear(upload_key *k);

#endif

/* upload_key: the Ed25519 key with which a client signs its uploads (protocol/head.h), and its
 * serial.
 *
 *     SEFL_TRY(upload_key_open(&k, "state/upload.key", me, unix_ms, &rng));     // made at first use
 *     SEFL_TRY(vouch_make(&voucher, cert, key, sign_key_pub(k.key), &servers, k.serial));
 *     upload_key_clear(&k);
 *
 * The file, mode 0600, durable before the key is used:
 *
 *     "SEFLUPK2" | client 32 | serial u64 | seed 32 | SHA-256 of all that, 32
 *
 * `client` is the fingerprint of the certificate's key that vouches for it. CSP accepts no upload
 * key that another client has used, so a site that enrols again with another key, in the same
 * folder, gets a new upload key. The serial is the time at which the key was made, in milliseconds
 * since 1970. Servers take the voucher (protocol/voucher.h) with the higher serial: a client whose
 * file was lost makes a new key, and the old one is worth nothing from then on. It is not sealed:
 * it signs, it opens nothing. Threads: one owner; one process (client_store.h has the
 * lock).   Secrets: the seed and the key. */
#ifndef ROLES_UPLOAD_KEY_H
#define ROLES_UPLOAD_KEY_H

#include "crypto/sign.h"

#include <stdbool.h>

typedef struct upload_key {
    sign_key *key;
    uint64_t serial;
    bool made; /* just now: nothing that was signed before is signed with it */
} upload_key;

/* The key of this client; a new one, durable, if the file is not there or is of another client's
 * key. Its serial is then unix_ms, and in any case above that of the one it replaces. SEFL_EPROTO
 * for a file that was changed: its owner may delete it, and a new key is made. */
sefl_status upload_key_open(upload_key *out, const char *path, const uint8_t client[32],
                            uint64_t unix_ms, const sefl_rng *rng) SEFL_MUST_CHECK;
void upload_key_clear(upload_key *k);

#endif

/* upload_key: the Ed25519 key that signs a client's uploads (protocol/head.h), and its serial.
 *
 *     SEFL_TRY(upload_key_open(&k, "state/upload.key", me, unix_ms, &rng));     // creates it
 *     SEFL_TRY(vouch_make(&voucher, cert, key, sign_key_pub(k.key), &servers, k.serial));
 *     upload_key_clear(&k);
 *
 * The file has mode 0600 and is durable before the key is used:
 *
 *     "SEFLUPK2" | client 32 | serial u64 | seed 32 | SHA-256 of everything before, 32
 *
 * `client` is the fingerprint of the certificate key that vouches for this one. CSP accepts no
 * upload key that another client has used, so a site that enrols again in the same folder with
 * another key gets a new upload key. The serial is the time when the key was created, in
 * milliseconds since 1970. Servers accept the voucher (protocol/voucher.h) with the higher serial,
 * so if a client loses its file, its new key replaces the old one. The file is not sealed: its key
 * decrypts nothing. Threads: one owner, in one process (store.h holds the lock).
 * Secrets: the seed and the key. */
#ifndef ROLES_UPLOAD_KEY_H
#define ROLES_UPLOAD_KEY_H

#include "base/random.h"
#include "crypto/sign.h"

#include <stdbool.h>

typedef struct upload_key {
    sign_key *key;
    uint64_t serial;
    bool made; /* created by this call: it has signed nothing yet */
} upload_key;

/* Opens this client's key; creates one durably if there is no file, or if it belongs to another
 * client. The new serial is unix_ms, or one above the replaced serial if that is higher.
 * SEFL_EPROTO if the file is damaged; if its owner deletes it, the client creates a new key. */
sefl_status upload_key_open(upload_key *out, const char *path, const uint8_t client[32],
                            uint64_t unix_ms, const sefl_rng *rng) SEFL_MUST_CHECK;
void upload_key_clear(upload_key *k);

#endif

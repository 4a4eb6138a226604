/* upload_keys: stores each client's upload key (protocol/voucher.h) in a server's journal.
 *
 * Two kinds of facts outlive a task. "voucher CLIENT" contains the latest voucher's serial u64 and
 * upload key 32, then the number of vouchers that the client has had, u32. "upload KEY" names the
 * key's owner permanently, so that no other client can take the key over. A client may have at most
 * UPLOAD_KEYS_MAX vouchers over time, for one key or several, so it cannot fill a server's disk.
 *
 *     SEFL_TRY(upload_key_put(j, v.client, v.serial, v.key));        // a checked voucher
 *     SEFL_TRY(upload_key_get(j, client, &serial, key));
 *
 * Threads: any (the journal locks).   Secrets: none. */
#ifndef STORE_DISK_UPLOAD_KEYS_H
#define STORE_DISK_UPLOAD_KEYS_H

#include "crypto/sign.h"
#include "store/journal/journal.h"

enum { UPLOAD_KEYS_MAX = 256 };

/* SEFL_ENOTFOUND if this client has no voucher. */
sefl_status upload_key_get(journal *j, const uint8_t client[32], uint64_t *serial,
                           uint8_t key[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;
/* Checks whether upload_key_put would accept this voucher. Repeating the latest voucher is SEFL_OK
 * too. SEFL_ESTATE: the serial does not increase, another client has that key, or this client has
 * had too many vouchers. */
sefl_status upload_key_fits(journal *j, const uint8_t client[32], uint64_t serial,
                            const uint8_t key[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;
/* Stores a voucher durably. Fails if upload_key_fits would. */
sefl_status upload_key_put(journal *j, const uint8_t client[32], uint64_t serial,
                           const uint8_t key[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;
/* AS: deletes this client's voucher durably because CSP has lost it; the client then sends it
 * again. */
sefl_status upload_key_forget(journal *j, const uint8_t client[32]) SEFL_MUST_CHECK;

#endif

/* upload_keys: which upload key each client has vouched for (protocol/voucher.h), in a server's
 * journal.
 *
 * Two lasting facts, which outlive a task. "voucher CLIENT" is serial u64 | upload key 32 of the
 * latest voucher, then the number of keys that the client has had, u32. "upload KEY" is the client
 * that owns the key, for ever: no other client can take it over. A client has at most
 * UPLOAD_KEYS_MAX keys, so that it cannot fill a server's disk with them.
 *
 *     SEFL_TRY(upload_key_put(j, v.client, v.serial, v.key));        // a checked voucher
 *     SEFL_TRY(upload_key_get(j, client, &serial, key));
 *
 * Threads: any (the journal locks).   Secrets: none. */
#ifndef ROLES_UPLOAD_KEYS_H
#define ROLES_UPLOAD_KEYS_H

#include "crypto/sign.h"
#include "store/journal/journal.h"

enum { UPLOAD_KEYS_MAX = 256 };

/* SEFL_ENOTFOUND: no voucher of this client. */
sefl_status upload_key_get(journal *j, const uint8_t client[32], uint64_t *serial,
                           uint8_t key[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;
/* May this voucher be put? SEFL_OK too for the latest one once more; SEFL_ESTATE: the serial does
 * not grow, another client has that key, or this one has had too many. */
sefl_status upload_key_fits(journal *j, const uint8_t client[32], uint64_t serial,
                            const uint8_t key[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;
/* Durable. Refuses what upload_key_fits does. */
sefl_status upload_key_put(journal *j, const uint8_t client[32], uint64_t serial,
                           const uint8_t key[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;
/* CSP lost this client's voucher: AS drops it too, until the client sends it again. Durable. */
sefl_status upload_key_forget(journal *j, const uint8_t client[32]) SEFL_MUST_CHECK;

#endif

/* upload_keys: which upload key each client has vouched for (protocol/voucher.h), in a server's journal.
 *
 * Lasting facts, which outlive a task: "voucher CLIENT" is serial u64 | upload key 32, of the latest
 * voucher, and how many keys it has had u32; "upload KEY" is the client that the key belongs to, for ever:
 * nobody else gets a key that somebody had once. So that no client fills a server's disk with keys, each has
 * UPLOAD_KEYS_MAX at most.
 *
 *     SEFL_TRY(upload_key_put(j, v.client, v.serial, v.key));        // a voucher that was checked
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
/* May this voucher be put? SEFL_OK too for the latest one once more; SEFL_ESTATE: the serial does not
 * grow, another client has that key, or this one has had too many. */
sefl_status upload_key_fits(journal *j, const uint8_t client[32], uint64_t serial,
                            const uint8_t key[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;
/* Durable. Refuses what upload_key_fits does. */
sefl_status upload_key_put(journal *j, const uint8_t client[32], uint64_t serial,
                           const uint8_t key[SIGN_PUB_BYTES]) SEFL_MUST_CHECK;
/* CSP does not have this client's voucher any more: as if there were none here either, until the client
 * brings it again. Durable. */
sefl_status upload_key_forget(journal *j, const uint8_t client[32]) SEFL_MUST_CHECK;

#endif

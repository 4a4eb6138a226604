/* vouch: the operations on vouchers (protocol/voucher.h) that need certificates.
 *
 *     SEFL_TRY(vouch_make(&bytes, "cert.pem", "key.pem", upload_pub, &servers, serial)); // client
 *     SEFL_TRY(voucher_read(&v, bytes));                                                 // AS, CSP
 *     SEFL_TRY(vouch_check(&v, &servers));
 *     SEFL_TRY(vouch_admit(&who, allowlist, &v));                                        // CSP
 *
 * store/disk/upload_keys.h checks that the serial increases and that no other client has the upload
 * key.
 * Threads: any.   Secrets: the certificate's private key, in its file. */
#ifndef ROLES_VOUCH_H
#define ROLES_VOUCH_H

#include "net/allowlist.h"
#include "protocol/voucher.h"

/* Appends a voucher, with the whole file cert_path as its chain. SEFL_EINVAL if the key does not
 * match the certificate. */
sefl_status vouch_make(sefl_buf *out, const char *cert_path, const char *key_path,
                       const uint8_t upload_key[SIGN_PUB_BYTES], const pinned *servers,
                       uint64_t serial) SEFL_MUST_CHECK;

/* SEFL_EAUTH unless the voucher was made for these servers and its signature is valid. */
sefl_status vouch_check(const voucher *v, const pinned *servers) SEFL_MUST_CHECK;

/* SEFL_OK for an approved client, SEFL_EAUTH with the reason for any other. For a key in the list,
 * only the list decides; any other key needs a chain to a CA that the list trusts for clients. The
 * caller keeps *who for vouch_still. */
sefl_status vouch_admit(x509_peer *who, const allowlist *g, const voucher *v) SEFL_MUST_CHECK;
/* True if the client is still approved. A key that is not in the list needs `who`, from its
 * voucher; NULL: there is no voucher. */
bool vouch_still(const allowlist *g, const uint8_t client[32], const x509_peer *who);

#endif
